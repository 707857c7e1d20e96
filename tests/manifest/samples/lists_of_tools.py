"""Lists that other tools print or read: hash lists, listings of stores, lock files."""

import gzip
import json

from tests.manifest.sample import BASE, MD5, MD5_BASE64, SHA, TO_BASE, URLS, H, Sample, to_json, to_text

TOOLS = [
    Sample(
        "sha256sum list",
        "SHA256SUMS",
        to_text(f"{SHA}  ./x/a.bin", f"{SHA} *b.bin"),
        ("x/a.bin", "b.bin"),
        flags=f"--base-url {BASE}",
    ),
    Sample("MD5SUMS had by http", "MD5SUMS", to_text(f"{MD5}  a.bin"), ("a.bin",), own_url=BASE + "MD5SUMS"),
    Sample(
        "BSD checksums",
        "CHECKSUM",
        to_text(f"SHA256 (a.bin) = {SHA}"),
        ("a.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "rclone md5sum, hashsum",
        "sums.md5",
        to_text(f"{MD5}  x/a.bin"),
        ("x/a.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "aria2 input file",
        "aria2.txt",
        to_text(URLS[0] + "\thttps://m.example/a.jpg", " out=x/a.jpg", f" checksum=sha-256={SHA}"),
        ("x/a.jpg",),
    ),
    Sample(
        "Metalink 4",
        "m.meta4",
        to_text(
            '<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a.jpg"><size>5</size>',
            f"<url>{URLS[0]}</url></file></metalink>",
        ),
        ("a.jpg",),
    ),
    Sample("BagIt fetch.txt", "fetch.txt", to_text(f"{URLS[0]} 12 data/a.jpg"), ("data/a.jpg",)),
    Sample(
        "TsvHttpData-1.0 (Storage Transfer Service)",
        "m.tsv",
        to_text("TsvHttpData-1.0", f"{URLS[0]}\t5\tXUFAKrxLKna5cZ2REBfFkg=="),
        ("a.jpg",),
    ),
    Sample(
        "curl --config",
        "all.conf",
        to_text(f'url = "{URLS[0]}"', 'output = "x/a.jpg"', "location", "next", f"url={URLS[1]}", "-o b.jpg"),
        ("x/a.jpg", "b.jpg"),
    ),
    Sample(
        "aws s3 ls --recursive",
        "ls.txt",
        to_text(
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
            to_text(
                '"bucket","data/a+b%281%29.bin","1234","2024-01-02T03:04:05.000Z","5eb63bbbe01eeed093cb22bb8f5acdc3","STANDARD"'
            )
        ),
        ("data/a b(1).bin",),
        flags="--base-url https://bucket.s3.amazonaws.com/",
    ),
    Sample(
        "rclone lsjson -R --hash",
        "ls.json",
        to_json(
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
        "nginx autoindex_format json",
        "index.json",
        to_json(
            [
                {"name": "a b.bin", "type": "file", "mtime": "Tue, 02 Jan 2024 03:04:05 GMT", "size": 5},
                {"name": "c.bin", "type": "file", "mtime": "Tue, 02 Jan 2024 03:04:05 GMT", "size": 6},
            ]
        ),
        ("a b.bin", "c.bin"),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "git annex addurl --batch --with-files",
        "annex.txt",
        to_text(f"{URLS[0]} x/a b.jpg"),
        ("x/a b.jpg",),
        flags="--from-format annex",
    ),
    Sample(
        "the same without --from-format",
        "annex.txt",
        to_text(f"{URLS[0]} x/a b.jpg"),
        refusal="--from-format",
    ),
    Sample(
        "DataLad addurls table",
        "table.csv",
        to_text("subject,url,filename", f"s1,{URLS[0]},sub-01/a.jpg"),
        ("sub-01/a.jpg",),
    ),
    Sample(
        "pooch registry",
        "registry.txt",
        to_text("# data", f"c137.csv {SHA}", f"cronen.csv md5:{MD5} {H}cronen.csv"),
        ("c137.csv", "cronen.csv"),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "apt-get --print-uris",
        "uris.txt",
        to_text(f"'{H}pool/b_1%3a2_all.deb' b_1%3a2_all.deb 10 SHA256:{SHA}", f"'{H}c.deb' c.deb 7 "),
        ("b_1:2_all.deb", "c.deb"),
    ),
    Sample(
        "aws s3api list-objects-v2",
        "ls.json",
        to_json(
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
        to_json(
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
        to_json(
            [{"name": "a.bin", "size": 5, "md5_hash": MD5_BASE64, "storage_url": "gs://bucket/a.bin#17"}]
        ),
        ("a.bin",),
    ),
    Sample(
        "gsutil ls -l, gcloud storage ls -l",
        "ls.txt",
        to_text(
            "      1234  2024-01-02T03:04:05Z  gs://bucket/data/a b.bin",
            "TOTAL: 1 objects, 1234 bytes (1.21 KiB)",
        ),
        ("data/a b.bin",),
    ),
    Sample(
        "gsutil ls -r",
        "ls.txt",
        to_text("gs://bucket/data/:", "gs://bucket/data/a.bin", "", "gs://bucket/x/:", "gs://bucket/x/b.bin"),
        ("data/a.bin", "x/b.bin"),
    ),
    Sample(
        "az storage blob list",
        "ls.json",
        to_json(
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
        to_text(
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
        to_text("2024/01/02 03:04:05              1.2K  data/a.bin"),
        refusal="its size is rounded",
    ),
    Sample(
        "s5cmd --json ls",
        "ls.json",
        to_text(
            '{"key":"s3://bucket/a.bin","etag":"1","last_modified":"2024-01-02T03:04:05Z","type":"file","size":5}',
            '{"key":"s3://bucket/x/","type":"directory"}',
        ),
        ("a.bin",),
    ),
    Sample(
        "mc ls --json",
        "ls.json",
        to_text(
            '{"status":"success","type":"file","lastModified":"2024-01-02T03:04:05Z","size":5,'
            '"key":"a b.bin","etag":"1","url":"https://minio.example/bucket/"}'
        ),
        ("a b.bin",),
    ),
    Sample(
        "rclone lsl",
        "ls.txt",
        to_text("     1234 2024-01-02 03:04:05.000000000 data/a b.bin"),
        ("data/a b.bin",),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "rclone ls",
        "ls.txt",
        to_text("     1234 data/a b.bin", "       -1 c.bin"),
        ("data/a b.bin", "c.bin"),
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "S3 inventory without times or sizes",
        "inv.csv",
        to_text('"bucket","data/a+b.bin"', '"bucket","c.bin"'),
        ("data/a b.bin", "c.bin"),
    ),
    Sample(
        "manifest.json of an S3 inventory",
        "manifest.json",
        to_json({"sourceBucket": "b", "fileSchema": "Bucket, Key, Size", "files": [{"key": "x.csv.gz"}]}),
        refusal="give the files under its key files",
    ),
    Sample(
        "git lfs ls-files --json",
        "lfs.json",
        to_json({"files": [{"name": "x/a.bin", "size": 5, "oid_type": "sha256", "oid": SHA}]}),
        ("x/a.bin",),
        flags="--base-url https://media.githubusercontent.com/media/o/n/main/",
    ),
    Sample(
        "git annex whereis --json",
        "whereis.json",
        to_text(
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
        to_text("a.csv xxh64:0123456789abcdef"),
        refusal="cannot verify (xxh64)",
        flags=f"--base-url {BASE}",
    ),
    Sample(
        "curl --config with a pattern",
        "all.conf",
        to_text(f'url = "{H}a[1-3].jpg"'),
        refusal="write each of them out",
    ),
    Sample(
        "the same with globoff",
        "all.conf",
        to_text("globoff", f'url = "{H}a[1-3].jpg"'),
        ("a[1-3].jpg",),
    ),
    Sample("hashes of Buildroot", "a.hash", to_text(f"sha256  {SHA}  a.tgz"), ("a.tgz",), flags=TO_BASE),
    Sample(
        "Manifest of Gentoo",
        "Manifest",
        to_text(f"DIST a.tgz 4 BLAKE2B {'ab' * 64} SHA512 {'cd' * 64}"),
        ("a.tgz",),
        flags=TO_BASE,
    ),
    Sample("openssl dgst", "a.txt", to_text(f"SHA2-256(a.bin)= {SHA}"), ("a.bin",), flags=TO_BASE),
    Sample("md5 -r: one space", "md5.txt", to_text(f"{MD5} a.bin"), ("a.bin",), flags=TO_BASE),
    Sample(
        "b2sum, as the list's name says",
        "b2sums.txt",
        to_text(f"{'ab' * 64}  a.bin"),
        ("a.bin",),
        flags=TO_BASE,
    ),
    Sample(
        "a hash of 96 digits without a word",
        "sums.txt",
        to_text(f"{'ab' * 48}  a.bin"),
        refusal="SHA-384 or SHA3-384",
        flags=TO_BASE,
    ),
    Sample(
        "checksums with a clear signature (OpenPGP)",
        "CHECKSUM",
        to_text(
            "-----BEGIN PGP SIGNED MESSAGE-----",
            "Hash: SHA256",
            "",
            f"SHA256 (a.iso) = {SHA}",
            "-----BEGIN PGP SIGNATURE-----",
            "",
            "iQIzBAEBCAAdFiEE",
            "-----END PGP SIGNATURE-----",
        ),
        ("a.iso",),
        flags=TO_BASE,
    ),
    Sample(
        "hashdeep",
        "hashes.txt",
        to_text("%%%% HASHDEEP-1.0", "%%%% size,md5,sha256,filename", "## x", f"4,{MD5},{SHA},x/a.bin"),
        ("x/a.bin",),
        flags=TO_BASE,
    ),
    Sample(
        "reply to PROPFIND (WebDAV)",
        "propfind.xml",
        to_text(
            '<d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/x/</d:href><d:propstat><d:prop>'
            "<d:resourcetype><d:collection/></d:resourcetype></d:prop></d:propstat></d:response>"
            "<d:response><d:href>/dav/x/y/a%20b.bin</d:href><d:propstat><d:prop>"
            "<d:getcontentlength>7</d:getcontentlength></d:prop></d:propstat></d:response></d:multistatus>"
        ),
        ("y/a b.bin",),
        flags=TO_BASE,
    ),
    Sample("SFV", "list.sfv", to_text("; by cksfv", "a.bin E8B7BE43"), ("a.bin",), flags=TO_BASE),
]
