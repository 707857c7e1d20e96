"""Words for dashboard and report: the cause that decided the end of a run, and advice.

Advice is a table from what set the end to what would have helped. An option that the run has used already, or
that does not help a file that failed, is no advice: then nothing is said.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cfetch.base.records import Tail
from cfetch.base.secret import printable
from cfetch.show.ending import LEARNED
from cfetch.show.format import duration, plural, rate, shorten, size

USUAL_SEGMENTS, MOST_SEGMENTS = 16, 1024  # the default and the range of --segments
NAME = 40  # columns for a path
LEAST_SHARED_BYTES = 1 << 20  # parts of a smaller file bring nothing that a person notices


class MitigationSetup(NamedTuple):
    """The setup of a run: its policy, and the hosts whose limits were not the usual ones at its end.

    ``most``: the run searched for more slots up to this number; 0: it did not search.
    """

    policy: str
    widths: Mapping[str, int]
    most: int = 0


class _Words(NamedTuple):
    """The cause of the end and its reason, which may be empty."""

    what: str
    why: str = ""


class Advice(NamedTuple):
    """A row: for ends with this ``bound``, if ``helps``, ``text`` would have made the run shorter."""

    name: str
    bound: str
    text: Callable[[Tail, MitigationSetup], str]
    helps: Callable[[Tail, MitigationSetup], bool]


def explain_tail(tail: Tail, setup: MitigationSetup) -> list[str]:
    """A short line for each: the cause of the end, its reason, and advice; none if no cause is known."""
    maker = _MAKERS.get(tail.bound)
    if maker is None:
        return []
    words = maker(tail, setup)
    row = find_advice(tail, setup)
    advice = "" if row is None else f"to change that: {row.text(tail, setup)}"
    return [line for line in (words.what, words.why, advice) if line]


def find_advice(tail: Tail, setup: MitigationSetup) -> Advice | None:
    """The first row of the table that would have helped; None: nothing that is known would have."""
    return next((row for row in ADVICE if row.bound == tail.bound and row.helps(tail, setup)), None)


def _of_flush(tail: Tail, _setup: MitigationSetup) -> _Words:
    return _Words(
        f"the last {duration(tail.seconds)} went to flushing and publishing on {_name(tail.volume)}"
    )


def _of_retry(tail: Tail, _setup: MitigationSetup) -> _Words:
    why = f"it waited to be tried again: {printable(tail.reason, 200)}" if tail.reason else ""
    return _Words(_last_file(tail), why or "it waited to be tried again")


def _of_pause(tail: Tail, _setup: MitigationSetup) -> _Words:
    if tail.path is None:
        return _Words(f"{_name(tail.host)} asked for pauses, {duration(tail.seconds)} in all")
    return _Words(_last_file(tail), f"{_name(tail.host)} had asked for a pause")


def _of_slow_file(tail: Tail, _setup: MitigationSetup) -> _Words:
    usual = f"{rate(tail.usual_bps)} is usual there"
    if tail.fresh:
        were = "connection was" if tail.fresh == 1 else "connections were"
        return _Words(_last_file(tail), f"slow itself: {tail.fresh} fresh {were} no faster; {usual}")
    return _Words(_last_file(tail), f"{usual}: {_name(tail.host)}")


def _of_large_file(tail: Tail, _setup: MitigationSetup) -> _Words:
    idle = round(tail.idle_places or 0)
    why = f"{plural(idle, 'slot')} {'was' if idle == 1 else 'were'} idle"
    if tail.size_bytes is not None:
        why = f"it is {size(tail.size_bytes)}, and {why}"
    return _Words(_last_file(tail), why)


def _of_host_limit(tail: Tail, setup: MitigationSetup) -> _Words:
    where = _name(tail.host)
    when = f" in the last {duration(tail.seconds)}" if tail.seconds else ""
    if reason := _learned_reason(tail, setup):
        return _Words(f"{where} got {tail.limit} at a time{when}", printable(reason, 200))
    if tail.limit == 1:
        return _Words(f"the only slot at {where} was busy{when}", "files waited for it")
    return _Words(f"all {tail.limit} slots at {where} were busy{when}", "files waited for one of them")


def _learned_reason(tail: Tail, setup: MitigationSetup) -> str | None:
    """Why the host got no more slots, if no option of the user's was the limit."""
    learned = LEARNED if tail.host is not None and setup.widths.get(tail.host) == tail.limit else None
    return tail.reason or learned  # older versions have recorded none


def _of_rate_limit(tail: Tail, _setup: MitigationSetup) -> _Words:
    return _Words(f"the run reached the limit of {_rate_option(tail)}, {rate(tail.limit)}")


def _rate_option(tail: Tail) -> str:
    return "--limit-rate" if tail.host is None else "--limit-rate-per-host"


def _of_request_rate(tail: Tail, _setup: MitigationSetup) -> _Words:
    return _Words(f"{_name(tail.host)} was asked as often as --rate allows")


def _of_disk(tail: Tail, _setup: MitigationSetup) -> _Words:
    return _Words(f"downloads waited for the disk for {duration(tail.seconds)}")


