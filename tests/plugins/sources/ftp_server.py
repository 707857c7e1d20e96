"""A real FTP server on loopback, in a thread: pyftpdlib, which can be told to cut connections."""

import threading
import warnings
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():  # pyftpdlib stands on asyncore, which Python has given up
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.filesystems import AbstractedFS
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

USER, PASSWORD = "mary", "p@ss:word"


class Served:
    """``log`` has the commands in their order. ``cuts``: after so many bytes the next transfers are cut.

    ``unknown``: commands that the server does not know. ``refusal``: the answer to the next RETR.
    """

    def __init__(self) -> None:
        self.port = 0
        self.log: list[str] = []
        self.cuts: list[int] = []
        self.unknown: set[str] = set()
        self.refusal = ""
        self.connections = 0

    def url(self, name: str, login: str = "") -> str:
        return f"ftp://{login}127.0.0.1:{self.port}/{name}"


class _Cut:
    """A file whose reader loses both connections after some bytes."""

    def __init__(self, file: Any, most: int, channel: Any) -> None:
        self._file, self._left, self._channel = file, most, channel

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(data)
        if not data:
            self._channel.close()
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def serve_ftp(directory):
    """Serve ``directory`` to anybody, and to ``USER``."""
    served = Served()

    class Files(AbstractedFS):  # type: ignore[misc]
        def open(self, filename: str, mode: str) -> Any:
            file = super().open(filename, mode)
            return _Cut(file, served.cuts.pop(0), self.cmd_channel) if served.cuts else file

    class Handler(FTPHandler):  # type: ignore[misc]
        def on_connect(self) -> None:
            served.connections += 1

        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            served.log.append(cmd)
            if cmd in served.unknown:
                self.respond(f"502 {cmd} is not known.")
            elif cmd == "RETR" and served.refusal:
                refusal, served.refusal = served.refusal, ""
                self.respond(refusal)
            else:
                super().pre_process_command(line, cmd, arg)

    authorizer = DummyAuthorizer()
    authorizer.add_anonymous(str(directory))
    authorizer.add_user(USER, PASSWORD, str(directory))
    Handler.authorizer = authorizer
    Handler.abstracted_fs = Files
    Handler.use_sendfile = False  # so that reads can be cut
    Handler.auth_failed_timeout = 0
    loop = IOLoop()
    server = FTPServer(("127.0.0.1", 0), Handler, ioloop=loop)
    served.port = server.address[1]
    ending = threading.Event()

    def run() -> None:
        while not ending.is_set():
            loop.loop(timeout=0.01, blocking=False)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield served
    finally:
        ending.set()
        thread.join()
        server.close_all()
