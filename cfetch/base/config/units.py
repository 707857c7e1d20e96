"""Converts sizes, rates and durations, as people write them, to numbers and back.

``16MiB`` and ``16M`` are 16 x 1024^2 bytes, ``16MB`` is 16 x 1000^2. ``1m30s`` is 90 seconds; a duration
without a unit is in seconds. A rate is a size per second, with or without ``/s``.
"""

import re
from decimal import Decimal

_DIGITS = r"(\d{1,18}(?:\.\d+)?)"  # below 2^63; a larger number is a typing error
_SIZE = re.compile(_DIGITS + r"\s*(?:([kmgtp])(i?b?)|b?)", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(rf"(?:{_DIGITS}h)?(?:{_DIGITS}m)?(?:{_DIGITS}s)?(?:{_DIGITS}ms)?", re.ASCII)
_NUMBER = re.compile(_DIGITS, re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError for anything that is not a non-negative size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a size; write it like 64KiB, 16MiB or 1000000")
    number, power, unit = match.groups()
    base = 1000 if unit and unit.lower() == "b" else 1024
    factor: int = base ** _POWERS[(power or "").lower()]
    return round(Decimal(number) * factor)


def parse_rate(text: str) -> int:
    """Bytes per second. Raises ValueError for anything that is not a non-negative rate."""
    try:
        return parse_size(text.strip().removesuffix("/s"))
    except ValueError:
        raise ValueError("not a rate; write it like 500K, 10M or 1.5GiB, in bytes per second") from None


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
    """The shortest exact spelling that ``parse_size`` reads back, for sizes below 10^18 bytes."""
    for letter in "PTGMK":
        unit = 1024 ** _POWERS[letter.lower()]
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}iB"
    return str(size_bytes)


def duration_text(seconds: float) -> str:
    """An exact spelling that ``parse_duration`` reads back."""
    for letter, unit in (("h", 3600), ("m", 60)):
        if seconds and seconds % unit == 0:
            return f"{seconds // unit:.0f}{letter}"
    return f"{Decimal(repr(seconds)):f}".removesuffix(".0") + "s"
