"""Reads the cases of curl's own test suite, and serves their replies raw, as curl's own test server does.

Nothing of curl's is kept here: a case is read from a checked-out copy of its repository (``tests/data``).
``docs/tests/FILEFORMAT.md`` there describes the format, ``tests/server/sws.c`` what the server does.
"""

import asyncio
import base64
import contextlib
import re
import shlex
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SERVERS = {"http", "http-ipv6", "http-proxy", "https", "https test-localhost.pem"}
PIECE_BYTES = 20  # what curl's server sends at a time, so that clients see replies in pieces
_HEAD = re.compile(r"(?:HTTP/(?:1\.1|1\.0|2|3) [1-59]|(?:GET|HEAD|POST|PUT|DELETE|CONNECT) \S+ HTTP/\d)")
_FIELD = re.compile(r"[A-Za-z0-9_-]+: ")
_PORTS = {"HTTPPORT": "http", "HTTP6PORT": "http", "PROXYPORT": "http", "HTTPSPORT": "https"}


@dataclass(slots=True)
class CurlCase:
    """One test: its text, and where the copy of the repository is."""

    number: int
    text: str
    root: Path
    name: str = ""
    servers: frozenset[str] = frozenset()
    command: str = ""
    tool: str = ""
    command_type: str = ""

    def section(self, section: str, part: str) -> tuple[str, dict[str, str]] | None:
        """The text of a part of a section, and its attributes."""
        outer = re.search(rf"^ *<{section}>$(.*?)^ *</{section}>", self.text, re.DOTALL | re.MULTILINE)
        inner = outer and re.search(
            rf"^ *<{part}(?P<attributes>| [^>]*)>\n(?P<text>.*?)^ *</{part}>",
            outer[1],
            re.DOTALL | re.MULTILINE,
        )
        if not inner:
            return None
        return inner["text"], dict(re.findall(r'([\w-]+) *= *"([^"]*)"', inner["attributes"]))

    def has_reply(self) -> bool:
        """Whether a server of HTTP has something to send."""
        return any(
            part and "HTTP/" in part[0]
            for part in (self.section("reply", name) for name in ("data", "connect", "data1"))
        )


def read_cases(root: Path) -> list[CurlCase]:
    """All cases whose client speaks HTTP to curl's test servers, and to nothing else."""
    cases = []
    for path in sorted((root / "tests/data").glob("test[0-9]*"), key=lambda path: int(path.name[4:])):
        case = CurlCase(int(path.name[4:]), path.read_bytes().decode("latin-1"), root)
        servers = case.section("client", "server")
        command = case.section("client", "command")
        case.servers = frozenset(line.strip() for line in servers[0].splitlines()) if servers else frozenset()
        case.command = " ".join(command[0].splitlines()) if command else ""
        case.command_type = command[1].get("type", "") if command else ""
        tool, name = case.section("client", "tool"), case.section("client", "name")
        case.tool = tool[0].strip() if tool else ""
        case.name = name[0].strip() if name else ""
        if case.servers and case.servers <= SERVERS and case.has_reply():
            cases.append(case)
    return cases


class Substitution:
    """What curl's runner puts in the place of variables and macros of a case."""

    def __init__(self, case: CurlCase, variables: dict[str, str], features: frozenset[str]) -> None:
        self._case = case
        self._variables = variables | {"TESTNUMBER": str(case.number)}
        self._features = features

    def text(self, text: str, crlf: str = "") -> str:
        """Line by line, as the ends of lines depend on what stands before."""
        lines: list[str] = []
        is_head = False
        skipping: list[bool] = []
        for line in text.splitlines(keepends=True):
            word = line.strip()
            if match := re.fullmatch(r"%if (!?)(.+)", word):
                skipping.append((match[2] in self._features) == bool(match[1]))
            elif word == "%else":
                skipping[-1] = not skipping[-1]
            elif word == "%endif":
                skipping.pop()
            elif not any(skipping):
                new = self._line(line)
                if crlf == "yes":
                    new = re.sub(r"\r*\n", "\r\n", new, count=1)
                elif crlf == "headers":
                    is_field = _HEAD.match(new) or (_FIELD.match(new) and "\r" not in new)
                    if is_field or (is_head and new == "\n"):
                        new = re.sub(r"\r*\n", "\r\n", new, count=1)
                    is_head = bool(is_field)
                lines.append(re.sub("%(SP|TAB|CR|LT|GT|AMP)", _character, new))
        return "".join(lines)

    def _line(self, line: str) -> str:
        for name in sorted(self._variables, key=len, reverse=True):
            line = line.replace(f"%{name}", self._variables[name])
        line = re.sub(r"%b64\[(.*?)\]b64%", _base64, line, flags=re.IGNORECASE)
        line = re.sub(r"%hex\[(.*?)\]hex%", lambda match: _percent(match[1]), line, flags=re.IGNORECASE)
        line = re.sub(r"%repeat\[(\d+) x (.*?)\]%", lambda match: _percent(match[2]) * int(match[1]), line)
        line = re.sub(r"%days\[(.*?)\]", lambda match: str(int(time.time()) + int(match[1]) * 86400), line)
        return re.sub(r"%include(?:text)? ([^%]*)%[\n\r]+", self._include, line)

    def _include(self, match: re.Match[str]) -> str:
        path = Path(match[1])
        return path.read_bytes().decode("latin-1") if path.is_file() else ""


