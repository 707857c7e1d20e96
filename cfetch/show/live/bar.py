"""The progress of a walk over many files: a bar on a terminal, elsewhere a line now and then.

Work that takes less than two seconds gets no line.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from cfetch.base.clock import SystemClock
from cfetch.show.format import count, plural, size
from cfetch.show.live.open import choose_mode

SILENT_S = 2.0
LINE_EVERY_S = 10.0  # a log of an hour gets 360 lines

Advance = Callable[[int, int], None]
"""Called with the number of files and of bytes finished since the last call; from any thread."""

_Show = Callable[[int, int, str], None]
"""Called with the number of files and of bytes finished so far, and both in words."""


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
    mode = choose_mode(quiet=quiet, progress="auto", terminal=stream.isatty(), environ=os.environ)
    total = plural(files or 0, "file")
    with ExitStack() as stack:
        if mode == "quiet":
            show: _Show = lambda _files, _size_bytes, _words: None  # noqa: E731
        elif mode == "live":
            show = stack.enter_context(_show_bar(doing, files, size_bytes, stream))
        else:
            show = _print_lines(doing, stream)
        done_files = done_bytes = 0
        lock = threading.Lock()

        def advance(files_more: int, bytes_more: int) -> None:
            nonlocal done_files, done_bytes
            with lock:
                done_files += files_more
                done_bytes += bytes_more
                so_far = plural(done_files, "file") if files is None else f"{count(done_files)} of {total}"
                show(done_files, done_bytes, f"{so_far}, {size(done_bytes)}")

        yield advance


def _print_lines(doing: str, stream: TextIO) -> _Show:
    next_s = SystemClock.monotonic() + SILENT_S

    def show(_files: int, _size_bytes: int, words: str) -> None:
        nonlocal next_s
        now_s = SystemClock.monotonic()
        if now_s >= next_s:
            next_s = now_s + LINE_EVERY_S
            print(f"{doing}: {words}", file=stream, flush=True)

    return show


@contextmanager
def _show_bar(doing: str, files: int | None, size_bytes: int | None, stream: TextIO) -> Iterator[_Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    columns = TextColumn("{task.description} {task.fields[words]}", markup=False)
    with Progress(columns, BarColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(doing, total=size_bytes or files, words="")
        yield lambda done_files, done_bytes, words: progress.update(
            task, completed=done_bytes if size_bytes else done_files, words=words
        )
