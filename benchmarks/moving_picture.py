"""Records a real run of scripts/demo in a terminal (tmux) and draws it as one moving SVG: docs/demo.svg.

A frame is what the terminal shows at that moment, with its colours. The picture has each line once for as
long as it stays the same, so that it is small. It has its own background, for light and dark pages.

    python benchmarks/moving_picture.py --out docs/demo.svg
"""

import argparse
import subprocess
import sys
import time
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, ROWS = 96, 24
CELL_X, CELL_Y = 8.4, 18.0  # of a font of 14 px
MARGIN = 14
FRAME_S = 0.4  # cfetch draws more often; the picture would be twice as large
LEAST_LINES = 8  # before the first whole frame the screen is nearly black
LAST_S = 4.0  # the summary stays so long
MOST_S = 60.0
COMMAND = "python -m cfetch.plugins.lab.bench.demo"
_CONSOLE = Console(width=COLUMNS)


class Shown(NamedTuple):
    """A line of the terminal, from one moment to another."""

    row: int
    text: str
    from_s: float
    to_s: float


def tmux(*words: str) -> str:
    """Run tmux on a server of its own."""
    return subprocess.run(
        ["tmux", "-L", "cfetch-picture", *words], check=True, capture_output=True, text=True
    ).stdout


def record() -> list[tuple[float, list[str]]]:
    """The frames of a run with the seconds at which they were seen."""
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    # the picture names no directory of this machine
    own = f"PATH={Path(sys.executable).parent}:$PATH {sys.executable}"
    ends = f"{own} -m cfetch.plugins.lab.bench.demo; tmux -L cfetch-picture wait -S ended; cat"
    tmux("new-session", "-d", *size, "-s", "demo", ends)
    frames: list[tuple[float, list[str]]] = []
    began_s = time.monotonic()
    with subprocess.Popen(["tmux", "-L", "cfetch-picture", "wait", "ended"]) as waiting:
        while waiting.poll() is None and time.monotonic() - began_s < MOST_S:
            time.sleep(FRAME_S)
            lines = tmux("capture-pane", "-pe", "-t", "demo").splitlines()
            if sum(map(bool, lines)) >= LEAST_LINES:
                frames.append((time.monotonic() - began_s, lines))
    time.sleep(FRAME_S)
    frames.append((time.monotonic() - began_s, tmux("capture-pane", "-pe", "-t", "demo").splitlines()))
    tmux("kill-server")
    return frames


def merge(frames: list[tuple[float, list[str]]]) -> tuple[list[Shown], float]:
    """Each line for as long as it stays the same, and the length of the film."""
    start_s = frames[0][0]
    times = [at_s - start_s for at_s, _ in frames]
    total_s = times[-1] + LAST_S
    ends = [*times[1:], total_s]
    shown = []
    for row in range(ROWS):
        texts = [lines[row] if row < len(lines) else "" for _, lines in frames]
        for text, group in groupby(range(len(frames)), key=texts.__getitem__):
            indices = [*group]
            if text.strip():
                shown.append(Shown(row, text, times[indices[0]], ends[indices[-1]]))
    return shown, total_s


def colour_of(style: Style) -> str:
    """The colour of a text on the dark background."""
    colour = style.color or Color.default()
    red, green, blue = colour.get_truecolor(MONOKAI)
    if style.dim:
        red, green, blue = (round(0.55 * part) for part in (red, green, blue))
    return f"#{red:02x}{green:02x}{blue:02x}"


def draw_line(shown: Shown, total_s: float) -> str:
    """One line as SVG, visible in its time only."""
    y = MARGIN + (shown.row + 0.8) * CELL_Y
    spans, column = [], 0
    for segment in Text.from_ansi(shown.text).render(_CONSOLE):
        words = segment.text.rstrip("\n")
        if words.strip():
            style = segment.style or Style.null()
            weight = ' font-weight="bold"' if style.bold else ""
            x, wide = MARGIN + column * CELL_X, len(words) * CELL_X
            spans.append(
                f'<tspan x="{x:.1f}" textLength="{wide:.1f}" fill="{colour_of(style)}"{weight}>'
                f"{escape(words)}</tspan>"
            )
        column += len(words)
    first, last = shown.from_s / total_s, shown.to_s / total_s
    values, times = (
        ("visible;hidden", f"0;{last:.4f}"),
        ("hidden;visible;hidden", f"0;{first:.4f};{last:.4f}"),
    )[first > 0]
    if last > 0.9999:
        values, times = values.rpartition(";")[0], times.rpartition(";")[0]
    moves = ""
    if ";" in values:
        moves = (
            f'<animate attributeName="visibility" values="{values}" keyTimes="{times}" calcMode="discrete" '
            f'dur="{total_s:.2f}s" repeatCount="indefinite"/>'
        )
    hidden = ' visibility="hidden"' if last <= 0.9999 else ""  # without animation, the last frame is shown
    return f'<text y="{y:.1f}" xml:space="preserve"{hidden}>{"".join(spans)}{moves}</text>'


def draw(frames: list[tuple[float, list[str]]]) -> str:
    """The whole picture."""
    shown, total_s = merge(frames)
    width, height = 2 * MARGIN + COLUMNS * CELL_X, 2 * MARGIN + ROWS * CELL_Y
    lines = "\n".join(draw_line(line, total_s) for line in shown)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">\n'
        f"<title>{COMMAND}: a download with slow connections, as the terminal shows it</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#12151c" stroke="#3a4150"/>\n{lines}\n</svg>\n'
    )


def main() -> None:
    """Record and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.write_text(draw(record()), encoding="utf-8")
    print(f"{options.out}: {options.out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
