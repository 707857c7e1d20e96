"""How long a reply asks its client to wait, from all of its headers. Pure.

``Retry-After`` counts first: seconds, also with a fraction as several services send it, or a date, which is
compared with the reply's own ``Date``, as the server's clock and this machine's may differ. Else the headers
of limits count, if they say that nothing remains: ``RateLimit`` (both forms of the IETF's draft),
``RateLimit-Reset``, ``X-RateLimit-Reset`` and their relatives. A reset is a number of seconds, or a time
since 1970.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC

from cfetch.base.errors import NotReady, Throttled, Transient
from cfetch.wire.headers import LIMITS, Headers, states_limits

LEAST_EPOCH_S = 1e8  # a reset beyond this is a time since 1970: no limit lasts for three years
LEAST_EPOCH_MS = 1e11
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_PAIR = re.compile(r"(?:^|[;,\s])(t|r|reset|remaining)=(\d+(?:\.\d+)?)(?=[;,\s]|$)", re.ASCII)
_NOTHING: list[str] = []


def find_pause_s(headers: Headers, wall_s: float) -> float | None:
    """Seconds that a refusal asks for, at the time ``wall_s``; None: it does not say."""
    now_s = _read_date_s(headers, "Date") or wall_s
    for text in headers.getall("Retry-After", _NOTHING):
        pause_s = _read_retry_after_s(text, now_s)
        if pause_s is not None:
            return pause_s
    for name in ("Retry-After-Ms", "X-Ms-Retry-After-Ms"):
        for text in headers.getall(name, _NOTHING):
            if (milliseconds := _read_number(text)) is not None:
                return milliseconds / 1000
    return max(_list_resets_s(headers, now_s), default=None)


def make_throttled(reason: str, status: int, headers: Headers, wall_s: float) -> Throttled:
    """Make the error of a reply that asks to slow down, with the pause that the reply states."""
    return Throttled(reason, http_status=status, retry_after_s=find_pause_s(headers, wall_s))


def make_transient(reason: str, status: int, headers: Headers, wall_s: float, *, is_made: bool) -> Transient:
    """Make the error of a reply after which the same request may work, with the pause that it states.

    ``is_made``: the server has begun to make or to fetch the file.
    """
    kind = NotReady if is_made else Transient
    return kind(reason, http_status=status, retry_after_s=find_pause_s(headers, wall_s))


def find_used_up_s(headers: Headers, wall_s: float) -> float:
    """Seconds until a host whose limit a reply states as used up may be asked again; 0: it is not used up."""
    if not states_limits(headers) or not _says_used_up(headers):
        return 0.0
    return max(_list_resets_s(headers, _read_date_s(headers, "Date") or wall_s), default=0.0)


def _says_used_up(headers: Headers) -> bool:
    """Whether a reply says that a limit of requests is used up."""
    if any(remaining == 0 for remaining, _ in _list_windows(headers)):
        return True
    return any(
        _read_number(text) == 0
        for prefix in LIMITS
        for text in headers.getall(f"{prefix}-Remaining", _NOTHING)
    )


def states_pause(headers: Headers) -> bool:
    """Whether a reply that would be a refusal says that it is one for the time being."""
    return bool(headers.getall("Retry-After", _NOTHING)) or _says_used_up(headers)


def _read_retry_after_s(text: str, now_s: float) -> float | None:
    """Seconds that a Retry-After header (RFC 9110 10.2.3) asks for; None: it is unreadable."""
    number = _read_number(text)
    if number is not None:
        return number
    date_s = _parse_date_s(text)
    return None if date_s is None else max(0.0, date_s - now_s)


def _list_resets_s(headers: Headers, now_s: float) -> Iterator[float]:
    """The seconds of all limits that are used up, or may be; one of which something remains is another."""
    windows = list(_list_windows(headers))
    shut = [seconds for remaining, seconds in windows if remaining == 0]
    yield from shut or [seconds for remaining, seconds in windows if remaining is None]
    for prefix in LIMITS:
        remaining = [_read_number(text) for text in headers.getall(f"{prefix}-Remaining", _NOTHING)]
        if any(remaining):
            continue
        for text in headers.getall(f"{prefix}-Reset-After", _NOTHING):
            if (seconds := _read_number(text)) is not None:
                yield seconds
        for text in headers.getall(f"{prefix}-Reset", _NOTHING):
            if (reset_s := _read_reset_s(text, now_s)) is not None:
                yield reset_s


def _list_windows(headers: Headers) -> Iterator[tuple[float | None, float]]:
    """What remains, and the seconds until the reset, of each limit in ``RateLimit``."""
    for value in headers.getall("RateLimit", _NOTHING):
        is_old = "reset=" in value  # an early draft: limit=10, remaining=0, reset=5
        for item in (value,) if is_old else value.split(","):
            fields = {name: float(number) for name, number in _PAIR.findall(item)}
            seconds = fields.get("reset" if is_old else "t")
            if seconds is not None:
                yield fields.get("remaining" if is_old else "r"), seconds


def _read_reset_s(text: str, now_s: float) -> float | None:
    number = _read_number(text)
    if number is None:
        date_s = _parse_date_s(text)
        return None if date_s is None else max(0.0, date_s - now_s)
    if number >= LEAST_EPOCH_MS:
        number /= 1000
    return max(0.0, number - now_s) if number >= LEAST_EPOCH_S else number


def _read_number(text: str) -> float | None:
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        return None
    number = float(stripped)  # a number too large for a float is infinity, and beyond every budget
    return None if math.isnan(number) else number


def _read_date_s(headers: Headers, name: str) -> float | None:
    stated = headers.getall(name, _NOTHING)
    return _parse_date_s(stated[0]) if stated else None


def _parse_date_s(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # few refusals need it

    try:
        date = parsedate_to_datetime(text.strip())
    except (ValueError, IndexError, OverflowError):
        return None
    return (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()
