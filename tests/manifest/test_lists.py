"""Lists as people have them: each is read as it was meant, or refused with the way out."""

import json
from pathlib import Path

import pytest

from cfetch.manifest.formats.landing_pages import find_list_address
from cfetch.manifest.formats.table import FORMATS
from tests.manifest.lists import SAMPLES, find_samples, make_table, needs_plugins, read
from tests.manifest.sample import BASE, MD5, H, Sample
from tests.needs import case

DOCUMENT = Path(__file__).parents[2] / "docs" / "manifests.md"


@pytest.mark.parametrize(
    "sample", [case(one, needs_plugins=needs_plugins(one), name=one.name) for one in SAMPLES]
)
def test_a_list_is_read_as_it_was_meant_or_refused_with_the_way_out(sample):
    """Its entries have the stated paths; where there are none the message says what to do."""
    outcome = read(sample)
    assert (outcome.paths if not outcome.faults else ()) == sample.paths, outcome
    assert bool(outcome.faults) == bool(sample.refusal)
    assert not sample.refusal or sample.refusal in outcome.faults[0]


@pytest.mark.needs_plugins
def test_the_table_of_the_document_is_what_the_command_prints():
    """``python -m tests.manifest.lists`` makes it."""
    rows = [row for row in make_table().splitlines() if row not in DOCUMENT.read_text(encoding="utf-8")]
    assert rows == [], "put what `python -m tests.manifest.lists` prints at the end of docs/manifests.md"


JOINED = {
    "urls.txt: letters outside ASCII": "https://h.example/Z%C3%BCrich.jpg",
    "Common Crawl path list (warc.paths.gz)": (
        "https://data.commoncrawl.org/crawl-data/CC-MAIN-2024-10/segments/1/warc/a.warc.gz"
    ),
    "relative lines of a list that was had by http": "https://h.example/d/a.bin",
    "Common Crawl index (url, warc_filename, offsets)": ("https://data.commoncrawl.org/crawl-data/a.warc.gz"),
    "Common Crawl index server (output=json)": "https://data.commoncrawl.org/crawl-data/a.warc.gz",
    "aws s3 ls --recursive": "https://b.s3.amazonaws.com/data/a%20b.bin",
    "S3 inventory (CSV)": "https://bucket.s3.amazonaws.com/data/a%20b(1).bin",
    "rclone lsjson -R --hash": "https://h.example/d/x/a%20b.bin",
    "Dataverse dataset": "https://dataverse.example/api/access/datafile/7?format=original",
    "PEP 691 index of a package": "https://index.example/f/n-1-py3-none-any.whl",
    "STAC item": "https://h.example/d/B01.tif",
    "datapackage.json": "https://h.example/d/data/a%20b.csv",
    "RO-Crate": "https://h.example/d/x/a%20b.csv",
    "Hugging Face tree": "https://huggingface.co/datasets/o/n/resolve/main/data/0.parquet",
    "ENA file report": "https://ftp.sra.ebi.ac.uk/v/ERR1_1.fastq.gz",
    "aws s3api list-objects-v2": "s3://bucket/data/a b.bin",
    "gcloud storage ls --json": "gs://bucket/data/a.bin",
    "gcloud storage objects list --format=json": "gs://bucket/a.bin",
    "gsutil ls -l, gcloud storage ls -l": "gs://bucket/data/a b.bin",
    "az storage blob list": "az://c/x/a.bin",
    "s5cmd ls": "s3://bucket/data/a b.bin",
    "s5cmd --json ls": "s3://bucket/a.bin",
    "mc ls --json": "https://minio.example/bucket/a%20b.bin",
    "rclone lsl": "https://h.example/d/data/a%20b.bin",
    "S3 inventory without times or sizes": "s3://bucket/data/a b.bin",
    "git annex whereis --json": "https://h.example/a.jpg",
    "InvenioRDM record": "https://h.example/api/records/x/files/a%20b.zip/content",
    "Zenodo record: a # in a name": "https://h.example/records/2/files/a%231%20b%3F.zip/content",
    "files of a Zenodo deposit": "https://h.example/f",
    "assets of a GitHub release": "https://github.com/o/n/releases/download/v1/a.tgz",
    "GitLab release": "https://h.example/a",
    "PEP 503 index of a package (HTML)": "https://index.example/f/n-1.tar.gz",
    "RO-Crate with files elsewhere": "https://h.example/a.csv",
    "ENA file report in JSON": "https://ftp.sra.ebi.ac.uk/v/a.fastq.gz",
    "sitemap": "https://h.example/a.pdf?x=1&y=2",
    "HTML index of a directory (Apache, nginx)": "https://h.example/d/a%20b.bin",
}


