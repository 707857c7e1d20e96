"""URLs of objects: their keys stand in them as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.config.reading import ReadingOptions
from cfetch.manifest.faults import Faults
from cfetch.manifest.names import choose_path
from cfetch.manifest.object_urls import parse_listing, split_object_url
from cfetch.manifest.reading import check_base_url
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
        ("hf://datasets/a", "recipes.md"),
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
    listing = parse_listing(url)
    assert listing is not None
    assert listing.prefix == prefix
    assert [key for key in matching + others if listing.pattern.match(key)] == matching


@given(st.text(st.characters(exclude_characters="*?[\x7f", exclude_categories=["Cc", "Cs"]), max_size=20))
def test_a_key_without_signs_is_one_object(key):
    """Unless it is empty or ends in a slash."""
    assert (parse_listing(f"s3://b/{key}") is None) is not (not key or key.endswith("/"))
