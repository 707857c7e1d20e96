"""One try at one entry: ask, judge the reply, stream the body into the part."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.clock import RunClock
from cfetch.base.config.wire import CAREFUL, ReplyOptions
from cfetch.base.errors import RangeRefused, Refused, Transient
from cfetch.base.schemes import GS, scheme_of
from cfetch.base.secret import SecretUrl
from cfetch.engine.attempt import MIN_TAIL_BYTES, Attempt, Unchanged
from cfetch.manifest.digests import Bytes
from cfetch.storage.volume_values import Standing
from cfetch.straggler.ways_to_ask import NO_CURE, WayToAsk
from cfetch.wire.headers import may_state_hash, read_media_type, states_limits
from cfetch.wire.judge import PAGE_TYPES, is_vouched_for, judge
from cfetch.wire.transport import Connecting, CutHead, LostCount, Response, Transport
from cfetch.wire.verdict import Asked, ReplyAction, Verdict

if TYPE_CHECKING:
    from cfetch.engine.doubts import Doubts
    from cfetch.engine.transfer import EntrySources
    from cfetch.storage.volume import Sink
    from cfetch.wire.rate import Limiter

FIRST_BYTE = {"Range": "bytes=0-0"}
NO_CONDITION: Mapping[str, str] = {}
AS_STORED = {"Accept-Encoding": "gzip"}
LOOKED_AT = 512  # first bytes of a file that nothing proves
TEXT = bytes({7, 8, 9, 10, 12, 13, 27} | set(range(0x20, 0x100)))
STORES_THAT_UNPACK = frozenset({"storage.googleapis.com"})
MAX_HOSTS = 4096
_STORED_ENCODING = "x-goog-stored-content-encoding"
_NOTHING: list[str] = []

Note = Callable[[str, str], None]  # about the file of a path, whose name the text goes on from


def _ignore(_path: str, _text: str) -> None:
    """Nobody wants to know."""


class Fetching:
    """Makes tries over one transport; ``limiter`` None: at any rate."""

    def __init__(
        self,
        transport: Transport,
        clock: RunClock,
        limiter: "Limiter | None",
        *,
        options: ReplyOptions = CAREFUL,
        note: Note | None = None,
        hold: Callable[[str, float, str], None] | None = None,
    ) -> None:
        """``hold`` gets a host that is not to be asked for so many seconds, and why, if that is news."""
        self._transport = transport
        self._clock = clock
        self._limiter = limiter
        self._options = options
        self._note = note or _ignore
        self._hold = hold
        self._doubts: Doubts | None = None
        self._others: Counter[str] = Counter()  # files of each host that are no pages
        self._as_stored: set[str] = set()  # hosts that unpack objects unless gzip is asked for

    async def fetch(
        self,
        attempt: Attempt,
        part: "Sink",
        *,
        url: SecretUrl,
        secrets: Mapping[str, str],
        fresh: bool,
        cure: WayToAsk = NO_CURE,
        standing: Standing | None = None,
        sources: "EntrySources | None" = None,
    ) -> None:
        """Bring ``part`` to its end.

        ``sources``: those of the entry. Without a hash, all bytes have to come from one origin.

        ``standing``: the file in place; the server is asked whether its own is the same (RFC 9110, 13.1).

        ``cure`` says how the host is best asked. The request for a segment states the segment's end.
        ``fetch`` returns early if the segment has become shorter or is over, and if the server sends less
        than was asked for; the bytes that have not come are missing again then.

        Raises:
            Unchanged: the file in place is the same.
            RangeRefused: the reply cannot be joined to the bytes that are there; the part begins anew.
            SourceError: the reply or the connection is at fault. The part keeps what can be continued.
            LocalFault: the disk is at fault.
        """
        try:
            if part.segment is not None and not part.segment.left_bytes:
                return  # it was overtaken before it began
            if attempt.assignment.entry.range_start is not None and not attempt.size_bytes:
                return  # no request asks for an empty range
            connecting = attempt.reply.connecting = Connecting(self._clock.now)
            if cure.warms:
                await self._warm(url, secrets, connecting, fresh=fresh)
                fresh = False
            has_more, chunk_bytes = True, cure.chunk_bytes
            while has_more:
                asked = _choose_range(attempt, part, chunk_bytes, None if attempt.received else standing)
                asked = msgspec.structs.replace(asked, options=self._options, link=url)
                try:
                    response = await self._open(url, asked, secrets, connecting, fresh=fresh)
                except CutHead as error:
                    if error.status != 200 or asked.size_bytes != 0:
                        raise
                    return  # an empty file needs no body, and so no more of the head
                if cure.retire_bytes:
                    response = await self._spare(response, url, asked, secrets, cure, connecting)
                attempt.reply.response = response
                attempt.reply.carried_bytes = response.carried_bytes
                if sources is not None and not asked.has_hash:
                    _keep_to_origin(attempt, part, response, asked, sources)
                limiter = self._limiter
                read = (
                    response.read if limiter is None else limiter.reader(response.read, url.host(), attempt)
                )
                has_more = await self._take_reply(attempt, part, response, asked, read)
                fresh = False
                if not attempt.resumable:
                    chunk_bytes = 0  # nothing would prove that two replies belong to one version
        finally:
            part.release_segment()

    async def _open(
        self,
        url: SecretUrl,
        asked: Asked,
        secrets: Mapping[str, str],
        connecting: Connecting,
        *,
        fresh: bool,
    ) -> Response:
        """Request the missing bytes, of an object of Google's store as they are stored there."""
        headers, host, open_ = _range_of(asked), url.host(), self._transport.open
        if host in self._as_stored or host in STORES_THAT_UNPACK or scheme_of(url.value) == GS:
            return await open_(url, headers | AS_STORED, secrets, fresh=fresh, connecting=connecting)
        response = await open_(url, headers, secrets, fresh=fresh, connecting=connecting)
        stored = response.headers.getall(_STORED_ENCODING, _NOTHING)
        if not stored:
            return response
        from cfetch.wire.codings import is_unpacked  # only that store's replies have the header

        if not is_unpacked(stored, response.headers.getall("Content-Encoding", _NOTHING)):
            return response
        if len(self._as_stored) < MAX_HOSTS:
            self._as_stored.add(host)
        response.close()
        return await open_(url, headers | AS_STORED, secrets, fresh=fresh, connecting=connecting)

    async def _warm(
        self, url: SecretUrl, secrets: Mapping[str, str], connecting: Connecting, *, fresh: bool
    ) -> None:
        """Ask for one byte, so that the next request is not the first request for the object."""
        response = await self._transport.open(url, FIRST_BYTE, secrets, fresh=fresh, connecting=connecting)
        try:
            if response.status == 206:
                await response.read()  # else the connection could not be used again
        finally:
            response.close()

    async def _spare(
        self,
        response: Response,
        url: SecretUrl,
        asked: Asked,
        secrets: Mapping[str, str],
        cure: WayToAsk,
        connecting: Connecting,
    ) -> Response:
        """Ask again over a fresh connection if this one is worn out; retire it if this reply does that."""
        if response.carried_bytes >= cure.retire_bytes:
            response.close()
            response = await self._open(url, asked, secrets, connecting, fresh=True)
        end = asked.size_bytes if asked.end_byte is None else asked.end_byte
        if response.carried_bytes + (end or 0) - asked.from_byte >= cure.retire_bytes:
            response.retire()
        return response

    async def _take_reply(
        self,
        attempt: Attempt,
        part: "Sink",
        response: Response,
        asked: Asked,
        read: Callable[[], Awaitable[Bytes]],
    ) -> bool:
        """Judge one reply and write its body as it comes. Returns whether more has to be asked for."""
        limit = None
        clock = self._clock
        try:
            accepted = self._accept(attempt, response, part, asked)
            verdict = attempt.reply.verdict
            assert verdict is not None
            if accepted is None:
                from cfetch.engine.refused_replies import make_error  # only a refusal needs it

                raise await make_error(
                    verdict, response, part, clock, host=attempt.assignment.host, hold=self._hold
                )
            position, limit = accepted
            if part.segment is None and limit != attempt.size_bytes and not attempt.resumable:
                response.close()
                return True
            is_plain = verdict.skip_bytes is None and verdict.coding is None
            if not is_plain or self._options.max_bytes is not None:
                from cfetch.engine.odd_bodies import adapt  # nearly all bodies are the file

                read = adapt(
                    verdict, response, part, read, self._options.max_bytes if limit is None else None
                )
            is_start = not (verdict.from_byte or attempt.is_helper)
            if is_start and not is_vouched_for(asked) and self._options.doubtful != "accept":
                read = self._doubting(attempt, response, part, read)
            try:
                while data := await read():
                    position += len(data)
                    if limit is not None and position > limit:
                        part.restart()
                        raise Refused(f"the server sends more than the {limit} bytes that were stated")
                    part.write(data)
                    attempt.note(clock.now(), len(data))
                    segment = part.segment  # others may help from now on
                    if segment is not None and not segment.left_bytes and position != limit:
                        response.close()
                        return False  # another attempt brings the rest
                    if part.must_wait:
                        await self._wait_for_volume(attempt, part)
            except LostCount:
                if not is_vouched_for(asked) or (limit is not None and position != limit):
                    part.restart()  # the server has lost count, and nothing proves what came
                    raise
        except BaseException:
            try:
                if attempt.reply.verdict is not None and attempt.reply.verdict.coding is not None:
                    part.restart()  # no request can ask for the rest of what was decoded
                if attempt.reason is not None:
                    salvage(attempt, part, limit, clock.now())
            finally:
                response.close()
            raise
        if not verdict.framed and limit is None and not asked.has_hash and not self._options.accept_unframed:
            from cfetch.engine.unframed_bodies import check_tls_end

            check_tls_end(response, part)
        return _check_end(attempt, part, asked, position, limit)

    def _doubting(
        self, attempt: Attempt, response: Response, part: "Sink", read: Callable[[], Awaitable[Bytes]]
    ) -> Callable[[], Awaitable[Bytes]]:
        """A function that reads the same bytes, and looks at the first of them."""
        is_first = True

        async def read_on() -> Bytes:
            nonlocal is_first
            data = await read()
            if is_first and data:
                is_first = False
                data = await self._doubt(attempt, response, part, data, read)
            return data

        return read_on

    async def _doubt(
        self,
        attempt: Attempt,
        response: Response,
        part: "Sink",
        start: Bytes,
        read: Callable[[], Awaitable[Bytes]],
    ) -> Bytes:
        """Return the first bytes unless, by them and the type, the file is an error. Raises SourceError."""
        host, is_page = attempt.assignment.host, read_media_type(response.headers) in PAGE_TYPES
        if not is_page and (len(self._others) < MAX_HOSTS or host in self._others):
            self._others[host] += 1
        is_text = not bytes(start[:LOOKED_AT]).translate(None, TEXT)
        if not (is_page or is_text):
            return start
        # only a page or a text can be an error
        from cfetch.engine.doubts import Doubts, read_start
        from cfetch.engine.refused_replies import make_error

        if self._doubts is None:
            self._doubts = Doubts(self._note, self._others, fails=self._options.doubtful == "fail")
        start = await read_start(start, read)
        refusal = self._doubts.judge(attempt.assignment, response, start, is_page=is_page, is_text=is_text)
        if refusal is None:
            return start
        part.restart()
        raise await make_error(refusal, response, part, self._clock)

    def report(self) -> None:
        """Note what is known of odd files only now that all have come."""
        if self._doubts is not None:
            self._doubts.report()

    def _judge(self, attempt: Attempt, response: Response, part: "Sink", asked: Asked) -> Verdict:
        """Judge the reply. Raises Unchanged."""
        if response.status == 200 and asked.end_byte is not None and _is_alone(attempt, part):
            asked = msgspec.structs.replace(asked, end_byte=None)  # no other attempt brings the rest
        verdict = attempt.reply.verdict = judge(response.status, response.headers, asked)
        if verdict.action is ReplyAction.UNCHANGED:
            raise Unchanged
        return verdict

    def _accept(
        self, attempt: Attempt, response: Response, part: "Sink", asked: Asked
    ) -> tuple[int, int | None] | None:
        """Judge the reply, and make ``part`` ready for it.

        Returns where in the file its body begins, and where it ends, if that is known; None: it is refused.
        """
        verdict, is_alone = self._judge(attempt, response, part, asked), _is_alone(attempt, part)
        if verdict.action is not ReplyAction.ACCEPT:
            return None
        if not verdict.framed and attempt.size_bytes is None and not asked.has_hash:
            from cfetch.engine.unframed_bodies import (
                UNFRAMED_NOTE,
                take_unframed,
            )  # few servers state no length

            # first: such a body may go on until the disk is full
            is_noted = take_unframed(response, is_accepted=self._options.accept_unframed)
            if is_noted:
                self._note(attempt.assignment.entry.path, UNFRAMED_NOTE)
        if verdict.from_byte != asked.from_byte:
            part.restart()
            attempt.reply.has_news_of_size = True  # the server sends the whole file
        if verdict.from_byte != asked.from_byte or not attempt.received:
            attempt.from_byte = verdict.from_byte
        if self._hold is not None and states_limits(response.headers):
            from cfetch.wire.pauses import find_used_up_s  # few servers state limits

            pause_s = find_used_up_s(response.headers, self._clock.wall())
            if pause_s:
                self._hold(attempt.assignment.host, pause_s, "its limit of requests is used up")
        part.validator = verdict.validator
        stated_times = response.headers.getall("Last-Modified", [])
        part.last_modified = stated_times[0] if stated_times else None
        if verdict.note:
            self._note(attempt.assignment.entry.path, verdict.note)
        gives_ranges = verdict.skip_bytes is None and verdict.coding is None
        attempt.resumable = gives_ranges and (verdict.validator is not None or asked.has_hash)
        part.total_bytes = verdict.total_bytes or part.total_bytes
        is_first = part.segment is None and not part.position
        states_hash = not asked.has_hash and asked.base is None and verdict.coding is None
        if states_hash and (is_first or part.stated is None) and may_state_hash(response.headers):
            from cfetch.wire.stated_hash import find_stated_hash  # only object stores state one

            part.stated = find_stated_hash(response.status, response.headers)
        if self._options.max_bytes is not None:
            from cfetch.engine.odd_bodies import refuse_too_large

            refuse_too_large(verdict.total_bytes, self._options.max_bytes)
        if attempt.size_bytes is None and verdict.total_bytes is not None:
            attempt.size_bytes, attempt.reply.has_news_of_size = verdict.total_bytes, True
        is_all = asked.end_byte is None or (response.status == 200 and is_alone)
        if is_all or verdict.body_bytes is None:
            return verdict.from_byte, attempt.size_bytes
        return verdict.from_byte, verdict.from_byte + verdict.body_bytes

    async def _wait_for_volume(self, attempt: Attempt, part: "Sink") -> None:
        """Wait for the volume, and do not count the time as the server's."""
        attempt.hold(self._clock.now())
        try:
            await part.wait_for_room()
        finally:
            attempt.let_go(self._clock.now())


