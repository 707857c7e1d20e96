"""An attempt under way: the state that the monitor watches and that the attempt's record is made of.

An attempt can be broken off from outside with a *reason*. Whether a cancellation was the monitor's
or the whole run's follows from that reason and from the task's own count, never from an exception's type.
"""

import asyncio
import math
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.base.errors import Expired, SourceError
from cfetch.base.records import CANCELLED, AttemptRecord, Outcome, round_s
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.wire.transport import Connecting, Response
from cfetch.wire.verdict import ReplyAction, Verdict

if TYPE_CHECKING:
    from cfetch.wire.tcp_figures import TcpFigures

MAX_TYPE_CHARS = 100  # of a Content-Type, in the metrics
MAX_SAMPLES = 32  # per attempt in the metrics; enough to see a rate collapse, ~1 KiB of JSON
FIRST_SAMPLE_GAP_S = 0.05
MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file shows the server's latency, not its speed


class BreakOff(Enum):
    """Why an attempt is ended from outside."""

    STRAGGLER = "straggler"
    STALLED = "stalled"
    BELOW_MIN_RATE = "below min-rate"
    OVERTAKEN = "overtaken"  # other attempts have brought its bytes
    DISMISSED = "dismissed"  # it is a helper, and its entry needs no help any more


class Unchanged(Exception):
    """The server says that the file in place is the same as its own."""


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """The task of an attempt: it is the ``n``-th at ``entry``, asks ``host`` and writes to a volume.

    ``mirror``: the host, if it is a mirror's. ``is_immune``: the attempt is not broken off as a straggler.
    ``refuses_pages``: the expected file is no web page. ``patience_s``: how long the first byte may take.
    """

    entry: Entry
    n: int
    host: str = ""
    mirror: str | None = None
    volume_index: int = 0
    is_immune: bool = False
    refuses_pages: bool = False
    patience_s: float = math.inf


class Grounds(NamedTuple):
    """The figures by which an attempt was judged a straggler.

    ``projected_s``: when it would have ended without being broken off; None if that is not known.
    """

    expected_s: float
    projected_s: float | None
    median_bps: float | None


class Samples(msgspec.Struct):
    """Bytes received over time, thinned to a bounded number. The next is due at ``next_s``."""

    points: list[tuple[float, int]] = []
    gap_s: float = FIRST_SAMPLE_GAP_S
    next_s: float = 0.0

    def add(self, now_s: float, received: int) -> None:
        """Keep one more sample; drop every other sample when there are too many."""
        self.points.append((round_s(now_s), received))
        if len(self.points) >= MAX_SAMPLES:
            del self.points[1::2]
            self.gap_s *= 2
        self.next_s = now_s + self.gap_s


class Hold:
    """Counts how long our own side (a rate limit, a full disk buffer) has kept an attempt from reading."""

    __slots__ = ("_before_s", "since_s")

    def __init__(self) -> None:
        self._before_s = 0.0
        self.since_s: float | None = None

    def end(self, now_s: float) -> None:
        """Note that it reads again."""
        self._before_s, self.since_s = self.total_s(now_s), None

    def total_s(self, now_s: float) -> float:
        """Seconds of all such times; a time that has not ended yet is included."""
        return self._before_s if self.since_s is None else self._before_s + now_s - self.since_s


class Reply(msgspec.Struct):
    """The server's answer.

    ``has_news_of_size``: the number of bytes to fetch is newly known or has changed, and the policy has not
    been told of it yet. ``carried_bytes``: the bytes that its connection had brought before. ``connecting``
    tells whether a connection for it is being made; None before the first request.
    """

    response: Response | None = None
    verdict: Verdict | None = None
    has_news_of_size: bool = False
    carried_bytes: int = 0
    connecting: Connecting | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether its body is what was asked for."""
        return self.verdict is not None and self.verdict.action is ReplyAction.ACCEPT

    def unread(self) -> bytes:
        """Take the bytes of an accepted body that have come and were not read; a second call gives none."""
        if self.response is None or self.verdict is None or not self.is_accepted:
            return b""
        if self.verdict.skip_bytes is not None or self.verdict.coding is not None:
            return b""  # these are other bytes than the file's
        return self.response.read_buffered()


class Interruption:
    """The way to end an attempt from outside: its task is cancelled, and ``reason`` says why.

    ``grounds``: why it was judged a straggler, if it was. ``slack_s``: if it needs no longer, there is none.
    ``full_link``: whether the link of its host is full.
    """

    __slots__ = ("_task", "_uncancelled", "full_link", "grounds", "reason", "slack_s")

    def __init__(self, task: asyncio.Task[None] | None) -> None:
        """``task``: the present one, if it is known: to ask for it takes 1 % of a small file's time."""
        task = task or asyncio.current_task()
        assert task is not None
        self._task = task
        self._uncancelled = task.cancelling()
        self.slack_s = 0.0
        self.full_link = False
        self.reason: BreakOff | None = None
        self.grounds: Grounds | None = None

    def cause(self, reason: BreakOff, grounds: Grounds | None) -> None:
        """End the attempt at its next wait; only the first reason counts."""
        if self.reason is None:
            self.reason, self.grounds = reason, grounds
            self._task.cancel()

    def was_cause(self) -> bool:
        """Whether ``cause`` alone caused this cancellation; for the handler of the cancellation."""
        return self.reason is not None and self._task.uncancel() <= self._uncancelled


