"""Makes the three standard streams safe before anything uses them.

If a result cannot be written, the error says so, whichever library was writing. If the reader of stderr has
gone, the run goes on. If the caller has closed a stream, the next opened file does not get its number.
"""

import codecs
import errno
import io
import json
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from cfetch.base.errors import LocalFault

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_PLAIN = {"…": "...", "·": ".", "●": "*", "◌": "o"}
_PLAIN |= {chr(code): "-" for code in range(0x2500, 0x2580)}  # lines
_PLAIN |= {chr(code): "#" for code in range(0x2580, 0x25A0)}  # blocks
_PLAIN |= dict.fromkeys("│┃", "|") | dict.fromkeys("▁▂▃", ".")
ERRORS = "cfetch.plain"


def _write_plainly(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the encoding lacks: drawings by ASCII, letters by JSON's escapes."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char) or json.dumps(char)[1:-1] for char in lacking), error.end


class ReaderGone(Exception):
    """The reader of stdout has gone, as with ``| head -1``: no message is needed."""


class _Result(io.FileIO):
    """Stdout. The first failing write raises the error for the caller; later ones are swallowed."""

    _lost = False

    def write(self, data: "ReadableBuffer", /) -> int:
        if self._lost:
            return memoryview(data).nbytes
        try:
            while (written := super().write(data)) is None:  # another process made the pipe non-blocking
                select.select((), (self,), ())
            return written
        except OSError as error:
            self._lost = True
            if error.errno == errno.EPIPE:
                raise ReaderGone from None
            raise LocalFault(f"cannot write the result to stdout: {error.strerror}") from None


class _Messages(io.FileIO):
    """Stderr. Text that cannot be written is lost: the job matters more than its log."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def guard() -> None:
    """Replace this process's streams, except streams that a test or an embedding program has set."""
    codecs.register_error(ERRORS, _write_plainly)
    for fd, wrong_way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        _occupy(fd, wrong_way)  # a closed stream stays closed: to use it says "Bad file descriptor"
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Result(1, "w", closefd=False), sys.stdout, is_line_buffered=False)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, is_line_buffered=True)


def settle() -> None:
    """Flush stdout now: the interpreter's own last flush could only print a warning.

    Raises:
        LocalFault: it cannot be written.
        ReaderGone: nobody reads it.
    """
    sys.stdout.flush()


def _occupy(fd: int, flags: int) -> None:
    try:
        os.fstat(fd)
    except OSError:
        os.open(os.devnull, flags)  # takes the lowest number that is free: this one


def _text(raw: io.FileIO, like: TextIO | None, *, is_line_buffered: bool) -> TextIO:
    """A text stream over ``raw`` in the encoding of ``like``, which is None if it was closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=like.encoding if like else "utf-8",
        errors=ERRORS,
        line_buffering=raw.isatty() or is_line_buffered,
    )
