"""What archives, catalogues and repositories answer about their files."""

import base64

from tests.manifest.sample import BASE, MD5, SHA, TO_BASE, URLS, H, Sample, to_json, to_text

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


ARCHIVES = [
    Sample(
        "Databricks SQL statement",
        "reply.json",
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json({"type": "Collection", "stac_version": "1.0.0", "id": "c", "links": []}),
        refusal="/items",
    ),
    Sample(
        "Croissant",
        "croissant.json",
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_text(
            "run_accession\tfastq_ftp\tfastq_md5\tfastq_bytes",
            f"ERR1\tftp.sra.ebi.ac.uk/v/ERR1_1.fastq.gz;ftp.sra.ebi.ac.uk/v/ERR1_2.fastq.gz\t{MD5};{MD5}\t5;6",
        ),
        ("ERR1_1.fastq.gz", "ERR1_2.fastq.gz"),
    ),
    Sample(
        "ENA file report with several kinds",
        "report.tsv",
        to_text("run_accession\tfastq_ftp\tsubmitted_ftp", "ERR1\th.example/a\th.example/b"),
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
        to_text(
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
        to_json(
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
        to_json(
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
        to_json(
            [{"checksum": MD5, "filename": "a.zip", "filesize": 5, "id": "f", "links": {"download": H + "f"}}]
        ),
        ("a.zip",),
    ),
    Sample(
        "answer of a search at Zenodo",
        "records",
        to_json({"hits": {"hits": [], "total": 1}, "links": {"self": H}}),
        refusal="give one of the records",
    ),
    Sample(
        "list of figshare articles",
        "articles",
        to_json([{"id": 1, "doi": "10.1/x", "url": H + "1", "url_public_api": H + "1"}]),
        refusal="give one of them",
    ),
    Sample(
        "Dataverse dataset with restricted files",
        "dataset.json",
        to_json(
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
        to_json(
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
        to_json(
            {"tag_name": "v1", "assets": {"links": [{"name": "x/a", "url": H, "direct_asset_url": H + "a"}]}}
        ),
        ("x/a",),
    ),
    Sample(
        "PEP 503 index of a package (HTML)",
        "n",
        to_text(
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
        to_json(
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
        to_json(
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
        to_json({"type": "Feature", "stac_version": "1.0.0", "id": "x", "assets": {}}),
        refusal="has no assets",
    ),
    Sample(
        "Croissant of Dataverse or Kaggle: the name is not in the URL",
        "croissant.json",
        to_json(
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
        to_json({"@context": H, "distribution": {"@type": "DataDownload", "contentUrl": URLS[0]}}),
        ("a.jpg",),
    ),
    Sample(
        "RO-Crate with files elsewhere",
        "ro-crate-metadata.json",
        to_json(
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
        to_json({"_id": "1", "id": "o/n", "siblings": [{"rfilename": "a.parquet"}]}),
        refusal="hf://datasets/o/n/",
    ),
    Sample(
        "ENA file report in JSON",
        "report.json",
        to_json(
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
ARCHIVES += [
    Sample("COCO (any JSON)", "instances.json", to_json(COCO), refusal="--query 'images[].{url: coco_url"),
    Sample(
        "the same, by an expression",
        "instances.json",
        to_json(COCO),
        ("1.jpg",),
        flags="--query images[].{url:coco_url,size:bytes}",
    ),
    Sample(
        "files of a data set of Mendeley Data",
        "files.json",
        to_json(
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
        to_json(
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
        to_json(
            {"_links": {}, "_embedded": {"bundles": [_bundle("ORIGINAL", "a.pdf"), _bundle("TEXT", "a.txt")]}}
        ),
        ("a.pdf",),
    ),
    Sample(
        "bitstreams of an item in DSpace 6",
        "bitstreams.json",
        to_json(
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
        to_json({"_links": {}, "_embedded": {"items": []}}),
        refusal="(HAL) without files",
    ),
    Sample(
        "feed with enclosures (RSS, a podcast)",
        "podcast.rss",
        to_text(
            f'<rss><channel><item><enclosure url="{H}1.mp3" length="9"/></item>',
            f"<item><link>{H}page</link></item></channel></rss>",
        ),
        ("1.mp3",),
    ),
    Sample(
        "files of an item of the Internet Archive (XML)",
        "x_files.xml",
        to_text(
            f'<files><file name="y/a.mp3"><size>10</size><md5>{MD5}</md5></file>',
            '<file name="x_files.xml"><md5>00</md5></file></files>',
        ),
        ("y/a.mp3",),
    ),
    Sample(
        "metadata of an item of the Internet Archive",
        "item.json",
        to_json(
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
        "primary.xml of RPM",
        "primary.xml",
        to_text(
            '<metadata xmlns="http://linux.duke.edu/metadata/common"><package type="rpm">'
            f'<checksum type="sha256">{SHA}</checksum><size package="4"/><location href="P/a.rpm"/>'
            "</package></metadata>"
        ),
        ("P/a.rpm",),
        own_url="https://h.example/os/repodata/primary.xml",
    ),
    Sample(
        "DCAT in JSON-LD",
        "dcat.jsonld",
        to_json(
            {
                "@context": "https://www.w3.org/ns/dcat.jsonld",
                "@type": "dcat:Dataset",
                "dcat:distribution": [{"dcat:downloadURL": {"@id": f"{H}a.csv"}, "dcat:byteSize": "4"}],
            }
        ),
        ("a.csv",),
    ),
    Sample(
        "repomd.xml",
        "repomd.xml",
        to_text(
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
        to_text(
            f'<nltk_data><packages><package id="a" subdir="corpora" url="{H}a.zip" size="4" '
            f'checksum="{MD5}"/></packages></nltk_data>'
        ),
        ("corpora/a.zip",),
    ),
    Sample(
        "Packages of Debian",
        "Packages",
        to_text("Package: a", "Filename: pool/a_1.deb", "Size: 4", f"SHA256: {SHA}", "Tag: x::y"),
        ("pool/a_1.deb",),
        flags=TO_BASE,
    ),
    Sample(
        "Release of Debian",
        "Release",
        to_text("Origin: Debian", "Suite: stable", "SHA256:", f" {SHA} 4 main/binary-all/Packages.xz"),
        ("main/binary-all/Packages.xz",),
        flags=TO_BASE,
    ),
    Sample(
        "pylock.toml, uv.lock",
        "pylock.toml",
        to_text(
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
        to_text(
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
        to_text("[[package]]", 'name = "a"', f'files = [{{file = "a-1.whl", hash = "sha256:{SHA}"}}]'),
        refusal="states no URLs of its packages",
    ),
    Sample(
        "deno.lock",
        "deno.lock",
        to_json({"version": "3", "remote": {f"{H}std/a.ts": SHA}}),
        ("h.example/std/a.ts",),
    ),
    Sample(
        "package-lock.json",
        "package-lock.json",
        to_json(
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
        to_text("# yarn lockfile v1", "a@1:", '  version "1"', f'  resolved "{H}a/-/a-1.tgz#{"ab" * 20}"'),
        ("a-1.tgz",),
    ),
    Sample(
        "Gemfile.lock",
        "Gemfile.lock",
        to_text(
            "GIT",
            f"  remote: {H}b.git",
            "  specs:",
            "    b (1.0)",
            "",
            "GEM",
            f"  remote: {H}",
            "  specs:",
            "    a (1.0)",
            "      b (~> 1)",
            "",
            "CHECKSUMS",
            f"  a (1.0) sha256={SHA}",
        ),
        ("a-1.0.gem",),
    ),
    Sample(
        "conandata.yml",
        "conandata.yml",
        to_text("sources:", '  "1.0":', f'    url: "{H}a.tgz"', f'    sha256: "{SHA}"'),
        refusal="--query 'sources.*.{url: url, sha256: sha256}' reads them",
    ),
    Sample(
        "the same, by an expression",
        "conandata.yml",
        to_text("sources:", '  "1.0":', f'    url: "{H}a.tgz"', f'    sha256: "{SHA}"'),
        ("a.tgz",),
        flags="--query sources.*.{url:url,sha256:sha256}",
    ),
    Sample(
        "repodata.json of conda",
        "repodata.json",
        to_json({"info": {}, "packages": {"a-1.tar.bz2": {"md5": MD5, "size": 4}}, "packages.conda": {}}),
        ("a-1.tar.bz2",),
        flags=TO_BASE,
    ),
    Sample(
        "granules that NASA's CMR has found",
        "granules.json",
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json(
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
        to_json([
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
        to_text(
            '<urlset xmlns:rs="http://www.openarchives.org/rs/terms/">',
            f'<url><loc>{H}a.bin</loc><rs:md hash="md5:{MD5} sha-256:{SHA}" length="4"/></url></urlset>',
        ),
        ("a.bin",),
    ),
]  # fmt: skip
