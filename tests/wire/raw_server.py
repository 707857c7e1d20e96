"""A server of hand-written bytes: what no HTTP library would send, and requests as they came."""

import asyncio
import socket
import struct

__all__ = ["RawServer", "reply"]


def reply(body=b"", *fields, status="200 OK", length=True):
    """The bytes of a reply; ``fields`` are header lines."""
    lines = [f"HTTP/1.1 {status}", *fields]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class RawServer:
    """Answers the n-th request with the n-th of ``replies`` (the last repeats), then does ``then``.

    "keep" waits for the next request, "close" ends politely, "reset" sends RST. ``heads`` are the request
    heads as they came, ``connections`` how many were accepted, ``ended`` how many of these are over.
    """

    def __init__(self, *replies, then="keep", ssl=None):
        self.replies = replies
        self.then = then
        self.ssl = ssl
        self.heads = []
        self.connections = 0
        self.ended = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.ssl)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self.ssl else ''}://127.0.0.1:{self.port}/"
        self._open = {}
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*self._open)

    async def _serve(self, reader, writer):
        self._open[asyncio.current_task()] = writer
        self.connections += 1
        then = self.then
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode("latin-1"))
                then = await self.answer(writer, self.replies[min(len(self.heads), len(self.replies)) - 1])
                if then == "reset":
                    await asyncio.sleep(0.05)  # a RST overtakes what was not read yet
                    linger = struct.pack("ii", 1, 0)
                    sock = writer.get_extra_info("socket")
                    if sock is not None:  # under TLS a client that went first takes it along
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if then != "keep":
                    return
        except (asyncio.IncompleteReadError, OSError):  # the client has gone
            return
        finally:
            self.ended += 1
            writer.transport.abort() if then == "reset" else writer.close()

    async def answer(self, writer, reply):
        """Send ``reply``, and say what follows it. A server of other replies than bytes has its own."""
        writer.write(reply)
        await writer.drain()
        return self.then

    def line(self, n=0):
        """The request line of request ``n``."""
        return self.heads[n].split("\r\n")[0]

    def fields(self, n=0):
        """Its header fields, names in lower case."""
        lines = (line.split(": ", 1) for line in self.heads[n].split("\r\n")[1:] if line)
        return {name.lower(): value for name, value in lines}
