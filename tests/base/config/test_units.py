"""Sizes and durations: what people write is read, what is shown is read back, nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.config.units import duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("64KiB", 65_536),
        ("16M", 16 * 1024**2),
        ("16MiB", 16 * 1024**2),
        ("16MB", 16_000_000),
        ("16mb", 16_000_000),
        (" 1.5 GiB ", 1_610_612_736),
        ("12B", 12),
        ("2t", 2 * 1024**4),
        ("1.1GB", 1_100_000_000),
    ],
)
def test_size_is_read_as_people_write_it(text, size):
    """Binary units by default and with an i, decimal ones with a B alone."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1e6",
        "16i",
        "16iB",
        "KiB",
        "1.KiB",
        "1_000",
        "1,5MB",
        "١",
        "nan",
        "inf",
        "9" * 400,
    ],
)
def test_what_is_no_size_is_refused(text):
    """Signs, exponents, other alphabets' digits and units without a prefix are no sizes."""
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@given(st.integers(0, 10**18 - 1))
def test_size_text_reads_back(size):
    """Every size's spelling means exactly that size, beyond a float's 53 bits too."""
    assert parse_size(size_text(size)) == size


@given(st.integers(1, 1023), st.sampled_from("KMGTP"))
def test_size_text_uses_the_unit_that_fits(number, letter):
    """A whole number of units is shown in that unit."""
    assert size_text(parse_size(f"{number}{letter}")) == f"{number}{letter}iB"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("2.5", 2.5),
        ("500ms", 0.5),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1m30s", 90.0),
        ("1h1m1s1ms", 3661.001),
        (" 5m ", 300.0),
    ],
)
def test_duration_is_read_as_people_write_it(text, seconds):
    """Units from hours to milliseconds, in that order; a bare number is seconds."""
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize(
    "text", ["", " ", "-1s", "1e3", "s", "1 s", "30s5m", "5M", "1d", "nan", "inf", "1_0s", "٣s", "9" * 400]
)
def test_what_is_no_duration_is_refused(text):
    """Signs, exponents, units out of order and unknown units are no durations."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.floats(0, 86_400))
def test_duration_text_reads_back(seconds):
    """Every duration's spelling means exactly that duration, tiny ones too."""
    assert parse_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (5.0, "5s"),
        (90, "90s"),
        (300.0, "5m"),
        (86_400, "24h"),
        (60.00000001, "60.00000001s"),
    ],
)
def test_duration_text_is_short_but_exact(seconds, text):
    """Whole minutes and hours are shown as such, and nothing is rounded to one."""
    assert duration_text(seconds) == text