def _is_alone(attempt: Attempt, part: "Sink") -> bool:
    """Whether no other attempt, and no earlier reply of this one, brings bytes of the file."""
    return part.segment is None and not attempt.received


def _keep_to_origin(
    attempt: Attempt, part: "Sink", response: Response, asked: Asked, sources: "EntrySources"
) -> None:
    """Raise RangeRefused if a redirect leads to another origin than that of the bytes to be joined."""
    if not asked.joins:
        if not attempt.is_helper:
            sources.place = response.source
    elif not sources.note_origin(response.source):
        response.close()
        part.restart()
        raise RangeRefused("the rest would come from another host to which the URL redirects")


def _choose_range(attempt: Attempt, part: "Sink", chunk_bytes: int, standing: Standing | None) -> Asked:
    """Choose the next request's range: the whole rest, or as much of it as suits the host.

    A host that sends only the beginning of a reply fast is asked for chunks, one after the other. An attempt
    whose whole rest fits into a chunk asks for it plainly, without a stated end, as any host understands
    that. One that has received a chunk already goes on in chunks to the end.
    """
    segment = part.segment
    start, end = (part.position, None) if segment is None else (segment.position, segment.end)
    known = attempt.size_bytes if end is None else end
    if chunk_bytes and (attempt.received or known is None or known - start > chunk_bytes):
        end = start + chunk_bytes if known is None else min(start + chunk_bytes, known)
    # The judge compares the reply with all of this: where it begins and ends; whether the object is still the
    # one whose bytes the part has (``validator``); whether the file that stands in place is still current
    # (``unless``, ``standing_bytes``); and where in the object the entry begins (``base``).
    return Asked(
        from_byte=start,
        end_byte=end,
        size_bytes=attempt.size_bytes,
        total_bytes=part.total_bytes,
        validator=part.validator,
        unless=NO_CONDITION if standing is None else standing.unless,
        etag_hash=None if standing is None else standing.etag_hash,
        standing_bytes=None if standing is None else standing.size_bytes,
        refuses_pages=attempt.assignment.refuses_pages,
        base=attempt.assignment.entry.range_start,
        has_hash=attempt.assignment.entry.digest is not None,
        path=attempt.assignment.entry.path,
    )