@pytest.mark.parametrize(
    "sample",
    [case(one, needs_plugins=needs_plugins(one), name=one.name) for one in SAMPLES if one.name in JOINED],
)
def test_urls_are_joined_and_encoded_as_their_makers_mean_them(sample):
    """Also where a list names files only, and its own address says the rest."""
    assert read(sample).urls[0] == JOINED[sample.name]


UUID = "0b1c2d3e-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("https://zenodo.org/record/12", "https://zenodo.org/api/records/12"),
        ("https://figshare.com/articles/dataset/A_title/123/2", "https://api.figshare.com/v2/articles/123"),
        (
            "https://d.example/dataset.xhtml?persistentId=doi:10.7910/DVN/X&version=1.0",
            "https://d.example/api/datasets/:persistentId/?persistentId=doi:10.7910/DVN/X",
        ),
        ("https://github.com/o/n/releases", "https://api.github.com/repos/o/n/releases/latest"),
        ("https://github.com/o/n/releases/tag/v1", "https://api.github.com/repos/o/n/releases/tags/v1"),
        ("https://huggingface.co/datasets/o/n/tree/main", "hf://datasets/o/n/"),
        ("https://huggingface.co/o/n", "hf://o/n/"),
        (
            "http://d.example/citation?persistentId=doi:10.7910/DVN/X",
            "http://d.example/api/datasets/:persistentId/?persistentId=doi:10.7910/DVN/X",
        ),
        (
            "https://data.mendeley.com/datasets/3p9w84t5mr/1",
            "https://data.mendeley.com/public-api/datasets/3p9w84t5mr/files?folder_id=root&version=1",
        ),
        (
            "http://datadryad.org/dataset/doi:10.5061/dryad.f385721n",
            "https://datadryad.org/api/v2/datasets/doi%3A10.5061%2Fdryad.f385721n",
        ),
        ("https://b2share.eudat.eu/records/ab12", "https://b2share.eudat.eu/api/records/ab12"),
        ("https://osf.io/ab12c/", "https://api.osf.io/v2/nodes/ab12c/files/osfstorage/"),
        (
            f"https://d.example/items/{UUID}/full",
            f"https://d.example/server/api/core/items/{UUID}/bundles?embed=bitstreams",
        ),
        ("https://h.example/records/12", None),
    ],
)
def test_a_page_names_the_list_that_belongs_to_it(page, address):
    """Only hosts whose addresses are known."""
    assert find_list_address(page) == address


INDEX = "<html><title>Index of /d</title>{}</html>"
DELETED = '"bucket","gone.bin","v1","true","true","","2024-01-01T10:00:00.000Z"'
KEPT = '"bucket","a.bin","v2","true","false","7","2024-01-01T10:00:00.000Z"'
MAP = "<urlset>{}</urlset>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INDEX.format('<a href="./t_00:00:00">'), "t_00:00:00"),
        (INDEX.format('<a href=".htaccess">'), ".htaccess"),
        (INDEX.format("<a href=a.bin>"), "a.bin"),
        (MAP.format("<loc>https://h.example/a.pdf?x[]=1</loc>"), "a.pdf"),
        (MAP.format('<loc xml:lang="en">\nhttps://h.example/a.pdf\n</loc>'), "a.pdf"),
        (MAP.format("<loc> <![CDATA[https://h.example/a.pdf?x[]=1&y=2]]> </loc>"), "a.pdf"),
        (f"{DELETED}\n{KEPT}\n", "a.bin"),
        ("<html><title>/pub/</title><a href=./a.bin></html>", "a.bin"),
        ("<html><title>www.h.example - /pub/</title><A HREF=/d/a.bin></html>", "a.bin"),
        (
            '<!doctype html>\n<meta name="viewport" content="x">\n<pre>\n<a href="a.bin">a.bin</a>\n</pre>\n',
            "a.bin",
        ),
        (f" # a comment\na\\ b.bin {'0' * 64}\n", "a b.bin"),
        ('{"resources": [{"path": null, "url": "https://h.example/a.csv"}]}', "a.csv"),
    ],
)
@pytest.mark.needs_plugins
def test_no_entry_is_left_out(text, expected):
    """However its maker writes it."""
    outcome = read(Sample("", "list", text.encode(), own_url=BASE))
    assert (outcome.paths, outcome.faults) == ((expected,), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MAP.format("<loc>https://h.example/a.pdf</loc><loc></loc>"), "1 elements <loc>"),
        ('{"resources": ["https://h.example/res.json"]}', "resources[0] must be an object"),
        ('{"resources": [{"name": "a"}]}', "must be a string, not null"),
        ('{"type": "FeatureCollection", "features": [{"assets": {"a": {}}}]}', "must be a string, not null"),
        (
            json.dumps(
                {
                    "@context": {},
                    "distribution": [
                        {
                            "@type": "cr:FileObject",
                            "encodingFormat": "git+https",
                            "contentUrl": "https://huggingface.co/datasets/o/n/tree/refs%2Fconvert%2Fparquet",
                        },
                    ],
                }
            ),
            "give hf://datasets/o/n@refs/convert/parquet/ as the manifest",
        ),
        (
            json.dumps(
                {"type": "Collection", "stac_version": "0.9.0", "assets": {"B1": {"title": "Band 1"}}}
            ),
            "no assets of its own",
        ),
        (
            "run\tfastq_ftp\tfastq_md5\nR1\tftp.h.example/a.gz\n",
            "cells of this row: 2, columns that the first row names: 3",
        ),
        ('url = "https://h.example/a"\n-r 5-\n', "range: it must be FIRST-LAST"),
        ("2024-01-01 10:00:00    1.2 KiB data/a.bin\n", "without --human-readable"),
        *(
            (f'url = "https://h.example/a"\n{option}\n', "cfetch has no such option")
            for option in ("-X POST", "-F a=b", "-T f", "-I", "json = x", "url-query = a=b")
        ),
    ],
)
@pytest.mark.needs_plugins
def test_what_cannot_be_read_is_a_fault(text, words):
    """A list of which a part is passed over looks like a good one."""
    assert words in read(Sample("", "list", text.encode(), own_url=BASE)).faults[0]


