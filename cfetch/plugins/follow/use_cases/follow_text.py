"""The words of a follower about its own work, between the displays of its downloads. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from cfetch.base.secret import printable
from cfetch.show.format import plural

SHOWN_PATHS = 5
SHOWN_KEPT = 20


class FollowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch.follow-status/1``: a follower's distance from its feed.

    ``ranges``: the ranges in which changes wait; ``is_counted``: whether all changes were counted.
    ``seconds``: since the follower was last at the end. ``pending``: files that could not be had yet.
    ``left_out``: files that the publisher has and the feed lacks, with reasons.
    """

    class Lag(msgspec.Struct, frozen=True, kw_only=True):
        range: str
        entries: int
        seconds: float | None

    schema: str = "cfetch.follow-status/1"
    feed: str
    is_running: bool
    is_resyncing: bool
    entries: int
    is_counted: bool
    ranges: list[Lag]
    in_step_s: float | None
    pending: int
    pending_paths: list[str]
    left_out: list[str]
    error: str
    error_s: float | None


def step_text(upserts: int, deletes: int, *, applies_deletes: bool) -> str:
    """The changes of a step that begins.

    >>> step_text(3, 1, applies_deletes=False)
    'feed: 3 new or changed files, 1 deleted file kept (see --delete)'
    """
    kept = "" if applies_deletes else " kept (see --delete)"
    parts = [
        f"{plural(upserts, 'new or changed file')}" if upserts else "",
        f"{plural(deletes, 'deleted file')}{kept}" if deletes else "",
    ]
    return f"feed: {', '.join(filter(None, parts))}"


def resync_text(
    files: int, others: int, foreign: int, *, applies_deletes: bool, lists_all: bool = True
) -> str:
    """The comparison of all files with the feed.

    ``foreign``: files that this follower has not put here. ``lists_all``: the feed names all of its files.

    >>> resync_text(3, 0, 0, applies_deletes=False)
    'feed: has 3 files, which are compared with those here'
    >>> resync_text(3, 2, 0, applies_deletes=False)
    'feed: has 3 files, which are compared with those here; 2 files that it lacks kept (see --delete)'
    >>> resync_text(3, 1, 0, applies_deletes=False, lists_all=False)
    'feed: has 3 files, which are compared with those here; 1 file that it lacks kept, as it may forget files'
    >>> resync_text(3, 0, 1, applies_deletes=True)
    'feed: has 3 files, which are compared with those here; 1 file that it lacks kept, as others put it here'
    """
    kept = "kept (see --delete)" if lists_all else "kept, as it may forget files"
    fate = "to be deleted" if applies_deletes else kept
    lacking = f"; {plural(others, 'file')} that it lacks {fate}" if others else ""
    if foreign:
        lacking += f"; {plural(foreign, 'file')} that it lacks kept, as others put {_it(foreign)} here"
    return f"feed: has {plural(files, 'file')}, which are compared with those here{lacking}"


def _it(number: int) -> str:
    return "it" if number == 1 else "them"


def kept_lines(paths: Sequence[str]) -> list[str]:
    """Files that the feed has changed or deleted, and that stay here.

    >>> kept_lines(["a"])
    ['feed: kept, as this follower did not put it here, or it was changed here (see --adopt): a']
    """
    lines = [
        f"feed: kept, as this follower did not put it here, or it was changed here (see --adopt): {name}"
        for name in map(printable, paths[:SHOWN_KEPT])
    ]
    more = len(paths) - SHOWN_KEPT
    return lines if more <= 0 else [*lines, f"feed: kept for the same reason: {plural(more, 'more file')}"]


def adopted_text(files: int) -> str:
    """Files that a person has declared to be of the feed.

    >>> adopted_text(2)
    'feed: 2 files are taken for files of the feed from now on'
    """
    are = "is" if files == 1 else "are"
    return f"feed: {plural(files, 'file')} {are} taken for files of the feed from now on"


def no_record_text() -> str:
    """A follower goes on that has no record of the files that it has put here."""
    return (
        "feed: no record tells which files this follower has put here, as earlier versions of cfetch kept "
        "none: these files are neither replaced nor deleted; if all files here are of the feed, give --adopt "
        "once"
    )


def generation_text(files: int) -> str:
    """A generation of the mirror has been published.

    >>> generation_text(1200)
    'feed: 1,200 files are published as one generation'
    """
    return f"feed: {plural(files, 'file')} {'is' if files == 1 else 'are'} published as one generation"


def moved_text(files: int) -> str:
    """Files that the source has renamed.

    >>> moved_text(2)
    'feed: 2 files were renamed and are not fetched again'
    """
    were = "was renamed and is" if files == 1 else "were renamed and are"
    return f"feed: {plural(files, 'file')} {were} not fetched again"


def idle_text(poll_s: float, pending: int) -> str:
    """Nothing is new; said once, until something is."""
    waiting = f"; {plural(pending, 'file')} cannot be had now and will be tried again" if pending else ""
    return f"feed: nothing new, asking every {poll_s:g} s (Ctrl-C stops){waiting}"


def end_text(upserts: int, deletes: int, pending: int, *, is_stopped: bool) -> str:
    """The end of a follower, and all that this run has read."""
    where = "stopped" if is_stopped else "at its end"
    missing = f", {plural(pending, 'file')} missing" if pending else ""
    then = "; the same command goes on from here" if is_stopped else ""
    read = f"{plural(upserts, 'new or changed file')} and {plural(deletes, 'deleted file')}"
    return f"feed: {where}, after {read} in this run{missing}{then}"


def mirror_text(files: int | None, most: int, in_step_s: float | None, *, is_stopped: bool) -> str:
    """The state of the mirror, whichever runs have made it; more than ``most`` files are not counted.

    >>> mirror_text(1200, 100_000, None, is_stopped=False)
    'feed: 1,200 files are here; nothing of the feed is left to read'
    """
    if not is_stopped:
        position = "nothing of the feed is left to read"
    elif in_step_s is None:
        position = "the end of the feed was never reached (see --status)"
    else:
        position = f"last at the end of the feed: {_show_time(in_step_s)} (see --status)"
    if files is None:
        return f"feed: {position}"
    number = f"more than {plural(most, 'file')}" if files > most else plural(files, "file")
    return f"feed: {number} {'is' if files == 1 else 'are'} here; {position}"


def status_lines(status: FollowStatus) -> list[str]:
    """Say how far a follower is from its feed."""
    more = "" if status.is_counted else "at least "
    last = "never" if status.in_step_s is None else _show_time(status.in_step_s)
    lines = [
        f"a follower is {'running' if status.is_running else 'not running'}"
        + (", and compares all files" if status.is_resyncing else ""),
        f"{more}{plural(status.entries, 'change')} to be read; at the end of the feed last: {last}",
    ]
    for lag in status.ranges:
        since = "" if lag.seconds is None else f", {lag.seconds:,.0f} s after the follower was at the end"
        lines.append(f"  range {printable(lag.range)}: {plural(lag.entries, 'change')}{since}")
    if status.pending:
        shown = ", ".join(printable(path) for path in status.pending_paths[:SHOWN_PATHS])
        lines.append(f"{plural(status.pending, 'file')} could not be had yet: {shown}")
    lines += [f"left out: {text}" for text in status.left_out]
    if status.error:
        when = "" if status.error_s is None else f" at {_show_time(status.error_s)}"
        lines.append(f"last error{when}: {status.error}")
    return lines


def _show_time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
