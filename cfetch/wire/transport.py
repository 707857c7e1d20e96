"""The port for requests to servers, and the transport of a run.

The libraries behind ``wire/http.py`` take 0.15 s to import, a fifth of a second run of 20,000 files. So a run
imports them for its first request: if all files are in place, it has none.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.judge import Headers
from cfetch.wire.network import Network


class Response(Protocol):
    """A reply whose body is still to be read.

    ``place``: the address of the reply, after the redirects that stayed at the first host. Relative URLs in
    the body are relative to ``place``: another host that only stores the bytes does not have the other files.
    ``source``: the address of the reply, after all redirects. ``hidden``: values of the request that no
    message may show, if the reply is a refusal.
    """

    status: int
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
    ) -> Response:
        """Request ``url``. ``secrets`` are headers only for its own origin. Raises SourceError."""

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep no idle connections to these hosts beyond so many, with those in use; others as before."""

    async def close(self) -> None:
        """Close all connections."""


class RunTransport:
    """Implements ``Transport`` by connections that exist from the first request on."""

    def __init__(self, *, connect_timeout_s: float, keep_alive: bool, network: Network) -> None:
        """The values mean what they do in ``HttpTransport``."""
        self._connect_timeout_s = connect_timeout_s
        self._keep_alive = keep_alive
        self._network = network
        self._connected: Transport | None = None
        self._most: Mapping[str, int] = {}

    def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
    ) -> Coroutine[Any, Any, Response]:
        """Request ``url``, as ``Transport`` says."""
        if self._connected is None:
            from cfetch.wire.http import HttpTransport

            self._connected = HttpTransport(
                connect_timeout_s=self._connect_timeout_s, keep_alive=self._keep_alive, network=self._network
            )
            self._connected.keep_at_most(self._most)
        return self._connected.open(url, headers, secrets, fresh=fresh, method=method)

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """Keep so many connections to hosts, as ``Transport`` says."""
        self._most = most
        if self._connected is not None:
            self._connected.keep_at_most(most)

    async def close(self) -> None:
        """Close all connections, if there are any."""
        if self._connected is not None:
            await self._connected.close()
