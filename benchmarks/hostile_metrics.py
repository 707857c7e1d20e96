"""Random metrics files, ordinary and hostile ones, given to the commands that read metrics: real processes.

``python benchmarks/hostile_metrics.py [--files 300] [--seed 1] [--tuned 60]`` runs ``cfetch report --html``
and ``report`` on each file, and ``tune`` on the first 60. It prints how they ended, and the most memory that
one of them had. A command may take its ``LIMIT_S`` and ``LIMIT_MIB``. Exit code 1: one had a bug, a
traceback, no end, or too much memory.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the files are the tests'

from tests.show.hostile import make_metrics  # noqa: E402

LIMIT_S = {"report --html": 60.0, "report": 60.0, "tune": 600.0}  # a replay of weeks takes minutes
LIMIT_MIB = 500
BUG = 70
HUNG = -1


class Ended(NamedTuple):
    """How a command ended; ``code`` may be ``HUNG``."""

    code: int
    peak_mib: float
    seconds: float
    said: str


def main() -> int:
    """Run all commands on all files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tuned", type=int, default=60)
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as inner:
        metrics, page = Path(inner, "m.jsonl"), Path(inner, "page.html")
        for name, words in (
            ("report --html", ["report", str(metrics), "--html", str(page)]),
            ("report", ["report", str(metrics)]),
            ("tune", ["tune", str(metrics)]),
        ):
            files = min(options.files, options.tuned) if name == "tune" else options.files
            seeds = range(options.seed, options.seed + files)
            ended = [_try(words, metrics, seed, LIMIT_S[name]) for seed in seeds]
            bad += _tell(name, ended, options.seed)
    return min(bad, 1)


def _try(words: list[str], metrics: Path, seed: int, limit_s: float) -> Ended:
    metrics.write_text(make_metrics(Random(seed)))
    with tempfile.TemporaryFile("w+") as said:
        began_s = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-m", "cfetch", *words],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=said,
            preexec_fn=_limit_memory,  # noqa: PLW1509 - this process has no threads
        )
        usage, status = None, 0
        while usage is None:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                usage = used
            elif time.monotonic() - began_s > limit_s:
                os.kill(child.pid, signal.SIGKILL)
                _, _, usage = os.wait4(child.pid, 0)
                status = HUNG
            else:
                time.sleep(0.01)
        child.returncode = 0  # it was waited for here, for its memory
        said.seek(0)
        code = HUNG if status == HUNG else os.waitstatus_to_exitcode(status)
        return Ended(code, usage.ru_maxrss / 1024, time.monotonic() - began_s, said.read())


def _limit_memory() -> None:
    """Far above the limit, only so that a fault does not take the machine with it."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def _tell(name: str, ended: list[Ended], seed: int) -> int:
    """Print the counts of one command; the number of its faults."""
    codes = Counter("hung" if each.code == HUNG else f"exit {each.code}" for each in ended)
    peak_mib, longest_s = max(each.peak_mib for each in ended), max(each.seconds for each in ended)
    faults = [
        (seed + number, each)
        for number, each in enumerate(ended)
        if each.code not in (0, 2) or each.peak_mib > LIMIT_MIB or "Traceback" in each.said
    ]
    counts = ", ".join(f"{codes[code]} {code}" for code in sorted(codes))
    print(
        f"cfetch {name}: {len(ended)} files, {counts}, {codes[f'exit {BUG}']} bugs, {codes['hung']} hung; "
        f"at most {peak_mib:.0f} MiB and {longest_s:.1f} s",
        flush=True,
    )
    for number, each in faults[:20]:
        last = each.said.strip().splitlines()[-1:] or [""]
        print(f"  seed {number}: exit {each.code}, {each.peak_mib:.0f} MiB: {last[0][:200]}")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
