"""Rates by the time of day: ``08:00-18:00=2M``, ``08:00-12:00=2M 22:00-06:00=20M else=5M``. Pure.

Times are local. At a time that no entry names there is no limit, unless ``else`` has one; ``off`` is none.
"""

import re
from typing import NamedTuple

from cfetch.base.config.units import parse_rate, size_text

DAY_MIN = 24 * 60
MAX_BPS = 1 << 40
_SPAN = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})=(\S+)", re.ASCII)
FORM = "must be a rate like 10M, or rates by the time of day like '08:00-18:00=2M else=20M'"


class TimetableEntry(NamedTuple):
    """A limit from one minute of the day to another, which may be on the next day; None: no limit."""

    first_min: int
    end_min: int
    rate_bps: int | None

    def holds_at(self, minute: int) -> bool:
        """Whether the entry is in force at a minute of the day."""
        if self.first_min < self.end_min:
            return self.first_min <= minute < self.end_min
        return minute >= self.first_min or minute < self.end_min


class Timetable(NamedTuple):
    """``entries`` in the order in which they were written; ``other_bps``: at all other times."""

    entries: tuple[TimetableEntry, ...]
    other_bps: int | None = None

    def rate_at(self, minute: int) -> int | None:
        """The limit at a minute of the day; of entries that overlap, the first one counts."""
        for entry in self.entries:
            if entry.holds_at(minute):
                return entry.rate_bps
        return self.other_bps

    def divide(self, by: int, least_bps: int) -> "Timetable":
        """The part of one of ``by`` tasks."""

        def part(rate_bps: int | None) -> int | None:
            return None if rate_bps is None else max(least_bps, rate_bps // by)

        entries = tuple(entry._replace(rate_bps=part(entry.rate_bps)) for entry in self.entries)
        return Timetable(entries, part(self.other_bps))

    def __str__(self) -> str:
        words = [
            f"{_clock(entry.first_min)}-{_clock(entry.end_min)}={_show(entry.rate_bps)}"
            for entry in self.entries
        ]
        return " ".join([*words, f"else={_show(self.other_bps)}"])


def parse_timetable(text: str, low_bps: int, high_bps: int) -> Timetable:
    """Read a timetable whose entries stand apart by blanks, commas or semicolons. Raises ValueError."""
    entries, other_bps = [], None
    for word in re.split(r"[\s,;]+", text.strip()):
        if word.startswith("else="):
            other_bps = _read(word.removeprefix("else="), low_bps, high_bps)
            continue
        match = _SPAN.fullmatch(word)
        if match is None:
            raise ValueError(FORM)
        first, end = (int(match[n]) * 60 + int(match[n + 1]) for n in (1, 3))
        if max(int(match[2]), int(match[4])) > 59 or first >= DAY_MIN or end > DAY_MIN or first == end:
            raise ValueError(f"{FORM}; times go from 00:00 to 24:00, and a span has two of them")
        entries.append(TimetableEntry(first, end, _read(match[5], low_bps, high_bps)))
    if not entries:
        raise ValueError(FORM)
    return Timetable(tuple(entries), other_bps)


def _read(text: str, low_bps: int, high_bps: int) -> int | None:
    if text in ("off", "none"):
        return None
    try:
        rate_bps = parse_rate(text)
    except ValueError:
        raise ValueError(FORM) from None
    if not low_bps <= rate_bps <= high_bps:
        raise ValueError(f"must have rates from {size_text(low_bps)} to {size_text(high_bps)}")
    return rate_bps


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _show(rate_bps: int | None) -> str:
    return "off" if rate_bps is None else size_text(rate_bps)
