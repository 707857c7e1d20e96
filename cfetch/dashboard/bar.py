"""The progress of a walk over many files: a bar on a terminal, elsewhere a line now and then.

Work that takes less than two seconds gets no line.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from cfetch.clock import SystemClock
from cfetch.dashboard.open import choose_mode
from cfetch.report.format import count, size

SILENT_S = 2.0
LINE_EVERY_S = 10.0  # a log of an hour gets 360 lines

Advance = Callable[[int, int], None]
"""Called with the number of files and of bytes finished since the last call; from any thread."""


@contextmanager
def progress_bar(
    doing: str,
    *,
    files: int | None = None,
    size_bytes: int | None = None,
    quiet: bool = False,
    stream: TextIO | None = None,
) -> Iterator[Advance]:
    """Show progress on ``stream`` (stderr) inside the ``with``; ``files`` and ``size_bytes`` are the totals.

    The bar counts bytes if ``size_bytes`` is given, else files.
    """
    stream = sys.stderr if stream is None else stream
    mode = choose_mode(quiet=quiet, log_format="text", terminal=stream.isatty(), environ=os.environ)
    if mode == "quiet":
        yield lambda files, size_bytes: None  # noqa: ARG005 - quiet: nothing is shown
    elif mode == "live":
        with _show_bar(doing, files, size_bytes, stream) as advance:
            yield advance
    else:
        yield _Lines(doing, files, stream)


class _Lines:
    def __init__(self, doing: str, files: int | None, stream: TextIO) -> None:
        self._doing = doing
        self._of = "" if files is None else f" of {count(files)}"
        self._stream = stream
        self._next_s = SystemClock.monotonic() + SILENT_S
        self._files = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def __call__(self, files: int, size_bytes: int) -> None:
        with self._lock:
            self._files += files
            self._bytes += size_bytes
            now_s = SystemClock.monotonic()
            if now_s < self._next_s:
                return
            self._next_s = now_s + LINE_EVERY_S
            text = f"{self._doing}: {count(self._files)}{self._of} files, {size(self._bytes)}"
            print(text, file=self._stream, flush=True)


@contextmanager
def _show_bar(doing: str, files: int | None, size_bytes: int | None, stream: TextIO) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    by_bytes = bool(size_bytes)
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    words = TextColumn("{task.description} {task.fields[words]}", markup=False)
    with Progress(words, BarColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(doing, total=size_bytes if by_bytes else files, words="")
        done_files, done_bytes = 0, 0
        lock = threading.Lock()

        def advance(files_more: int, bytes_more: int) -> None:
            nonlocal done_files, done_bytes
            with lock:
                done_files += files_more
                done_bytes += bytes_more
                of = "" if files is None else f" of {count(files)}"
                words = f"{count(done_files)}{of} files, {size(done_bytes)}"
                progress.update(task, advance=bytes_more if by_bytes else files_more, words=words)

        yield advance
