"""One try at one entry: ask, judge the reply, stream the body into the part.

An attempt under way can be broken off from outside with a *reason*. Whether a cancellation was the monitor's
or the whole run's follows from that reason and from the task's own count, never from an exception's type.
"""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from cfetch.clock import RunClock
from cfetch.errors import Expired, RangeRefused, Refused, SourceError, Transient
from cfetch.manifest.entry import Digest, Entry
from cfetch.records import AttemptRecord, Outcome
from cfetch.secret import SecretUrl, printable
from cfetch.storage.volume import Sink
from cfetch.straggler.cures import NO_CURE, Cure
from cfetch.wire.http import Response, Transport
from cfetch.wire.judge import Action, Asked, Verdict, judge
from cfetch.wire.rate import Limiter
from cfetch.wire.retry import make_throttled

FIRST_BYTE = {"Range": "bytes=0-0"}
NO_CONDITION: Mapping[str, str] = {}
MAX_TYPE_CHARS = 100  # of a Content-Type, in the metrics
MAX_SAMPLES = 32  # per attempt in the metrics; enough to see a rate collapse, ~1 KiB of JSON
FIRST_SAMPLE_GAP_S = 0.05
MIN_TAIL_BYTES = 64 << 10  # a shorter rest of a resumed file tells the server's latency, not its speed
NO_END = (
    "the server states no length and ends the body with the connection, so a cut body looks whole; "
    "put the size or a hash into the manifest"
)


class BreakOff(Enum):
    """Why an attempt is ended from outside."""

    STRAGGLER = "straggler"
    STALLED = "stalled"
    BELOW_MIN_RATE = "below min-rate"
    OVERTAKEN = "overtaken"  # other attempts have brought its bytes
    DISMISSED = "dismissed"  # it is a helper, and its entry needs no help any more


class Unchanged(Exception):
    """The server says that the file in place is the same as its own."""


class Assignment(NamedTuple):
    """What an attempt is sent for: the ``n``-th at ``entry``, asked of ``host``, for a volume.

    ``mirror``: the host, where it is not the entry's own. ``is_immune``: it is not broken off as a straggler.
    ``refuses_pages``: a web page is not what is meant.
    """

    entry: Entry
    n: int
    host: str = ""
    mirror: str | None = None
    volume_index: int = 0
    is_immune: bool = False
    refuses_pages: bool = False


class Grounds(NamedTuple):
    """The figures by which an attempt was judged a straggler.

    ``projected_s``: when it would have ended without being broken off; None if that is not known.
    """

    expected_s: float
    projected_s: float | None
    median_bps: float | None


class Samples:
    """Bytes received over time, thinned to a bounded number. The next is due at ``next_s``."""

    __slots__ = ("_gap_s", "next_s", "points")

    def __init__(self) -> None:
        self.points: list[tuple[float, int]] = []
        self._gap_s = FIRST_SAMPLE_GAP_S
        self.next_s = 0.0

    def add(self, now_s: float, received: int) -> None:
        """Keep one more; where there are too many, every other goes."""
        self.points.append((round(now_s, 4), received))
        if len(self.points) >= MAX_SAMPLES:
            del self.points[1::2]
            self._gap_s *= 2
        self.next_s = now_s + self._gap_s


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
        """Seconds of all such times, the present one included."""
        return self._before_s if self.since_s is None else self._before_s + now_s - self.since_s


class Reply:
    """What the server has answered.

    ``has_news_of_size``: it stated more of what is to be fetched than was known, and the policy has not been
    told of that yet. ``carried_bytes``: what its connection had brought before.
    """

    __slots__ = ("carried_bytes", "has_news_of_size", "response", "verdict")

    def __init__(self) -> None:
        self.response: Response | None = None
        self.verdict: Verdict | None = None
        self.has_news_of_size = False
        self.carried_bytes = 0

    def unread(self) -> bytes:
        """Take the bytes of an accepted body that have come and were not read; a second call gives none."""
        if self.response is None or self.verdict is None or self.verdict.action is not Action.ACCEPT:
            return b""
        if self.verdict.skip_bytes is not None:  # of a whole object: nobody has counted which bytes they are
            return b""
        return self.response.read_buffered()


class Interruption:
    """The way to end an attempt from outside: its task is cancelled, and ``reason`` says why.

    ``grounds``: of a straggler's.
    """

    __slots__ = ("_task", "_uncancelled", "grounds", "reason")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._uncancelled = task.cancelling()
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
    """What the monitor has passed on: that the attempt's host lives, that it is slow for its volume."""

    __slots__ = ("life", "slowness")

    def __init__(self) -> None:
        self.life = self.slowness = False


