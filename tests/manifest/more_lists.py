"""Further lists as people have them: see ``lists``."""

import base64
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
    Sample("hashes of Buildroot", "a.hash", _text(f"sha256  {SHA}  a.tgz"), ("a.tgz",), flags=TO_BASE),
    Sample(
        "Manifest of Gentoo",
        "Manifest",
        _text(f"DIST a.tgz 4 BLAKE2B {'ab' * 64} SHA512 {'cd' * 64}"),
        ("a.tgz",),
        flags=TO_BASE,
    ),
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
    Sample(
        "reply to PROPFIND (WebDAV)",
        "propfind.xml",
        _text(
            '<d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/x/</d:href><d:propstat><d:prop>'
            "<d:resourcetype><d:collection/></d:resourcetype></d:prop></d:propstat></d:response>"
            "<d:response><d:href>/dav/x/y/a%20b.bin</d:href><d:propstat><d:prop>"
            "<d:getcontentlength>7</d:getcontentlength></d:prop></d:propstat></d:response></d:multistatus>"
        ),
        ("y/a b.bin",),
        flags=TO_BASE,
    ),
    Sample("SFV", "list.sfv", _text("; by cksfv", "a.bin E8B7BE43"), ("a.bin",), flags=TO_BASE),
]
COCO = {
    "licenses": [{"url": f"{H}licence", "id": 1}],
    "images": [{"coco_url": f"{H}1.jpg", "bytes": 7}],
}


