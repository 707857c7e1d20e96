"""The port for requests to servers; ``all_sources.py`` has the transport of a run."""

from collections.abc import Mapping
from typing import Protocol

from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.judge import Headers


class Response(Protocol):
    """A reply whose body is still to be read.

    ``place``: the address of the reply, after the redirects that stayed at the first host. Relative URLs in
    the body are relative to ``place``: another host that only stores the bytes does not have the other files.
    ``source``: the address of the reply, after all redirects.
    """

    status: int
    place: SecretUrl
    source: SecretUrl

    @property
    def headers(self) -> Headers:
        """The reply's headers, without headers of interim replies and without trailers."""

    @property
    def peer(self) -> str | None:
        """Address and port of the other end, if they are known."""

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
