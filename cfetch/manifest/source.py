"""The bytes of a manifest as strict UTF-8, a window at a time: memory does not grow with the manifest.

Each walk over a source keeps its own position, so that one walk may look ahead of another.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Literal

from cfetch.base.errors import LocalFault
from cfetch.manifest.faults import BrokenDocumentError, Faults

FetchChunk = Callable[[int], bytes]
"""Asks the service for the links from one chunk index on, and returns the reply's body."""

MAX_ROW_CHARS = 1 << 20  # 300 times a long presigned URL; bounds memory and the cost of a number's digits
# Few rows are cut at a window's edge, and it is small compared with the plan's columns.
WINDOW_BYTES = 1 << 18
BLOCK_LINES = 1000  # lines that are looked at together; as entries they take less than a megabyte
MAX_DOCUMENT_BYTES = 16 << 20  # 30,000 long descriptions of files; as Python objects ten times as much
SIGNED = "-----BEGIN PGP SIGNED MESSAGE-----"
Odd = Literal["refuse", "leave out", "keep"]
"""What becomes of a line with a byte that no text has: the list is refused, the line alone is a fault, or it
is kept with marks, which ``odd_bytes.py`` finds, by a reader that knows which row it spoils."""

HEAD_BYTES = 1 << 16  # enough to see past a document's own headers to its first entry


@dataclass(frozen=True)
class Source:
    """The source of a manifest: a seekable file, and its ``name`` for messages.

    ``fetch_chunk`` asks for further chunks of a SQL statement's reply. A source may be a part of the file:
    the bytes [``begin``, ``end``), which begin with line ``line`` and end with a whole line, or the
    ``row_groups`` of a Parquet table. If it comes from a server, ``own_url`` is its address, and
    ``content_type`` the header of the reply.
    """

    file: BinaryIO
    name: str = "the manifest"
    fetch_chunk: FetchChunk | None = None
    window_bytes: int = WINDOW_BYTES
    begin: int = 0
    end: int | None = None
    line: int = 1
    row_groups: range | None = None
    own_url: str | None = None
    content_type: str | None = None

    def read(self, position: int, size_bytes: int) -> bytes:
        """At most ``size_bytes`` bytes from ``position``.

        Raises:
            LocalFault: the file cannot be read.
        """
        try:
            self.file.seek(position)
            return self.file.read(size_bytes if self.end is None else min(size_bytes, self.end - position))
        except OSError as error:
            raise LocalFault(
                f"cannot read {self.name}: {error.strerror}; is its disk still there?"
            ) from error

    def head(self) -> str:
        """The beginning, only for detection: without spaces before it, other bytes than UTF-8 replaced.

        What is around a signed text is left out.
        """
        text = self.read(0, HEAD_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        if not text.startswith(SIGNED):
            return text
        return "\n".join(line for _, line in _read_signed(enumerate(text.splitlines()))).lstrip()

    def texts(self, *, marks_odd: bool = False) -> Iterator[str]:
        """The whole text in pieces, without the byte order mark that spreadsheets put before it.

        ``marks_odd``: a mark stands in place of each NUL, and of each byte that is not UTF-8.

        Raises:
            BrokenDocumentError: a byte is not UTF-8 and is not marked; the message has the byte's offset.
        """
        position, line, rest = self.begin, self.line, b""
        while True:
            data = self.read(position + len(rest), self.window_bytes)
            text, used = _decode(rest + data, position, line, final=not data, marks_odd=marks_odd)
            if text:
                yield text
            if not data:
                return
            line += text.count("\n")
            rest = (rest + data)[used:]
            position += used

    def lines(self, faults: Faults, odd: Odd = "refuse") -> Iterator[tuple[int, str]]:
        """Line numbers, and lines without LF or CRLF; an over-long line is a fault and is left out.

        Of a text with a clear signature (OpenPGP), only the lines that are signed.
        """
        return chain.from_iterable(enumerate(lines, number) for number, lines in self.blocks(faults, odd))

    def blocks(self, faults: Faults, odd: Odd = "refuse") -> Iterator[tuple[int, list[str]]]:
        """The same lines, at most ``BLOCK_LINES`` at once, with the number of the first."""
        blocks = self._all_blocks(faults, marks_odd=odd != "refuse")
        if odd == "leave out":
            from cfetch.manifest.odd_bytes import leave_out_odd  # lists of URLs keep such lines

            blocks = leave_out_odd(blocks, faults)
        if self.begin == 0 and self.is_signed():
            lines = chain.from_iterable(enumerate(lines, number) for number, lines in blocks)
            return ((number, [line]) for number, line in _read_signed(lines))
        return blocks

    def is_signed(self) -> bool:
        """Whether the text has a clear signature, which cfetch does not verify."""
        return self.read(0, 64).removeprefix(b"\xef\xbb\xbf").startswith(SIGNED.encode())

    def _all_blocks(self, faults: Faults, *, marks_odd: bool) -> Iterator[tuple[int, list[str]]]:
        number, rest, skipping = self.line, "", False
        for more in self.texts(marks_odd=marks_odd):
            text = rest + more
            lines = text.split("\n")
            rest = lines.pop()
            if skipping or len(text) > MAX_ROW_CHARS:  # a line may be too long
                for line in lines:
                    if skipping or len(line) > MAX_ROW_CHARS:
                        _add_too_long(faults, number)
                    else:
                        yield number, [line.removesuffix("\r")]
                    skipping = False
                    number += 1
            else:
                if "\r\n" in text:
                    lines = [line.removesuffix("\r") for line in lines]
                for first in range(0, len(lines), BLOCK_LINES):
                    yield number + first, lines[first : first + BLOCK_LINES]
                number += len(lines)
            if len(rest) > MAX_ROW_CHARS:
                rest, skipping = "", True
        if skipping:
            _add_too_long(faults, number)
        elif rest:
            yield number, [rest.removesuffix("\r")]


def _read_signed(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The signed lines of a text with a clear signature (RFC 9580, section 7)."""
    is_inside = False
    for number, line in lines:
        if not is_inside:
            is_inside = not line.strip()  # after the armour's own headers
        elif line.startswith("-----BEGIN PGP SIGNATURE"):
            return
        else:
            yield number, line.removeprefix("- ")


def _decode(data: bytes, position: int, line: int, *, final: bool, marks_odd: bool) -> tuple[str, int]:
    try:
        text, used = codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        if not marks_odd:
            raise BrokenDocumentError(
                line + data.count(b"\n", 0, error.start),
                f"the byte at offset {position + error.start} is not UTF-8; save the manifest as UTF-8",
            ) from None
        text, used = codecs.utf_8_decode(data, "surrogateescape", final)
    if marks_odd and "\0" in text:
        from cfetch.manifest.odd_bytes import NUL_MARK  # few lists have any

        text = text.replace("\0", NUL_MARK)
    return text.removeprefix("\ufeff") if position == 0 else text, used


def _add_too_long(faults: Faults, line: int) -> None:
    faults.add(line, f"the line is longer than {MAX_ROW_CHARS} characters; is a line break missing?")
