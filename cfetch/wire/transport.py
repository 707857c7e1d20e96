"""The port for requests to servers, and the transport of a run, which asks the table of schemes.

The libraries behind ``http.py`` take 0.15 s to import, a fifth of a second run of 20,000 files. So a source
is opened, and its libraries are imported, for the first request to it: if all files are in place, there is
none.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cfetch.base.errors import Refused, Transient, UsageError
from cfetch.base.registry import find_source, load_opener
from cfetch.base.schemes import HTTPS, KNOWN
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.headers import Headers
from cfetch.wire.network import Network


class LostCount(Transient):
    """More bytes came than the reply states; a reader has had those that it states."""


class CutHead(Transient):
    """The connection ended within the head of a reply; ``status`` is the one that it states, if any."""

    def __init__(self, status: int | None) -> None:
        super().__init__(
            "the server closed the connection within the head of its reply; if the file is empty, state its "
            "size, 0"
        )
        self.status = status


class Response(Protocol):
    """A reply whose body is still to be read.

    ``place``: the address of the reply, after the redirects that stayed at the first host. Relative URLs in
    the body are relative to ``place``: another host that only stores the bytes does not have the other files.
    ``source``: the address of the reply, after all redirects. ``hidden``: values of the request that no
    message may show, if the reply is a refusal. ``phrase``: the words behind the status.
    """

    status: int
    phrase: bytes
    place: SecretUrl
    source: SecretUrl
    hidden: Sequence[str]

    @property
    def headers(self) -> Headers:
        """The reply's headers, without headers of interim replies and without trailers."""

    @property
    def peer(self) -> str | None:
        """Address and port of the other end, if they are known."""

    @property
    def tls_end(self) -> bool | None:
        """Whether TLS has told the end of the connection, so that nothing was cut; None: it is not TLS."""

    @property
    def carried_bytes(self) -> int:
        """Bytes of bodies that the connection had brought before; valid until the end of this reply."""

    async def read(self, most: int = -1) -> Bytes:
        """Read the next bytes, or ``b""`` at the end. Negative ``most``: no limit. Raises SourceError.

        The bytes are valid until the next call. A reader that needs them for longer copies them.
        """

    def read_buffered(self) -> bytes:
        """Read the bytes that have arrived, without waiting."""

    def retire(self) -> None:
        """Do not use the connection again after this reply."""

    def close(self) -> None:
        """Cancel the reply: the connection is not used again. Harmless after the end."""


class Connecting:
    """Tells how long the connections of an attempt take to be made, by the clock ``now``.

    ``since_s``: since when a connection is being made: its handshake has no answer yet. None: none is.
    ``round_trip_s``: what the kernel measured of the last one's path; our own processor may note it later.
    """

    __slots__ = ("_before_s", "_now", "round_trip_s", "since_s")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._before_s = 0.0
        self.since_s: float | None = None
        self.round_trip_s: float | None = None

    def begin(self) -> None:
        """Note that a connection is being made from now on."""
        self.since_s = self._now()

    def end(self) -> None:
        """Note that it is made, or that it has failed."""
        self._before_s, self.since_s = self.total_s(self._now()), None

    def total_s(self, now_s: float) -> float:
        """Seconds for which connections were being made; 0: none was."""
        return self._before_s if self.since_s is None else self._before_s + now_s - self.since_s


class Transport(Protocol):
    """The port for requests to servers; the tests' own implementation runs in virtual time."""

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,
    ) -> Response:
        """Request ``url``. ``secrets`` are headers only for its own origin.

        ``connecting`` is told when a connection is being made, and when it is made. Raises SourceError.
        """

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep no idle connections to these hosts beyond so many, with those in use; others as before."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, kw_only=True)
class SourceContext:
    """What an opener gets. ``http`` makes the transport for http and https, at its first call.

    ``connect_timeout_s`` covers name lookup, connection and login. ``keep_alive``: connections may be kept
    for the next file, for ``idle_s`` at most.
    """

    network: Network
    connect_timeout_s: float
    keep_alive: bool = True
    idle_s: float = 15.0
    http: Callable[[], Transport]


class RunTransport:
    """Implements ``Transport`` for every scheme, by the sources that exist from their first request on."""

    def __init__(
        self, *, connect_timeout_s: float, network: Network, keep_alive: bool = True, idle_s: float = 15.0
    ) -> None:
        """The values mean what they do in ``HttpTransport``."""
        self._context = SourceContext(
            network=network,
            connect_timeout_s=connect_timeout_s,
            keep_alive=keep_alive,
            idle_s=idle_s,
            http=lambda: self._find(HTTPS),
        )
        self._by_scheme: dict[str, Transport] = {}  # the scheme as URLs spell it, so that a look-up is enough
        self._by_opener: dict[str, Transport] = {}
        self._most: Mapping[str, int] = {}

    def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,
    ) -> Coroutine[Any, Any, Response]:
        """Request ``url``, as ``Transport`` says."""
        scheme = url.value.partition(":")[0]
        source = self._by_scheme.get(scheme) or self._find(scheme)
        return source.open(url, headers, secrets, fresh=fresh, method=method, connecting=connecting)

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep so many connections to hosts, as ``Transport`` says."""
        self._most = most
        for source in self._by_opener.values():
            source.keep_at_most(most)

    async def close(self) -> None:
        """Close the connections of all sources."""
        for source in reversed(self._by_opener.values()):  # objects are asked for over HTTP, which came first
            await source.close()

    def _find(self, scheme: str) -> Transport:
        """The source for a scheme, opened now if need be. Raises Refused: it cannot be had."""
        try:
            row = find_source(scheme.lower())
            if row is None or not row.opener:
                why = row.refusal if row is not None and row.refusal else f"not {KNOWN}"
                raise Refused(f"the URL's scheme is {why}")
            if row.opener not in self._by_opener:
                source: Transport = load_opener(row)(self._context)
                source.keep_at_most(self._most)
                self._by_opener[row.opener] = source
        except UsageError as error:  # of a plug-in, or for want of a library: the entry cannot be had
            raise Refused(str(error)) from None
        self._by_scheme[scheme] = self._by_opener[row.opener]
        return self._by_scheme[scheme]
