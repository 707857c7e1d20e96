"""One try at one entry: ask, judge the reply, stream the body into the part.

An attempt under way can be broken off from outside with a *reason*. Whether a cancellation was the monitor's
or the whole run's is told by that reason and by the task's own count, never by an exception's type.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from cfetch.clock import RunClock
from cfetch.errors import Expired, RangeRefused, Refused, SourceError, Throttled, Transient
from cfetch.manifest.entry import Digest
from cfetch.records import AttemptRecord, Outcome
from cfetch.secret import SecretUrl
from cfetch.storage.volume import Sink
from cfetch.wire.http import Response, Transport
from cfetch.wire.judge import Action, Asked, Verdict, judge
from cfetch.wire.rate import Limiter
from cfetch.wire.retry import retry_after_s

__all__ = ["Attempt", "BreakOff", "fetch", "outcome_of", "unread"]

MAX_SAMPLES = 32  # per attempt in the metrics; enough to see a rate collapse, ~1 KiB of JSON
FIRST_SAMPLE_GAP_S = 0.05
NO_END = (
    "the server states no length and ends the body with the connection, so a cut would go unseen; "
    "put the size or a hash into the manifest"
)


class BreakOff(Enum):
    """Why an attempt is ended from outside."""

    STRAGGLER = "straggler"
    STALLED = "stalled"
    OVERTAKEN = "overtaken"  # others have brought what it was to bring
    DISMISSED = "dismissed"  # it helped, and its entry needs no help any more


class Attempt:
    """An attempt under way: what the monitor watches and the record is made from. Times are run seconds."""

    __slots__ = (
        "_gap_s",
        "_held_s",
        "_held_since_s",
        "_next_sample_s",
        "_task",
        "_uncancelled",
        "at",
        "expected_s",
        "fell_short",
        "first_byte_s",
        "from_byte",
        "has_shown_life",
        "host",
        "id",
        "immune",
        "key",
        "last_byte_s",
        "learned_size",
        "median_bps",
        "mirror",
        "n",
        "projected_s",
        "reason",
        "received",
        "response",
        "resumable",
        "samples",
        "size_bytes",
        "start_s",
        "to_byte",
        "told_slow",
        "verdict",
    )

    def __init__(
        self,
        entry_id: int,
        n: int,
        now_s: float,
        *,
        from_byte: int,
        size_bytes: int | None,
        immune: bool,
        at: int = 0,
        key: int | None = None,
    ) -> None:
        self.id = entry_id
        self.key = entry_id if key is None else key  # another stream of the same entry has one of its own
        self.at = at  # the number of the volume that it writes to
        self.told_slow = False  # that volume's account has it
        self.n = n
        self.start_s = now_s
        self.last_byte_s: float | None = None
        self.from_byte = from_byte
        self.size_bytes = size_bytes
        self.immune = immune
        self.has_shown_life = False  # its host was told that it lives
        self.host = ""  # that it asks
        self.mirror: str | None = None  # the same, where that is not the entry's own
        self.fell_short = False  # the server sent less than it was asked for
        self.to_byte: int | None = None  # the end of its range, where that is not the file's
        self.resumable = False  # another attempt may go on where this one stands
        self.projected_s: float | None = None  # when it would have ended, had it not been broken off
        self.learned_size = False  # the reply told more of what is to be fetched than was known
        self.received = 0
        self.first_byte_s: float | None = None
        self.samples: list[tuple[float, int]] = []
        self.response: Response | None = None
        self.verdict: Verdict | None = None
        self.reason: BreakOff | None = None
        self.expected_s: float | None = None
        self.median_bps: float | None = None
        self._held_s = 0.0
        self._held_since_s: float | None = None
        self._gap_s = FIRST_SAMPLE_GAP_S
        self._next_sample_s = 0.0
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._uncancelled = task.cancelling()

    @property
    def request_s(self) -> float:
        """For the stall rule: when the request was sent."""
        return self.start_s

    def break_off(self, reason: BreakOff) -> None:
        """End this attempt at its next wait; its task goes on with the entry."""
        if self.reason is None:
            self.reason = reason
            self._task.cancel()

    def forgive(self, now_s: float) -> None:
        """Our own process stood still: its silence does not count as the server's."""
        if self._held_since_s is None:
            self.last_byte_s = now_s

    def hold(self, now_s: float) -> None:
        """A rate limit keeps us from reading: until ``let_go`` its silence is ours."""
        self._held_since_s = now_s
        self.last_byte_s = math.inf

    def let_go(self, now_s: float) -> None:
        """The limit lets us read again."""
        self._held_s = self.held_s(now_s)
        self._held_since_s = None
        self.last_byte_s = now_s

    @property
    def is_held(self) -> bool:
        """Whether that is so now."""
        return self._held_since_s is not None

    def held_s(self, now_s: float) -> float:
        """Seconds for which a rate limit, not the server, made it wait."""
        since_s = self._held_since_s
        return self._held_s if since_s is None else self._held_s + now_s - since_s

    def was_broken_off(self) -> bool:
        """For the handler of the cancellation: true if it was ``break_off`` and nothing else."""
        return self.reason is not None and self._task.uncancel() <= self._uncancelled

    def note(self, now_s: float, size_bytes: int) -> None:
        """Bytes came."""
        self.received += size_bytes
        self.last_byte_s = now_s
        if now_s < self._next_sample_s:
            return
        if self.first_byte_s is None:
            self.first_byte_s = now_s
        self.samples.append((round(now_s, 4), self.received))
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[1::2]
            self._gap_s *= 2
        self._next_sample_s = now_s + self._gap_s

    def record(self, outcome: Outcome, error: str | None, now_s: float) -> AttemptRecord:
        """The story of this attempt."""
        response = self.response
        return AttemptRecord(
            n=self.n,
            start_s=round(self.start_s, 6),
            first_byte_s=None if self.first_byte_s is None else round(self.first_byte_s, 6),
            end_s=round(now_s, 6),
            from_byte=self.from_byte,
            bytes=self.received,
            http_status=None if response is None else response.status,
            outcome=outcome,
            error=error,
            peer=None if response is None else response.peer,
            median_bps=self.median_bps,
            expected_s=self.expected_s,
            samples=self.samples,
            mirror=self.mirror,
            projected_s=self.projected_s,
            to_byte=self.to_byte,
            helper=self.key != self.id,
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
    limiter: Limiter | None = None,
) -> None:
    """Bring ``part`` to its end, or raise what stands in the way.

    A segment is asked for with its end. It returns early where the segment has become shorter or is over, and
    where the server sends less than was asked for; in the end what has not come is missing again.

    Raises:
        RangeRefused: the reply cannot be joined to what is there. What stood in its way is forgotten.
        SourceError: the reply or the connection is at fault. The part keeps what may be built upon.
        LocalFault: the disk is.
    """
    segment = part.segment
    asked = Asked(
        from_byte=part.position if segment is None else segment.position,
        end_byte=None if segment is None else segment.end,
        size_bytes=attempt.size_bytes,
        total_bytes=part.total_bytes,
        validator=part.validator,
    )
    limit = None
    try:
        if segment is not None and not segment.left_bytes:
            return  # it was overtaken before it began
        response = attempt.response = await transport.open(url, _range_of(asked), secrets, fresh=fresh)
        try:
            limit = _accept(attempt, response, part, asked, digest, clock)
            read = response.read if limiter is None else limiter.reader(response.read, url.host(), attempt)
            at = await _receive(attempt, part, read, limit, clock)
            if at is None:
                response.close()
                return
        except BaseException:
            try:
                if attempt.reason is not None:
                    salvage(attempt, part, limit, clock.now())
            finally:
                response.close()
            raise
        check_end(part, at, limit)
        attempt.fell_short = part.segment is not None and part.segment.left_bytes > 0
    finally:
        part.release()


