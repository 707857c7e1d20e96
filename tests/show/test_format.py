"""Numbers and names as people read them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.secret import printable
from cfetch.show import format as fmt
from cfetch.show import table_text
from cfetch.show.table_text import shorten_apart, sparkline


def test_examples_in_docstrings_hold():
    """The examples that the docstrings give are true."""
    assert doctest.testmod(fmt).failed == doctest.testmod(table_text).failed == 0


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1023.7, "1.0 MiB"),
        (100 * 1024**2, "100 MiB"),
        (2**80, "1048576 EiB"),
    ],
)
def test_size_changes_unit_before_it_rounds_to_1024(size_bytes, text):
    """A size is shown in the unit that keeps it below 1024, rounding included."""
    assert fmt.size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0994, "99ms"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (3599.6, "1h 00m"),
        (-3.0, "-3.0s"),
        (None, "-"),
    ],
)
def test_duration_rounds_into_the_next_unit(seconds, text):
    """Rounding never shows 60 seconds or 60 minutes."""
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize("value", [float("inf"), float("nan"), None])
def test_what_is_not_a_number_is_a_dash(value):
    """Infinite, undefined and unknown values are one dash."""
    assert (fmt.size(value), fmt.rate(value), fmt.duration(value)) == ("-", "-", "-")


def test_plural_of_retry():
    """One retry, two retries."""
    assert (fmt.plural(1, "retry"), fmt.plural(2000, "retry"), fmt.plural(0, "file")) == (
        "1 retry",
        "2,000 retries",
        "0 files",
    )


@given(st.text(max_size=60), st.integers(2, 40))
def test_shortened_names_fit_and_are_printable(name, width):
    """Whatever the name, what is shown fits its column and holds no control character."""
    shown = fmt.shorten(name, width)
    assert fmt.cells(shown) <= width
    assert printable(shown) == shown


@given(st.text(max_size=30), st.integers(0, 40))
def test_fit_is_exact(text, width):
    """A column is exactly as wide as it was asked to be, wide characters included."""
    assert fmt.cells(fmt.fit(text, width)) == width


def test_wide_characters_count_twice():
    """East Asian characters take two columns, combining ones none."""
    assert (fmt.cells("日本"), fmt.cells("e\u0301")) == (4, 1)


def test_sparkline_scales_to_the_largest():
    """The largest value fills its column, nothing is the lowest bar."""
    assert (sparkline([0, 1, 4, 8]), sparkline([0, 0]), sparkline([])) == ("▁▁▄█", "▁▁", "")


def test_paths_keep_the_part_in_which_they_differ():
    """Partitions with equal names differ by their directory; it survives where the ending is cut."""
    paths = [f"lake/sales/year=2026/month={month:02}/part-00000-c000.snappy.parquet" for month in (1, 2, 12)]
    for width in (14, 20, 25, 30, 40):
        short = shorten_apart(paths, width)
        assert len(set(short)) == 3
        assert max(map(fmt.cells, short)) <= width
    assert shorten_apart(paths, 25)[0] == "…/month=01/part-00000…uet"
    assert shorten_apart([*paths, "other"], 60)[3] == "other"
    mixed = ["share/doc/long-name-one/copyright", "share/doc/long-name-two/copyright", "lib/x"]
    assert shorten_apart(mixed, 25) == ["…/long-name-one/copyright", "…/long-name-two/copyright", "lib/x"]
    same = [
        "changelogs/main/a/adduser/adduser_3.134/changelog.gz",
        "changelogs/main/b/base-files/base-files_12.4/changelog.gz",
        "changelogs/non-free/f/firmware-nonfree/firmware-nonfree_20230210/changelog.gz",
    ]
    assert len(set(shorten_apart(same, 21))) == 3
    assert max(map(fmt.cells, shorten_apart(same, 21))) <= 21
    assert shorten_apart(["a/very/long/path/f1", "a/very/long/path/f2"], 12) == ["a/…/f1", "a/…/f2"]


@pytest.mark.parametrize("width", [8, 12, 22, 30])
def test_long_names_that_end_with_their_number_show_it(width):
    """The beginning that they share gives way, also beside names of another sort."""
    names = [f"crawl/a-rather-long-name-of-a-file-{number}.bin" for number in range(1, 65)]
    short = shorten_apart([*names, "missing.bin", "another/file-of-a-rather-long-name.bin"], width)
    assert len(set(short)) == 66
    assert max(map(fmt.cells, short)) <= width
    assert all(f"{number}.bin" in text for number, text in enumerate(short[:64], start=1))
    assert shorten_apart(names, 22)[11] == "a-rather-long-n…12.bin"