def _bundle(name, file):
    """A bundle of DSpace with one bitstream."""
    bitstream = {
        "name": file,
        "sizeBytes": 5,
        "checkSum": {"checkSumAlgorithm": "MD5", "value": MD5},
        "_links": {"content": {"href": f"{H}server/api/core/bitstreams/{name}/content"}},
    }
    return {"name": name, "_embedded": {"bitstreams": {"_embedded": {"bitstreams": [bitstream]}}}}


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
        "files of a data set of Mendeley Data",
        "files.json",
        _json(
            [
                {
                    "filename": "a.csv",
                    "size": 5,
                    "content_details": {"sha256_hash": SHA, "size": 5, "download_url": f"{H}files/1"},
                }
            ]
        ),
        ("a.csv",),
    ),
    Sample(
        "files of a version of a data set of Dryad",
        "files.json",
        _json(
            {
                "_links": {"self": {"href": "/api/v2/versions/1/files"}},
                "count": 1,
                "_embedded": {
                    "stash:files": [
                        {
                            "path": "a.csv",
                            "size": 5,
                            "digestType": "md5",
                            "digest": MD5,
                            "_links": {"stash:download": {"href": "/api/v2/files/1/download"}},
                        }
                    ]
                },
            }
        ),
        ("a.csv",),
        flags="--base-url https://h.example/",
    ),
    Sample(
        "bundles of an item in DSpace 7",
        "bundles.json",
        _json(
            {"_links": {}, "_embedded": {"bundles": [_bundle("ORIGINAL", "a.pdf"), _bundle("TEXT", "a.txt")]}}
        ),
        ("a.pdf",),
    ),
    Sample(
        "bitstreams of an item in DSpace 6",
        "bitstreams.json",
        _json(
            [
                {
                    "bundleName": bundle,
                    "name": f"{bundle}.pdf",
                    "sizeBytes": 5,
                    "checkSum": {"checkSumAlgorithm": "MD5", "value": MD5},
                    "retrieveLink": f"/rest/bitstreams/{bundle}/retrieve",
                }
                for bundle in ("ORIGINAL", "LICENSE")
            ]
        ),
        ("ORIGINAL.pdf",),
        flags="--base-url https://h.example/",
    ),
    Sample(
        "a reply in HAL without files",
        "reply.json",
        _json({"_links": {}, "_embedded": {"items": []}}),
        refusal="(HAL) without files",
    ),
    Sample(
        "feed with enclosures (RSS, a podcast)",
        "podcast.rss",
        _text(
            f'<rss><channel><item><enclosure url="{H}1.mp3" length="9"/></item>',
            f"<item><link>{H}page</link></item></channel></rss>",
        ),
        ("1.mp3",),
    ),
    Sample(
        "files of an item of the Internet Archive (XML)",
        "x_files.xml",
        _text(
            f'<files><file name="y/a.mp3"><size>10</size><md5>{MD5}</md5></file>',
            '<file name="x_files.xml"><md5>00</md5></file></files>',
        ),
        ("y/a.mp3",),
    ),
    Sample(
        "metadata of an item of the Internet Archive",
        "item.json",
        _json(
            {
                "files": [{"name": "a.mp3", "size": "10", "md5": MD5}, {"name": "b", "private": "true"}],
                "files_count": 2,
                "item_size": 10,
                "metadata": {"identifier": "x"},
            }
        ),
        ("a.mp3",),
    ),
    Sample(
        "repomd.xml",
        "repomd.xml",
        _text(
            '<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary">'
            f'<checksum type="sha256">{SHA}</checksum><location href="repodata/p.xml.gz"/><size>4</size>'
            "</data></repomd>"
        ),
        ("repodata/p.xml.gz",),
        own_url="https://h.example/os/repodata/repomd.xml",
    ),
    Sample(
        "index of NLTK's data",
        "index.xml",
        _text(
            f'<nltk_data><packages><package id="a" subdir="corpora" url="{H}a.zip" size="4" '
            f'checksum="{MD5}"/></packages></nltk_data>'
        ),
        ("corpora/a.zip",),
    ),
    Sample(
        "Packages of Debian",
        "Packages",
        _text("Package: a", "Filename: pool/a_1.deb", "Size: 4", f"SHA256: {SHA}", "Tag: x::y"),
        ("pool/a_1.deb",),
        flags=TO_BASE,
    ),
    Sample(
        "Release of Debian",
        "Release",
        _text("Origin: Debian", "Suite: stable", "SHA256:", f" {SHA} 4 main/binary-all/Packages.xz"),
        ("main/binary-all/Packages.xz",),
        flags=TO_BASE,
    ),
    Sample(
        "pylock.toml, uv.lock",
        "pylock.toml",
        _text(
            'lock-version = "1.0"',
            "[[packages]]",
            'name = "a"',
            f'wheels = [{{ url = "{H}a-1.whl", size = 4, hashes = {{ sha256 = "{SHA}" }} }}]',
        ),
        ("a-1.whl",),
    ),
    Sample(
        "Cargo.lock",
        "Cargo.lock",
        _text(
            "[[package]]",
            'name = "a"',
            'version = "1.0.0"',
            'source = "registry+https://github.com/rust-lang/crates.io-index"',
            f'checksum = "{SHA}"',
        ),
        ("a-1.0.0.crate",),
    ),
    Sample(
        "poetry.lock",
        "poetry.lock",
        _text("[[package]]", 'name = "a"', f'files = [{{file = "a-1.whl", hash = "sha256:{SHA}"}}]'),
        refusal="states no URLs of its packages",
    ),
    Sample(
        "package-lock.json",
        "package-lock.json",
        _json(
            {
                "name": "n",
                "lockfileVersion": 3,
                "packages": {
                    "": {"name": "n"},
                    "node_modules/@s/a": {
                        "resolved": f"{H}@s/a/-/a-1.tgz",
                        "integrity": f"sha256-{base64.b64encode(bytes.fromhex(SHA)).decode()}",
                    },
                },
            }
        ),
        ("@s/a-1.tgz",),
    ),
    Sample(
        "yarn.lock (Yarn 1)",
        "yarn.lock",
        _text("# yarn lockfile v1", "a@1:", '  version "1"', f'  resolved "{H}a/-/a-1.tgz#{"ab" * 20}"'),
        ("a-1.tgz",),
    ),
    Sample(
        "conandata.yml",
        "conandata.yml",
        _text("sources:", '  "1.0":', f'    url: "{H}a.tgz"', f'    sha256: "{SHA}"'),
        refusal="--query 'sources.*.{url: url, sha256: sha256}' reads them",
    ),
    Sample(
        "the same, by an expression",
        "conandata.yml",
        _text("sources:", '  "1.0":', f'    url: "{H}a.tgz"', f'    sha256: "{SHA}"'),
        ("a.tgz",),
        flags="--query sources.*.{url:url,sha256:sha256}",
    ),
    Sample(
        "repodata.json of conda",
        "repodata.json",
        _json({"info": {}, "packages": {"a-1.tar.bz2": {"md5": MD5, "size": 4}}, "packages.conda": {}}),
        ("a-1.tar.bz2",),
        flags=TO_BASE,
    ),
    Sample(
        "granules that NASA's CMR has found",
        "granules.json",
        _json(
            {
                "feed": {
                    "entry": [
                        {
                            "links": [
                                {"rel": "http://esipfed.org/ns/fedsearch/1.1/data#", "href": f"{H}a.h5"},
                                {"rel": "http://esipfed.org/ns/fedsearch/1.1/s3#", "href": "s3://b/a.h5"},
                            ]
                        }
                    ]
                }
            }
        ),
        ("a.h5",),
    ),
    Sample(
        "Modrinth's pack index",
        "modrinth.index.json",
        _json(
            {
                "formatVersion": 1,
                "game": "minecraft",
                "files": [{"path": "mods/a.jar", "downloads": [f"{H}x"], "fileSize": 4, "hashes": {}}],
            }
        ),
        ("mods/a.jar",),
    ),
    Sample(
        "package of CKAN",
        "package_show.json",
        _json(
            {
                "success": True,
                "result": {"url": f"{H}page", "resources": [{"url": f"{H}a.csv", "hash": MD5, "size": 1}]},
            }
        ),
        ("a.csv",),
    ),
    Sample(
        "files of a project of the OSF",
        "files.json",
        _json(
            {
                "data": [
                    {
                        "attributes": {
                            "kind": "file",
                            "name": "a.csv",
                            "materialized_path": "/x/a.csv",
                            "size": 4,
                            "extra": {"hashes": {"sha256": SHA, "md5": MD5}},
                        },
                        "links": {"download": f"{H}download/1"},
                    }
                ],
                "links": {"next": None},
                "meta": {},
            }
        ),
        ("x/a.csv",),
    ),
    Sample(
        "GeoJSON of a search (Alaska Satellite Facility)",
        "asf.geojson",
        _json(
            {
                "type": "FeatureCollection",
                "features": [
                    {"properties": {"fileName": "a.zip", "url": f"{H}a", "bytes": 4, "md5sum": MD5}}
                ],
            }
        ),
        ("a.zip",),
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
    Sample(
        "GeoJSON without files",
        "map.geojson",
        _json({"type": "FeatureCollection", "features": [{"properties": {"download": f"{H}a.zip"}}]}),
        refusal="--query 'features[].properties.{url: download}'",
    ),
    Sample(
        "saved index of a directory whose links are absolute paths (IIS)",
        "index.html",
        _text("<html><title>h.example - /d/</title><a href='/'>up</a><a href='/d/a.bin'>a.bin</a></html>"),
        refusal="say it by --base-url https://HOST/",
    ),
    Sample("cksum", "cksum.txt", _text("3807263823 1 a.bin"), refusal="cannot verify", flags=TO_BASE),
]
