"""Where a small file's processor time goes: microseconds a file, by the part of the program that spends them.

Runs the real ``cfetch download`` on 20,000 files of 16 KiB, in memory where the system has a folder there,
and looks at its stack after each millisecond of its processor time. A moment counts for the innermost room
of cfetch on the stack: what a room asks the interpreter, the kernel or a library for is its own cost.
Usage::

    python benchmarks/where_time_goes.py [--scenario NAME|FILE] [--rounds 3] [--top 30] [-- OPTIONS]

``OPTIONS`` are those of ``cfetch download``. One process does all the work, since only one is looked at.
"""

import argparse
import atexit
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from cfetch.plugins.lab.bench.clean import MEMORY
from cfetch.plugins.lab.bench.content import count_right
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server

INTERVAL_S = 0.001
PARTS = {
    "wire": ("wire",),
    "plan": ("manifest",),
    "engine": ("engine", "straggler", "placement", "clock.py", "breaker.py"),
    "disk": ("storage",),
    "record": ("report", "records.py", "events.py"),
    "display": ("dashboard",),
    "frame": ("run", "app", "timeline", "cli", "config", "__main__.py", "__init__.py"),
}
LOOP, IMPORTS = "loop", "imports"
_PART_OF = {room: part for part, rooms in PARTS.items() for room in rooms}
_HOME = str(Path(__file__).parents[1] / "cfetch") + os.sep


class Sampler:
    """Counts where the main thread is, after each ``INTERVAL_S`` of the process's processor time."""

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def stop(self) -> None:
        """Count no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _look(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's
        stack = [] if frame is None else [frame]
        while stack and stack[-1].f_back is not None:
            stack.append(stack[-1].f_back)
        names = [inner.f_code.co_filename for inner in stack]
        own = next((n for n, name in enumerate(names) if name.startswith(_HOME)), None)
        part, place = LOOP, 0
        if any("importlib" in name for name in names):
            part = IMPORTS
        elif own is not None:
            part = _PART_OF.get(Path(names[own].removeprefix(_HOME)).parts[0], "frame")
            place = own
        if part == "frame" and any("asyncio" in name for name in names):  # the event loop itself
            part, place = LOOP, 0
        if part == LOOP and any(f"{os.sep}aiohttp{os.sep}" in name for name in names):
            part = "wire"  # the event loop has called the library's own protocol
        self.parts[part] += 1
        if stack:
            code = stack[place].f_code
            file = Path(code.co_filename)
            self.places[f"{part:8} {file.parent.name}/{file.name}: {code.co_qualname}"] += 1


def measure_here(words: list[str], result: Path) -> None:
    """Run cfetch in this process, and write down what was seen."""
    sampler = Sampler()
    from cfetch.cli.app import main

    @atexit.register  # the command ends the process
    def write_down() -> None:
        sampler.stop()
        cpu_s = time.process_time()
        result.write_text(json.dumps([cpu_s, sampler.parts, sampler.places]))

    sys.argv = ["cfetch", *words]
    main()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scenario", default="clean-small")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--top", type=int, default=0, help="also the functions with most of the time")
    parser.add_argument("--here", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("more", nargs="*", help="options for cfetch download, after --")
    args = parser.parse_args()
    if args.here is not None:
        measure_here(args.more, args.here)
        return
    scenario = find_scenario(args.scenario)
    files = len(scenario.names)
    seen: list[dict[str, float]] = []
    places: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="cfetch-time-") as outer,
        static_server(scenario, Path(outer)) as server,
    ):
        manifest, result = Path(outer, "manifest.json"), Path(outer, "result.json")
        manifest.write_bytes(scenario.manifest(server.url))
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(dir=outer) as to:
                words = ["download", str(manifest), "--to", to, "--quiet", "--processes", "1", *args.more]
                command = [sys.executable, __file__, "--here", str(result), "--", *words]
                subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "0"})
                if count_right(Path(to), scenario.names, scenario.files) != files:
                    raise SystemExit("files are missing or wrong")
            cpu_s, parts, spots = json.loads(result.read_bytes())
            us = {part: cpu_s * number / sum(parts.values()) / files * 1e6 for part, number in parts.items()}
            seen.append(us | {"all": cpu_s / files * 1e6})
            for place, number in spots.items():
                places[place] += cpu_s * number / sum(parts.values()) / files * 1e6 / args.rounds
    print(f"microseconds of processor time a file, medians of {args.rounds} runs of {files:,} files")
    for part in (*PARTS, LOOP, IMPORTS, "all"):
        print(f"{part:8} {statistics.median(us.get(part, 0.0) for us in seen):7.1f}")
    for place, us_a_file in places.most_common(args.top):
        print(f"{us_a_file:7.1f}  {place}")


if __name__ == "__main__":
    main()