def _range_of(asked: Asked) -> dict[str, str]:
    """The headers of the request for the missing bytes."""
    if not asked.is_range:
        return {**asked.unless}
    if asked.base is not None:
        text = f"{asked.base + asked.from_byte}-{asked.base + asked.find_end() - 1}"
    else:
        text = f"{asked.from_byte}-{'' if asked.end_byte is None else asked.end_byte - 1}"
    wanted = {"Range": f"bytes={text}", **asked.unless}
    if asked.validator is not None and not asked.has_hash:  # a replica with another ETag would send it whole
        wanted["If-Range"] = asked.validator
    return wanted


def salvage(attempt: Attempt, part: "Sink", limit: int | None, now_s: float) -> None:
    """Keep what had arrived before the attempt was broken off; it may even be the last byte."""
    segment = part.segment
    position = part.position if segment is None else segment.position
    data = attempt.reply.unread()
    if data and (limit is None or position + len(data) <= limit):
        part.write(data)
        attempt.note(now_s, len(data))


def _check_end(attempt: Attempt, part: "Sink", asked: Asked, end: int, limit: int | None) -> bool:
    """Raise unless the body ended where it should. Returns whether more has to be asked for.

    A server may send less of a segment than it was asked for, but not less than ``MIN_TAIL_BYTES``.
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
    if has_more and end != asked.end_byte:  # it might continue so, with one byte per request
        raise Transient(f"the server sent a range up to byte {end} where byte {asked.end_byte} was asked for")
    return has_more
