"""Gets fresh links for entries whose links have expired: three sources behind one port (``fresh_link.py``).

Presigned links often live 15 minutes or less; a job of hours outlives them. If many entries expire at once,
the manifest or the API is asked once (single flight), and its answer serves all of them.
"""

import asyncio
import math
import shlex
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import LocalFault, ManifestError, Refused, Transient, UsageError
from cfetch.base.records import NOT_DECODED
from cfetch.base.schemes import is_web
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import UrlError
from cfetch.manifest.fields import FieldError, check_headers
from cfetch.manifest.formats.sql_statement import parse_chunk_links
from cfetch.manifest.plan import Plan
from cfetch.manifest.urls import resolve_url
from cfetch.wire.command import MOST_OUTPUT_BYTES, run_command
from cfetch.wire.fresh_link import Link

REREAD_S = 30.0  # until a manifest without new links is read again: many refusals then cost one reading
LEAST_REREAD_S = 1.0  # the same if it had new links: they may live for seconds only
READING_PAUSES = 3  # times the reading time, so that reading takes at most a quarter of the time


class ManifestRefresher:
    """Reads the manifest again; its publisher signs anew on each request.

    ``takes_more``: entries are not of this manifest, which may state sizes and hashes that they lack.
    """

    def __init__(
        self, reread: Callable[[], Awaitable[Plan]], clock: Clock, *, takes_more: bool = False
    ) -> None:
        self._takes_more = takes_more
        self._clock = clock
        self._next_s = -math.inf  # the earliest time at which the manifest is read again
        self._made_s = 0.0
        self._has_new_links = False
        self._reread = reread
        self._latest: Plan | None = None
        self._lock = asyncio.Lock()

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        async with self._lock:
            link = self._find(entry)
            used_up = link is None or link.is_used_up(stale, self._clock.wall())
            wait_s = self._next_s - self._clock.monotonic()
            if used_up and (wait_s <= 0 or self._has_new_links):
                await self._clock.sleep(max(0.0, wait_s))
                await self._read()
                link = self._find(entry)
                self._has_new_links = link is not None and not link.is_used_up(stale, self._clock.wall())
                if not self._has_new_links:
                    self._next_s = self._clock.monotonic() + REREAD_S
        if link is None:
            raise Refused("the manifest, read again, no longer has this entry")
        if link.is_used_up(stale, self._clock.wall()):
            raise Refused("the manifest, read again, still has the same refused link")
        return link

    async def _read(self) -> None:
        began_s, self._made_s = self._clock.monotonic(), self._clock.wall()
        try:
            previous, self._latest = self._latest, await self._reread()
        except UsageError:  # an error page, or a manifest that is just being written
            raise Transient("the manifest, read again, has faults") from None
        except LocalFault as fault:  # such as a full /tmp: files whose links still work need no new list
            raise Transient(f"the manifest could not be read again: {fault}") from None
        if previous is not None:
            previous.close()
        now_s = self._clock.monotonic()
        self._next_s = now_s + max(LEAST_REREAD_S, READING_PAUSES * (now_s - began_s))

    def _find(self, entry: Entry) -> Link | None:
        if self._latest is None:
            return None
        start = None if entry.piece is None else entry.piece.start_byte
        index = self._latest.find(entry.path, start)
        if index is None:
            return None
        latest = self._latest.entry(index)
        differs = (latest.size_bytes, latest.digest) != (entry.size_bytes, entry.digest)
        if differs and not (self._takes_more and _states_no_other(latest, entry)):
            raise Refused("the manifest, read again, states another size or hash for this entry")
        headers = tuple((dict(self._latest.headers) | dict(latest.headers)).items())
        return Link(latest.url, latest.expires_at, headers, self._made_s)

    def close(self) -> None:
        """Close the file of the plan that was read again."""
        if self._latest is not None:
            self._latest.close()


def _states_no_other(latest: Entry, entry: Entry) -> bool:
    """Whether the manifest states the entry's size and hash, as far as the entry has them."""
    return entry.size_bytes in (None, latest.size_bytes) and entry.digest in (None, latest.digest)


class _CommandReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    expires_at: float | None = None
    headers: dict[str, str] = {}


class CommandRefresher:
    """Runs the user's command: it gets the entry as one JSON object on stdin, and prints the link on stdout.

    stdout is the URL on one line, or ``{"url": …, "expires_at": seconds, "headers": {…}}``. The command is
    split as a shell would, but no shell runs it, and the URL is never in its arguments. It need not read its
    stdin. Whatever it does is the failure of one entry.
    """

    def __init__(self, command: str) -> None:
        self._words: Sequence[str] = shlex.split(command)
        self._slots = asyncio.Semaphore(4)  # helpers run at once; signing is cheap, starting processes is not

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        asked = {"id": entry.id, "path": entry.path, "offset": entry.position, "url": stale.url.reveal()}
        async with self._slots:
            exit_code, out = await run_command(self._words, msgspec.json.encode(asked) + b"\n")
        if len(out) > MOST_OUTPUT_BYTES:
            raise Refused(
                f"the refresh command printed more than {MOST_OUTPUT_BYTES >> 10} KiB, not one link"
            )
        if exit_code != 0:
            raise Refused(f"the refresh command ended with exit code {exit_code}")
        return _read_reply(out)


def _read_reply(out: bytes) -> Link:
    try:
        text = out.decode().strip()
        if not text.startswith("{"):
            return Link(_check_url(text))
        reply = msgspec.json.decode(text, type=_CommandReply)
    except NOT_DECODED:
        raise Refused("the refresh command printed neither a URL nor the JSON object it should") from None
    try:
        headers = check_headers(reply.headers)
    except FieldError as error:
        raise Refused(f"the refresh command printed headers that cannot be sent: {error}") from None
    return Link(_check_url(reply.url), reply.expires_at, headers)


def _check_url(text: str) -> SecretUrl:
    """Check a link by the rules of a manifest's; no message quotes it."""
    try:
        if not is_web(text):
            raise UrlError("it begins with neither http:// nor https://")
        return SecretUrl(resolve_url(text, lambda: None))
    except UrlError as error:
        raise Refused(f"the refresh command printed something that is not one http(s) URL: {error}") from None


class StatementRefresher:
    """Asks the SQL statement API for a chunk's link again; ``fetch_chunk(index)`` returns the reply."""

    def __init__(self, fetch_chunk: Callable[[int], Awaitable[bytes]], clock: Clock) -> None:
        self._fetch_chunk = fetch_chunk
        self._clock = clock
        self._links: dict[int, Link] = {}
        self._lock = asyncio.Lock()

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        if entry.chunk is None:
            raise Refused("this entry is not a chunk of a SQL statement's result")
        async with self._lock:
            link = self._links.pop(entry.chunk, None)
            if link is None or link.is_used_up(stale, self._clock.wall()):
                try:
                    fresh = parse_chunk_links(await self._fetch_chunk(entry.chunk))
                except ManifestError:
                    raise Refused("the statement API's reply holds no links that can be read") from None
                for renewed in fresh:
                    self._links[renewed.chunk or 0] = Link(renewed.url, renewed.expires_at, renewed.headers)
                link = self._links.pop(entry.chunk, None)
        if link is None:
            raise Refused("the statement API's reply has no link for this chunk")
        return link
