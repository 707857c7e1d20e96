"""Files of FTP servers (RFC 959, 3659): ``ftp://host/path``, by aioftp.

The path is below the directory where the login begins, as RFC 1738 (3.2) says; one that begins with ``%2F``
is the server's own. It is sent byte for byte, in passive mode, and data comes only from the server's own
address. Size and time of the last change (SIZE, MDTM) tell versions apart, REST continues a part. User and
password are those of the URL, else of netrc, else ``anonymous``. Nothing is encrypted, and no proxy is used.
"""

import asyncio
import re
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import aioftp

from cfetch.base.clock import SystemClock
from cfetch.base.errors import CfetchError, Refused, SourceError, Throttled, Transient
from cfetch.base.schemes import DEFAULT_PORTS, FTP
from cfetch.base.secret import SecretText, SecretUrl, printable
from cfetch.manifest.digests import Bytes
from cfetch.wire.foreign_errors import map_error
from cfetch.wire.source import FileTransport, find_addresses
from cfetch.wire.transport import SourceContext, Transport

BYTES = "latin-1"  # a text in which each character is a byte: servers have names in any encoding
ANONYMOUS = ("anonymous", "cfetch@")
BLOCK_BYTES = 256 << 10
MOST_LINES = 1000  # of a greeting and the answers about one file; long greetings have some fifty
_SIZE = re.compile(r"\s*(\d{1,19})\s*\Z")
_TIME = re.compile(r"\s*(\d{14})(?:\.\d+)?\s*\Z")
_TYPE = re.compile(r";type=[aid]\Z", re.IGNORECASE)
_UNKNOWN_COMMAND = ("500", "501", "502", "504")  # the server has no SIZE or MDTM; 550 is about the file


def open_ftp(context: SourceContext) -> Transport:
    """The opener of the row of ftp in ``base/schemes.py``."""
    return FileTransport(FtpSource(context))


class _Client(aioftp.Client):
    """Refuses answers that do not end, which would fill the memory. ``lines`` is set to 0 for each file."""

    lines = 0

    async def parse_line(self) -> tuple[aioftp.Code, str]:
        """Read a line of an answer."""
        self.lines += 1
        if self.lines > MOST_LINES:
            raise Refused(f"the server's answers have more than {MOST_LINES} lines")
        return await super().parse_line()


class _Login(NamedTuple):
    """A server and who asks it; what connections may be used again for."""

    host: str
    port: int
    user: str
    password: SecretText


