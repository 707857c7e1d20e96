"""The adapter to aiohttp, and the only place where its exceptions are seen.

Two lanes: ``pooled`` connections for ordinary attempts, and ``fresh`` ones, never from a pool and with a new
DNS lookup, for an attempt that replaces a straggler: a slow connection that goes back to a pool would be met
again (Amazon S3 performance guidelines, "Timeouts and retries for latency-sensitive applications").

aiohttp's defaults that would do harm are set here: total time-out 300 s, no read time-out, URLs re-quoted
(which breaks signatures), bodies decoded, cookies kept, redirects followed with secrets.
"""

import contextlib
import errno
import os
import ssl
from collections.abc import Mapping
from typing import Protocol

import aiohttp
import yarl
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError

from cfetch import __version__
from cfetch.errors import CfetchError, Refused, SourceError, Transient
from cfetch.placement.local import local_fault
from cfetch.secret import SecretUrl
from cfetch.transfer.judge import Headers
from cfetch.transfer.redirect import REDIRECTS, next_hop

__all__ = ["HttpTransport", "Response", "Transport"]

READ_BUFFER_BYTES = 256 << 10  # per connection; large enough that a fast stream is not paused at each read
MAX_HEADER_BYTES = 16 << 10  # one header line; h11's limit, twice nginx's
OWN_HEADERS = {"User-Agent": f"cfetch/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
FOREIGN = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)


class Response(Protocol):
    """A reply whose body is still to be read."""

    status: int
    headers: Headers
    peer: str | None

    async def read(self) -> bytes:
        """The next bytes, or ``b""`` at the end. Raises SourceError."""

    def buffered(self) -> bytes:
        """What has arrived but was not read; never waits."""

    def close(self) -> None:
        """Break off: the connection is not used again. Harmless after the end."""


class Transport(Protocol):
    """Where bytes come from; the fake one of the tests runs on virtual time."""

    async def open(
        self, url: SecretUrl, headers: Mapping[str, str], secrets: Mapping[str, str], *, fresh: bool
    ) -> Response:
        """Ask for ``url``. ``secrets`` are headers for its own origin only. Raises SourceError."""

    async def close(self) -> None:
        """Give every connection back."""


class HttpTransport:
    """See the module. Make it inside a running loop."""

    def __init__(self, *, connect_timeout_s: float, keep_alive: bool = True) -> None:
        """``keep_alive`` false: for plans of so many hosts that idle connections would use up descriptors."""
        # The monitor breaks off silent attempts, so aiohttp's own read time-out stays off.
        timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=connect_timeout_s, sock_read=None
        )
        self._pooled = _session(
            aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, force_close=not keep_alive), timeout
        )
        self._fresh = _session(aiohttp.TCPConnector(limit=0, force_close=True, use_dns_cache=False), timeout)

    async def open(
        self, url: SecretUrl, headers: Mapping[str, str], secrets: Mapping[str, str], *, fresh: bool
    ) -> Response:
        """See ``Transport``."""
        session = self._fresh if fresh else self._pooled
        seen: list[SecretUrl] = []
        while True:
            try:
                reply = await session.get(
                    yarl.URL(url.reveal(), encoded=True),
                    headers={**headers, **secrets} if secrets else headers,
                    allow_redirects=False,
                )
            except FOREIGN as error:
                raise map_error(error) from None
            if reply.status not in REDIRECTS:
                return _Reply(reply)
            seen.append(url)
            reply.close()
            target = next_hop(url, reply.headers, seen)
            if secrets and target.origin() != url.origin():
                secrets = {}
            url = target

    async def close(self) -> None:
        """See ``Transport``."""
        await self._pooled.close()
        await self._fresh.close()


def _session(connector: aiohttp.TCPConnector, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        response_class=_NamedPeer,
        timeout=timeout,
        headers=OWN_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        requote_redirect_url=False,
        trust_env=False,
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )


class _NamedPeer(aiohttp.ClientResponse):
    """Knows who answered, as a short reply has given its connection back before anyone can ask."""

    peer: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        # aiohttp (3.14) would take a reply that came before its question for the answer; it keeps such ones
        # in this private queue. Pinned by a test: a server that sends two replies to one request.
        if connection.protocol is not None and len(connection.protocol._buffer):
            connection.close()
            raise aiohttp.ServerDisconnectedError
        name = connection.transport.get_extra_info("peername") if connection.transport is not None else None
        if name:
            self.peer = f"{name[0]}:{name[1]}"
        return await super().start(connection)


class _Reply:
    __slots__ = ("_reply", "headers", "peer", "status")

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers: Headers = reply.headers
        self.peer = reply.peer if isinstance(reply, _NamedPeer) else None

    async def read(self) -> bytes:
        try:
            return await self._reply.content.readany()
        except FOREIGN as error:
            raise map_error(error) from None

    def buffered(self) -> bytes:
        with contextlib.suppress(
            Exception
        ):  # a salvage: whatever is wrong with the stream, there is then less of it
            return self._reply.content.read_nowait(-1)
        return b""

    def close(self) -> None:
        self._reply.close()


_MEANINGS: tuple[tuple[type[BaseException], type[SourceError], str], ...] = (  # the first that fits
    (
        aiohttp.ClientConnectorCertificateError,
        Refused,
        "the server's TLS certificate is not accepted: {cause}",
    ),
    (aiohttp.ClientConnectorSSLError, Transient, "the TLS handshake failed"),
    (aiohttp.ClientConnectorDNSError, Transient, "the host's name could not be resolved"),
    (aiohttp.ConnectionTimeoutError, Transient, "connecting took too long"),
    (aiohttp.ClientConnectorError, Transient, "cannot connect: {cause}"),
    (aiohttp.ServerDisconnectedError, Transient, "the server closed the connection"),
    (aiohttp.ClientPayloadError, Transient, "the body was cut off or is malformed"),
    (aiohttp.ClientResponseError, Transient, "the reply is not proper HTTP"),
    (HttpProcessingError, Transient, "the body is not proper HTTP"),
    (OSError, Transient, "the connection broke: {cause}"),
    (ValueError, Refused, "the URL or a header cannot be sent"),
    (Exception, Transient, "the transfer failed ({cause})"),
)


_CERTIFICATE_FAULTS: dict[int | None, str] = {  # OpenSSL's X509_V_ERR_… numbers
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed; if that is right, name its CA in SSL_CERT_FILE",
    19: "its CA is not known; if that is right, name it in SSL_CERT_FILE",
    20: "its CA is not known; if that is right, name it in SSL_CERT_FILE",
    62: "it is for another host name",
    64: "it is for another address",
}


def map_error(error: Exception) -> CfetchError:
    """Our form of a foreign error. Its own text is never used: it may hold the whole URL or the headers."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return local_fault(error, "cannot open a connection")
    kind, text = next((kind, text) for type_, kind, text in _MEANINGS if isinstance(error, type_))
    return kind(text.format(cause=_cause(error)))


def _cause(error: Exception) -> str:
    """The system's words for an error number, ours for a certificate; the name of anything else."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        code = getattr(error.certificate_error, "verify_code", None)
        return _CERTIFICATE_FAULTS.get(code, "it cannot be verified")
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return os.strerror(number) if number and number in errno.errorcode else type(error).__name__