class Reported:
    """Facts that the monitor has passed on: the attempt's host lives; the attempt is slow for its volume."""

    __slots__ = ("life", "slowness")

    def __init__(self) -> None:
        self.life = self.slowness = False


class Attempt:
    """The state of an attempt under way, for the monitor and for the record. Times are run seconds.

    ``key``: the entry's id; a helper has a negative number of its own. It brings the bytes from ``from_byte``
    on; ``to_byte`` is the end of its range, if that is not the file's end. ``resumable``: another attempt may
    continue where this one stands.
    """

    __slots__ = (
        "_hold",
        "_reported",
        "assignment",
        "first_byte_s",
        "from_byte",
        "interruption",
        "key",
        "last_byte_s",
        "received",
        "reply",
        "resumable",
        "samples",
        "size_bytes",
        "start_s",
        "to_byte",
    )

    def __init__(
        self,
        assignment: Assignment,
        now_s: float,
        *,
        from_byte: int,
        size_bytes: int | None,
        to_byte: int | None = None,
        key: int | None = None,
        task: asyncio.Task[None] | None = None,
    ) -> None:
        self.assignment = assignment
        self.key = assignment.entry.id if key is None else key
        self.start_s = now_s
        self.from_byte = from_byte
        self.to_byte = to_byte
        self.size_bytes = size_bytes
        self.received = 0
        self.first_byte_s: float | None = None
        self.last_byte_s: float | None = None
        self.resumable = False
        self.samples = Samples()
        self.reply = Reply()
        self.interruption = Interruption(task)
        self._reported: Reported | None = None  # None until something is reported
        self._hold: Hold | None = None  # None until it first waits for our own side

    @property
    def id(self) -> int:
        """The id of its entry."""
        return self.assignment.entry.id

    @property
    def request_s(self) -> float:
        """The time at which the request was sent; the stall rule needs it."""
        return self.start_s

    @property
    def reason(self) -> BreakOff | None:
        """The reason why it was broken off; None if it was not."""
        return self.interruption.reason

    @property
    def reported(self) -> Reported:
        """The facts that the monitor has passed on."""
        if self._reported is None:
            self._reported = Reported()
        return self._reported

    @property
    def is_helper(self) -> bool:
        """Whether another attempt owns the entry."""
        return self.key < 0

    def break_off(self, reason: BreakOff, grounds: Grounds | None = None) -> None:
        """End this attempt at its next wait; its task goes on with the entry."""
        self.interruption.cause(reason, grounds)

    def was_broken_off(self) -> bool:
        """Whether ``break_off`` alone caused this cancellation; for the handler of the cancellation."""
        return self.interruption.was_cause()

    @property
    def wanted_bytes(self) -> int | None:
        """The number of bytes that it is to bring; None if that is not known."""
        end = self.size_bytes if self.to_byte is None else self.to_byte
        return None if end is None else end - self.from_byte

    @property
    def is_tail(self) -> bool:
        """Whether it has brought the short rest of a resumed file, which is no sample of its host's speed."""
        return self.from_byte > 0 and self.received < MIN_TAIL_BYTES

    def forgive(self, now_s: float) -> None:
        """Do not count the silence until now as the server's: our own process stood still."""
        if not self.is_held:
            self.last_byte_s = now_s

    def hold(self, now_s: float) -> None:
        """Note that we stop reading: until ``let_go`` its silence is ours."""
        self._hold = self._hold or Hold()
        self._hold.since_s = now_s
        self.last_byte_s = math.inf

    def let_go(self, now_s: float) -> None:
        """Note that we read again."""
        if self._hold is not None:
            self._hold.end(now_s)
        self.last_byte_s = now_s

    @property
    def is_held(self) -> bool:
        """Whether our own side keeps it from reading just now, or its reply is refused already."""
        return (self._hold is not None and self._hold.since_s is not None) or self.is_refused

    @property
    def is_refused(self) -> bool:
        """Whether its reply is refused: it ends by itself, once the server's reason is read."""
        return self.reply.verdict is not None and not self.reply.is_accepted

    def held_s(self, now_s: float) -> float:
        """Seconds for which a rate limit or the volume, not the server, made it wait."""
        return 0.0 if self._hold is None else self._hold.total_s(now_s)

    @property
    def connecting_since_s(self) -> float | None:
        """Since when the handshake of its connection has no answer; None: no connection is being made."""
        connecting = self.reply.connecting
        return None if connecting is None else connecting.since_s

    @property
    def handshake_s(self) -> float:
        """Seconds that its connection took to be made; 0 while it is not made, or if it was there before."""
        connecting = self.reply.connecting
        return 0.0 if connecting is None or connecting.since_s is not None else connecting.total_s(0.0)

    @property
    def slack_s(self) -> float:
        """Seconds that it may still take without delay for the run; 0: not known."""
        return self.interruption.slack_s

    def packet_age_s(self) -> float | None:
        """Seconds since its connection's latest packet; None: the kernel does not tell."""
        figures = self.read_tcp_figures()
        return None if figures is None else figures.packet_age_s

    def has_lost_packets(self) -> bool:
        """Whether its connection has lost packets; False: the kernel does not tell."""
        figures = self.read_tcp_figures()
        return figures is not None and figures.has_lost

    def read_tcp_figures(self) -> "TcpFigures | None":
        """The kernel's figures of its connection; None: it has none."""
        from cfetch.wire.tcp_figures import read_tcp_figures  # servers nearby need none

        return read_tcp_figures(getattr(self.reply.response, "transport", None))

    @property
    def carried_bytes(self) -> int:
        """The bytes that its connection had brought before this reply; 0 while that is not known."""
        return self.reply.carried_bytes

    def note(self, now_s: float, size_bytes: int) -> None:
        """Note that bytes have come."""
        self.received += size_bytes
        self.last_byte_s = now_s
        if now_s < self.samples.next_s:
            return
        if self.first_byte_s is None:
            self.first_byte_s = now_s
        self.samples.add(now_s, self.received)

    def record(self, outcome: Outcome, error: str | None, now_s: float) -> AttemptRecord:
        """The record of this attempt."""
        connecting = self.reply.connecting
        connect_s = 0.0 if connecting is None else connecting.total_s(now_s)
        assignment, response, grounds = self.assignment, self.reply.response, self.interruption.grounds
        return AttemptRecord(
            n=assignment.n,
            start_s=round_s(self.start_s),
            first_byte_s=None if self.first_byte_s is None else round_s(self.first_byte_s),
            end_s=round_s(now_s),
            from_byte=self.from_byte,
            bytes=self.received,
            http_status=None if response is None else response.status,
            content_type=None if response is None else _content_type_of(response),
            outcome=outcome,
            error=error,
            peer=None if response is None else response.peer,
            median_bps=None if grounds is None else grounds.median_bps,
            expected_s=None if grounds is None else grounds.expected_s,
            samples=self.samples.points,
            connect_s=round_s(connect_s) if connect_s else None,
            unanswered=self.connecting_since_s is not None,
            full_link=self.interruption.full_link and (self.is_helper or outcome in CANCELLED),
            mirror=assignment.mirror,
            projected_s=None if grounds is None else grounds.projected_s,
            to_byte=self.to_byte,
            helper=self.is_helper,
            held_s=None if self._hold is None else round(self._hold.total_s(now_s), 3) or None,
        )


def _content_type_of(response: Response) -> str | None:
    stated = response.headers.getall("Content-Type", [])
    return printable(stated[0], MAX_TYPE_CHARS) if stated else None


def name_outcome(error: SourceError | None) -> Outcome:
    """Name the end of an attempt that was not broken off, as in the metrics."""
    if error is None:
        return "done"
    return "expired" if isinstance(error, Expired) else "error"
