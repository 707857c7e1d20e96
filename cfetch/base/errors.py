"""Every error that cfetch raises, in one tree.

The type says whose fault the error is, whether a retry can help, and the exit code::

    CfetchError
    ├── UsageError              the caller's    never retried   exit 2
    │   ├── ConfigError             an option, a key or a value
    │   ├── ManifestError           rows of a manifest, all of them at once
    │   └── FeedError               a feed cannot be followed from here
    │       ├── FeedReplaced            it was deleted or made anew: the checkpoint is of another feed
    │       ├── CheckpointExpired       the entries after the checkpoint are not kept there any more
    │       └── HostileFeed             it contradicts itself: gaps, overlaps, forks, going back
    │           └── StaleAnswer             it is older than what was read: an old copy, or another source
    ├── SourceError             the server's    per entry       exit 1
    │   ├── Refused                 permanent: 404, wrong size, broken protocol
    │   ├── Expired                 the link is over: refresh it, then try again at once
    │   ├── Throttled               429, 503: slow down; may say for how long
    │   ├── Transient               resets, time-outs, 5xx: try again later
    │   │   ├── NotReady                the server fetches or makes the file: ask again when it says
    │   │   └── RangeRefused            the server gives no part of the file: ask for the whole
    │   ├── Straggling              far slower than the rest: cancelled, a fresh attempt takes over
    │   └── Corrupt                 arrived whole, but its hash or size is wrong
    ├── Blocked                 this machine's  per entry       exit 1: something stands in its place
    ├── Clashing                its list's      per entry       exit 1: another entry has its name
    ├── HeldBack                its batch's     per entry       exit 1: another file of the batch failed
    ├── Incomplete              a run's         for Python      files are missing at its end; has its summary
    ├── DeadlinePassed          nobody's        ends the run    exit 1: what is not in place is the next run's
    ├── LocalFault              this machine's  ends the run    exit 3
    │   ├── VolumeFault             one volume's    its batches go to another, where there is one
    │   ├── Unstorable              one file's      per entry       exit 1: no such name or size is taken here
    │   └── NewerRecord             the timeline's  a newer version of cfetch has written a record of it
    ├── Held                    another run's   ends the run    exit 4: a live run has the plan
    └── Interrupted             a person or a supervisor        exit 130, 143

Anything else that escapes is a bug in cfetch: exit 70.
"""

import traceback
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from cfetch.base.records import Summary


class _OfInstances(property):
    """A property that the class itself does not have: PyTorch calls ``kind(message=…)`` where it has one."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # noqa: ANN401 - a property's
        if instance is None:
            raise AttributeError
        return super().__get__(instance, owner)


class CfetchError(Exception):
    """The root. ``str(error)`` is one sentence for a person and never holds a secret."""

    exit_code: ClassVar[int] = 70
    retryable: ClassVar[bool] = False
    kind: ClassVar[str] = "bug"

    @_OfInstances
    def message(self) -> str:
        """What happened, to what, and what to do next."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy without a call of ``__init__``, whose parameters differ from class to class.

        Python would call it with ``args`` alone. A worker's error would then be lost on its way to a
        ``multiprocessing.Pool``, and the caller would wait for ever.
        """
        return (_rebuild, (type(self), self.args), self.__dict__)


def _rebuild(kind: type[CfetchError], args: tuple[object, ...]) -> CfetchError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class UsageError(CfetchError):
    """The caller asked for something that cannot be done; nothing was downloaded."""

    exit_code = 2
    kind = "usage"


class ConfigError(UsageError):
    """An option has an unknown name or a value out of its range. Names the key, the value and the range."""

    kind = "config"


class Problem(NamedTuple):
    """One fault of a manifest. ``line`` is 1-based; 0 means the document as a whole.

    ``source``: which manifest, where the error is about several.
    """

    line: int
    message: str
    source: str | None = None


class ManifestError(UsageError):
    """A manifest has faults. All of them are named at once, up to a cap on how many are kept."""

    kind = "manifest"

    def __init__(
        self,
        source: str,
        problems: tuple[Problem, ...],
        total: int,
        *,
        table: str | None = None,
        effect: str = "nothing was downloaded",
        way: str = "",
    ) -> None:
        """``table``: the file or directory that lists all of them. ``effect``: what did not happen.

        ``way``: the way out, where all of them have the same.
        """
        self.source = source
        self.problems = problems
        self.total = total
        self.table = table
        self.way = way
        places = (f"{p.source or source}:{p.line}" if p.line else p.source or source for p in problems)
        shown = "\n".join(f"  {place}: {p.message}" for place, p in zip(places, problems, strict=True))
        more = f"\n  … and {total - len(problems)} more" if total > len(problems) else ""
        count = "1 fault" if total == 1 else f"{total} faults"
        where = f"\n  all of them, as Parquet: {table}" if table else ""
        super().__init__(f"{source} has {count}{f'; {effect}' if effect else ''}:\n{shown}{more}{where}{way}")

    def with_effect(self, effect: str) -> "ManifestError":
        """The same faults, as a command says them that was not asked to download."""
        return type(self)(
            self.source, self.problems, self.total, table=self.table, effect=effect, way=self.way
        )


class FeedError(UsageError):
    """A feed cannot be followed from the checkpoint's position; no entry was skipped."""

    kind = "feed"


class FeedReplaced(FeedError):
    """The feed was deleted, and perhaps made anew under its name; the checkpoint is the old feed's."""

    kind = "feed_replaced"


class CheckpointExpired(FeedError):
    """The feed no longer keeps the entries after the checkpoint. The message says which were missed."""

    kind = "checkpoint_expired"


