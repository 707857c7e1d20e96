"""The document of a report, which ``cfetch report --json`` prints (``cfetch.report/1``).

Times are seconds, sizes bytes, rates bytes per second, as in the metrics.
"""

import msgspec

from cfetch.base.records import EventRecord, Tail


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles by linear interpolation (numpy's default)."""

    p05: float
    p50: float
    p95: float
    p99: float


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run's headline. ``bytes`` came over the wire; ``wasted`` of them are in no file.

    ``retries`` are attempts after a failed one; cancelled stragglers are in ``stragglers``. A run is not
    ``complete`` while some of the ``planned`` files have no record: it was stopped or still goes on.
    ``saved_s``: how much shorter mitigation has made the run; below 0: longer (``cfetch.show.makespan``).
    ``tail``: the cause that decided its end (``cfetch.show.ending``). ``widths`` are the limits of hosts
    that differ from its concurrency; it searched for more places up to ``most``. ``events``: the first events
    that affected its speed, of ``events_total``. ``exit_code`` None: it is not recorded.
    """

    source: str
    instant: str
    wall_start: str
    version: str
    host: str
    concurrency: int
    planned: int
    complete: bool
    done: int
    skipped: int
    failed: int
    cancelled: int
    bytes: int
    wasted: int
    retries: int
    stragglers: int
    elapsed_s: float
    rate_bps: float
    saved_s: float = 0.0
    exit_code: int | None = None
    policy: str = ""
    most: int = 0
    widths: dict[str, int] = {}
    tail: Tail = Tail()
    events: list[EventRecord] = []
    events_total: int = 0

    @property
    def had_nothing_to_do(self) -> bool:
        """Whether all files were in place before; the run has neither a rate nor a chart."""
        return self.complete and self.skipped == self.planned


class SlowFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that took long from its first attempt to its end; ``why`` is the reason by its attempts.

    ``run`` is the number of its run in this report, from 1; several runs of one plan share their ``instant``.
    """

    instant: str
    run: int
    path: str
    host: str
    size_bytes: int | None
    elapsed_s: float
    rate_bps: float
    attempts: int
    why: str


class HostLine(msgspec.Struct, frozen=True, kw_only=True):
    """The rates and times of one host, over its files that are done."""

    host: str
    files: int
    bytes: int
    rate_bps: Percentiles
    elapsed_s: Percentiles
    first_byte_s: Percentiles | None


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Files whose rate lies in [``from_bps``, ``to_bps``)."""

    from_bps: float
    to_bps: float
    files: int


class Mitigation(msgspec.Struct, frozen=True, kw_only=True):
    """One cancelled attempt; ``cfetch.show.saved_time`` says how it is judged.

    ``projected_s`` is the time at which the attempt would have ended; None: unknown. ``finish_s`` None: the
    file never came. ``saved_s``: seconds by which the file came sooner; below 0: later.
    """

    path: str
    attempt: int
    rate_bps: float
    elapsed_s: float
    cancelled_s: float
    projected_s: float | None
    finish_s: float | None
    saved_s: float | None
    wasted_bytes: int


class Mitigations(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts cancelled as stragglers or lost to a second stream; ``shown``: those with most effect.

    There is no sum of the seconds by which files came sooner, as files run at the same time. The gain of a
    run is ``RunLine.saved_s``.
    """

    cancelled: int
    better: int
    worse: int
    unknown: int
    wasted_bytes: int
    shown: list[Mitigation]


class FailureKind(msgspec.Struct, frozen=True, kw_only=True):
    """Failed files of one kind, with one of them as example; ``hosts``: how many of each host, of some."""

    kind: str
    files: int
    hosts: dict[str, int]
    path: str
    message: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``cfetch report --json`` prints (``cfetch.report/1``)."""

    schema: str = "cfetch.report/1"
    runs: list[RunLine]
    slowest: list[SlowFile]
    hosts: list[HostLine]
    hosts_total: int
    throughput: list[Bin]
    mitigations: Mitigations
    failures: list[FailureKind]
