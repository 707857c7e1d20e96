"""The places in which the files of a feed of segments can be: a directory, or a prefix of URLs."""

import asyncio
import os
import stat
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from cfetch.base.errors import Refused
from cfetch.base.schemes import FILE
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.url_completion import make_relative_url
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.server.segments.index import MAX_SEGMENT_BYTES
from cfetch.storage.files import local_fault
from cfetch.wire.document import Answer
from cfetch.wire.judge import judge
from cfetch.wire.verdict import Asked, ReplyAction, Verdict

_MISSING = frozenset({404, 410})
_JUDGED = frozenset({206, 304, 416})  # judged here, as the code that sends the request knows no ranges


class SegmentFiles(Protocol):
    """Files by their paths, which were checked. All raise SourceError or LocalFault."""

    base_url: str | None
    """What relative URLs are joined to where the index does not say."""

    account: str

    async def fresh(self, path: str, most: int) -> bytes | None:
        """Read the whole file as it is now. None: there is no such file.

        Raises Refused: it has more than ``most`` bytes.
        """

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """Read at most ``most`` bytes from ``from_byte`` on; ``b""`` at the end.

        None: there is no such file.
        """

    async def close(self) -> None:
        """Close connections."""


class DirectoryFiles:
    """Files below one directory, which its own user has named; a symlink must not lead out of it."""

    base_url: str | None = None
    account = f"{FILE}://"

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    async def fresh(self, path: str, most: int) -> bytes | None:
        """Read a whole file, as ``SegmentFiles`` says."""
        return await asyncio.to_thread(self._read_fresh, path, most)

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """Read the end of a file, as ``SegmentFiles`` says."""
        return await asyncio.to_thread(self._read_tail, path, from_byte, most)

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _read_fresh(self, path: str, most: int) -> bytes | None:
        data = self._read_tail(path, 0, most + 1)
        if data is not None and len(data) > most:
            raise Refused(f"{printable(path)} is longer than {most} bytes")
        return data

    def _read_tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        where = (self._root / path).resolve()
        if not where.is_relative_to(self._root):
            raise Refused(f"{printable(path)} leads out of the feed's directory")
        try:
            descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Refused(f"{printable(path)} is not a regular file")
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    file.seek(from_byte)
                    return file.read(most)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise local_fault(error, f"cannot read {printable(str(where))}") from None


class UrlFiles:
    """Files below one URL, read by GET; the URL's query, such as a signature, is sent with each request."""

    def __init__(self, url: SecretUrl, web: Web) -> None:
        """``web`` is closed with this."""
        stem, mark, query = url.reveal().partition("#")[0].partition("?")
        self.base_url: str | None = stem.rstrip("/") + "/"
        self.account = url.origin()
        self._query = mark + query
        self._web = web
        self._kept: dict[str, tuple[str, bytes]] = {}

    async def fresh(self, path: str, most: int) -> bytes | None:
        """Read the whole file. At a second request the server may answer that it is the same (ETag)."""
        kept = self._kept.get(path)
        answer = await self._ask(path, {} if kept is None else {"If-None-Match": kept[0]}, most)
        if answer.status == HTTPStatus.NOT_MODIFIED and kept is not None:
            return kept[1]
        if answer.status in _MISSING:
            return None
        _accept(answer, Asked())
        etags = answer.headers.getall("ETag", [])
        if len(etags) == 1:
            self._kept[path] = (etags[0], answer.body)
        return answer.body

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """Read the end of a file. A server without ranges sends the whole file."""
        headers = {"Range": f"bytes={from_byte}-"} if from_byte else {}
        answer = await self._ask(path, headers, MAX_SEGMENT_BYTES + 1)
        if answer.status in _MISSING:
            return None
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and from_byte:
            return b""
        begin = from_byte - _accept(answer, Asked(from_byte=from_byte)).from_byte
        return answer.body[begin : begin + most]

    async def close(self) -> None:
        """Close connections, as ``SegmentFiles`` says."""
        await self._web.close()

    async def _ask(self, path: str, headers: dict[str, str], max_bytes: int) -> Answer:
        url = f"{self.base_url}{make_relative_url(path)}{self._query}"
        return await self._web.ask(url, max_bytes=max_bytes, headers=headers, expected=_JUDGED | _MISSING)


def _accept(answer: Answer, asked: Asked) -> Verdict:
    """Judge an answer with a body. Raises Refused."""
    verdict = judge(answer.status, answer.headers, asked)
    if verdict.action is not ReplyAction.ACCEPT:
        raise Refused(verdict.reason, http_status=answer.status)
    return verdict
