"""The typed facts that the engine emits; dashboard, metrics, tracing and logs read nothing else.

Times ``t_s`` and ``…_s`` are seconds since the run's start on the monotonic clock, sizes are bytes, rates
bytes per second. No event carries a URL, a header or a token. ``id`` is the entry's index in its manifest.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from cfetch.base.records import Digest, EndRecord, FileRecord, RecordBlock, Summary

State = Literal["ok", "slow", "straggler", "retrying", "last try", "segment"]
Breaker = Literal["closed", "open", "half-open"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Something that happened at ``t_s``."""

    t_s: float


MEMORY = "memory"  # the destination of files that are handed to a reader; directories have absolute names
STARTING = "starting "  # the begin of a note about an engine that takes long to be there, before its name


class RunStarted(Event, frozen=True, kw_only=True):
    """The plan is frozen and the workers start. ``settings`` holds no secrets.

    ``destination`` is for a person, ``destinations`` names each volume.
    """

    instant: str
    wall_start: str
    version: str
    host: str
    files: int
    bytes_known: int
    sizes_unknown: int
    concurrency: int
    destination: str
    settings: dict[str, object]
    destinations: tuple[str, ...] = ()


class BaselineView(msgspec.Struct, frozen=True, kw_only=True):
    """The normal speed, the entries that have finished, and how many the baseline needs."""

    median_bps: float | None
    finished: int
    required: int


class ActiveAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt under way. ``expected_s`` is the limit after which it counts as a straggler, where known.

    ``is_spared``: it is not cancelled, however slow it is. The first ``from_byte`` of its
    ``bytes`` came before it. ``file_size_bytes`` and ``file_bytes`` are the size of the whole file, and what
    is held of it, also where several attempts bring a segment each; ``is_size_learned``: a reply has stated
    the size, and the manifest has not. ``connections``: how many attempts a view has folded into this one.
    """

    id: int
    path: str
    host: str
    size_bytes: int | None
    bytes: int
    rate_bps: float
    elapsed_s: float
    expected_s: float | None
    n: int
    state: State
    executor: str | None = None
    is_spared: bool = False
    from_byte: int = 0
    file_size_bytes: int | None = None
    file_bytes: int = 0
    is_size_learned: bool = False
    connections: int = 1


class ExecutorView(msgspec.Struct, frozen=True, kw_only=True):
    """One executor of a run on a cluster: tasks under way, files ended, bytes a second now.

    ``fraction``: its speed as a fraction of the others' speed, if the executor is slow as a whole; else None.
    """

    name: str
    tasks: int
    files: int
    rate_bps: float
    fraction: float | None


class VolumeView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one volume: ``load_bytes`` are placed and unfinished, ``running`` and ``queued`` batches.

    ``load_bytes`` has a guess for files of unknown size, and ``load_files`` counts the files. ``reason`` is
    why the breaker opened. ``free_bytes`` None: without a known limit.
    """

    name: str
    load_bytes: int
    load_files: int
    running: int
    queued: int
    speed_bps: float
    breaker: Breaker
    reason: str | None
    free_bytes: int | None
    batches_done: int
    bytes_done: int


class Progress(Event, frozen=True, kw_only=True):
    """The run's numbers, a few times a second.

    ``files`` are all entries of the run, ``bytes_known`` the sum of their sizes as far as the manifest or a
    reply has stated them until now, and ``sizes_unknown`` counts the others. ``bytes_total`` and
    ``bytes_in_hand`` are what a progress bar shows.

    ``bytes_active``: held of entries that have not ended, also while they wait for a try or to be published.

    ``whole``: entries that have come whole and wait for their names, which are given in groups.

    ``bytes_adopted`` come from parts of an earlier run; the other byte counts include them. ``volumes`` is
    empty for a single volume without batches. ``executors`` are the executors of a cluster that report. With
    many executors, ``active`` has the attempts worth showing, and ``unshown`` counts the others.
    """

    done: int
    skipped: int
    failed: int
    retries: int
    bytes_done: int
    bytes_active: int
    bytes_wasted: int
    active: list[ActiveAttempt]
    waiting: int
    baseline: BaselineView
    stragglers: int
    sequential: bool
    bytes_adopted: int = 0
    whole: int = 0
    volumes: list[VolumeView] = []
    executors: list[ExecutorView] = []
    unshown: int = 0
    files: int = 0
    bytes_known: int = 0
    sizes_unknown: int = 0

    @property
    def bytes_total(self) -> int | None:
        """The size of all files together; None while a size is unknown."""
        return None if self.sizes_unknown or not self.files else self.bytes_known

    @property
    def bytes_in_hand(self) -> int:
        """Bytes of the files that are held, those of attempts under way included."""
        return self.bytes_done + self.bytes_active


class StragglerCheck(Event, frozen=True, kw_only=True):
    """A check of all attempts that found stragglers."""

    active_downloads: int
    completed_downloads: int
    stragglers: list[int]
    median_bps: float | None


class StragglerCancelling(Event, frozen=True, kw_only=True):
    """An attempt has taken longer than ``expected_s`` and is about to be cancelled.

    ``is_probe``: all attempts are slow, and a fresh connection is to show whether it is faster.
    """

    id: int
    offset: int
    path: str
    elapsed_s: float
    expected_s: float
    host: str = ""
    is_probe: bool = False


class StragglerCancelled(Event, frozen=True, kw_only=True):
    """The attempt is over. ``completed`` is true when its last byte arrived while it was being cancelled."""

    id: int
    offset: int
    path: str
    size_bytes: int | None
    elapsed_s: float
    attempt: int
    kept_bytes: int
    completed: bool
    executor: str | None = None


