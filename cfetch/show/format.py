"""Numbers and names as people read them: `1.5 MiB`, `12.3 MiB/s`, `1m 05s`, `a/b/part-…17.arrow`.

Shared by report and dashboard, so that a size looks the same everywhere. Nothing here imports rich or numpy.
"""

import math
import unicodedata
from functools import lru_cache

from cfetch.base.secret import printable

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
UNKNOWN = "-"
LEAST_SAVING_S = 0.1


def size(size_bytes: float | None) -> str:
    """Bytes with a binary unit, at most eight characters.

    >>> size(1_572_864), size(0), size(None)
    ('1.5 MiB', '0 B', '-')
    """
    if size_bytes is None or not math.isfinite(size_bytes):
        return UNKNOWN
    value, unit = float(size_bytes), 0
    while round(value) >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    digits = 1 if unit and value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def sizes(bytes_known: int, sizes_unknown: int, files: int) -> str:
    """The size of all files together, as far as it is known.

    >>> sizes(2048, 0, 3), sizes(2048, 1, 3), sizes(0, 3, 3)
    ('2.0 KiB', '2.0 KiB and 1 of unknown size', 'sizes unknown')
    """
    if not sizes_unknown:
        return size(bytes_known)
    if sizes_unknown == files:
        return "size unknown" if files == 1 else "sizes unknown"
    return f"{size(bytes_known)} and {sizes_unknown:,} of unknown size"


def rate(rate_bps: float | None) -> str:
    """Bytes per second: ``12.3 MiB/s``."""
    text = size(rate_bps)
    return text if text == UNKNOWN else f"{text}/s"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter.

    >>> duration(0), duration(0.012), duration(3.21), duration(65), duration(7380), duration(273600)
    ('0.0s', '12ms', '3.2s', '1m 05s', '2h 03m', '3d 04h')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0.0005 <= seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for long, short, step, per in (("d", "h", 3600, 24), ("h", "m", 60, 60), ("m", "s", 1, 60)):
        if whole >= step * per:
            big, small = divmod(whole // step, per)
            return f"{big}{long} {small:02d}{short}"
    return f"{whole}s"


def saving_text(saved_s: float) -> str:
    """How much time mitigation saved the run; empty if it is too little for the replay's precision.

    >>> saving_text(58.04), saving_text(-2.0), saving_text(0.04)
    ('58s shorter by mitigation', '2.0s longer by mitigation', '')
    """
    if abs(saved_s) < LEAST_SAVING_S:
        return ""
    return f"{duration(abs(saved_s))} {'shorter' if saved_s > 0 else 'longer'} by mitigation"


def count(number: int) -> str:
    """A whole number with thousands separated: ``10,000``."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """``1 file``, ``10,000 files``; a noun in ``y`` gets ``ies``, a noun in ``ch`` gets ``es``."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def percent(fraction: float) -> str:
    """A share in per cent, rounded down, so that only the whole is 100 %.

    >>> percent(0.9999), percent(1.0)
    ('99 %', '100 %')
    """
    return f"{math.floor(max(0.0, min(fraction, 1.0)) * 100)} %"


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


@lru_cache(4096)  # a frame asks for the same signs thousands of times
def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(path: str, width: int) -> str:
    """``path`` printable and at most ``width`` columns wide.

    Inner directories are dropped first, then all directories, then the later middle of the name: the text in
    which neighbours differ (``part-00017``) comes before the text that they share (``-c000.snappy.parquet``).

    >>> shorten("data/2026/06/part-00017.arrow", 24)
    'data/…/part-00017.arrow'
    >>> shorten("data/2026/06/part-00017-c000.arrow", 16)
    'part-00017-c…row'
    """
    text = printable(path, 4096)  # the longest path there is
    if cells(text) <= width:
        return text
    first, _, _ = text.partition("/")
    _, _, name = text.rpartition("/")
    for candidate in (f"{first}/…/{name}", f"…/{name}", name):
        if cells(candidate) <= width:
            return candidate
    tail = (width - 1) // 4
    head = width - 1 - tail
    return f"{cut(name, head)}…{cut(name[::-1], tail)[::-1]}"[:width]


def cut(text: str, width: int) -> str:
    """The beginning of ``text``, at most ``width`` columns wide."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:index]
    return text


def fit(text: str, width: int) -> str:
    """``text`` padded or cut to exactly ``width`` columns."""
    kept = text if cells(text) <= width else cut(text, width)
    return kept + " " * (width - cells(kept))


def failed_where(url: str | None, line: int | None) -> str:
    """The link of a failure, and its line in the manifest, if they are known."""
    return (f" from {printable(url, 1000)}" if url else "") + (f", line {line:,}" if line else "")


def kind_word(kind: str, http_status: int | None = None) -> str:
    """What a kind of failure means to a person, with the next step where there is only that one.

    What records call expired may as well have been without a login.
    """
    if kind == "refused" and http_status in (404, 410):
        return "there is no such file; check the link"
    return "no access" if kind == "expired" else kind
