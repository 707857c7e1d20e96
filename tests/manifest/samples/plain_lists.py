"""Lists of URLs: a line each, scripts, and options of other downloaders."""

import gzip
import json

from tests.manifest.sample import AB, BASE, MD5, SHA, URLS, H, Sample, to_text

PLAIN = [
    Sample("urls.txt", "urls.txt", to_text(*URLS), AB),
    Sample(
        "urls.txt: blank lines, comments, CRLF, repeats",
        "urls.txt",
        f"# c\r\n\r\n{URLS[0]}\r\n{URLS[0]}\r\n".encode(),
        ("a.jpg", "a.jpg"),
    ),
    Sample("urls.txt.gz", "urls.txt.gz", gzip.compress(to_text(*URLS)), AB),
    Sample(
        "urls.txt: letters outside ASCII",
        "urls.txt",
        to_text(H + "Zürich.jpg", "https://münchen.example/a b.jpg"),
        ("Zürich.jpg", "a b.jpg"),
    ),
    Sample(
        "the same, signed", "urls.txt", to_text(H + "Zürich.jpg?X-Amz-Signature=1"), refusal="percent-encode"
    ),
    Sample(
        "urls.txt: one broken line", "urls.txt", to_text(URLS[0], "http://[broken", URLS[1]), refusal="host"
    ),
    Sample(
        "the same with --bad-rows skip",
        "urls.txt",
        to_text(URLS[0], "http://[broken", URLS[1]),
        AB,
        flags="--bad-rows skip",
    ),
    Sample(
        "urls.txt: equal last segments, --name-by url-path",
        "urls.txt",
        to_text(H + "x/1.bin", H + "y/1.bin"),
        ("x/1.bin", "y/1.bin"),
        flags="--name-by url-path",
    ),
    Sample(
        "urls.txt: equal last segments, --name-by row",
        "urls.txt",
        to_text(H + "x/1.bin", H + "y/1.bin"),
        ("00000/000000000.bin", "00000/000000001.bin"),
        flags="--name-by row",
    ),
    Sample("URLs that end in a slash", "urls.txt", to_text(H + "dir/"), refusal="--name-by"),
    Sample(
        "get?file=a, get?file=b with --name-by hash",
        "urls.txt",
        to_text(H + "get?file=a", H + "get?file=b"),
        ("6f/6f6027386bdc5bdade71d29ae3ef91176f54503c", "a5/a571b2938bb3ab7327b8525ff260023f93ed4bb3"),
        flags="--name-by hash",
    ),
    Sample(
        "Hugging Face resolve links, --name-by url-path",
        "urls.txt",
        to_text("https://huggingface.co/datasets/o/n/resolve/main/data/0.parquet?download=true"),
        ("datasets/o/n/resolve/main/data/0.parquet",),
        flags="--name-by url-path",
    ),
    Sample(
        "presigned links (aws s3 presign in a loop)",
        "urls.txt",
        to_text(H + "a.bin?X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Signature=S"),
        ("a.bin",),
    ),
    Sample(
        "Common Crawl path list (warc.paths.gz)",
        "warc.paths.gz",
        gzip.compress(
            to_text(
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
        to_text("a.bin", "x/b.bin"),
        ("a.bin", "x/b.bin"),
        own_url=BASE + "list.txt",
    ),
    Sample("relative lines without a base", "list.txt", to_text("a.bin"), refusal="base_url"),
    Sample("empty file", "urls.txt", b""),
    Sample("comments only", "urls.txt", to_text("# nothing")),
    Sample(
        "hf:// files of repositories",
        "urls.txt",
        to_text("hf://datasets/o/n@v1/data/0.parquet"),
        ("0.parquet",),
    ),
    Sample(
        "s3://, gs:// and az:// objects",
        "urls.txt",
        to_text("s3://bucket/a b%41.bin", "az://c/x/ü?.bin"),
        ("a b%41.bin", "ü?.bin"),
    ),
    Sample("sftp:// links", "urls.txt", to_text("sftp://h.example/a.bin"), refusal="scheme"),
    Sample(
        "URL, size, SHA-256 set apart by spaces",
        "urls.txt",
        to_text(f"{URLS[0]} 3000 {SHA}"),
        ("a.jpg",),
    ),
    Sample(
        "Common Crawl index (url, warc_filename, offsets)",
        "cc.csv",
        to_text(
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
        to_text(
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
        to_text(*(json.dumps({"url": H + "a.warc.gz", "offset": n, "length": 9}) for n in (0, 9))),
        ("0-9-a.warc.gz", "9-9-a.warc.gz"),
    ),
    Sample(
        "rows of url, filename, offset, length: either may be the file",
        "m.csv",
        to_text("url,filename,offset,length", f"{H}a.tar,b/c.txt,512,9"),
        refusal="--url-column",
    ),
    Sample(
        "rows of url, offset, length with --url-column url",
        "m.csv",
        to_text("url,filename,offset,length", f"{H}a.tar,b/c.txt,512,9"),
        ("b/c.txt",),
        flags="--url-column url",
    ),
    Sample(
        "url and a length that is no range",
        "m.csv",
        to_text("url,length", f"{URLS[0]},3.5"),
        ("a.jpg",),
    ),
    Sample(
        "curl config with range",
        "curl.cfg",
        to_text(f'url = "{H}a.tar"', "range = 512-520", 'output = "c.txt"'),
        ("c.txt",),
    ),
    Sample(
        "a script with wget and curl",
        "download.sh",
        to_text("#!/bin/sh", "set -e", f"wget -c {H}a.bin -O data/a.bin", f'curl -O "{H}b.bin"'),
        ("data/a.bin", "b.bin"),
        flags="--from-format links",
    ),
    Sample(
        "the same without --from-format",
        "download.sh",
        to_text("#!/bin/sh", "set -e", f"wget -c {H}a.bin -O data/a.bin", f'curl -O "{H}b.bin"'),
        refusal="it has 2 links within it, which --from-format links reads",
    ),
    Sample("quoted URLs", "urls.txt", to_text(f'"{H}a.bin"', f'"{H}b.bin"'), refusal="--from-format links"),
    Sample("YAML: - URL", "urls.yaml", to_text(f"- {H}a.bin", f"- {H}b.bin"), refusal="--from-format links"),
    Sample(
        "conda list --explicit --md5",
        "explicit.txt",
        to_text("@EXPLICIT", f"{H}noarch/a-1.0-py_0.conda#{MD5}"),
        ("a-1.0-py_0.conda",),
    ),
    Sample(
        "playlist of segments (HLS)",
        "a.m3u8",
        to_text("#EXTM3U", f'#EXT-X-MAP:URI="{H}init.mp4"', "#EXT-X-BYTERANGE:1000@0", f"{H}main.mp4"),
        ("init.mp4", "0-1000-main.mp4"),
    ),
]
