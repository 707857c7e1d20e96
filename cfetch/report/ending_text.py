"""What set the end of a run, and what to change about it, in words, for dashboard and report."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cfetch.records import Tail
from cfetch.report.format import duration, plural, rate, shorten, size
from cfetch.secret import printable

NAME = 48  # columns of a path


class Setup(NamedTuple):
    """How a run was set up: its policy, and hosts that had other widths at its end than the usual."""

    policy: str
    widths: Mapping[str, int]


def explain_tail(tail: Tail, setup: Setup) -> list[str]:
    """What set the end, and what to change about it, as clauses; none where nothing stands out."""
    maker = _MAKERS.get(tail.bound)
    return [] if maker is None else [clause for clause in maker(tail, setup) if clause]


def label_advice(clauses: Sequence[str]) -> list[str]:
    """The clauses of ``explain_tail`` as lines of their own, the second marked as advice."""
    return [*clauses[:1], *(f"to change that: {clause}" for clause in clauses[1:])]


def _of_flush(tail: Tail, _setup: Setup) -> tuple[str, str]:
    return (
        f"the last {duration(tail.seconds)} went to flushing and publishing on {_name(tail.volume)}",
        "a faster disk, or --durability crash, which flushes nothing",
    )


def _of_retry(tail: Tail, _setup: Setup) -> tuple[str, str]:
    why = f": {printable(tail.reason, 200)}" if tail.reason else ""
    return f"{_last(tail)} {_path(tail)}, which waited to be tried again{why}", ""


def _of_pause(tail: Tail, _setup: Setup) -> tuple[str, str]:
    if tail.path is None:
        first = f"{_name(tail.host)} asked for pauses of {duration(tail.seconds)} in all"
    else:
        first = f"{_last(tail)} {_path(tail)}, while {_name(tail.host)} asked for a pause"
    return first, "fewer at a time may need no pauses: a lower --per-host"


def _of_slow_file(tail: Tail, setup: Setup) -> tuple[str, str]:
    first = (
        f"{_last(tail)} {_path(tail)} at {rate(tail.rate_bps)}, where {_name(tail.host)} usually gives "
        f"{rate(tail.usual_bps)}"
    )
    if tail.fresh:
        were = "connection was" if tail.fresh == 1 else "connections were"
        first += f": slow itself ({tail.fresh} fresh {were} no faster)"
        return first, "a mirror in the manifest would help"
    if setup.policy == "none":
        return first, "--mitigation tries a fresh connection for such a file"
    if setup.policy == "cloudfetch":
        return first, "--policy adaptive tries a fresh connection for such a file sooner"
    return first, ""


def _of_large_file(tail: Tail, setup: Setup) -> tuple[str, str]:
    first = f"{_last(tail)} {_path(tail)} of {size(tail.size_bytes)} at {rate(tail.rate_bps)}"
    first += f", {_idle(tail)}"
    if setup.policy != "adaptive":
        return first, "--policy adaptive lets idle places bring parts of such a file"
    return first, "more of its segments at a time: --segments, if its server has ranges"


def _of_host_limit(tail: Tail, setup: Setup) -> tuple[str, str]:
    where = _name(tail.host)
    if tail.host is not None and setup.widths.get(tail.host) == tail.limit:
        return f"{where} got {tail.limit} at a time: with more they were stragglers, or no faster", ""
    when = f" in the last {duration(tail.seconds)}" if tail.seconds else ""
    first = f"all {tail.limit} places at {where} were busy{when}, while files waited for one"
    return first, "a higher --per-host"


def _of_rate_limit(tail: Tail, _setup: Setup) -> tuple[str, str]:
    option = "--limit-rate" if tail.host is None else "--limit-rate-per-host"
    return f"the run was as fast as {option} lets it be, {rate(tail.limit)}", f"a higher {option}"


def _of_disk(tail: Tail, _setup: Setup) -> tuple[str, str]:
    return (
        f"downloads waited for the disk for {duration(tail.seconds)}",
        "more volumes (--to, several times), or --durability crash, which flushes nothing",
    )


def _of_places(tail: Tail, _setup: Setup) -> tuple[str, str]:
    return (
        f"all {tail.limit} places were busy until the end",
        f"more at a time may be faster: --concurrency {2 * (tail.limit or 1)}",
    )


def _last(tail: Tail) -> str:
    if tail.files > 1:
        return f"the last {duration(tail.seconds)} were {plural(tail.files, 'file')}, the last of them"
    return f"the last {duration(tail.seconds)} were one file,"


def _idle(tail: Tail) -> str:
    return f"while {tail.idle_places:.0f} places were idle"


def _path(tail: Tail) -> str:
    return shorten(tail.path or "", NAME)


def _name(name: str | None) -> str:
    return printable(name or "the server", 200)


_MAKERS: dict[str, Callable[[Tail, Setup], tuple[str, str]]] = {
    "flush": _of_flush,
    "retry": _of_retry,
    "pause": _of_pause,
    "slow file": _of_slow_file,
    "large file": _of_large_file,
    "host limit": _of_host_limit,
    "rate limit": _of_rate_limit,
    "disk": _of_disk,
    "places": _of_places,
}
