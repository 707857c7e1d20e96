"""What is no list, and is refused with the next step."""

import json

from tests.manifest.sample import SHA, TO_BASE, URLS, H, Sample, to_json, to_text

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
        to_text("<html><title>Links for n</title><body><a href='https://h.example/a'>a</a></body></html>"),
        refusal="it is an HTML page",
    ),
    Sample(
        "one entry in JSON, over several lines",
        "one.json",
        to_json({"url": URLS[0], "caption": "c"}),
        refusal="write it on one line",
    ),
    Sample(
        "another program's JSON with URLs in it",
        "reply.json",
        to_json({"ok": True, "answer": {"resources": [{"url": URLS[0]}]}}),
        refusal="--query 'answer.resources[].{url: url}' reads them, as does jq -r",
    ),
    Sample(
        "JSON objects over several lines each",
        "rows.jsonl",
        to_text(*(json.dumps({"url": url}, indent=1) for url in URLS)),
        refusal="jq -c . FILE",
    ),
    Sample(
        "a bucket's own list (XML)",
        "bucket",
        b'<?xml version="1.0"?><ListBucketResult><Name>b</Name></ListBucketResult>',
        refusal="s3://NAME/",
    ),
    Sample(
        "the list of a container of Azure (XML)",
        "a.xml",
        to_text("<EnumerationResults><Blobs><Blob><Name>a</Name></Blob></Blobs></EnumerationResults>"),
        refusal="az://NAME/",
    ),
    Sample(
        "index of a container image (OCI)",
        "index.json",
        to_json({"schemaVersion": 2, "manifests": [{"digest": f"sha256:{SHA}", "size": 1}]}),
        refusal="container image (OCI)",
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
        to_text("Some data of a station", "Second line of the text"),
        refusal="not a list of links",
    ),
    Sample("magnet: links", "urls.txt", to_text("magnet:?xt=urn:btih:abc"), refusal="aria2 downloads"),
    Sample("doi: links", "urls.txt", to_text("doi:10.5281/zenodo.1"), refusal="as a list by itself"),
    Sample(
        "aws s3 ls --human-readable",
        "ls.txt",
        to_text("2024-01-01 10:00:00    1.2 KiB data/a.bin"),
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
    Sample(
        "description of a data set without files",
        "page.json",
        to_json({"@context": "https://schema.org", "@type": "Dataset", "url": f"{H}page"}),
        refusal="its url is the page about it",
    ),
    Sample(
        "records that have files beside their page",
        "packages.jsonl",
        to_text(json.dumps({"url": f"{H}page", "resources": [{"url": f"{H}a.csv"}]})),
        refusal="its url is a page about it",
    ),
    Sample(
        "playlist of playlists (HLS)",
        "master.m3u8",
        to_text("#EXTM3U", "#EXT-X-STREAM-INF:BANDWIDTH=1280000", "low/index.m3u8"),
        refusal="playlist of playlists",
        flags=TO_BASE,
    ),
    Sample(
        "GeoJSON without files",
        "map.geojson",
        to_json({"type": "FeatureCollection", "features": [{"properties": {"download": f"{H}a.zip"}}]}),
        refusal="--query 'features[].properties.{url: download}'",
    ),
    Sample(
        "saved index of a directory whose links are absolute paths (IIS)",
        "index.html",
        to_text("<html><title>h.example - /d/</title><a href='/'>up</a><a href='/d/a.bin'>a.bin</a></html>"),
        refusal="say it by --base-url https://HOST/",
    ),
    Sample("cksum", "cksum.txt", to_text("3807263823 1 a.bin"), refusal="cannot verify", flags=TO_BASE),
]
