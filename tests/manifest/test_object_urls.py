"""URLs of objects: their keys stand in them as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import UsageError
from cfetch.base.schemes import KNOWN
from cfetch.manifest.faults import Faults
from cfetch.manifest.names import choose_path
from cfetch.manifest.object_urls import make_listing, split_object_url
from cfetch.manifest.reading import check_base_url
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.manifest.urls import strip_signature


def checked(url, **document):
    faults = Faults()
    entry = check_row(Row(0, {"url": url}), 0, Document(**document), faults)
    return entry.url.reveal() if entry else faults._kept[0].message


@pytest.mark.parametrize(
    "key", ["a b", "100%", "a%20b", "x?X-Amz-Signature=1", "x#y", "ü/日本", "a+b&c", "~/x"]
)
def test_a_key_is_taken_to_the_letter(key):
    """Nothing is encoded or decoded, and no two keys are taken for one."""
    url = f"s3://bucket/{key}"
    assert checked(url, options=ReadingOptions()) == strip_signature(url) == url
    assert split_object_url(url) == ("s3://bucket", key)
    assert choose_path(url, 0, "url-path") == key


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://bucket/d/", "names no object"),
        ("s3://bucket", "names no object"),
        ("s3://user@bucket/a", "its bucket has no valid name"),
        ("s3:///a", "its bucket has no valid name"),
        ("gs://bucket/a//b", "an empty, '.' or '..' component"),
        ("az://c/../b", "an empty, '.' or '..' component"),
        ("s3://bucket/a\x07", "control characters"),
        ("abfss://c@acc.dfs.core.windows.net/a", "write az://container/path"),
    ],
)
def test_what_names_no_object(url, message):
    """The fault says which part is wrong."""
    assert message in checked(url)


def test_relative_lines_of_a_bucket():
    """A relative URL is encoded, and a key is not."""
    base = check_base_url("s3://bucket/d/")
    assert checked("x/a%20b", given_base_url=base) == "s3://bucket/d/x/a b"
    assert check_base_url("gs://bucket") == "gs://bucket/"


@pytest.mark.parametrize(
    ("url", "prefix", "matching", "others"),
    [
        ("s3://b", "", ["a", "a/b"], []),
        ("s3://b/d/", "d/", ["a", "a/b"], []),
        ("s3://b/d/*.bin", "d/", ["a.bin", ".bin"], ["a.binx", "x/a.bin", "abin"]),
        ("s3://b/d/**/*.bin", "d/", ["a.bin", "x/y/a.bin"], ["a.txt"]),
        ("s3://b/d/x-**", "d/", ["x-", "x-1/a"], ["y"]),
        ("s3://b/run-?/[ab].csv", "", ["run-1/a.csv"], ["run-12/a.csv", "run-1/c.csv", "run-/a.csv"]),
        ("s3://b/d/[!0-9^]", "d/", ["a"], ["1", "^", "/"]),
        ("s3://b/a+(b)/*.x", "a+(b)/", ["1.x"], []),
    ],
)
def test_prefixes_and_patterns(url, prefix, matching, others):
    """As a shell reads them; the prefix is what need not be matched."""
    listing = make_listing(split_object_url(url))
    assert listing is not None
    assert listing.prefix == prefix
    assert [key for key in matching + others if listing.pattern.match(key)] == matching


@given(st.text(st.characters(exclude_characters="*?[\x7f", exclude_categories=["Cc", "Cs"]), max_size=20))
def test_a_key_without_signs_is_one_object(key):
    """Unless it is empty or ends in a slash."""
    assert (make_listing(split_object_url(f"s3://b/{key}")) is None) is not (not key or key.endswith("/"))


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("hf://o/n/a b.bin", "o/n/resolve/main/a%20b.bin"),
        ("hf://models/o/n@v1.0/d/a.bin", "o/n/resolve/v1.0/d/a.bin"),
        (
            "hf://datasets/o/n@refs/convert/parquet/d/0.parquet",
            "datasets/o/n/resolve/refs%2Fconvert%2Fparquet/d/0.parquet",
        ),
        ("hf://datasets/o/n@~parquet/0.parquet", "datasets/o/n/resolve/~parquet/0.parquet"),
        ("hf://spaces/o/n@a%2Fb/app.py", "spaces/o/n/resolve/a%2Fb/app.py"),
    ],
)
def test_a_file_of_a_repository_stands_for_its_address(url, link):
    """By the rules of its hub's own tools; a feed's entry may not name one."""
    assert checked(url, options=ReadingOptions(), hub=lambda: "http://h:80/hub") == f"http://h:80/hub/{link}"
    assert f"its scheme is not {KNOWN}" in checked("hf://o/n/a")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hf://datasets/a", "it names no repository"),
        ("hf://buckets/o/n/a", "it names no repository"),
        ("hf://datasets/o/n", "names no object"),
        ("hf://datasets/o/n/../a", "an empty, '.' or '..' component"),
    ],
)
def test_what_names_no_file_of_a_repository(url, message):
    """The fault says which part is wrong."""
    assert message in checked(url, options=ReadingOptions())


@pytest.mark.parametrize("address", ["hub.example", "https://user@h", "https://h/a//b", "https://h?x"])
def test_a_hub_is_an_address(address, monkeypatch):
    """What the environment says is no part of a URL before it is one."""
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(UsageError, match="HF_ENDPOINT is") as raised:
        find_endpoint()
    assert address not in str(raised.value)  # it may hold a password
