"""The documents about attempts, files and runs. Metrics files and ``--json`` hold them.

Times ``…_s`` are seconds since the run's start on the monotonic clock, sizes are bytes, rates bytes a second.
No record carries a header, a token or a URL, except for the redacted URL of a failed entry. ``id`` is the
entry's index in its manifest.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

Status = Literal["done", "skipped", "failed", "cancelled"]
Outcome = Literal["done", "straggler", "stalled", "error", "expired", "lost", "moved"]


def round_s(seconds: float) -> float:
    """Round seconds to microseconds, in a fifth of the time that ``round`` takes; not for values below 0."""
    return int(seconds * 1e6 + 0.5) / 1e6


def round_rate(rate_bps: float) -> float:
    """Round a rate to a tenth of a byte a second, as ``round_s`` rounds."""
    return int(rate_bps * 10 + 0.5) / 10


NOT_DECODED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of msgspec for bytes that are no document: another shape, not UTF-8, nested thousands deep."""


Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer of a document. Hundreds of digits are damage, and cannot be converted to a float."""

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number of things, or of bytes: never negative."""

Small = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
SmallCount = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
"""A status, a number of tries or of places: a column of 32 bits has room for it."""

Seconds = Annotated[float, msgspec.Meta(ge=-1e10, le=1e10)]
"""A time or a duration that was measured. It may be just below 0 where two machines' clocks differ; 300 years
are damage, and no chart can show them beside a second.
"""

Real = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
"""A rate or a projection, which may be far away, as a rate may be near 0. Sums of these stay finite."""


CANCELLED = frozenset({"straggler", "lost"})
"""Outcomes of attempts that mitigation has ended; ``show/saved_time.py`` judges these."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One attempt at an entry, as in the metrics file. ``samples`` are (seconds, bytes so far).

    ``helper``: an attempt that brings a further segment of the entry. ``to_byte``: the end of its range;
    None: the end of the file. ``held_s``: for how long a rate limit or the volume kept it from reading.
    ``saved_s`` and ``wasted_bytes`` are the verdict on a cancelled attempt (``report.saved_time``).
    ``connect_s``: how long its connections took to be made; None: it used one that was there. ``unanswered``:
    it was broken off while the handshake of its connection had no answer. ``full_link``: of a helper and of a
    cancelled attempt: the link of its host was full, so others would have been faster without it.
    """

    n: Small
    start_s: Seconds
    first_byte_s: Seconds | None
    end_s: Seconds
    from_byte: Count
    bytes: Count
    http_status: Small | None
    outcome: Outcome
    error: str | None
    peer: str | None
    median_bps: Real | None
    expected_s: Real | None
    samples: list[tuple[Seconds, Count]]
    mirror: str | None = None  # the host, if it was not the entry's own
    projected_s: Real | None = None  # the time at which it would have ended without the cancellation
    to_byte: Count | None = None
    helper: bool = False
    content_type: str | None = None
    held_s: Seconds | None = None
    saved_s: Real | None = None
    wasted_bytes: Count | None = None
    connect_s: Seconds | None = None
    unanswered: bool = False
    full_link: bool = False


class FileRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The whole history of one entry: a line of the metrics file (``cfetch.file/1``).

    Only a failed entry has ``url``, without query and login, and ``line``, its line in the manifest.
    ``columns`` are the kept columns of its row in the manifest. ``executor`` brought it, in its ``task``,
    if the run had several tasks.
    """

    schema: str = "cfetch.file/1"
    instant: str
    id: Int64
    offset: Int64
    path: str
    host: str
    size_bytes: Count | None
    bytes: Count
    status: Status
    verified: str
    volume: str
    queued_s: Seconds
    start_s: Seconds
    end_s: Seconds
    rate_bps: Real
    stragglers: SmallCount
    attempts: list[AttemptRecord]
    error_kind: str | None = None
    error: str | None = None
    batch: str | None = None
    url: str | msgspec.UnsetType = msgspec.UNSET
    line: Int64 | msgspec.UnsetType = msgspec.UNSET
    columns: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    executor: str | msgspec.UnsetType = msgspec.UNSET
    task: Int64 | msgspec.UnsetType = msgspec.UNSET

    @property
    def http_status(self) -> int | None:
        """The last status that a server has sent for the entry."""
        statuses = (attempt.http_status for attempt in reversed(self.attempts))
        return next((status for status in statuses if status is not None), None)

    @property
    def known_size_bytes(self) -> int | None:
        """The size that the manifest states, or else that of the file in place."""
        return self.bytes if self.size_bytes is None and self.is_in_place else self.size_bytes

    @property
    def is_in_place(self) -> bool:
        """Whether the file is published."""
        return self.status in ("done", "skipped")


_LINE = msgspec.json.Decoder(FileRecord)
_ENCODER = msgspec.json.Encoder()
_CHUNK_BYTES = 1 << 20


class RecordBlock:
    """Records of files as lines of JSON within an open ``file``, from ``begin`` on; read anew each time."""

    def __init__(self, file: BinaryIO, begin: int, size_bytes: int) -> None:
        self._file = file
        self._begin = begin
        self._size_bytes = size_bytes

    def read_lines(self) -> Iterator[bytes]:
        """The lines as they are, about a megabyte of them at a time. Raises OSError."""
        position, end = self._begin, self._begin + self._size_bytes
        while position < end:
            text = self._read_from(position, end - position)
            if not text:
                return
            position += len(text)
            yield text

    def _read_from(self, position: int, most_bytes: int) -> bytes:
        self._file.seek(position)
        text = self._file.read(min(most_bytes, _CHUNK_BYTES))
        if len(text) < most_bytes and not text.endswith(b"\n"):
            text += self._file.readline(most_bytes - len(text))
        return text

    def read_records(self) -> Iterator[FileRecord]:
        """The records. Raises OSError, or one of ``NOT_DECODED``."""
        for text in self.read_lines():
            yield from map(_LINE.decode, text.splitlines())


class RecordList(RecordBlock):
    """Records of files that are in memory; as lines of JSON only for those who ask."""

    def __init__(self, records: Sequence[FileRecord]) -> None:
        self._records = records

    def read_lines(self) -> Iterator[bytes]:
        """All lines at once."""
        yield _ENCODER.encode_lines(self._records)

    def read_records(self) -> Iterator[FileRecord]:
        """The records as they are."""
        yield from self._records


class Unstated(msgspec.Struct):
    """Entries that have ended and whose size the manifest does not state, and their bytes in place.

    No size was ever known of ``sizeless`` ones: they failed, or stood in place and were not measured.
    """

    entries: int = 0
    bytes: int = 0
    sizeless: int = 0

    def add(self, record: FileRecord) -> None:
        """Count an entry."""
        self.entries += 1
        self.bytes += record.bytes if record.is_in_place else 0
        self.sizeless += record.status != "done" and not record.bytes

    def __add__(self, other: "Unstated") -> "Unstated":
        return Unstated(
            self.entries + other.entries, self.bytes + other.bytes, self.sizeless + other.sizeless
        )

    def __bool__(self) -> bool:
        return self.entries > 0


class Sums(msgspec.Struct):
    """Entries by status, with their bytes, retries and stragglers.

    ``done_bytes`` and ``skipped_bytes`` are in place; ``missing_bytes`` sums the stated sizes of entries that
    failed or were cancelled. ``cancelled_attempts`` are stragglers that ended before their last byte;
    ``mitigation_wasted_bytes`` are the bytes that they threw away. ``hedged`` entries had two attempts
    at the same time. ``end_s`` is the end of the last entry.
    ``unstated`` are those whose size the manifest does not state.
    """

    done: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    done_bytes: int = 0
    skipped_bytes: int = 0
    missing_bytes: int = 0
    fetched_bytes: int = 0
    wasted_bytes: int = 0
    retries: int = 0
    stragglers: int = 0
    cancelled_attempts: int = 0
    mitigation_wasted_bytes: int = 0
    hedged: int = 0
    unstated: Unstated = msgspec.field(default_factory=Unstated)
    end_s: float = 0.0


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of many records once they are added up (``report.digest``).

    ``done``: files by host. ``busy_s``, ``bytes`` and ``requests`` of attempts, by the host that they asked;
    ``held_s`` in all, ``last_byte_s``. ``latest``: the records that ended last, without their samples.
    ``jobs`` and ``merged_jobs`` are those of ``report.makespan``, at most ``peak`` at a time;
    ``is_mitigated``: mitigation has changed one. ``fades_s``: of attempts that were slow and came back.
    """

    sums: Sums
    done: dict[str, int]
    busy_s: dict[str, float]
    bytes: dict[str, int]
    requests: dict[str, int]
    held_s: float
    last_byte_s: float
    latest: list[FileRecord]
    jobs: list[tuple[float, float, float]]
    merged_jobs: list[tuple[float, float, float]]
    peak: int
    is_mitigated: bool
    fades_s: list[float] = []


class EventRecord(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag="cfetch.event/1"
):
    """An event that affected the speed of the run: a line of the metrics file (``cfetch.event/1``).

    ``kind``: see ``report.event_records``; a later version may have others. ``places``: a host's new limit,
    instead of ``before``. ``seconds``: the length of a pause or of a slowdown. ``reason`` is for a person.
    """

    kind: str
    t_s: Seconds
    host: str | None = None
    volume: str | None = None
    id: Int64 | None = None
    path: str | None = None
    places: SmallCount | None = None
    before: Small | None = None
    seconds: Seconds | None = None
    reason: str | None = None