class HostileFeed(FeedError):
    """The feed contradicts itself or an earlier reply; the reply is not applied."""

    kind = "hostile_feed"


class StaleAnswer(HostileFeed):
    """The answer is older than an earlier one: an old copy's, or the source was made anew."""

    kind = "stale_answer"


class SourceError(CfetchError):
    """The source of one entry failed. ``http_status`` is the reply's, where there was a reply."""

    exit_code = 1
    kind = "source"

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status


class Refused(SourceError):
    """The reply is wrong for good: a retry would get the same."""

    kind = "refused"


class Expired(SourceError):
    """The link is over or revoked; a fresh one may work at once."""

    kind = "expired"
    retryable = True


class Throttled(SourceError):
    """The server asks us to slow down; ``retry_after_s`` is the pause that it wants, if it named one."""

    kind = "throttled"
    retryable = True

    def __init__(
        self, message: str, *, http_status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, http_status=http_status)
        self.retry_after_s = retry_after_s


class Transient(SourceError):
    """A reset, a time-out, a 5xx: the next try may work. ``retry_after_s``: the pause that it asks for."""

    kind = "transient"
    retryable = True

    def __init__(
        self, message: str, *, http_status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, http_status=http_status)
        self.retry_after_s = retry_after_s


class NotReady(Transient):
    """The server fetches or makes the file, and says when to ask again; it costs no try."""


class RangeRefused(Transient):
    """A part of the file was asked for, and the reply cannot be joined to the rest."""


class Straggling(SourceError):
    """The attempt was far slower than the others; it counts as no failure, and a fresh one takes over."""

    kind = "straggler"
    retryable = True


class Corrupt(SourceError):
    """The bytes arrived, but their hash or their number differs from the manifest's; they were discarded."""

    kind = "corrupt"
    retryable = True


class Blocked(CfetchError):
    """A directory, a symlink or a special file stands where an entry's file or directory should be."""

    exit_code = 1
    kind = "blocked"


class Incomplete(CfetchError):
    """A run that Python code asked for ended, and files are missing. ``summary`` says which, and why."""

    exit_code = 1
    kind = "incomplete"

    def __init__(self, message: str, summary: "Summary") -> None:
        super().__init__(message)
        self.summary = summary


class DeadlinePassed(CfetchError):
    """The time that the caller gave the run is over. Parts stay for the next one."""

    exit_code = 1
    kind = "deadline"


class LocalFault(CfetchError):
    """The machine cannot take the files: disk full, no permission, read-only. The cause is named."""

    exit_code = 3
    kind = "local"


class VolumeFault(LocalFault):
    """One volume cannot take the files. ``no_room``: it is full, but works otherwise.

    ``denied``: it permits this login less than that.
    """

    def __init__(self, message: str, *, no_room: bool = False, denied: bool = False) -> None:
        super().__init__(message)
        self.no_room = no_room
        self.denied = denied


class Vanished(VolumeFault):
    """Files that a run has put on a volume, or found there, cannot be read any more; ``left`` of them can."""

    def __init__(self, message: str, *, left: int = 0, no_room: bool = False, denied: bool = False) -> None:
        super().__init__(message, no_room=no_room, denied=denied)
        self.left = left


class Unstorable(LocalFault):
    """The file system of the destination does not take this one file: its name, size, place or quota.

    It is the entry's failure; the run goes on with the others.
    """

    exit_code = 1
    kind = "unstorable"


class NewerRecord(LocalFault):
    """A newer version of cfetch has written a record of the timeline; this version leaves it alone."""


class Clashing(CfetchError):
    """The entry's file would be one with another's at the destination, or a directory is to be there."""

    exit_code = 1
    kind = "clash"


class HeldBack(CfetchError):
    """The file arrived, but its batch is published as a whole, and another file of the batch failed."""

    exit_code = 1
    kind = "batch"


class Held(CfetchError):
    """Another live run has the plan. Names its host and pid, and the age of its last heartbeat in seconds.

    ``is_certain``: that run is known to be alive. Else it may be dead, and watching its heartbeat will show.
    ``in_place``: that run has completed the plan, with so many files in place.
    """

    exit_code = 4
    kind = "held"

    def __init__(
        self,
        message: str,
        *,
        host: str = "",
        pid: int = 0,
        age_s: float | None = None,
        is_certain: bool = True,
        in_place: int | None = None,
    ) -> None:
        super().__init__(message)
        self.in_place = in_place
        self.host = host
        self.pid = pid
        self.age_s = age_s
        self.is_certain = is_certain


class Interrupted(CfetchError):
    """A signal ended the run. Parts stay for the next one."""

    kind = "interrupted"

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"interrupted by signal {signal_number}; run the same command to go on")
        self.signal_number = signal_number


def explain_bug(bug: Exception) -> CfetchError:
    """Make the error that ends a run because of ``bug``, whose own text may hold a secret."""
    if isinstance(bug, MemoryError):
        return LocalFault("this machine has no memory left; lower --concurrency or --processes")
    return CfetchError(f"a bug in cfetch, or in a listener, ended the run: {type(bug).__name__}")


def describe_bug(bug: BaseException) -> list[str]:
    """Describe an error that nobody expected, by lines: its type, and the places that it passed.

    Its text is left out, as it may hold a secret. Of a group each error is described.
    """
    if isinstance(bug, BaseExceptionGroup):
        return [line for inner in bug.exceptions for line in describe_bug(inner)]
    frames = traceback.extract_tb(bug.__traceback__)
    places = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return [f"cfetch: a bug in cfetch, {type(bug).__name__}, at:", *places]