def _of_slots(tail: Tail, setup: MitigationSetup) -> _Words:
    is_one = tail.limit == 1
    what = f"{'the only slot was' if is_one else f'all {tail.limit} slots were'} busy until the end"
    if setup.most and (tail.limit or 0) < setup.most:
        return _Words(what, "more downloads at a time were no faster, or the run was too short to try")
    return _Words(what)


def _came(tail: Tail) -> bool:
    """Whether the last file came. What did not come failed for another reason than its speed."""
    return tail.failed is None and tail.rate_bps != 0


def _is_divisible(tail: Tail) -> bool:
    return tail.size_bytes is None or tail.size_bytes >= LEAST_SHARED_BYTES


def _lacked_segments(tail: Tail, setup: MitigationSetup) -> bool:
    """Whether ``--segments`` kept further connections from the file: it had as many as that allows."""
    used_all = 0 < tail.segments < MOST_SEGMENTS and tail.at_once >= tail.segments
    return used_all and setup.policy == "adaptive"


def _more_segments(tail: Tail, _setup: MitigationSetup) -> str:
    more = min(max(2 * tail.segments, USUAL_SEGMENTS), MOST_SEGMENTS)
    return f"more connections for one file: --segments {more}, if its server has ranges"


def _allow_segments(tail: Tail, setup: MitigationSetup) -> str:
    option = "--mitigation" if setup.policy == "none" else "--policy adaptive"
    also = f" with --segments {USUAL_SEGMENTS}" if tail.segments == 1 else ""
    return f"{option}{also} lets idle slots bring parts of such a file"


def _more_slots(tail: Tail, setup: MitigationSetup) -> str:
    option, slots = ("max-concurrency", setup.most) if setup.most else ("concurrency", tail.limit or 1)
    return f"more at a time may be faster: --{option} {2 * slots}"


def _say(text: str) -> Callable[[Tail, MitigationSetup], str]:
    return lambda _tail, _setup: text


def _always(_tail: Tail, _setup: MitigationSetup) -> bool:
    return True


ADVICE = (  # the first row of a bound that helps counts
    Advice(
        "flush",
        "flush",
        _say("a faster disk, or --durability crash, which flushes nothing"),
        lambda tail, _: tail.flushes,
    ),
    Advice("pause", "pause", _say("fewer at a time may need no pauses: a lower --per-host"), _always),
    Advice(
        "slow on every connection, of which there could be more",
        "slow file",
        _more_segments,
        lambda tail, setup: (
            _came(tail) and tail.fresh > 0 and tail.helpers > 0 and _lacked_segments(tail, setup)
        ),
    ),
    Advice(
        "slow on every connection",
        "slow file",
        _say("a mirror of the file in the manifest"),
        lambda tail, _: _came(tail) and tail.fresh > 0,
    ),
    Advice(
        "slow without mitigation",
        "slow file",
        _say("--mitigation tries a fresh connection for such a file"),
        lambda tail, setup: _came(tail) and setup.policy == "none",
    ),
    Advice(
        "slow under policy cloudfetch",
        "slow file",
        _say("--policy adaptive tries a fresh connection for such a file sooner"),
        lambda tail, setup: _came(tail) and setup.policy == "cloudfetch",
    ),
    Advice(
        "large, on all connections that it could have",
        "large file",
        _more_segments,
        lambda tail, setup: _came(tail) and _is_divisible(tail) and _lacked_segments(tail, setup),
    ),
    Advice(
        "large under a policy without segments",
        "large file",
        _allow_segments,
        lambda tail, setup: _came(tail) and _is_divisible(tail) and setup.policy != "adaptive",
    ),
    Advice(
        "host limit",
        "host limit",
        _say("a higher --per-host"),
        lambda tail, setup: _learned_reason(tail, setup) is None,
    ),
    Advice("rate limit", "rate limit", lambda tail, _: f"a higher {_rate_option(tail)}", _always),
    Advice("request rate", "request rate", _say("a higher --rate, if the host bears it"), _always),
    Advice(
        "disk with flushes",
        "disk",
        _say("more volumes (--to, several times), or --durability crash, which flushes nothing"),
        lambda tail, _: tail.flushes,
    ),
    Advice("disk without flushes", "disk", _say("more volumes (--to, several times)"), _always),
    Advice("places", "places", _more_slots, lambda tail, setup: (tail.limit or 0) >= setup.most),
)


def _last_file(tail: Tail) -> str:
    speed = "" if tail.rate_bps is None else f" at {rate(tail.rate_bps)}"
    path = shorten(tail.path or "", NAME)
    if tail.files > 1:
        return (
            f"the last {duration(tail.seconds)} went to {plural(tail.files, 'file')}, finally {path}{speed}"
        )
    return f"the last {duration(tail.seconds)} went to one file{speed}: {path}"


def _name(name: str | None) -> str:
    return printable(name or "the server", 200)


_MAKERS: dict[str, Callable[[Tail, MitigationSetup], _Words]] = {
    "flush": _of_flush,
    "retry": _of_retry,
    "pause": _of_pause,
    "slow file": _of_slow_file,
    "large file": _of_large_file,
    "host limit": _of_host_limit,
    "rate limit": _of_rate_limit,
    "request rate": _of_request_rate,
    "disk": _of_disk,
    "places": _of_slots,
}
