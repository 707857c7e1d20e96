"""Chooses how a run is shown and opens it: a listener for as long as the run lasts."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TextIO

from cfetch.base.clock import SystemClock
from cfetch.base.events import Listener
from cfetch.base.secret import printable
from cfetch.show.live.lines import json_lines, plain_lines, quiet_lines

READING_EVERY_S = 2.0  # a manifest that is read in less time needs no line

Mode = Literal["live", "plain", "json", "quiet"]


def choose_mode(*, quiet: bool, progress: str, terminal: bool, environ: Mapping[str, str]) -> Mode:
    """The one place that decides how a run is shown. What the user asks for comes first.

    Else it is ``live`` if a person watches: on a terminal that can move its cursor, and not in a CI job. A
    ``progress`` of ``bar`` overrules only the CI job: nothing else can show a bar.
    """
    if quiet:
        return "quiet"
    if progress in ("json", "plain"):
        return "json" if progress == "json" else "plain"
    can_show = terminal and environ.get("TERM") not in {"", "dumb", "unknown", None}
    is_watched = progress == "bar" or not _is_true(environ.get("CI"))
    return "live" if can_show and is_watched else "plain"


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in {"1", "true", "yes"}


def open_dashboard(
    *,
    quiet: bool = False,
    progress: str = "auto",
    no_color: bool = False,
    explain: bool = False,
    verbose: bool = False,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> AbstractContextManager[Listener]:
    """A context manager that yields the listener for the engine, and tidies the terminal at its end.

    ``stream`` is stderr unless given. ``NO_COLOR`` and ``no_color`` keep the layout and drop the colours.
    ``explain``: a line for each batch, above the live view, says why the batch goes to its volume.
    ``progress``: auto, bar, plain or json, as the option of that name.
    ``verbose``: also a line for each file that is in place, and for each try again.
    """
    stream = sys.stderr if stream is None else stream
    environ = os.environ if environ is None else environ
    unicode = (stream.encoding or "").lower().startswith("utf")
    mode = choose_mode(quiet=quiet, progress=progress, terminal=stream.isatty() and unicode, environ=environ)
    if mode == "live":
        from cfetch.show.live.live import live_view  # rich costs 50 ms that a log never needs

        no_color = no_color or bool(environ.get("NO_COLOR"))
        return live_view(stream, no_color=no_color, explain=explain, verbose=verbose)
    if mode == "quiet":
        return nullcontext(quiet_lines(stream))
    if mode == "plain" and progress == "bar":
        print("--progress bar: there is no terminal here to show a bar on; here are lines", file=stream)
    lines = json_lines if mode == "json" else plain_lines
    return nullcontext(lines(stream, explain=explain, verbose=verbose))


def reading_lines(name: str, *, quiet: bool = False, stream: TextIO | None = None) -> Callable[[int], None]:
    """A function to call with the number of entries read so far: it prints a line every two seconds."""
    stream = sys.stderr if stream is None else stream
    printed_s = SystemClock.monotonic()

    def print_count(entries: int) -> None:
        nonlocal printed_s
        if not quiet and SystemClock.monotonic() - printed_s >= READING_EVERY_S:
            printed_s = SystemClock.monotonic()
            print(f"reading {printable(name)}: {entries:,} entries", file=stream, flush=True)

    return print_count
