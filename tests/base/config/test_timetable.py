"""Rates by the time of day: how they are written, which one is in force, and what is refused."""

import pytest

from cfetch.base.config.layers import resolve
from cfetch.base.config.settings import Settings
from cfetch.base.config.shown import show
from cfetch.base.config.timetable import MAX_BPS, parse_timetable
from cfetch.base.errors import ConfigError
from cfetch.tasks.shares.task import divide_limits

MIB = 1 << 20


def rate_at(text, clock):
    hours, minutes = map(int, clock.split(":"))
    return parse_timetable(text, 1024, MAX_BPS).rate_at(60 * hours + minutes)


@pytest.mark.parametrize(
    ("text", "clock", "rate_bps"),
    [
        ("08:00-18:00=2M", "07:59", None),
        ("08:00-18:00=2M", "08:00", 2 * MIB),
        ("08:00-18:00=2M", "18:00", None),
        ("8:00-18:00=2M, else=20M", "18:00", 20 * MIB),
        ("22:00-06:00=2M", "23:59", 2 * MIB),
        ("22:00-06:00=2M", "05:59", 2 * MIB),
        ("22:00-06:00=2M", "06:00", None),
        ("12:00-13:00=off;08:00-18:00=2M", "12:30", None),
        ("12:00-24:00=1M else=off", "23:59", MIB),
    ],
)
def test_the_first_span_that_holds_has_the_rate(text, clock, rate_bps):
    """Spans may go over midnight; ``else`` is for all other times."""
    assert rate_at(text, clock) == rate_bps


@pytest.mark.parametrize(
    "text", ["08:00=2M", "08:00-25:00=2M", "08:60-09:00=2M", "08:00-08:00=2M", "08:00-18:00=x", "else=2M",
             "=", "08:00-18:00=1"],
)  # fmt: skip
def test_what_is_no_timetable_is_refused_with_the_form(text):
    """Before the first request, as every option."""
    with pytest.raises(
        ConfigError, match=r"limit-rate (is .* but )?must (be a rate like 10M|have rates from)"
    ):
        resolve(flags={"limit_rate": text}, env={})


def test_a_timetable_is_shown_as_it_can_be_read_again(tmp_path):
    """In a file of options, and divided among tasks."""
    resolved = resolve(flags={"limit_rate": "08:00-18:00=2M else=20M"}, env={})
    file = tmp_path / "c.yaml"
    file.write_text(show(resolved))
    again = resolve(flags={}, env={}, file=file).settings
    assert again.limit_rate == resolved.settings.limit_rate
    assert again.limits_rate
    part = divide_limits(again, 2, 4).limit_rate
    assert part == "08:00-18:00=512KiB else=5MiB"
    assert Settings(limit_rate=part).rates.exist