TREE = "https://h.example/api/datasets/o/n/tree/main"
STAC = {"type": "FeatureCollection", "features": [], "links": [{"rel": "next"}]}


@pytest.mark.parametrize(
    ("text", "own_url", "words"),
    [
        case(json.dumps(STAC), BASE, "leads to further items"),
        case(json.dumps([{"type": "directory", "oid": "", "path": "x"}]), TREE, "are left out: 1"),
        case(json.dumps([{"computed_md5": MD5, "download_url": H}] * 10), BASE, "go on"),
        case(
            json.dumps({"@context": {}, "distribution": [
                {"@type": "FileObject", "encodingFormat": "git+https"},
                {"@type": "FileObject", "contentUrl": H + "a"},
            ]}),
            BASE,
            "repositories that are left out, with all their files: 1",
        ),
        case(
            json.dumps({"@context": "", "@graph": [
                {"@id": "a/", "@type": "Dataset"}, {"@id": "a/1.txt", "@type": "File"},
                {"@id": "b/", "@type": "Dataset"}, {"@id": "./", "@type": "Dataset"},
            ]}),
            BASE,
            "directories whose files the crate does not name: 1",
        ),
        (f'url,caption\n{H}a,"foo\n{H}b,bar"\n', BASE, "a line break and a URL in one cell: 1"),
        case("run\tfastq_ftp\nR1\tftp.h.example/a.gz\nR2\t\n", BASE, "no file of the kind fastq: 1"),
    ],
)  # fmt: skip
def test_what_a_list_leaves_to_others_is_told(text, own_url, words):
    """A page of a longer answer, directories, repositories, runs without files of that kind."""
    assert words in read(Sample("", "list", text.encode(), own_url=own_url)).notes[-1]


FIGSHARE = [{"computed_md5": MD5, "download_url": H}] * 10
DATAVERSE = {"status": "OK", "totalCount": 2, "data": [{"dataFile": {"id": 1, "filename": "a", "md5": MD5}}]}


@pytest.mark.parametrize(
    ("text", "own_url", "is_partial"),
    [
        (json.dumps(STAC), BASE, True),
        (json.dumps(STAC | {"links": [{"rel": "self"}]}), BASE, False),
        (json.dumps([{"type": "directory", "oid": "", "path": "x"}]), TREE, True),
        (json.dumps(FIGSHARE), BASE, True),
        (json.dumps(FIGSHARE), f"{BASE}?page_size=1000", False),
        (json.dumps(FIGSHARE[:5]), f"{BASE}?page_size=5", True),
        ("2020-01-01 00:00:00  1 a\n  PRE d/\n", BASE, True),
        (INDEX.format("<a href=a.bin>"), BASE, False),
        (INDEX.format("<a href=a.bin>").replace("</html>", ""), BASE, True),
        (INDEX.format("<a href=a.bin><a href=b.bin?x=1>"), BASE, True),
        (MAP.format("<loc>https://h.example/a</loc>"), BASE, False),
        (MAP.format("<loc>https://h.example/a</loc>").replace("</urlset>", ""), BASE, True),
    ],
)
@pytest.mark.needs_plugins
def test_whether_files_are_missing_from_a_list(text, own_url, is_partial):
    """Who looks for files that have gone must know it."""
    assert (read(Sample("", "list", text.encode(), own_url=own_url)).partial is not None) is is_partial


@pytest.mark.needs_plugins
def test_every_reader_has_a_sample():
    """A format that is added gets its row in the table, and is damaged by the fuzzer."""
    without = FORMATS.keys() ^ find_samples().keys()
    assert not without, f"add a sample of {without} to a module of tests/manifest/samples/"