class Attempt:
    """An attempt under way: what the monitor watches and the record is made from. Times are run seconds.

    ``key``: the entry's id, or a negative number of a helper's own. It brings the bytes from ``from_byte``
    on; ``to_byte`` is the end of its range, where that is not the file's. ``resumable``: another attempt may
    go on where this one stands.
    """

    __slots__ = (
        "_hold",
        "assignment",
        "first_byte_s",
        "from_byte",
        "interruption",
        "key",
        "last_byte_s",
        "received",
        "reply",
        "reported",
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
        self.interruption = Interruption()
        self.reported = Reported()
        self._hold: Hold | None = None  # until it first waits for our own side

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
        """How much it is to bring, as far as that is known."""
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
        """Whether our own side keeps it from reading just now."""
        return self._hold is not None and self._hold.since_s is not None

    def held_s(self, now_s: float) -> float:
        """Seconds for which a rate limit or the volume, not the server, made it wait."""
        return 0.0 if self._hold is None else self._hold.total_s(now_s)

    @property
    def carried_bytes(self) -> int:
        """What its connection had brought before this reply; 0 while that is not known."""
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
        assignment, response, grounds = self.assignment, self.reply.response, self.interruption.grounds
        return AttemptRecord(
            n=assignment.n,
            start_s=round(self.start_s, 6),
            first_byte_s=None if self.first_byte_s is None else round(self.first_byte_s, 6),
            end_s=round(now_s, 6),
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
            mirror=assignment.mirror,
            projected_s=None if grounds is None else grounds.projected_s,
            to_byte=self.to_byte,
            helper=self.is_helper,
            held_s=round(self.held_s(now_s), 3) or None,
        )


async def fetch(
    attempt: Attempt,
    part: Sink,
    *,
    url: SecretUrl,
    secrets: Mapping[str, str],
    digest: Digest | None,
    transport: Transport,
    clock: RunClock,
    fresh: bool,
    cure: Cure = NO_CURE,
    limiter: Limiter | None = None,
    unless: Mapping[str, str] = NO_CONDITION,
) -> None:
    """Bring ``part`` to its end, or raise what stands in the way.

    ``unless``: headers under which the server says if the file in place is the same (RFC 9110, 13.1).

    ``cure`` says how its host is best asked. A segment is asked for with its end. It returns early where the
    segment has become shorter or is over, and where the server sends less than was asked for; in the end what
    has not come is missing again.

    Raises:
        Unchanged: the file in place is the same.
        RangeRefused: the reply cannot be joined to what is there. What stood in its way is forgotten.
        SourceError: the reply or the connection is at fault. The part keeps what may be built upon.
        LocalFault: the disk is.
    """
    read_of = functools.partial(_limit, limiter, url.host(), attempt)
    try:
        if part.segment is not None and not part.segment.left_bytes:
            return  # it was overtaken before it began
        if attempt.assignment.entry.range_start is not None and not attempt.size_bytes:
            return  # no request asks for an empty range
        if cure.warms:
            await _warm(transport, url, secrets, fresh=fresh)
            fresh = False
        has_more, chunk_bytes = True, cure.chunk_bytes
        while has_more:
            asked = _choose_range(attempt, part, chunk_bytes, NO_CONDITION if attempt.received else unless)
            response = attempt.reply.response = await _open(transport, url, asked, secrets, fresh, cure)
            attempt.reply.carried_bytes = response.carried_bytes
            has_more = await _take_reply(attempt, part, response, asked, digest, read_of, clock)
            fresh = False
            if not attempt.resumable:
                chunk_bytes = 0  # nothing would prove that two replies are of one version
    finally:
        part.release_segment()


async def _warm(transport: Transport, url: SecretUrl, secrets: Mapping[str, str], *, fresh: bool) -> None:
    """Ask for one byte, so that the next request is not the first for its object."""
    response = await transport.open(url, FIRST_BYTE, secrets, fresh=fresh)
    try:
        if response.status == 206:
            await response.read()  # else the connection could not be used again
    finally:
        response.close()


def _choose_range(attempt: Attempt, part: Sink, chunk_bytes: int, unless: Mapping[str, str]) -> Asked:
    """What to ask for next: the rest, or as much of it as the host is best asked for at a time."""
    segment = part.segment
    start, end = (part.position, None) if segment is None else (segment.position, segment.end)
    known = attempt.size_bytes if end is None else end
    if chunk_bytes and (attempt.received or known is None or known - start > chunk_bytes):
        end = start + chunk_bytes if known is None else min(start + chunk_bytes, known)
    return Asked(
        from_byte=start,
        end_byte=end,
        size_bytes=attempt.size_bytes,
        total_bytes=part.total_bytes,
        validator=part.validator,
        unless=unless,
        refuses_pages=attempt.assignment.refuses_pages,
        base=attempt.assignment.entry.range_start,
        has_hash=attempt.assignment.entry.digest is not None,
    )


async def _open(
    transport: Transport, url: SecretUrl, asked: Asked, secrets: Mapping[str, str], fresh: bool, cure: Cure
) -> Response:
    """Ask, over a connection that is not worn out."""
    response = await transport.open(url, _range_of(asked), secrets, fresh=fresh)
    if not cure.retire_bytes:
        return response
    if response.carried_bytes >= cure.retire_bytes:
        response.close()
        response = await transport.open(url, _range_of(asked), secrets, fresh=True)
    end = asked.size_bytes if asked.end_byte is None else asked.end_byte
    if response.carried_bytes + (end or 0) - asked.from_byte >= cure.retire_bytes:
        response.retire()
    return response


async def _take_reply(
    attempt: Attempt,
    part: Sink,
    response: Response,
    asked: Asked,
    digest: Digest | None,
    read_of: Callable[[Response], Callable[[], Awaitable[bytes]]],
    clock: RunClock,
) -> bool:
    """Judge one reply and take its body; whether more is to be asked for."""
    limit = None
    try:
        limit = _accept(attempt, response, part, asked, digest, clock)
        if part.segment is None and limit != attempt.size_bytes and not attempt.resumable:
            response.close()
            return True
        read, verdict = read_of(response), attempt.reply.verdict
        if verdict is not None and verdict.skip_bytes is not None and verdict.body_bytes is not None:
            read = _cut(response, read, verdict.skip_bytes, verdict.body_bytes)
        end = await _receive(attempt, part, read, limit, clock)
        if end is None:
            response.close()
            return False
    except BaseException:
        try:
            if attempt.reason is not None:
                salvage(attempt, part, limit, clock.now())
        finally:
            response.close()
        raise
    return _check_end(attempt, part, asked, end, limit)


def _cut(
    response: Response, read: Callable[[], Awaitable[bytes]], skip_bytes: int, size_bytes: int
) -> Callable[[], Awaitable[bytes]]:
    """The way to read a range out of a whole object; behind the range the reply is broken off."""
    skipped = taken = 0

    async def read_range() -> bytes:
        nonlocal skipped, taken
        while taken < size_bytes and (data := await read()):
            passed = min(len(data), skip_bytes - skipped)
            skipped += passed
            if wanted := data[passed : passed + size_bytes - taken]:
                taken += len(wanted)
                return wanted
        response.close()
        return b""

    return read_range


def _limit(
    limiter: Limiter | None, host: str, attempt: Attempt, response: Response
) -> Callable[[], Awaitable[bytes]]:
    """The way to read the body, within the stated rate."""
    return response.read if limiter is None else limiter.reader(response.read, host, attempt)


def _accept(
    attempt: Attempt, response: Response, part: Sink, asked: Asked, digest: Digest | None, clock: RunClock
) -> int | None:
    """Judge the reply and make ``part`` ready for it; where its body ends in the file, if that is known."""
    if response.status == 200 and part.segment is None and not attempt.received:
        asked = msgspec.structs.replace(asked, end_byte=None)  # nobody else brings the rest
    verdict = attempt.reply.verdict = judge(response.status, response.headers, asked)
    if verdict.action is Action.UNCHANGED:
        raise Unchanged
    if verdict.action is not Action.ACCEPT:
        raise _error_of(verdict, response, part, clock)
    if not verdict.framed and attempt.size_bytes is None and digest is None:
        raise Refused(NO_END)  # checked first: such a body may go on until the disk is full
    if verdict.from_byte != asked.from_byte:
        part.restart()
        attempt.reply.has_news_of_size = True  # the server sends the whole file
    if verdict.from_byte != asked.from_byte or not attempt.received:
        attempt.from_byte = verdict.from_byte
    part.validator = verdict.validator
    part.last_modified = next(iter(response.headers.getall("Last-Modified", [])), None)
    gives_ranges = verdict.skip_bytes is None
    attempt.resumable = gives_ranges and (verdict.validator is not None or digest is not None)
    part.total_bytes = verdict.total_bytes or part.total_bytes
    if attempt.size_bytes is None and verdict.total_bytes is not None:
        attempt.size_bytes, attempt.reply.has_news_of_size = verdict.total_bytes, True
    if asked.end_byte is None or verdict.body_bytes is None:
        return attempt.size_bytes
    return verdict.from_byte + verdict.body_bytes


async def _receive(
    attempt: Attempt,
    part: Sink,
    read: Callable[[], Awaitable[bytes]],
    limit: int | None,
    clock: RunClock,
) -> int | None:
    """Write the body as it comes; where in the file it ended, or None if the rest of it is another's."""
    verdict, write, note, now = attempt.reply.verdict, part.write, attempt.note, clock.now
    assert verdict is not None
    position = verdict.from_byte
    while data := await read():
        position += len(data)
        if limit is not None and position > limit:
            part.restart()
            raise Refused(f"the server sends more than the {limit} bytes that were stated")
        write(data)
        note(now(), len(data))
        segment = part.segment  # others may help from now on
        if segment is not None and not segment.left_bytes and position != limit:
            return None
        if part.must_wait:
            await _wait_for_volume(attempt, part, clock)
    return position


async def _wait_for_volume(attempt: Attempt, part: Sink, clock: RunClock) -> None:
    """Wait for the volume, and do not count the time as the server's."""
    attempt.hold(clock.now())
    try:
        await part.wait_for_room()
    finally:
        attempt.let_go(clock.now())


def _range_of(asked: Asked) -> dict[str, str]:
    """The headers of the request for the missing bytes."""
    if not asked.is_range:
        return {**asked.unless}
    if asked.base is not None:
        text = f"{asked.base + asked.from_byte}-{asked.base + asked.find_end() - 1}"
    else:
        text = f"{asked.from_byte}-{'' if asked.end_byte is None else asked.end_byte - 1}"
    wanted = {"Range": f"bytes={text}", **asked.unless}
    if asked.validator is not None:
        wanted["If-Range"] = asked.validator
    return wanted


def salvage(attempt: Attempt, part: Sink, limit: int | None, now_s: float) -> None:
    """Keep what had arrived before the attempt was broken off; it may even be the last byte."""
    segment = part.segment
    position = part.position if segment is None else segment.position
    data = attempt.reply.unread()
    if data and (limit is None or position + len(data) <= limit):
        part.write(data)
        attempt.note(now_s, len(data))


def _check_end(attempt: Attempt, part: Sink, asked: Asked, end: int, limit: int | None) -> bool:
    """Raise unless the body ended where it should; whether more is to be asked for.

    Of a segment a server may send less than it was asked for, but no crumbs.
    """
    segment, size_bytes = part.segment, attempt.size_bytes
    is_whole = segment is not None and not segment.left_bytes
    if limit is not None and end < limit and not is_whole:
        raise Transient(f"the body ended after {end} of {limit} bytes")
    has_more = not is_whole if segment is not None else size_bytes is not None and end < size_bytes
    if has_more and attempt.received < MIN_TAIL_BYTES:
        raise Transient(f"the server sent only {attempt.received} bytes of what it was asked for")
    if segment is not None and end != asked.end_byte:
        return False  # another request may bring the rest
    if has_more and end != asked.end_byte:  # it might go on so, a byte a request
        raise Transient(f"the server sent a range up to byte {end} where byte {asked.end_byte} was asked for")
    return has_more


def _content_type_of(response: Response) -> str | None:
    stated = response.headers.getall("Content-Type", [])
    return printable(stated[0], MAX_TYPE_CHARS) if stated else None


def _error_of(verdict: Verdict, response: Response, part: Sink, clock: RunClock) -> SourceError:
    status, reason = response.status, verdict.reason
    match verdict.action:
        case Action.REFRESH:
            return Expired(reason, http_status=status)
        case Action.THROTTLE:
            return make_throttled(reason, status, response.headers, clock.wall())
        case Action.RETRY:
            return Transient(reason, http_status=status)
        case Action.REFUSE_RANGE:
            part.restart()
            return RangeRefused(reason, http_status=status)
        case _:
            return Refused(reason, http_status=status)


def outcome_of(error: SourceError | None) -> Outcome:
    """The metrics' word for an attempt that came to its end by itself."""
    if error is None:
        return "done"
    return "expired" if isinstance(error, Expired) else "error"
