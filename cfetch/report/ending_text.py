"""Words for dashboard and report: the cause that decided the end of a run, and advice."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cfetch.records import Tail
from cfetch.report.ending import LEARNED
from cfetch.report.format import duration, plural, rate, shorten, size
from cfetch.secret import printable

NAME = 40  # columns for a path
LEAST_SHARED_BYTES = 1 << 20  # parts of a smaller file bring nothing that a person notices


class Setup(NamedTuple):
    """The setup of a run: its policy, and the hosts whose limits were not the usual ones at its end.

    ``most``: the run searched for more places up to this number; 0: it did not search.
    """

    policy: str
    widths: Mapping[str, int]
    most: int = 0


class _Words(NamedTuple):
    """The cause of the end, its reason, and advice; reason and advice may be empty."""

    what: str
    why: str = ""
    advice: str = ""


def explain_tail(tail: Tail, setup: Setup) -> list[str]:
    """A short line for each: the cause of the end, its reason, and advice; none if no cause is known."""
    maker = _MAKERS.get(tail.bound)
    if maker is None:
        return []
    words = maker(tail, setup)
    advice = f"to change that: {words.advice}" if words.advice else ""
    return [line for line in (words.what, words.why, advice) if line]


def _of_flush(tail: Tail, _setup: Setup) -> _Words:
    return _Words(
        f"the last {duration(tail.seconds)} went to flushing and publishing on {_name(tail.volume)}",
        advice="a faster disk, or --durability crash, which flushes nothing",
    )


def _of_retry(tail: Tail, _setup: Setup) -> _Words:
    why = f"it waited to be tried again: {printable(tail.reason, 200)}" if tail.reason else ""
    return _Words(_last_file(tail), why or "it waited to be tried again")


def _of_pause(tail: Tail, _setup: Setup) -> _Words:
    advice = "fewer at a time may need no pauses: a lower --per-host"
    if tail.path is None:
        return _Words(f"{_name(tail.host)} asked for pauses, {duration(tail.seconds)} in all", advice=advice)
    return _Words(_last_file(tail), f"{_name(tail.host)} had asked for a pause", advice)


def _of_slow_file(tail: Tail, setup: Setup) -> _Words:
    usual = f"{rate(tail.usual_bps)} is usual there"
    if tail.fresh:
        were = "connection was" if tail.fresh == 1 else "connections were"
        why = f"slow itself: {tail.fresh} fresh {were} no faster; {usual}"
        if tail.helpers:
            return _Words(_last_file(tail), why, "more connections for one file: --segments")
        return _Words(_last_file(tail), why, "a mirror of the file in the manifest")
    why = f"{usual}: {_name(tail.host)}"
    if setup.policy == "none":
        return _Words(_last_file(tail), why, "--mitigation tries a fresh connection for such a file")
    if setup.policy == "cloudfetch":
        return _Words(
            _last_file(tail), why, "--policy adaptive tries a fresh connection for such a file sooner"
        )
    return _Words(_last_file(tail), why)


def _of_large_file(tail: Tail, setup: Setup) -> _Words:
    why = f"{tail.idle_places:.0f} places were idle"
    if tail.size_bytes is not None:
        why = f"it is {size(tail.size_bytes)}, and {why}"
    if tail.rate_bps == 0 or (tail.size_bytes is not None and tail.size_bytes < LEAST_SHARED_BYTES):
        # nothing came: its failure says more than any advice; or it is too small to be brought in parts
        return _Words(_last_file(tail), why)
    if setup.policy == "adaptive":
        return _Words(
            _last_file(tail), why, "more connections for one file: --segments, if its server has ranges"
        )
    return _Words(_last_file(tail), why, "--policy adaptive lets idle places bring parts of such a file")


def _of_host_limit(tail: Tail, setup: Setup) -> _Words:
    where = _name(tail.host)
    when = f" in the last {duration(tail.seconds)}" if tail.seconds else ""
    learned = LEARNED if tail.host is not None and setup.widths.get(tail.host) == tail.limit else None
    if reason := tail.reason or learned:  # older versions have recorded none
        return _Words(f"{where} got {tail.limit} at a time{when}", printable(reason, 200))
    return _Words(
        f"all {tail.limit} places at {where} were busy{when}",
        "files waited for one of them",
        "a higher --per-host",
    )


def _of_rate_limit(tail: Tail, _setup: Setup) -> _Words:
    option = "--limit-rate" if tail.host is None else "--limit-rate-per-host"
    return _Words(
        f"the run was as fast as {option} lets it be, {rate(tail.limit)}", advice=f"a higher {option}"
    )


def _of_request_rate(tail: Tail, _setup: Setup) -> _Words:
    return _Words(
        f"{_name(tail.host)} was asked as often as --rate allows",
        advice="a higher --rate, if the host bears it",
    )


def _of_disk(tail: Tail, _setup: Setup) -> _Words:
    return _Words(
        f"downloads waited for the disk for {duration(tail.seconds)}",
        advice="more volumes (--to, several times), or --durability crash, which flushes nothing",
    )


def _of_places(tail: Tail, setup: Setup) -> _Words:
    what = f"all {tail.limit} places were busy until the end"
    if not setup.most:
        return _Words(what, advice=f"more at a time may be faster: --concurrency {2 * (tail.limit or 1)}")
    if (tail.limit or 0) < setup.most:
        return _Words(what, "with more at a time it was no faster, or there was no time to try")
    return _Words(what, advice=f"more at a time may be faster: --max-concurrency {2 * setup.most}")


def _last_file(tail: Tail) -> str:
    speed = "" if tail.rate_bps is None else f" at {rate(tail.rate_bps)}"
    path = shorten(tail.path or "", NAME)
    if tail.files > 1:
        return (
            f"the last {duration(tail.seconds)} were {plural(tail.files, 'file')}, at the end {path}{speed}"
        )
    return f"the last {duration(tail.seconds)} were one file{speed}: {path}"


def _name(name: str | None) -> str:
    return printable(name or "the server", 200)


_MAKERS: dict[str, Callable[[Tail, Setup], _Words]] = {
    "flush": _of_flush,
    "retry": _of_retry,
    "pause": _of_pause,
    "slow file": _of_slow_file,
    "large file": _of_large_file,
    "host limit": _of_host_limit,
    "rate limit": _of_rate_limit,
    "request rate": _of_request_rate,
    "disk": _of_disk,
    "places": _of_places,
}
