"""Text to numbers and back: sizes, durations and rates as people write them.

``16MiB`` and ``16M`` are 16 x 1024^2 bytes, ``16MB`` is 16 x 1000^2; ``1m30s`` is 90 seconds, a bare number
of a duration is seconds; ``10MiB/s`` is a rate.
"""

import math
import re

__all__ = ["duration_text", "parse_duration", "parse_size", "size_text"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b?)", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError for anything that is not a non-negative size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a size; write it like 64KiB, 16MiB or 1000000")
    number, power, unit = match.groups()
    base = 1000 if power and unit.lower() == "b" else 1024
    return round(float(number) * float(base ** _POWERS[power.lower()]))


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError for anything that is not a non-negative duration."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        return float(stripped)
    match = _DURATION.fullmatch(stripped)
    if not stripped or match is None:
        raise ValueError("not a duration; write it like 500ms, 30s, 5m or 1h30m")
    hours, minutes, seconds, millis = (float(group or 0) for group in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def size_text(size_bytes: int) -> str:
    """The shortest exact spelling that ``parse_size`` reads back."""
    for letter in "PTGMK":
        unit = 1024 ** _POWERS[letter.lower()]
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}iB"
    return str(size_bytes)


def duration_text(seconds: float) -> str:
    """An exact spelling that ``parse_duration`` reads back."""
    if math.isclose(seconds, round(seconds)) and seconds >= 60 and round(seconds) % 60 == 0:
        minutes = round(seconds) // 60
        return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
    return f"{seconds:g}s" if float(f"{seconds:g}") == seconds else f"{seconds!r}s"
