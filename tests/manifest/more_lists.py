"""Further lists as people have them: see ``lists``."""

import json

from tests.manifest.sample import MD5, SHA, H, Sample, make_workbook


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


TO_BASE = "--base-url https://h.example/d/"

MORE_TABLES = [
    Sample("workbook (.xlsx)", "list.xlsx", make_workbook(("url", "size"), (f"{H}a.jpg", 3)), ("a.jpg",)),
    Sample(
        "CSV: relative links keep their directories",
        "oa.csv",
        _text("File,id", "x/a.gz,1", "y/a.gz,2"),
        ("x/a.gz", "y/a.gz"),
        flags=f"--url-column File {TO_BASE}",
    ),
    Sample(
        "GDC manifest",
        "gdc.txt",
        _text("id\tfilename\tmd5\tsize", f"1-2\ta.bam\t{MD5}\t100"),
        refusal="or make URLs of others by --url-template",
    ),
    Sample(
        "the same with --url-template",
        "gdc.txt",
        _text("id\tfilename\tmd5\tsize", f"1-2\ta.bam\t{MD5}\t100"),
        ("a.bam",),
        flags="--url-template https://api.example/data/{id}",
    ),
]
MORE_PLAIN = [
    Sample(
        "a script with wget and curl",
        "download.sh",
        _text("#!/bin/sh", "set -e", f"wget -c {H}a.bin -O data/a.bin", f'curl -O "{H}b.bin"'),
        ("data/a.bin", "b.bin"),
        flags="--from-format links",
    ),
    Sample(
        "the same without --from-format",
        "download.sh",
        _text("#!/bin/sh", "set -e", f"wget -c {H}a.bin -O data/a.bin", f'curl -O "{H}b.bin"'),
        refusal="it has 2 links within it, which --from-format links reads",
    ),
    Sample("quoted URLs", "urls.txt", _text(f'"{H}a.bin"', f'"{H}b.bin"'), refusal="--from-format links"),
    Sample("YAML: - URL", "urls.yaml", _text(f"- {H}a.bin", f"- {H}b.bin"), refusal="--from-format links"),
    Sample(
        "conda list --explicit --md5",
        "explicit.txt",
        _text("@EXPLICIT", f"{H}noarch/a-1.0-py_0.conda#{MD5}"),
        ("a-1.0-py_0.conda",),
    ),
    Sample(
        "playlist of segments (HLS)",
        "a.m3u8",
        _text("#EXTM3U", f'#EXT-X-MAP:URI="{H}init.mp4"', "#EXT-X-BYTERANGE:1000@0", f"{H}main.mp4"),
        ("init.mp4", "0-1000-main.mp4"),
    ),
]
MORE_TOOLS = [
    Sample("openssl dgst", "a.txt", _text(f"SHA2-256(a.bin)= {SHA}"), ("a.bin",), flags=TO_BASE),
    Sample("md5 -r: one space", "md5.txt", _text(f"{MD5} a.bin"), ("a.bin",), flags=TO_BASE),
    Sample(
        "b2sum, as the list's name says",
        "b2sums.txt",
        _text(f"{'ab' * 64}  a.bin"),
        ("a.bin",),
        flags=TO_BASE,
    ),
    Sample(
        "a hash of 96 digits without a word",
        "sums.txt",
        _text(f"{'ab' * 48}  a.bin"),
        refusal="SHA-384 or SHA3-384",
        flags=TO_BASE,
    ),
    Sample(
        "checksums with a clear signature (OpenPGP)",
        "CHECKSUM",
        _text(
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
        _text("%%%% HASHDEEP-1.0", "%%%% size,md5,sha256,filename", "## x", f"4,{MD5},{SHA},x/a.bin"),
        ("x/a.bin",),
        flags=TO_BASE,
    ),
    Sample("SFV", "list.sfv", _text("; by cksfv", "a.bin E8B7BE43"), ("a.bin",), flags=TO_BASE),
]
COCO = {
    "licenses": [{"url": f"{H}licence", "id": 1}],
    "images": [{"coco_url": f"{H}1.jpg", "bytes": 7}],
}

MORE_ARCHIVES = [
    Sample("COCO (any JSON)", "instances.json", _json(COCO), refusal="--query 'images[].{url: coco_url"),
    Sample(
        "the same, by an expression",
        "instances.json",
        _json(COCO),
        ("1.jpg",),
        flags="--query images[].{url:coco_url,size:bytes}",
    ),
    Sample(
        "Croissant in an array, as in a web page",
        "kaggle.json",
        _json([
            {
                "@context": {},
                "@type": "sc:Dataset",
                "url": f"{H}page",
                "distribution": [{"@type": "cr:FileObject", "contentUrl": f"{H}a.zip", "sha256": SHA}],
            }
        ]),
        ("a.zip",),
    ),
    Sample(
        "list of ResourceSync",
        "resourcelist.xml",
        _text(
            '<urlset xmlns:rs="http://www.openarchives.org/rs/terms/">',
            f'<url><loc>{H}a.bin</loc><rs:md hash="md5:{MD5} sha-256:{SHA}" length="4"/></url></urlset>',
        ),
        ("a.bin",),
    ),
]  # fmt: skip
MORE_NO_LISTS = [
    Sample(
        "description of a data set without files",
        "page.json",
        _json({"@context": "https://schema.org", "@type": "Dataset", "url": f"{H}page"}),
        refusal="its url is the page about it",
    ),
    Sample(
        "records that have files beside their page",
        "packages.jsonl",
        _text(json.dumps({"url": f"{H}page", "resources": [{"url": f"{H}a.csv"}]})),
        refusal="its url is a page about it",
    ),
    Sample(
        "playlist of playlists (HLS)",
        "master.m3u8",
        _text("#EXTM3U", "#EXT-X-STREAM-INF:BANDWIDTH=1280000", "low/index.m3u8"),
        refusal="playlist of playlists",
        flags=TO_BASE,
    ),
    Sample("cksum", "cksum.txt", _text("3807263823 1 a.bin"), refusal="cannot verify", flags=TO_BASE),
]