class FtpSource:
    """Opens files of FTP servers; connections that have brought a whole file are used again."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._clock = SystemClock()
        self._idle: dict[_Login, list[tuple[_Client, float]]] = {}

    async def open_file(self, url: SecretUrl, *, fresh: bool) -> "FtpFile":
        """Find the file, as ``FileSource`` says."""
        login, path = self._split(url)
        kept = None if fresh else self._take(login)
        if kept is not None:
            try:
                return await self._describe(kept, login, path)
            except Transient:
                pass  # most likely the server has closed it meanwhile
        client = await self._connect(login)
        return await self._describe(client, login, path)

    async def close(self) -> None:
        """Close all connections."""
        while self._idle:
            for client, _ in self._idle.popitem()[1]:
                client.close()

    def give_back(self, login: _Login, client: _Client) -> None:
        """Keep a connection whose last answer has come."""
        if self._context.keep_alive:
            self._idle.setdefault(login, []).append((client, self._clock.monotonic()))
        else:
            client.close()

    def _split(self, url: SecretUrl) -> tuple[_Login, str]:
        parts = urlsplit(url.reveal())
        mark = "?" if parts.query else ""  # FTP has no queries: it belongs to the name
        path = unquote_to_bytes(_TYPE.sub("", parts.path[1:] + mark + parts.query)).decode(BYTES)
        if not path or path.endswith("/"):
            raise Refused("its URL names a directory; give the URLs of its files")
        user, password = self._context.network.find_user(url) or ANONYMOUS
        if any(sign in part for part in (path, user, password) for sign in "\r\n\0"):
            raise Refused("its path or its login holds a line break, which no FTP command can")
        port = parts.port or DEFAULT_PORTS[FTP]
        return _Login(parts.hostname or "", port, user, SecretText(password)), path

    def _take(self, login: _Login) -> _Client | None:
        """An idle connection that is young enough; the others are closed."""
        idle = self._idle.get(login, [])
        while idle:
            client, since_s = idle.pop()
            if self._clock.monotonic() - since_s < self._context.idle_s:
                return client
            client.close()
        return None

    async def _connect(self, login: _Login) -> _Client:
        """Connect and log in. Raises SourceError."""
        client = _Client(encoding=BYTES)
        try:
            async with asyncio.timeout(self._context.connect_timeout_s):
                await self._reach(client, login)
                try:
                    await client.login(*(_as_bytes(text) for text in (login.user, login.password.reveal())))
                except aioftp.StatusCodeError as error:
                    raise _explain_login(error) from None
                await client.command("TYPE I", "2xx")
        except BaseException as error:
            client.close()
            if isinstance(error, Exception) and not isinstance(error, CfetchError):
                raise _explain(error, "answer the login") from None
            raise
        return client

    async def _reach(self, client: _Client, login: _Login) -> None:
        """Connect to the first address that answers."""
        addresses = await find_addresses(self._context.network, login.host, login.port)
        for number, address in enumerate(addresses, 1):
            try:
                await client.connect(address, login.port)
                return
            except OSError:
                if number == len(addresses):
                    raise

    async def _describe(self, client: _Client, login: _Login, path: str) -> "FtpFile":
        """Ask for size and time. Raises SourceError; the connection is closed or kept then."""
        client.lines = 0
        try:
            size, changed = [await _ask(client, word, path) for word in ("SIZE", "MDTM")]
        except aioftp.StatusCodeError as error:  # the answer is whole, so that the connection is of use
            self.give_back(login, client)
            raise _explain(error, "find the file") from None
        except BaseException as error:
            client.close()
            if isinstance(error, Exception):
                raise _explain(error, "find the file") from None
            raise
        return FtpFile(self, client, login, path, size, changed)


class FtpFile:
    """Implements ``RemoteFile`` on a connection that nothing else uses meanwhile."""

    def __init__(
        self,
        source: FtpSource,
        client: _Client,
        login: _Login,
        path: str,
        size: str | None,
        changed: str | None,
    ) -> None:
        stated, time = _SIZE.match(size or ""), _TIME.match(changed or "")
        self.size_bytes = int(stated[1]) if stated else None
        self.modified_s = _read_time(time[1]) if time else None
        self.version = f"{stated[1]}-{time[1]}" if stated and time else None
        self.peer: str | None = f"{client.server_host}:{client.server_port}"
        self._source, self._client, self._login, self._path = source, client, login, path
        self._data: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_usable = True  # no answer to a command is outstanding

    async def start(self, first_byte: int) -> None:
        """Ask for the bytes, as ``RemoteFile`` says."""
        self._is_usable = False
        try:
            self._data = await self._client.get_passive_connection()
            if first_byte:
                await self._client.command(f"REST {first_byte}", "350")
            await self._client.command(f"RETR {self._path}", "1xx")
        except Exception as error:  # noqa: BLE001 - whatever the library raises is this attempt's failure
            self._is_usable = isinstance(error, aioftp.StatusCodeError)
            raise _explain(error, "send the file") from None

    async def read(self) -> Bytes:
        """Read the next bytes; at the end the server has to say that it has sent all."""
        assert self._data is not None
        try:
            data = await self._data[0].read(BLOCK_BYTES)
            if not data and not self._is_usable:
                self._data[1].close()  # some servers wait for that
                await self._client.command(None, "2xx", "1xx")
                self._is_usable = True
        except Exception as error:  # noqa: BLE001 - as above
            raise _explain(error, "send all of the file") from None
        return data

    def close(self) -> None:
        """Give the connection back or break it off, as ``RemoteFile`` says."""
        data, self._data = self._data, None
        if data is not None:
            data[1].close()
        if self._is_usable:
            self._is_usable = False
            self._source.give_back(self._login, self._client)
        else:
            self._client.close()


async def _ask(client: _Client, word: str, path: str) -> str | None:
    """The answer to a question about a file; None: the server does not know the question."""
    try:
        _, lines = await client.command(f"{word} {path}", "213")
    except aioftp.StatusCodeError as error:
        if str(error.received_codes[-1]) in _UNKNOWN_COMMAND:
            return None
        raise
    return lines[-1]


def _as_bytes(text: str) -> str:
    return text.encode().decode(BYTES)


def _read_time(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _explain(error: Exception, what: str) -> CfetchError:
    """Make cfetch's error: 4xx may be over soon, 5xx is for good; the server's own reason is shown."""
    if isinstance(error, CfetchError):
        return error
    if isinstance(error, TimeoutError):
        return Transient(f"the server did not {what} in time")
    if not isinstance(error, aioftp.StatusCodeError):
        return map_error(error, reading=True)
    code, reason = str(error.received_codes[-1]), " ".join("".join(error.info[-1:]).split())
    said = f"FTP {printable(code, 10)}: {printable(reason.encode(BYTES).decode(errors='replace'), 120)}"
    if code == "421":  # too many connections, or the server shuts down
        return Throttled(f"the server closes the connection ({said})")
    kind: type[SourceError] = Refused if code.startswith("5") else Transient
    return kind(f"the server did not {what} ({said})")


def _explain_login(error: aioftp.StatusCodeError) -> CfetchError:
    """Make the error of a refused login, without the server's text, which might repeat the password."""
    code = printable(str(error.received_codes[-1]), 10)
    if code == "421":
        return Throttled("the server takes no more logins now (FTP 421)")
    if code.startswith("5"):
        return Refused(
            f"the server refuses the login (FTP {code}); write user and password into the URL, or into "
            "~/.netrc and give --netrc"
        )
    return Transient(f"the server does not take the login now (FTP {code})")