def _percent(text: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def _base64(match: re.Match[str]) -> str:
    return base64.b64encode(_percent(match[1]).encode("latin-1")).decode()


def _character(match: re.Match[str]) -> str:
    return {"SP": " ", "TAB": "\t", "CR": "\r", "LT": "<", "GT": ">", "AMP": "&"}[match[1]]


@dataclass(slots=True)
class _Order:
    """What ``<servercmd>`` asks of the server."""

    is_idle: bool = False
    is_stream: bool = False
    is_close: bool = False
    delay_s: float = 0.0
    write_delay_s: float = 0.0
    wait_s: float = 0.0
    seen: list[str] = field(default_factory=list)


class CurlServer:
    """Serves one case on loopback, over HTTP on IPv4 and IPv6, and over TLS."""

    def __init__(self, case: CurlCase, folder: Path, tls: ssl.SSLContext, features: frozenset[str]) -> None:
        self._case = case
        self._folder = folder
        self._tls = tls
        self._features = features
        self._previous: int | None = None  # the part after which the next request gets the next part
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests = 0
        self.substitute: Callable[..., str]
        self._order = _Order()

    async def __aenter__(self) -> "CurlServer":
        plain = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = plain.sockets[0].getsockname()[1]
        self._servers.append(plain)
        with contextlib.suppress(OSError):  # no IPv6 here
            self._servers.append(await asyncio.start_server(self._serve, "::1", port))
        secure = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self._servers.append(secure)
        closed = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        nobody = closed.sockets[0].getsockname()[1]
        closed.close()
        variables = {
            **dict.fromkeys((name for name, kind in _PORTS.items() if kind == "http"), str(port)),
            "HTTPSPORT": str(secure.sockets[0].getsockname()[1]),
            "NOLISTENPORT": str(nobody), "HOSTIP": "127.0.0.1", "CLIENTIP": "127.0.0.1", "HOST6IP": "[::1]",
            "CLIENT6IP": "[::1]", "LOGDIR": str(self._folder),
            "PWD": str(self._folder), "FILE_PWD": str(self._folder),
            "SRCDIR": str(self._case.root / "tests"), "DEV_NULL": "/dev/null", "VERSION": "8", "USER": "user",
            "DATE": time.strftime("%Y-%m-%d"), "HOST6IP-NB": "::1", "CLIENT6IP-NB": "::1", "CURL": "curl",
        }  # fmt: skip
        self.port = port
        self.substitute = Substitution(self._case, variables, self._features).text
        self._read_order()
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _read_order(self) -> None:
        part = self._case.section("reply", "servercmd")
        for line in self.substitute(part[0]).splitlines() if part else ():
            word, _, number = line.partition(":")
            match word.strip():
                case "idle":
                    self._order.is_idle = True
                case "stream":
                    self._order.is_stream = True
                case "swsclose":
                    self._order.is_close = True
                case "delay":
                    self._order.delay_s = int(number) / 1000
                case "writedelay":
                    self._order.write_delay_s = int(number) / 1000
        after = self._case.section("reply", "postcmd")
        if after and (match := re.search(r"wait (\d+)", after[0])):
            self._order.wait_s = float(match[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # A cancelled task is one whose connection was open at the case's end.
            with contextlib.suppress(
                OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):
                await asyncio.sleep(self._order.delay_s)
                while await self._reply(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if match := re.search(r"^content-length: *(\d+)", head, re.IGNORECASE | re.MULTILINE):
            await reader.readexactly(int(match[1]))
        self.requests += 1
        data = self._choose(head)
        if self._order.is_idle:
            await asyncio.sleep(3600)
        while self._order.is_stream:
            writer.write(b"a string to stream 01234567890\n")
            await writer.drain()
        for start in range(0, len(data), PIECE_BYTES):
            writer.write(data[start : start + PIECE_BYTES])
            if self._order.write_delay_s:
                await asyncio.sleep(self._order.write_delay_s)
        await writer.drain()
        await asyncio.sleep(self._order.wait_s)
        is_last = not data or b"swsclose" in data or self._order.is_close
        return not is_last and "Connection: close" not in head and " HTTP/1.0\r\n" not in head

    def _choose(self, head: str) -> bytes:
        """The reply, by the number in the path and by what went before, as in ``sws.c``."""
        line = head.partition("\r\n")[0]
        path = line.rpartition(" HTTP/")[0].partition(" ")[2]
        match = re.search(r"/(\d+)[^/]*$", path)
        number = int(match[1]) if match else 0
        part = number % 10000 if number > 10000 else 0
        section = "connect" if line.startswith("CONNECT ") else "data"
        if "Authorization: Digest" in head:
            part += 1000
        elif "Authorization: NTLM TlRMTVNTUAAD" in head:
            part += 1002
        elif "Authorization: NTLM TlRMTVNTUAAB" in head:
            part += 1001
        elif part >= 1000 and "Authorization: Basic" in head:
            part += 1
        if self._previous is not None:
            part = self._previous + 1
        reply = self._case.section("reply", f"{section}{part or ''}")
        if not reply:
            return b""
        text, attributes = reply
        data = self.substitute(text, attributes.get("crlf", ""))
        if attributes.get("nonewline"):
            data = data.removesuffix("\n")
        self._previous = part if "swsbounce" in data else None
        return data.encode("latin-1")


def split_command(command: str) -> list[str]:
    """The words of a command line of curl; none if only a shell could read it."""
    try:
        return shlex.split(command.encode("latin-1").decode("utf-8", "surrogateescape"))
    except ValueError:
        return []
