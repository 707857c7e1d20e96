"""Lists as people have them: each is read as it was meant, or refused with the way out."""

from pathlib import Path

import pytest

from cfetch.manifest.formats.detection import READERS
from tests.manifest.lists import SAMPLES, find_samples, make_table, read

DOCUMENT = Path(__file__).parents[2] / "docs" / "manifests.md"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_list_is_read_as_it_was_meant_or_refused_with_the_way_out(sample):
    """Its entries have the stated paths; where there are none the message says what to do."""
    outcome = read(sample)
    assert (outcome.paths if not outcome.faults else ()) == sample.paths, outcome
    assert bool(outcome.faults) == bool(sample.refusal)
    assert not sample.refusal or sample.refusal in outcome.faults[0]


def test_the_table_of_the_document_is_what_the_command_prints():
    """``python -m tests.manifest.lists`` makes it."""
    assert make_table().strip() in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "url"),
    {
        "urls.txt: letters outside ASCII": "https://h.example/Z%C3%BCrich.jpg",
        "Common Crawl path list (warc.paths.gz)": (
            "https://data.commoncrawl.org/crawl-data/CC-MAIN-2024-10/segments/1/warc/a.warc.gz"
        ),
        "relative lines of a list that was had by http": "https://h.example/d/a.bin",
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
        "sitemap": "https://h.example/a.pdf?x=1&y=2",
        "HTML index of a directory (Apache, nginx)": "https://h.example/d/a%20b.bin",
    }.items(),
)
def test_urls_are_joined_and_encoded_as_their_makers_mean_them(name, url):
    """Also where a list names files only, and its own address says the rest."""
    assert next(read(sample) for sample in SAMPLES if sample.name == name).urls[0] == url


def test_every_reader_has_a_sample():
    """A format that is added gets its row in the table, and is damaged by the fuzzer."""
    assert find_samples().keys() == READERS.keys()