class Tail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cause that decided the end of a run: ``bound`` is its name (``report.ending``).

    In the last ``seconds``, ``idle_places`` had no work, on average, and ``files`` were under way. ``id``,
    ``path``, ``host`` and ``volume`` are of the entry that ended last. ``rate_bps`` was its rate in these
    seconds, and ``usual_bps`` is the usual rate of its host; ``fresh`` connections were no faster;
    ``helpers`` brought segments of it. ``limit``: the limit that was reached. ``reason`` is for a person.
    ``failed``: why it failed, in a word. Up to ``at_once`` connections brought it at a time, of the
    ``segments`` that the run allowed (0: not known). ``flushes``: files were flushed.
    """

    bound: str = "nothing"
    seconds: Seconds = 0.0
    idle_places: Real = 0.0
    files: Count = 0
    id: Int64 | None = None
    path: str | None = None
    host: str | None = None
    volume: str | None = None
    size_bytes: Count | None = None
    rate_bps: Real | None = None
    usual_bps: Real | None = None
    fresh: Count = 0
    helpers: Count = 0
    limit: Count | None = None
    reason: str | None = None
    failed: str | None = None
    at_once: Count = 0
    segments: Count = 0
    flushes: bool = True


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="cfetch.end/1"):
    """How a run ended: the last line of its metrics (``cfetch.end/1``), written once the plan is settled.

    ``policy``: adaptive, cloudfetch or none; ``places``: attempts at a time at the start; ``most``: the run
    might raise ``places`` up to this, 0: not at all; ``widths``: places of hosts, if they have changed.
    ``saved_s``: how much shorter mitigation has made the run.
    """

    instant: str
    t_s: Seconds
    status: Literal["completed", "partial", "failed", "interrupted"]
    exit_code: Small
    done: Count
    skipped: Count
    failed: Count
    cancelled: Count
    bytes: Count
    wasted_bytes: Count
    retries: Count
    stragglers: Count
    saved_s: Real
    policy: str
    places: Count
    most: Count = 0
    widths: dict[str, Count]
    tail: Tail


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``cfetch download --json`` prints (``cfetch.summary/1``).

    It has ``volumes`` if there are several. ``failures_left_out``: the number of failures that are not
    listed. ``failures_allowed``: with up to so many failures, the exit code is 0. ``reason``: what ended the
    run before its last entry. ``completed_by_other``: meanwhile another run has completed the plan, with so
    many files in place; ``files`` are those of this run.
    """

    class Files(msgspec.Struct, frozen=True, kw_only=True):
        total: int
        done: int
        skipped: int
        failed: int

    class Bytes(msgspec.Struct, frozen=True, kw_only=True):
        total: int
        fetched: int
        wasted: int

    class Stragglers(msgspec.Struct, frozen=True, kw_only=True):
        """``saved_s``: how much shorter mitigation has made the run; below 0: longer (``report.makespan``).

        Cancelled attempts threw away ``wasted_bytes``. ``hedged`` files were requested a second time
        while the first request went on.
        """

        detected: int
        cancelled: int
        hedged: int = 0
        saved_s: float = 0.0
        wasted_bytes: int = 0

    class Fallback(msgspec.Struct, frozen=True, kw_only=True):
        triggered: bool
        restored: bool

    class Failure(msgspec.Struct, frozen=True, kw_only=True, dict=True):
        """A failed entry; ``url`` is redacted, ``line`` is in the manifest, ``http_status`` is the last."""

        id: int
        path: str
        kind: str
        message: str
        url: str | None = None
        http_status: int | None = None
        line: int | None = None

        @property
        def entry(self) -> Any:  # noqa: ANN401 - a ``cfetch.Entry``, of a room above this one
            """The ``cfetch.Entry`` with the whole link, to be downloaded again; None outside the library.

            It is no field, so that no document has the link's secrets.
            """
            return self.__dict__.get("_entry")

        def carry(self, entry: object) -> None:
            """Let ``entry`` stand behind the failure."""
            self.__dict__["_entry"] = entry

    class Volume(msgspec.Struct, frozen=True, kw_only=True):
        """The list's files in place on a volume, the run's batches there, why it was out of use."""

        volume: str
        files: int
        bytes: int
        batches: int
        out_of_use: str | None

    class Feed(msgspec.Struct, frozen=True, kw_only=True):
        """The feed of ``cfetch follow``: the changes that were read, and the requests for them."""

        entries: int
        deletes: int
        pages: int
        gone: int
        info_requests: int
        info_requests_saved: int

    class Sync(msgspec.Struct, frozen=True, kw_only=True):
        """The result of ``cfetch sync``: ``changed`` files of another version, ``gone`` from the source.

        Where the list states no versions, a file of an earlier sync that was fetched again has changed.
        ``kept`` files were not deleted, as they were changed here.
        """

        changed: int
        gone: int
        deleted: int
        kept: int

    schema: str = "cfetch.summary/1"
    instant: str
    status: Literal["completed", "partial", "failed", "interrupted"]
    exit_code: int
    files: Files
    bytes: Bytes
    elapsed_s: float
    rate_bps: float
    retries: int
    stragglers: Stragglers
    fallback: Fallback
    failures: list[Failure]
    failures_left_out: int = 0
    failures_allowed: int = 0
    metrics: str | None
    reason: str | msgspec.UnsetType = msgspec.UNSET
    completed_by_other: int | msgspec.UnsetType = msgspec.UNSET
    volumes: list[Volume] | msgspec.UnsetType = msgspec.UNSET
    feed: Feed | msgspec.UnsetType = msgspec.UNSET
    sync: Sync | msgspec.UnsetType = msgspec.UNSET
