"""The port for sources that are no HTTP servers, and the transport that makes replies of their files.

The engine asks every source in the words of HTTP: a range, a condition, a status. A source of another kind
only has to state size and version of a file and to send it from a byte on (``FileSource``); ``FileTransport``
makes 200, 206, 304 and 416 of that, so that judging, resuming and segments work as everywhere. The opener of
a row in ``base/schemes.py`` returns a ``Transport``: ``FileTransport(source)``, or one of its own.
"""

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from multidict import CIMultiDict

from cfetch.base.errors import Refused, Transient
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.network import Network
from cfetch.wire.targets import is_public
from cfetch.wire.transport import Connecting, Response

_RANGE = re.compile(r"bytes=(\d{1,19})-(\d{0,19})", re.ASCII)


async def find_addresses(network: Network, host: str, port: int) -> list[str]:
    """The addresses of a host, to which the settings allow a connection. Raises SourceError."""
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            raise Refused("the host's name does not exist") from None
        raise Transient("the host's name could not be resolved") from None
    addresses = list(dict.fromkeys(str(where[0]) for *_, where in answers))
    if network.public_only:
        addresses = [address for address in addresses if is_public(address)]
        if not addresses:
            raise Refused("the address is not public, and public_only is set")
    if network.addresses is not None:
        network.addresses.update(addresses)
    return addresses


class RemoteFile(Protocol):
    """A file at its server, opened for one request. All methods raise SourceError.

    ``size_bytes`` is None if the server does not state it. ``version`` differs from version to version of
    the file, and is None if nothing tells them apart: then only a hash can prove that bytes of two requests
    belong together. ``modified_s`` is the time of the last change, since 1970. ``peer`` is the address of
    the other end.
    """

    size_bytes: int | None
    version: str | None
    modified_s: float | None
    peer: str | None

    async def start(self, first_byte: int) -> None:
        """Ask for the bytes from ``first_byte`` on; called once; not at all for a size alone."""

    async def read(self) -> Bytes:
        """The next bytes; ``b""`` only at the file's true end, never where a connection was cut."""

    def close(self) -> None:
        """Give the connection back if all was read, else break it off. Called once or more."""


class FileSource(Protocol):
    """Opens files of one scheme; made in the event loop that uses it."""

    async def open_file(self, url: SecretUrl, *, fresh: bool) -> RemoteFile:
        """Find the file. ``fresh``: over a new connection. Raises SourceError; nothing else."""

    async def close(self) -> None:
        """Close all connections."""


class FileTransport:
    """Implements ``Transport`` by a ``FileSource``. Headers of the user are not sent."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],  # noqa: ARG002 - there is no header that could carry them
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,  # noqa: ARG002 - a source keeps its connections to itself
    ) -> Response:
        """Ask for ``url``, as ``Transport`` says."""
        if method not in ("GET", "HEAD"):
            raise Refused(f"a source of this scheme takes no {method} request")
        file = await self._source.open_file(url, fresh=fresh)
        try:
            reply = _answer(url, file, {name.lower(): value for name, value in headers.items()})
            if method == "GET" and reply.status in (200, 206):
                await file.start(reply.first_byte)
                reply.has_body = True
        except BaseException:
            file.close()
            raise
        return reply

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """No effect: a source keeps no more connections than were in use."""

    async def close(self) -> None:
        """Close all connections."""
        await self._source.close()


class FileReply:
    """Implements ``Response`` for a file. ``left_bytes``: of a range; None: to the end of the file."""

    def __init__(
        self, url: SecretUrl, file: RemoteFile, status: int, headers: Mapping[str, str], first_byte: int = 0
    ) -> None:
        self.status = status
        self.phrase = b""
        self.headers = CIMultiDict(headers)
        self.place = self.source = url
        self.peer = file.peer
        self.carried_bytes = 0
        self.hidden: Sequence[str] = ()
        self.tls_end = None  # such a source tells the true end itself
        self.first_byte = first_byte
        self.left_bytes: int | None = None
        self.has_body = False
        self._file = file
        self._is_over = False

    async def read(self, most: int = -1) -> Bytes:  # noqa: ARG002 - what has come is given at once
        """Read the next bytes, as ``Response`` says; the end of a range that was asked for is the end."""
        if self._is_over or not self.has_body or self.left_bytes == 0:
            self.close()
            return b""
        data = await self._file.read()
        if not data:
            self.close()
        elif self.left_bytes is not None:
            data = data[: self.left_bytes]
            self.left_bytes -= len(data)
        return data

    def read_buffered(self) -> bytes:
        """Nothing waits here."""
        return b""

    def retire(self) -> None:
        """No effect: a connection is not slower for what it has carried."""

    def close(self) -> None:
        """Cancel the reply, as ``Response`` says."""
        if not self._is_over:
            self._is_over = True
            self._file.close()


def _answer(url: SecretUrl, file: RemoteFile, asked: Mapping[str, str]) -> FileReply:
    """Decide status, headers and first byte of the reply, as RFC 9110 (13.1, 14.2) says."""
    size_bytes, stated = file.size_bytes, _describe(file)
    etag, modified = stated.get("ETag"), stated.get("Last-Modified")
    if etag is not None and etag in asked.get("if-none-match", ""):
        return FileReply(url, file, 304, stated)
    if "if-none-match" not in asked and modified is not None and asked.get("if-modified-since") == modified:
        return FileReply(url, file, 304, stated)
    match = _RANGE.fullmatch(asked.get("range", ""))
    # Without a size nobody could say where the range ends; another version than asked for is sent as a whole.
    if match is None or size_bytes is None or asked.get("if-range", etag) != etag:
        # A source says where its file ends, as chunks do; else a file without a size might be cut unseen.
        length = (
            {"Transfer-Encoding": "chunked"} if size_bytes is None else {"Content-Length": str(size_bytes)}
        )
        return FileReply(url, file, 200, {**stated, **length})
    first = int(match[1])
    end = min(size_bytes, int(match[2]) + 1 if match[2] else size_bytes)
    if first >= end:
        return FileReply(url, file, 416, {**stated, "Content-Range": f"bytes */{size_bytes}"})
    place = {"Content-Range": f"bytes {first}-{end - 1}/{size_bytes}", "Content-Length": str(end - first)}
    reply = FileReply(url, file, 206, {**stated, **place}, first)
    if end < size_bytes:  # else the source itself says where the file ends
        reply.left_bytes = end - first
    return reply


def _describe(file: RemoteFile) -> dict[str, str]:
    stated = {"Accept-Ranges": "bytes"}
    if file.version is not None:
        stated["ETag"] = f'"{file.version}"'
    if file.modified_s is not None:
        from email.utils import formatdate  # a run over http has no use for it

        stated["Last-Modified"] = formatdate(file.modified_s, usegmt=True)
    return stated