def _accept(
    attempt: Attempt, response: Response, part: Sink, asked: Asked, digest: Digest | None, clock: RunClock
) -> int | None:
    """Judge the reply and make ``part`` ready for it; where its body ends in the file, if that is known."""
    verdict = attempt.verdict = judge(response.status, response.headers, asked)
    if verdict.action is not Action.ACCEPT:
        raise _error_of(verdict, response, part, clock)
    if not verdict.framed and attempt.size_bytes is None and digest is None:
        raise Refused(NO_END)  # before a byte is read: such a body may go on until the disk is full
    if verdict.from_byte != asked.from_byte:
        part.restart()
        attempt.learned_size = True  # it has the whole file to fetch after all
    attempt.from_byte = verdict.from_byte
    part.validator = verdict.validator
    attempt.resumable = verdict.validator is not None or digest is not None
    part.total_bytes = verdict.total_bytes or part.total_bytes
    if attempt.size_bytes is None and verdict.total_bytes is not None:
        attempt.size_bytes, attempt.learned_size = verdict.total_bytes, True
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
    at, write, note, now = attempt.from_byte, part.write, attempt.note, clock.now
    while data := await read():
        at += len(data)
        if limit is not None and at > limit:
            part.restart()
            raise Refused(f"the server sends more than the {limit} bytes that were stated")
        write(data)
        note(now(), len(data))
        segment = part.segment  # others may help from now on
        if segment is not None and not segment.left_bytes and at != limit:
            return None
        if part.must_wait:
            await _wait_for_volume(attempt, part, clock)
    return at


async def _wait_for_volume(attempt: Attempt, part: Sink, clock: RunClock) -> None:
    """The volume is behind; that is not the server's fault."""
    attempt.hold(clock.now())
    try:
        await part.room()
    finally:
        attempt.let_go(clock.now())


def _range_of(asked: Asked) -> dict[str, str]:
    """The headers that ask for it."""
    if not asked.is_range:
        return {}
    last = "" if asked.end_byte is None else asked.end_byte - 1
    wanted = {"Range": f"bytes={asked.from_byte}-{last}"}
    if asked.validator is not None:
        wanted["If-Range"] = asked.validator
    return wanted


def unread(attempt: Attempt) -> bytes:
    """What has come of a reply that was accepted and nobody has read; it is not there twice."""
    if attempt.response is None or attempt.verdict is None or attempt.verdict.action is not Action.ACCEPT:
        return b""
    return attempt.response.buffered()


def salvage(attempt: Attempt, part: Sink, limit: int | None, now_s: float) -> None:
    """Keep what had arrived before the attempt was broken off; it may even be the last byte."""
    segment = part.segment
    at = part.position if segment is None else segment.position
    data = unread(attempt)
    if data and (limit is None or at + len(data) <= limit):
        part.write(data)
        attempt.note(now_s, len(data))


def check_end(part: Sink, at: int, limit: int | None) -> None:
    """Raise unless the body, which has ended at ``at``, has ended where it should."""
    if limit is not None and at < limit and (part.segment is None or part.segment.left_bytes):
        raise Transient(f"the body ended after {at} of {limit} bytes")


def _error_of(verdict: Verdict, response: Response, part: Sink, clock: RunClock) -> SourceError:
    status, reason = response.status, verdict.reason
    match verdict.action:
        case Action.REFRESH:
            return Expired(reason, http_status=status)
        case Action.THROTTLE:
            asked = response.headers.getall("Retry-After", [])
            after = retry_after_s(asked[0] if asked else None, clock.wall())
            return Throttled(reason, http_status=status, retry_after_s=after)
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
