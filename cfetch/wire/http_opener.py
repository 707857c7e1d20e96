"""Opens the source for http and https, whose libraries are imported with the first request of a process.

aiohttp makes two TLS contexts while it is imported, and each reads all certificates of the system: 20 to
45 ms of processor time each, a fifth of the time from the command to its first request, and in vain without
TLS. Here they are read by the first connection that needs them.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfetch.wire.transport import SourceContext, Transport


class LateTrust(ssl.SSLContext):
    """Reads the system's certificates before its first handshake, and is a usual context from then on."""

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:  # noqa: ANN401 - as the library has them
        """Begin a handshake of asyncio or uvloop."""
        return self._read_certificates().wrap_bio(*args, **named)

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:  # noqa: ANN401
        """Begin a handshake over a socket."""
        return self._read_certificates().wrap_socket(*args, **named)

    def _read_certificates(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.load_default_certs()
        return self


@contextmanager
def reading_certificates_late() -> Iterator[None]:
    """Let TLS contexts made within, by any thread, read the certificates with their first handshake."""
    kind = ssl.SSLContext
    if kind is not LateTrust.__base__ or "set_default_verify_paths" in vars(kind):
        yield  # another library has put a class or a method of its own there
        return
    usual = kind.load_default_certs

    def wait(context: ssl.SSLContext, *_: object) -> None:
        context.__class__ = LateTrust

    kind.load_default_certs = kind.set_default_verify_paths = wait  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        kind.load_default_certs = usual  # type: ignore[method-assign]
        del kind.set_default_verify_paths  # that of its base is seen again


def open_http(context: "SourceContext") -> "Transport":
    """The opener of the rows of http and https in ``base/schemes.py``."""
    with reading_certificates_late():
        from cfetch.wire.http import HttpTransport
    if context.network.needs_session:
        from cfetch.wire.session import SessionTransport  # few runs need it

        return SessionTransport(
            connect_timeout_s=context.connect_timeout_s,
            keep_alive=context.keep_alive,
            idle_s=context.idle_s,
            network=context.network,
        )
    return HttpTransport(
        connect_timeout_s=context.connect_timeout_s,
        keep_alive=context.keep_alive,
        idle_s=context.idle_s,
        network=context.network,
    )
