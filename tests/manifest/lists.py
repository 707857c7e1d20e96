"""Lists as people have them, as small samples of real shapes, and what cfetch does with each.

As a program it prints the table of docs/manifests.md: ``python -m tests.manifest.lists``.
"""

import gzip
import io
import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import convert

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError, UsageError
from cfetch.manifest.compressed import open_decompressed
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.reading import Reading
from cfetch.manifest.source import Source
from tests.manifest.more_lists import MORE_ARCHIVES, MORE_NO_LISTS, MORE_PLAIN, MORE_TABLES, MORE_TOOLS
from tests.manifest.sample import BASE, MD5, MD5_BASE64, SHA, H, Sample


class Outcome(NamedTuple):
    """What reading a sample came to."""

    paths: tuple[str, ...]
    urls: tuple[str, ...]
    known: frozenset[str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]
    partial: str | None = None


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _urls(*names: str) -> list[str]:
    return [H + name for name in names]


AB = ("a.jpg", "b.jpg")
URLS = _urls(*AB)

TABLES = [
    Sample(
        "LAION metadata (Parquet: URL, TEXT, WIDTH, …)",
        "part-00000.parquet",
        _parquet(URL=URLS, TEXT=["a", "b"], WIDTH=pa.array([512.0, 640.0]), similarity=pa.array([0.3, 0.4])),
        AB,
    ),
    Sample(
        "img2dataset input (Parquet: url, caption, width, height)",
        "input.parquet",
        _parquet(url=URLS, caption=["a", "b"], width=[1, 2], height=[1, 2]),
        AB,
    ),
    Sample("Parquet with url alone", "m.parquet", _parquet(url=URLS), AB),
    Sample(
        "Parquet with a column of nested values",
        "m.parquet",
        _parquet(url=URLS, meta=[{"a": [1]}, {"a": [2]}]),
        AB,
    ),
    Sample("CSV: image_url", "m.csv", _text("id,image_url", f"1,{URLS[0]}", f"2,{URLS[1]}"), AB),
    Sample("CSV: url,label", "m.csv", _text("url,label", f"{URLS[0]},cat", f"{URLS[1]},dog"), AB),
    Sample("CSV: URL in capitals", "m.csv", _text("URL", *URLS), AB),
    Sample("CSV with semicolons", "m.csv", _text("url;label", f"{URLS[0]};cat", f"{URLS[1]};dog"), AB),
    Sample(
        "CSV: two columns of URLs",
        "m.csv",
        _text("image_url,video_url", ",".join(URLS)),
        refusal="--url-column",
    ),
    Sample(
        "the same with --url-column image_url",
        "m.csv",
        _text("image_url,video_url", ",".join(URLS)),
        ("a.jpg",),
        flags="--url-column image_url",
    ),
    Sample(
        "CSV: address,where,digest",
        "m.csv",
        _text("address,where,digest", f"{URLS[0]},x/1.jpg,{SHA}"),
        ("x/1.jpg",),
        flags="--url-column address --path-column where --hash-column sha256=digest",
    ),
    Sample(
        "CSV with a slip in a name (sha265)",
        "m.csv",
        _text("url,sha265", f"{URLS[0]},{SHA}"),
        refusal="is it 'sha256'",
    ),
    Sample(
        "CC3M, CC12M (TSV without names: caption, URL)",
        "cc3m.tsv",
        _text(f'a "red" boat\t{URLS[0]}', f"two dogs\t{URLS[1]}"),
        AB,
    ),
    Sample("TSV: URL<tab>caption, named", "wit.tsv", _text("url\tcaption", f"{URLS[0]}\ta"), ("a.jpg",)),
    Sample("JSON array of objects", "m.json", _json([{"url": url, "caption": "c"} for url in URLS]), AB),
    Sample(
        "JSON Lines whose columns are named as in a bucket's listing",
        "m.jsonl",
        _text(json.dumps({"url": URLS[0], "key": "other", "type": "image", "last_modified": "2024"})),
        ("a.jpg",),
    ),
    Sample(
        "JSON array whose columns are named as in a bucket's listing",
        "m.json",
        _json([{"url": URLS[0], "Key": "other", "LastModified": "2024"}]),
        ("a.jpg",),
    ),
    Sample("JSON array of URLs", "m.json", _json(URLS), AB),
    Sample(
        "JSON Lines with other keys",
        "m.jsonl",
        _text(*(json.dumps({"image_url": url, "tags": ["x"]}) for url in URLS)),
        AB,
    ),
    Sample(
        "datasets-server rows, WebDataset index: JSON Lines with nested values",
        "m.jsonl",
        _text(json.dumps({"url": URLS[0], "meta": {"a": {"b": 1}}})),
        ("a.jpg",),
    ),
]
PLAIN = [
    Sample("urls.txt", "urls.txt", _text(*URLS), AB),
    Sample(
        "urls.txt: blank lines, comments, CRLF, repeats",
        "urls.txt",
        f"# c\r\n\r\n{URLS[0]}\r\n{URLS[0]}\r\n".encode(),
        ("a.jpg", "a.jpg"),
    ),
    Sample("urls.txt.gz", "urls.txt.gz", gzip.compress(_text(*URLS)), AB),
    Sample(
        "urls.txt: letters outside ASCII",
        "urls.txt",
        _text(H + "Zürich.jpg", "https://münchen.example/a b.jpg"),
        ("Zürich.jpg", "a b.jpg"),
    ),
    Sample(
        "the same, signed", "urls.txt", _text(H + "Zürich.jpg?X-Amz-Signature=1"), refusal="percent-encode"
    ),
    Sample(
        "urls.txt: one broken line", "urls.txt", _text(URLS[0], "http://[broken", URLS[1]), refusal="host"
    ),
    Sample(
        "the same with --bad-rows skip",
        "urls.txt",
        _text(URLS[0], "http://[broken", URLS[1]),
        AB,
        flags="--bad-rows skip",
    ),
    Sample(
        "urls.txt: equal last segments, --name-by url-path",
        "urls.txt",
        _text(H + "x/1.bin", H + "y/1.bin"),
        ("x/1.bin", "y/1.bin"),
        flags="--name-by url-path",
    ),
    Sample(
        "urls.txt: equal last segments, --name-by row",
        "urls.txt",
        _text(H + "x/1.bin", H + "y/1.bin"),
        ("00000/000000000.bin", "00000/000000001.bin"),
        flags="--name-by row",
    ),
    Sample("URLs that end in a slash", "urls.txt", _text(H + "dir/"), refusal="--name-by"),
    Sample(
        "get?file=a, get?file=b with --name-by hash",
        "urls.txt",
        _text(H + "get?file=a", H + "get?file=b"),
        ("6f/6f6027386bdc5bdade71d29ae3ef91176f54503c", "a5/a571b2938bb3ab7327b8525ff260023f93ed4bb3"),
        flags="--name-by hash",
    ),
    Sample(
        "Hugging Face resolve links, --name-by url-path",
        "urls.txt",
        _text("https://huggingface.co/datasets/o/n/resolve/main/data/0.parquet?download=true"),
        ("datasets/o/n/resolve/main/data/0.parquet",),
        flags="--name-by url-path",
    ),
    Sample(
        "presigned links (aws s3 presign in a loop)",
        "urls.txt",
        _text(H + "a.bin?X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Signature=S"),
        ("a.bin",),
    ),
    Sample(
        "Common Crawl path list (warc.paths.gz)",
        "warc.paths.gz",
        gzip.compress(
            _text(
                "crawl-data/CC-MAIN-2024-10/segments/1/warc/a.warc.gz",
                "crawl-data/CC-MAIN-2024-10/segments/2/warc/a.warc.gz",
            )
        ),
        (
            "crawl-data/CC-MAIN-2024-10/segments/1/warc/a.warc.gz",
            "crawl-data/CC-MAIN-2024-10/segments/2/warc/a.warc.gz",
        ),
        flags="--base-url https://data.commoncrawl.org/",
    ),
    Sample(
        "relative lines of a list that was had by http",
        "list.txt",
        _text("a.bin", "x/b.bin"),
        ("a.bin", "x/b.bin"),
        own_url=BASE + "list.txt",
    ),
    Sample("relative lines without a base", "list.txt", _text("a.bin"), refusal="base_url"),
    Sample("empty file", "urls.txt", b""),
    Sample("comments only", "urls.txt", _text("# nothing")),
    Sample(
        "hf:// files of repositories",
        "urls.txt",
        _text("hf://datasets/o/n@v1/data/0.parquet"),
        ("0.parquet",),
    ),
    Sample(
        "s3://, gs:// and az:// objects",
        "urls.txt",
        _text("s3://bucket/a b%41.bin", "az://c/x/ü?.bin"),
        ("a b%41.bin", "ü?.bin"),
    ),
    Sample("sftp:// links", "urls.txt", _text("sftp://h.example/a.bin"), refusal="scheme"),
    Sample(
        "URL, size, SHA-256 set apart by spaces",
        "urls.txt",
        _text(f"{URLS[0]} 3000 {SHA}"),
        ("a.jpg",),
    ),
    Sample(
        "Common Crawl index (url, warc_filename, offsets)",
        "cc.csv",
        _text(
            "url,warc_filename,warc_record_offset,warc_record_length",
            f"{URLS[0]},crawl-data/a.warc.gz,5,6",
            f"{URLS[0]},crawl-data/a.warc.gz,11,7",
        ),
        ("5-6-a.warc.gz", "11-7-a.warc.gz"),
        flags="--base-url https://data.commoncrawl.org/",
    ),
    Sample(
        "Common Crawl index server (output=json)",
        "cdx.jsonl",
        _text(
            json.dumps(
                {
                    "urlkey": "example,h)/",
                    "timestamp": "20240101000000",
                    "url": "https://h.example/",
                    "status": "200",
                    "digest": "FHFEWXQ4",
                    "length": "1193",
                    "offset": "7412",
                    "filename": "crawl-data/a.warc.gz",
                }
            )
        ),
        ("7412-1193-a.warc.gz",),
        flags="--base-url https://data.commoncrawl.org/",
    ),
    Sample(
        "rows of url, offset, length",
        "m.jsonl",
        _text(*(json.dumps({"url": H + "a.warc.gz", "offset": n, "length": 9}) for n in (0, 9))),
        ("0-9-a.warc.gz", "9-9-a.warc.gz"),
    ),
    Sample(
        "rows of url, filename, offset, length: either may be the file",
        "m.csv",
        _text("url,filename,offset,length", f"{H}a.tar,b/c.txt,512,9"),
        refusal="--url-column",
    ),
    Sample(
        "rows of url, offset, length with --url-column url",
        "m.csv",
        _text("url,filename,offset,length", f"{H}a.tar,b/c.txt,512,9"),
        ("b/c.txt",),
        flags="--url-column url",
    ),
    Sample(
        "url and a length that is no range",
        "m.csv",
        _text("url,length", f"{URLS[0]},3.5"),
        ("a.jpg",),
    ),
    Sample(
        "curl config with range",
        "curl.cfg",
        _text(f'url = "{H}a.tar"', "range = 512-520", 'output = "c.txt"'),
        ("c.txt",),
    ),
]
TOOLS = [
    Sample(
        "sha256sum list",
        "SHA256SUMS",
        _text(f"{SHA}  ./x/a.bin", f"{SHA} *b.bin"),
        ("x/a.bin", "b.bin"),
        flags=f"--base-url {BASE}",
    ),
    Sample("MD5SUMS had by http", "MD5SUMS", _text(f"{MD5}  a.bin"), ("a.bin",), own_url=BASE + "MD5SUMS"),
    Sample(
        "BSD checksums", "CHECKSUM", _text(f"SHA256 (a.bin) = {SHA}"), ("a.bin",), flags=f"--base-url {BASE}"
    ),
    Sample(
        "rclone md5sum, hashsum",
        "sums.md5",
        _text(f"{MD5}  x/a.bin"),
        ("x/a.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "aria2 input file",
        "aria2.txt",
        _text(URLS[0] + "\thttps://m.example/a.jpg", " out=x/a.jpg", f" checksum=sha-256={SHA}"),
        ("x/a.jpg",),
    ),
    Sample(
        "Metalink 4",
        "m.meta4",
        _text(
            '<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a.jpg"><size>5</size>',
            f"<url>{URLS[0]}</url></file></metalink>",
        ),
        ("a.jpg",),
    ),
    Sample("BagIt fetch.txt", "fetch.txt", _text(f"{URLS[0]} 12 data/a.jpg"), ("data/a.jpg",)),
    Sample(
        "TsvHttpData-1.0 (Storage Transfer Service)",
        "m.tsv",
        _text("TsvHttpData-1.0", f"{URLS[0]}\t5\tXUFAKrxLKna5cZ2REBfFkg=="),
        ("a.jpg",),
    ),
    Sample(
        "curl --config",
        "all.conf",
        _text(f'url = "{URLS[0]}"', 'output = "x/a.jpg"', "location", "next", f"url={URLS[1]}", "-o b.jpg"),
        ("x/a.jpg", "b.jpg"),
    ),
    Sample(
        "aws s3 ls --recursive",
        "ls.txt",
        _text(
            "2024-01-02 03:04:05       1234 data/a b.bin",
            "2024-01-02 03:04:05          0 data/",
            "",
            "Total Objects: 2",
        ),
        ("data/a b.bin",),
        flags="--base-url https://b.s3.amazonaws.com/",
    ),
    Sample(
        "S3 inventory (CSV)",
        "inv.csv.gz",
        gzip.compress(
            _text(
                '"bucket","data/a+b%281%29.bin","1234","2024-01-02T03:04:05.000Z","5eb63bbbe01eeed093cb22bb8f5acdc3","STANDARD"'
            )
        ),
        ("data/a b(1).bin",),
        flags="--base-url https://bucket.s3.amazonaws.com/",
    ),
    Sample(
        "rclone lsjson -R --hash",
        "ls.json",
        _json(
            [
                {
                    "Path": "x",
                    "Name": "x",
                    "Size": -1,
                    "MimeType": "inode/directory",
                    "ModTime": "2024-01-02T03:04:05Z",
                    "IsDir": True,
                },
                {
                    "Path": "x/a b.bin",
                    "Name": "a b.bin",
                    "Size": 5,
                    "ModTime": "2024-01-02T03:04:05Z",
                    "IsDir": False,
                    "Hashes": {"md5": MD5},
                },
            ]
        ),
        ("x/a b.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "git annex addurl --batch --with-files",
        "annex.txt",
        _text(f"{URLS[0]} x/a b.jpg"),
        ("x/a b.jpg",),
        flags="--from-format annex",
    ),
    Sample(
        "the same without --from-format", "annex.txt", _text(f"{URLS[0]} x/a b.jpg"), refusal="--from-format"
    ),
    Sample(
        "DataLad addurls table",
        "table.csv",
        _text("subject,url,filename", f"s1,{URLS[0]},sub-01/a.jpg"),
        ("sub-01/a.jpg",),
    ),
    Sample(
        "pooch registry",
        "registry.txt",
        _text("# data", f"c137.csv {SHA}", f"cronen.csv md5:{MD5} {H}cronen.csv"),
        ("c137.csv", "cronen.csv"),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "apt-get --print-uris",
        "uris.txt",
        _text(f"'{H}pool/b_1%3a2_all.deb' b_1%3a2_all.deb 10 SHA256:{SHA}", f"'{H}c.deb' c.deb 7 "),
        ("b_1:2_all.deb", "c.deb"),
    ),
    Sample(
        "aws s3api list-objects-v2",
        "ls.json",
        _json(
            {
                "Contents": [
                    {"Key": "data/a b.bin", "LastModified": "2024-01-02T03:04:05+00:00", "Size": 5},
                    {"Key": "data/", "LastModified": "2024-01-02T03:04:05+00:00", "Size": 0},
                ],
                "RequestCharged": None,
                "Prefix": "",
            }
        ),
        ("data/a b.bin",),
        flags="--base-url s3://bucket/",
    ),
    Sample(
        "gcloud storage ls --json",
        "ls.json",
        _json(
            [
                {
                    "url": "gs://bucket/data/a.bin#17",
                    "type": "cloud_object",
                    "metadata": {
                        "name": "data/a.bin",
                        "size": "5",
                        "md5Hash": MD5_BASE64,
                        "generation": "17",
                    },
                },
                {"url": "gs://bucket/x/", "type": "prefix"},
            ]
        ),
        ("data/a.bin",),
    ),
    Sample(
        "gcloud storage objects list --format=json",
        "ls.json",
        _json([{"name": "a.bin", "size": 5, "md5_hash": MD5_BASE64, "storage_url": "gs://bucket/a.bin#17"}]),
        ("a.bin",),
    ),
    Sample(
        "gsutil ls -l, gcloud storage ls -l",
        "ls.txt",
        _text(
            "      1234  2024-01-02T03:04:05Z  gs://bucket/data/a b.bin",
            "TOTAL: 1 objects, 1234 bytes (1.21 KiB)",
        ),
        ("data/a b.bin",),
    ),
    Sample(
        "gsutil ls -r",
        "ls.txt",
        _text("gs://bucket/data/:", "gs://bucket/data/a.bin", "", "gs://bucket/x/:", "gs://bucket/x/b.bin"),
        ("data/a.bin", "x/b.bin"),
    ),
    Sample(
        "az storage blob list",
        "ls.json",
        _json(
            [
                {
                    "container": "c",
                    "name": name,
                    "snapshot": snapshot,
                    "properties": {"contentLength": 5, "contentSettings": {"contentMd5": MD5_BASE64}},
                }
                for name, snapshot in (("x/a.bin", None), ("x/old.bin", "2024-01-02T03:04:05.0000000Z"))
            ]
        ),
        ("x/a.bin",),
    ),
    Sample(
        "s5cmd ls",
        "ls.txt",
        _text(
            "                                  DIR  x/",
            "2024/01/02 03:04:05              1234  data/a b.bin",
            "2024/01/02 03:04:05 STANDARD 098f6bcd4621d373cade4e832627b4f6               1234  b.bin",
        ),
        ("data/a b.bin", "b.bin"),
        flags="--base-url s3://bucket/",
    ),
    Sample(
        "s5cmd ls --humanize",
        "ls.txt",
        _text("2024/01/02 03:04:05              1.2K  data/a.bin"),
        refusal="its size is rounded",
    ),
    Sample(
        "s5cmd --json ls",
        "ls.json",
        _text(
            '{"key":"s3://bucket/a.bin","etag":"1","last_modified":"2024-01-02T03:04:05Z","type":"file","size":5}',
            '{"key":"s3://bucket/x/","type":"directory"}',
        ),
        ("a.bin",),
    ),
    Sample(
        "mc ls --json",
        "ls.json",
        _text(
            '{"status":"success","type":"file","lastModified":"2024-01-02T03:04:05Z","size":5,'
            '"key":"a b.bin","etag":"1","url":"https://minio.example/bucket/"}'
        ),
        ("a b.bin",),
    ),
    Sample(
        "rclone lsl",
        "ls.txt",
        _text("     1234 2024-01-02 03:04:05.000000000 data/a b.bin"),
        ("data/a b.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "rclone ls",
        "ls.txt",
        _text("     1234 data/a b.bin", "       -1 c.bin"),
        ("data/a b.bin", "c.bin"),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "S3 inventory without times or sizes",
        "inv.csv",
        _text('"bucket","data/a+b.bin"', '"bucket","c.bin"'),
        ("data/a b.bin", "c.bin"),
    ),
    Sample(
        "manifest.json of an S3 inventory",
        "manifest.json",
        _json({"sourceBucket": "b", "fileSchema": "Bucket, Key, Size", "files": [{"key": "x.csv.gz"}]}),
        refusal="give the files under its key files",
    ),
    Sample(
        "git lfs ls-files --json",
        "lfs.json",
        _json({"files": [{"name": "x/a.bin", "size": 5, "oid_type": "sha256", "oid": SHA}]}),
        ("x/a.bin",),
        flags="--base-url https://media.githubusercontent.com/media/o/n/main/",
    ),
    Sample(
        "git annex whereis --json",
        "whereis.json",
        _text(
            json.dumps(
                {
                    "file": "x/a.jpg",
                    "key": f"MD5E-s5--{MD5}.jpg",
                    "whereis": [{"here": False, "urls": [URLS[0], "https://m.example/a.jpg"]}],
                    "untrusted": [],
                }
            ),
            json.dumps({"file": "b", "key": f"SHA256E-s5--{SHA}", "whereis": [{"here": True, "urls": []}]}),
        ),
        ("x/a.jpg",),
    ),
    Sample(
        "pooch registry with a hash that cfetch does not know",
        "registry.txt",
        _text("a.csv xxh64:0123456789abcdef"),
        refusal="cannot verify (xxh64)",
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "curl --config with a pattern",
        "all.conf",
        _text(f'url = "{H}a[1-3].jpg"'),
        refusal="write each of them out",
    ),
    Sample(
        "the same with globoff",
        "all.conf",
        _text("globoff", f'url = "{H}a[1-3].jpg"'),
        ("a[1-3].jpg",),
    ),
]
ARCHIVES = [
    Sample(
        "Databricks SQL statement",
        "reply.json",
        _json(
            {
                "statement_id": "s",
                "status": {"state": "SUCCEEDED"},
                "manifest": {"total_chunk_count": 1},
                "result": {
                    "external_links": [
                        {"chunk_index": 0, "row_count": 1, "byte_count": 9, "external_link": H + "c0"}
                    ]
                },
            }
        ),
        ("chunk-00000",),
    ),
    Sample(
        "Zenodo record",
        "record.json",
        _json(
            {
                "created": "2024",
                "conceptrecid": "1",
                "files": [
                    {
                        "id": "f",
                        "key": "a.zip",
                        "size": 5,
                        "checksum": f"md5:{MD5}",
                        "links": {"self": "https://zenodo.org/api/records/2/files/a.zip/content"},
                    }
                ],
                "metadata": {"title": "t"},
            }
        ),
        ("a.zip",),
    ),
    Sample(
        "InvenioRDM files",
        "files.json",
        _json(
            {
                "enabled": True,
                "links": {},
                "entries": [
                    {
                        "key": "a.zip",
                        "checksum": f"md5:{MD5}",
                        "size": 5,
                        "links": {"content": H + "api/records/2/files/a.zip/content"},
                    }
                ],
            }
        ),
        ("a.zip",),
    ),
    Sample(
        "figshare article",
        "article.json",
        _json(
            {
                "files": [
                    {
                        "id": 1,
                        "name": "a.csv",
                        "size": 5,
                        "is_link_only": False,
                        "download_url": "https://ndownloader.figshare.com/files/1",
                        "supplied_md5": "",
                        "computed_md5": MD5,
                    }
                ],
                "figshare_url": H,
                "title": "t",
            }
        ),
        ("a.csv",),
    ),
    Sample(
        "figshare list of files",
        "files.json",
        _json(
            [
                {
                    "id": 1,
                    "name": "a.csv",
                    "size": 5,
                    "is_link_only": False,
                    "download_url": "https://ndownloader.figshare.com/files/1",
                    "supplied_md5": MD5,
                    "computed_md5": MD5,
                }
            ]
        ),
        ("a.csv",),
    ),
    Sample(
        "Dataverse dataset",
        "dataset.json",
        _json(
            {
                "status": "OK",
                "data": {
                    "id": 1,
                    "latestVersion": {
                        "files": [
                            {
                                "label": "a.tab",
                                "directoryLabel": "x",
                                "dataFile": {
                                    "id": 7,
                                    "filename": "a.tab",
                                    "filesize": 9,
                                    "originalFileFormat": "text/csv",
                                    "originalFileName": "a.csv",
                                    "originalFileSize": 5,
                                    "md5": MD5,
                                    "checksum": {"type": "MD5", "value": MD5},
                                },
                            }
                        ]
                    },
                },
            }
        ),
        ("x/a.csv",),
        own_url="https://dataverse.example/api/datasets/:persistentId/?persistentId=doi:1",
    ),
    Sample(
        "GitHub release",
        "latest",
        _json(
            {
                "url": H,
                "assets_url": H,
                "upload_url": H,
                "tag_name": "v1",
                "assets": [
                    {
                        "name": "a.tar.gz",
                        "size": 5,
                        "digest": f"sha256:{SHA}",
                        "browser_download_url": "https://github.com/o/n/releases/download/v1/a.tar.gz",
                    }
                ],
            }
        ),
        ("a.tar.gz",),
    ),
    Sample(
        "PEP 691 index of a package",
        "numpy",
        _json(
            {
                "meta": {"api-version": "1.1"},
                "name": "n",
                "files": [
                    {
                        "filename": "n-1-py3-none-any.whl",
                        "url": "../../f/n-1-py3-none-any.whl",
                        "hashes": {"sha256": SHA},
                        "size": 5,
                        "yanked": False,
                    }
                ],
            }
        ),
        ("n-1-py3-none-any.whl",),
        own_url="https://index.example/simple/n/",
    ),
    Sample(
        "STAC item",
        "item.json",
        _json(
            {
                "type": "Feature",
                "stac_version": "1.0.0",
                "id": "S2A",
                "properties": {},
                "assets": {
                    "B01": {
                        "href": "./B01.tif",
                        "type": "image/tiff",
                        "file:size": 5,
                        "file:checksum": "1220" + SHA,
                    }
                },
            }
        ),
        ("S2A/B01.tif",),
        own_url=BASE + "item.json",
    ),
    Sample(
        "STAC search",
        "search.json",
        _json(
            {
                "type": "FeatureCollection",
                "features": [
                    {"type": "Feature", "id": name, "assets": {"B01": {"href": f"{H}{name}/B01.tif"}}}
                    for name in "xy"
                ],
            }
        ),
        ("x/B01.tif", "y/B01.tif"),
    ),
    Sample(
        "STAC collection without assets",
        "collection.json",
        _json({"type": "Collection", "stac_version": "1.0.0", "id": "c", "links": []}),
        refusal="/items",
    ),
    Sample(
        "Croissant",
        "croissant.json",
        _json(
            {
                "@context": {"sc": "https://schema.org/"},
                "@type": "sc:Dataset",
                "distribution": [
                    {
                        "@type": "cr:FileObject",
                        "@id": "a",
                        "contentUrl": H + "a.csv",
                        "contentSize": "5 B",
                        "sha256": SHA,
                    },
                    {"@type": "cr:FileSet", "@id": "s", "containedIn": {"@id": "a"}, "includes": "*.csv"},
                ],
            }
        ),
        ("a.csv",),
    ),
    Sample(
        "datapackage.json",
        "datapackage.json",
        _json(
            {
                "name": "p",
                "resources": [
                    {"name": "r", "path": "data/a b.csv", "bytes": 5, "hash": MD5},
                    {"name": "i", "data": []},
                ],
            }
        ),
        ("data/a b.csv",),
        own_url=BASE + "datapackage.json",
    ),
    Sample(
        "RO-Crate",
        "ro-crate-metadata.json",
        _json(
            {
                "@context": "https://w3id.org/ro/crate/1.1/context",
                "@graph": [
                    {"@id": "./", "@type": "Dataset"},
                    {"@id": "x/a%20b.csv", "@type": "File", "contentSize": "5"},
                ],
            }
        ),
        ("x/a b.csv",),
        own_url=BASE + "ro-crate-metadata.json",
    ),
    Sample(
        "Hugging Face tree",
        "main",
        _json(
            [
                {"type": "directory", "oid": "0", "size": 0, "path": "data"},
                {
                    "type": "file",
                    "oid": "1",
                    "size": 130,
                    "lfs": {"oid": SHA, "size": 5, "pointerSize": 130},
                    "path": "data/0.parquet",
                },
            ]
        ),
        ("data/0.parquet",),
        own_url="https://huggingface.co/api/datasets/o/n/tree/main?recursive=true",
    ),
    Sample(
        "ENA file report",
        "report.tsv",
        _text(
            "run_accession\tfastq_ftp\tfastq_md5\tfastq_bytes",
            f"ERR1\tftp.sra.ebi.ac.uk/v/ERR1_1.fastq.gz;ftp.sra.ebi.ac.uk/v/ERR1_2.fastq.gz\t{MD5};{MD5}\t5;6",
        ),
        ("ERR1_1.fastq.gz", "ERR1_2.fastq.gz"),
    ),
    Sample(
        "ENA file report with several kinds",
        "report.tsv",
        _text("run_accession\tfastq_ftp\tsubmitted_ftp", "ERR1\th.example/a\th.example/b"),
        refusal="--url-column",
    ),
    Sample(
        "sitemap",
        "sitemap.xml",
        f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{H}a.pdf?x=1&amp;y=2</loc></url></urlset>'.encode(),
        ("a.pdf",),
    ),
    Sample(
        "HTML index of a directory (Apache, nginx)",
        "index.html",
        _text(
            "<html><head><title>Index of /d</title></head><body>",
            '<a href="?C=N;O=D">Name</a> <a href="/">Parent</a> <a href="../">up</a>',
            '<a href="x/">x/</a> <a href="a%20b.bin">a b.bin</a>',
            "</body></html>",
        ),
        ("a b.bin",),
        own_url=BASE,
    ),
    Sample(
        "InvenioRDM record",
        "record.json",
        _json(
            {
                "id": "x",
                "parent": {},
                "pids": {},
                "links": {"self": H + "api/records/x"},
                "files": {
                    "enabled": True,
                    "entries": {"a b.zip": {"key": "a b.zip", "checksum": f"md5:{MD5}", "size": 5}},
                },
            }
        ),
        ("a b.zip",),
    ),
    Sample(
        "Zenodo record: a # in a name",
        "record.json",
        _json(
            {
                "conceptrecid": "1",
                "files": [{"key": "a#1 b?.zip", "links": {"self": H + "records/2/files/a#1 b?.zip/content"}}],
            }
        ),
        ("a#1 b?.zip",),
    ),
    Sample(
        "files of a Zenodo deposit",
        "files.json",
        _json(
            [{"checksum": MD5, "filename": "a.zip", "filesize": 5, "id": "f", "links": {"download": H + "f"}}]
        ),
        ("a.zip",),
    ),
    Sample(
        "answer of a search at Zenodo",
        "records",
        _json({"hits": {"hits": [], "total": 1}, "links": {"self": H}}),
        refusal="give one of the records",
    ),
    Sample(
        "list of figshare articles",
        "articles",
        _json([{"id": 1, "doi": "10.1/x", "url": H + "1", "url_public_api": H + "1"}]),
        refusal="give one of them",
    ),
    Sample(
        "Dataverse dataset with restricted files",
        "dataset.json",
        _json(
            {
                "status": "OK",
                "data": {
                    "files": [{"label": "a", "restricted": True, "dataFile": {"id": 7, "filename": "a"}}]
                },
            }
        ),
        ("a",),
        own_url="https://dataverse.example/api/datasets/1/versions/1.0",
    ),
    Sample(
        "assets of a GitHub release",
        "assets",
        _json(
            [
                {
                    "url": "https://api.github.com/repos/o/n/releases/assets/1",
                    "name": "a.tgz",
                    "content_type": "application/gzip",
                    "state": state,
                    "size": 5,
                    "digest": None,
                    "browser_download_url": "https://github.com/o/n/releases/download/v1/a.tgz",
                }
                for state in ("uploaded", "starter")
            ]
        ),
        ("a.tgz",),
    ),
    Sample(
        "GitLab release",
        "v1",
        _json(
            {"tag_name": "v1", "assets": {"links": [{"name": "x/a", "url": H, "direct_asset_url": H + "a"}]}}
        ),
        ("x/a",),
    ),
    Sample(
        "PEP 503 index of a package (HTML)",
        "n",
        _text(
            "<!DOCTYPE html><html><head><title>Links for n</title></head><body>",
            f'<a href="../../f/n-1.tar.gz#sha256={SHA}" data-requires-python="&gt;=3">n-1.tar.gz</a>',
            "</body></html>",
        ),
        ("n-1.tar.gz",),
        own_url="https://index.example/simple/n/",
    ),
    Sample(
        "PyPI's JSON of a project",
        "json",
        _json(
            {
                "info": {"name": "n"},
                "last_serial": 1,
                "urls": [
                    {"filename": "n-1.tar.gz", "url": H + "n-1.tar.gz", "digests": {"sha256": SHA}, "size": 5}
                ],
            }
        ),
        ("n-1.tar.gz",),
    ),
    Sample(
        "STAC item: one name at several resolutions, and a directory",
        "item.json",
        _json(
            {
                "type": "Feature",
                "stac_version": "1.0.0",
                "id": "S2A",
                "assets": {
                    "B02": {"href": H + "R10m/B02.jp2", "checksum:multihash": "1220" + SHA},
                    "B02_20m": {"href": H + "R20m/B02.jp2"},
                    "zarr": {"href": "s3://bucket/S2A.zarr/"},
                },
            }
        ),
        ("S2A/B02/B02.jp2", "S2A/B02_20m/B02.jp2"),
    ),
    Sample(
        "STAC item without assets",
        "item.json",
        _json({"type": "Feature", "stac_version": "1.0.0", "id": "x", "assets": {}}),
        refusal="has no assets",
    ),
    Sample(
        "Croissant of Dataverse or Kaggle: the name is not in the URL",
        "croissant.json",
        _json(
            {
                "@context": {},
                "distribution": [
                    {
                        "@type": ["cr:FileObject"],
                        "name": "a.csv",
                        "contentUrl": H + "api/access/datafile/12?format=original",
                    }
                ],
            }
        ),
        ("a.csv",),
    ),
    Sample(
        "schema.org data set",
        "dataset.json",
        _json({"@context": H, "distribution": {"@type": "DataDownload", "contentUrl": URLS[0]}}),
        ("a.jpg",),
    ),
    Sample(
        "RO-Crate with files elsewhere",
        "ro-crate-metadata.json",
        _json(
            {
                "@context": "https://w3id.org/ro/crate/1.2/context",
                "@graph": [
                    {"@id": H + "a.csv", "@type": ["File"], "contentSize": 5},
                    {"@id": "x/b.csv", "@type": "File", "contentUrl": [{"@id": H + "b"}]},
                ],
            }
        ),
        ("a.csv", "x/b.csv"),
    ),
    Sample(
        "description of a Hugging Face repository",
        "n",
        _json({"_id": "1", "id": "o/n", "siblings": [{"rfilename": "a.parquet"}]}),
        refusal="hf://datasets/o/n/",
    ),
    Sample(
        "ENA file report in JSON",
        "report.json",
        _json(
            [
                {
                    "run_accession": "ERR1",
                    "fastq_ftp": "ftp.sra.ebi.ac.uk/v/a.fastq.gz;ftp.sra.ebi.ac.uk/v/b.fastq.gz",
                    "fastq_md5": f"{MD5};",
                    "fastq_bytes": "5;6",
                }
            ]
        ),
        ("a.fastq.gz", "b.fastq.gz"),
    ),
]
NO_LISTS = [
    Sample(
        "a page whose list has another address",
        "1",
        b"<!DOCTYPE html><html><body>A record</body></html>",
        refusal="https://zenodo.org/api/records/1: give that",
        own_url="https://zenodo.org/records/1",
    ),
    Sample(
        "a page with the title of a package index",
        "n",
        _text("<html><title>Links for n</title><body><a href='https://h.example/a'>a</a></body></html>"),
        refusal="it is an HTML page",
    ),
    Sample(
        "one entry in JSON, over several lines",
        "one.json",
        _json({"url": URLS[0], "caption": "c"}),
        refusal="write it on one line",
    ),
    Sample(
        "another program's JSON with URLs in it",
        "reply.json",
        _json({"ok": True, "answer": {"resources": [{"url": URLS[0]}]}}),
        refusal="--query 'answer.resources[].{url: url}' reads them, as does jq -r",
    ),
    Sample(
        "JSON objects over several lines each",
        "rows.jsonl",
        _text(*(json.dumps({"url": url}, indent=1) for url in URLS)),
        refusal="jq -c . FILE",
    ),
    Sample(
        "a bucket's own list (XML)",
        "bucket",
        b'<?xml version="1.0"?><ListBucketResult><Name>b</Name></ListBucketResult>',
        refusal="s3://NAME/",
    ),
    Sample(
        "HTML page (a login, an error)",
        "urls.txt",
        b"<!DOCTYPE html><html><body>Sign in</body></html>",
        refusal="it is an HTML page",
    ),
    Sample(
        "torrent",
        "a.torrent",
        b"d8:announce20:http://t.example/ann4:infod6:lengthi5eee",
        refusal="it is a torrent",
    ),
    Sample(
        "the file itself (a text)",
        "README",
        _text("Some data of a station", "Second line of the text"),
        refusal="not a list of links",
    ),
    Sample("magnet: links", "urls.txt", _text("magnet:?xt=urn:btih:abc"), refusal="aria2 downloads"),
    Sample("doi: links", "urls.txt", _text("doi:10.5281/zenodo.1"), refusal="as a list by itself"),
    Sample(
        "aws s3 ls --human-readable",
        "ls.txt",
        _text("2024-01-01 10:00:00    1.2 KiB data/a.bin"),
        refusal="without --human-readable",
    ),
    Sample(
        "UTF-16 (saved by a spreadsheet)",
        "urls.csv",
        "url\nhttps://h.example/a\n".encode("utf-16"),
        refusal="iconv",
    ),
    Sample("zip", "list.zip", b"PK\x03\x04\x14\x00\x00\x00", refusal="unpack it"),
    Sample("xz", "list.xz", b"\xfd7zXZ\x00\x00\x04", refusal="xz -dc"),
    Sample(
        "the file itself (an image, a film)",
        "film.mp4",
        b"\x00\x00\x00\x18ftypmp42",
        refusal="not a list of files",
    ),
]
GROUPS = {
    "Tables": TABLES + MORE_TABLES,
    "Lists of URLs": PLAIN + MORE_PLAIN,
    "Lists of other tools": TOOLS + MORE_TOOLS,
    "Archives and catalogues": ARCHIVES + MORE_ARCHIVES,
    "What is no list": NO_LISTS + MORE_NO_LISTS,
}
SAMPLES = [sample for group in GROUPS.values() for sample in group]


def read(sample: Sample) -> Outcome:
    """Read a sample as ``manifest check`` would, but for what needs all entries."""
    flags = dict(zip(sample.flags.split()[::2], sample.flags.split()[1::2], strict=True))
    base_url = flags.pop("--base-url", None)
    options = convert({flag[2:].replace("-", "_"): value for flag, value in flags.items()}, ReadingOptions)
    with open_decompressed(io.BytesIO(sample.content), sample.file) as plain:
        source = Source(plain, sample.file, own_url=sample.own_url)
        try:
            reading = Reading(source, base_url, options=options)
            entries = list(reading)
        except UsageError as error:
            return Outcome((), (), frozenset(), (), (str(error),))
    faults: list[str] = []
    if reading.faults.total:
        try:
            reading.faults.raise_if_any(sample.file)
        except ManifestError as error:
            faults = [problem.message for problem in error.problems]
    known = {entry.digest.algorithm for entry in entries if entry.digest}
    known |= {"size"} if any(entry.size_bytes is not None for entry in entries) else set()
    return Outcome(
        tuple(entry.path for entry in entries),
        tuple(entry.url.reveal() for entry in entries),
        frozenset(known),
        tuple(reading.document.notes),
        tuple(faults),
        reading.document.partial,
    )


_UNLIKE_THEIR_GROUP = {
    "LAION metadata (Parquet: URL, TEXT, WIDTH, …)",
    "img2dataset input (Parquet: url, caption, width, height)",
    "Parquet with url alone",
    "Parquet with a column of nested values",
    "URL, size, SHA-256 set apart by spaces",
    "curl config with range",
    "the same without --from-format",
    "DataLad addurls table",
    "manifest.json of an S3 inventory",
    "Databricks SQL statement",
    "ENA file report with several kinds",
    "aws s3 ls --human-readable",
    "workbook (.xlsx)",
    "a script with wget and curl",
    "playlist of segments (HLS)",
    "description of a data set without files",
    "playlist of playlists (HLS)",
    "GeoJSON without files",
    "saved index of a directory whose links are absolute paths (IIS)",
}


def needs_plugins(sample: Sample) -> bool:
    """Whether a plug-in reads or recognises it: most lists of tools and archives, and a few others."""
    is_foreign = any(sample in group for group in (TOOLS, MORE_TOOLS, ARCHIVES, MORE_ARCHIVES))
    return is_foreign is not (sample.name in _UNLIKE_THEIR_GROUP)


def find_samples() -> dict[str, list[bytes]]:
    """The samples that are read, by the name of their format."""
    samples: dict[str, list[bytes]] = {}
    for sample in SAMPLES:
        if sample.refusal or not sample.paths or "--query" in sample.flags:
            continue
        with open_decompressed(io.BytesIO(sample.content), sample.file) as plain:
            stated = sample.flags.partition("--from-format ")[2]
            name = stated.partition(" ")[0] or detect_format(Source(plain, sample.file))
            plain.seek(0)
            samples.setdefault(name, []).append(plain.read())
    return samples


def describe(sample: Sample) -> str:
    """What cfetch does with a sample, in a cell of the table."""
    outcome = read(sample)
    if outcome.faults:
        return f"refused: {outcome.faults[0].removesuffix('; what follows was not read')}"
    if not outcome.paths:
        return "refused: it has no entries; `--allow-empty` takes it"
    known = ", ".join(name for name in ("size", "sha256", "md5") if name in outcome.known)
    how = f" with `{sample.flags}`" if sample.flags and "--" not in sample.name else ""
    more = f" ({known})" if known else ""
    return f"read{how} as `{outcome.paths[0]}`{more}" + "".join(f"; {note}" for note in outcome.notes)


def make_table() -> str:
    """The table of docs/manifests.md."""
    lines = []
    for title, samples in GROUPS.items():
        lines += [f"### {title}", "", "| list | cfetch |", "|---|---|"]
        lines += [f"| {sample.name} | {describe(sample).replace('|', chr(92) + '|')} |" for sample in samples]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(make_table(), end="")
