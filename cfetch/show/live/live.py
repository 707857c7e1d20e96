"""The live view on a terminal: a frame for every Progress event, and a short summary in its place at the end.

It has no thread and no timer of its own; the engine's Progress events, a few a second, are the frame rate.
A terminal that does not keep up misses frames; no download waits for it.
"""

import os
import signal
import textwrap
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from cfetch.base.events import STARTING, BatchPlaced, Event, Listener, Progress, RunNoted
from cfetch.base.records import Summary
from cfetch.show.format import duration
from cfetch.show.live.closing import closing_lines
from cfetch.show.live.event_facts import explain_only_volume, placed_text
from cfetch.show.live.paint import frame
from cfetch.show.live.terminal import Terminal
from cfetch.show.live.verbose_facts import describe_more
from cfetch.show.live.view import View

MAX_WAITING = 1000  # lines kept for a terminal that does not read; the oldest are dropped
# columns after the last line for the ^C that a terminal echoes there: a wrapped line moves the picture
ECHO = 3

_VERDICT_STYLES = {
    "completed": "bold green",
    "partial": "bold yellow",
    "failed": "bold red",
    "interrupted": "bold yellow",
}


@contextmanager
def live_view(
    stream: TextIO, *, no_color: bool, explain: bool = False, verbose: bool = False
) -> Iterator[Listener]:
    """Show the run on ``stream``, which must be a terminal; it is left clean whatever happens.

    ``explain``: above the picture, a line stays for each batch that is placed; ``verbose``: and for each file
    that is in place, and for each try again.
    """
    terminal = Terminal(stream)
    console = Console(
        file=cast("IO[str]", terminal),
        force_terminal=True,
        force_interactive=True,
        no_color=no_color,
        markup=False,
        emoji=False,
        highlight=False,
    )
    shown = _Shown(console, terminal, explain=explain or verbose, verbose=verbose)
    try:
        with suppress(OSError):  # a terminal that went away has nothing to show and nothing to tidy
            shown.live.start()
        with _tidy_when_suspended(shown):
            yield shown
    finally:
        with suppress(OSError):
            shown.live.stop()
            shown.print_lines()
            if shown.view.summary is not None:
                _close(console, shown.view, shown.view.summary)
        with suppress(OSError):
            terminal.close()


@contextmanager
def _tidy_when_suspended(shown: "_Shown") -> Iterator[None]:
    """Take the picture away before Ctrl-Z stops the process, and draw it anew when it goes on.

    The shell writes below a picture that stays, and the next frame would cover only a part of the old one.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTSTP) if is_main else None
    if before is not signal.SIG_DFL:
        yield
        return

    def pause(_number: int, _frame: object) -> None:
        shown.hide()
        suspend()
        signal.signal(signal.SIGTSTP, pause)
        shown.show_again()

    signal.signal(signal.SIGTSTP, pause)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def suspend() -> None:
    """Stop this process as Ctrl-Z does; returns when it goes on."""
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)


class _Shown:
    def __init__(self, console: Console, terminal: Terminal, *, explain: bool, verbose: bool) -> None:
        self.view = View()
        self.alive = True
        self._explain = explain
        self._verbose = verbose
        self._has_explained_all = False
        self._lines: deque[Text] = deque(maxlen=MAX_WAITING)  # to be printed above the picture
        self._console = console
        self._terminal = terminal
        self._width = console.width
        self.live = self._make_picture()

    def _make_picture(self) -> Live:
        return Live(
            self,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,  # stdout is for results
        )

    def __call__(self, event: Event) -> None:
        self.view.apply(event)
        if self._verbose and (more := describe_more(event)) is not None:
            self._lines.append(Text(f"{duration(event.t_s):>6} {more.text}"))
        if isinstance(event, BatchPlaced) and self._explain and not self._has_explained_all:
            only = explain_only_volume(event, self.view.run)
            self._has_explained_all = only is not None
            text = placed_text(event) if only is None else only.text
            self._lines.append(Text(f"{duration(event.t_s):>6} {text}"))
        if isinstance(event, RunNoted) and event.note.startswith(STARTING):
            with suppress(OSError):  # a line of its own, as what starts may write below it
                self._terminal.write(f"{event.note} …\n")
                self._terminal.flush()
        if isinstance(event, Progress) and self.alive:
            try:
                self._refresh()
            except OSError:  # the terminal went away: the download matters more than its picture
                self.alive = False

    def _refresh(self) -> None:
        if not self._terminal.ready():
            return
        width = self._console.width
        if width < self._width:  # a narrower terminal has wrapped lines of the last frame
            self._console.clear()
        self._width = width
        if self._lines:
            self.print_lines()  # this also draws the picture anew
        else:
            self.live.refresh()

    def hide(self) -> None:
        """Take the picture away."""
        with suppress(OSError):
            self.live.stop()
            self._terminal.flush()

    def show_again(self) -> None:
        """Draw the picture below whatever the shell has written meanwhile."""
        self.live = self._make_picture()  # the old one would erase as many lines as it had
        with suppress(OSError):
            self.live.start(refresh=True)

    def print_lines(self) -> None:
        """Print the lines since the last frame; the terminal must be ready, or about to be closed."""
        if self._lines:
            self._console.print(Group(*self._lines), soft_wrap=True)
            self._lines.clear()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = frame(self.view, options.max_width, options.size.height)
        lines[-1].truncate(options.max_width - ECHO, overflow="ellipsis")
        yield from lines


def _close(console: Console, view: View, summary: Summary) -> None:
    *rest, verdict = closing_lines(
        summary,
        view.stopping,
        end=view.end,
        refetches=view.option("existing") == "refetch",
        failures=view.option("failures"),
        streamed=view.where != "in place",
    )
    for line in rest:
        for piece in _wrap(line, console.width):
            console.print(Text(piece), soft_wrap=True)
    console.print(Text(verdict, _VERDICT_STYLES[summary.status]), soft_wrap=True)


def _wrap(line: str, width: int) -> list[str]:
    """Break a line between words. A command stays in one piece, so that it can be copied."""
    if len(line) <= width or "next: cfetch" in line:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