class ExecutorSlow(Event, frozen=True, kw_only=True):
    """All files of ``executor`` come at ``fraction`` of the others' speed; it uses its own baseline now."""

    executor: str
    fraction: float


class UrlRefreshed(Event, frozen=True, kw_only=True):
    """An entry got a fresh link. ``url`` is redacted."""

    id: int
    offset: int
    url: str
    reason: Literal["expired", "straggler"]


class FallbackTriggered(Event, frozen=True, kw_only=True):
    """The stragglers have reached ``threshold``: new entries now run one at a time."""

    stragglers: int
    threshold: int


class WidthChanged(Event, frozen=True, kw_only=True):
    """The limit of ``host`` is now ``slots`` downloads at a time, not ``before``.

    ``reason`` is for a person. ``is_refused``: the host has refused further connections, so this concerns all
    processes of the run.
    """

    host: str
    slots: int
    before: int
    reason: str
    is_refused: bool = False


class SlowdownSeen(Event, frozen=True, kw_only=True):
    """All downloads are far too slow, so the cause is elsewhere, and none is cancelled; once per slowdown."""

    active: int
    reason: str


class MinRateWaived(Event, frozen=True, kw_only=True):
    """Attempts below ``--min-rate`` go on, as ``connections`` fresh ones were no faster.

    ``path``: the entry that goes on; None: all entries from ``host``, until one of them is faster.
    """

    host: str
    path: str | None
    connections: int
    min_rate_bps: int


class SlowdownOver(Event, frozen=True, kw_only=True):
    """Downloads have been as fast as usual again for some time; ``lasted_s`` since the slowdown began."""

    lasted_s: float


class RetryScheduled(Event, frozen=True, kw_only=True):
    """An attempt failed and another will start after ``delay_s``."""

    id: int
    path: str
    n: int
    delay_s: float
    error_kind: str
    error: str


class PlanWaiting(Event, frozen=True, kw_only=True):
    """The run waits for the plan's last owner, until it has ended or is certainly dead; that takes time."""

    reason: str


class HostPaused(Event, frozen=True, kw_only=True):
    """Nothing starts at ``host`` for ``pause_s`` seconds: it throttles, or fails again and again.

    ``is_failing``: the host fails again and again, and its breaker has opened. ``is_certain``: the host has
    asked for the pause, and so it concerns all processes of the run.
    """

    host: str
    pause_s: float
    reason: str
    is_failing: bool = False
    is_certain: bool = False


class BreakerClosed(Event, frozen=True, kw_only=True):
    """``host`` or ``volume``, whose breaker had opened, is in use again."""

    host: str | None = None
    volume: str | None = None


class RescueGivenUp(Event, frozen=True, kw_only=True):
    """An entry is left alone from now on, after ``rescues`` attempts at it were cancelled."""

    id: int
    path: str
    host: str
    rescues: int


class BatchPlaced(Event, frozen=True, kw_only=True):
    """A batch goes to ``volume``, with all its files; ``moved_from`` is the volume that had it before.

    ``size_bytes`` are without the ``sizes_unknown`` files of unknown size.
    """

    batch: str
    files: int
    size_bytes: int
    volume: str
    why: str
    sizes_unknown: int = 0
    moved_from: str | None = None


class VolumePaused(Event, frozen=True, kw_only=True):
    """``volume`` is out of use for ``pause_s`` seconds, and its batches go to others; None: for good.

    ``left``: of the files that were counted as in place there, so many can still be read; None: all.
    """

    volume: str
    pause_s: float | None
    reason: str
    left: int | None = None


class BatchCommitted(Event, frozen=True, kw_only=True):
    """All files of a batch are in place on ``volume``, and its record is durable."""

    batch: str
    files: int
    size_bytes: int
    volume: str


class RunNoted(Event, frozen=True, kw_only=True):
    """A note about the run, which goes on; or ``kind``: what is new of so many of its ``files``."""

    note: str
    kind: str = ""
    files: int = 0


class RouteEvent(Event, frozen=True, kw_only=True):
    """The cache of a feed's lineage had a hit or a miss, built or refreshed the lineage, or had a stale one.

    ``requests``: how many requests for information were sent (build, refresh) or saved (hit).
    """

    what: Literal["hit", "miss", "build", "refresh", "stale"]
    feed: str
    generation: str
    requests: int


class EntryFinished(Event, frozen=True, kw_only=True):
    """An entry is done, skipped, failed or cancelled; ``record`` is its whole history."""

    record: FileRecord


class EntriesFinished(Event, frozen=True, kw_only=True):
    """The entries ``ids`` are in place: a task has brought them, or they stood there. ``digest``: their sums.

    ``volume``: where, if the run has several.
    ``block`` has the records themselves, and can be read for as long as the event is handled.
    """

    ids: Sequence[int]
    digest: Digest
    block: RecordBlock
    volume: str = ""


class RunStopping(Event, frozen=True, kw_only=True):
    """No new entry starts; attempts under way are being closed. ``reason`` is for a person."""

    reason: str


class RunExplained(Event, frozen=True, kw_only=True):
    """All attempts have ended; ``record`` says how the run has ended, and which cause decided its end."""

    record: EndRecord


class RunFinished(Event, frozen=True, kw_only=True):
    """The run is over and everything is on disk."""

    summary: Summary


Listener = Callable[[Event], None]


def fan_out(*listeners: Listener) -> Listener:
    """One listener that passes each event to all of them, in order."""

    def emit(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return emit


def tell_each(listener: Listener) -> Listener:
    """One listener that passes on an ``EntryFinished`` for each entry, however it was brought."""

    def emit(event: Event) -> None:
        if isinstance(event, EntriesFinished):
            for record in event.block.read_records():
                listener(EntryFinished(t_s=record.end_s, record=record))
        else:
            listener(event)

    return emit
