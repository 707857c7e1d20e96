"""A few thousand small files, each a moment late, and the command as a process on a cluster."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from cfetch.plugins.lab.bench.faults import Fault
from tests.cluster.standalone import PROJECT, Cluster
from tests.engine.drive import tree
from tests.tasks.scene import asked, files_of, whole

__all__ = ["FILES", "LATE", "Ended", "begin", "ended", "in_place", "result", "wait_until"]

FILES = files_of(4000, 16 << 10)
LATE = {name: Fault(kind="delay", delay_s=0.15, first=0) for name in FILES}
TIMEOUT_S = 1200.0  # a session takes minutes on a machine that others use


class Ended(NamedTuple):
    """What is left of a download: the files, how often each was asked for, and the lines of the last run."""

    code: int
    summary: dict[str, Any]
    said: str
    is_whole: bool
    told: Counter[str]
    extra: float

    def line(self) -> str:
        """For a person."""
        files = self.summary["files"]
        state = "whole" if self.is_whole else "NOT WHOLE"
        return (
            f"{state}: {files['done']} done, {files['skipped']} stood there; "
            f"{len(self.told)} files in the account, each {sorted(set(self.told.values()))} times; "
            f"{self.extra:.2f} % more requests than files, {self.summary['retries']} of them retries; "
            f"{self.summary['elapsed_s']:.1f} s"
        )


def begin(
    cluster: Cluster, manifest: Path, to: Path | str, *words: str, master: str = ""
) -> "subprocess.Popen[str]":
    """Start the command."""
    what = ["download", str(manifest), "--to", str(to), "--engine", "spark"]
    what += ["--spark-master", master or cluster.url]
    return subprocess.Popen(
        [sys.executable, "-m", "cfetch", *what, "--json", *words],
        env=cluster.environment(),
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(driver: "subprocess.Popen[str]", origin, *volumes: Path, files=FILES) -> Ended:
    """Wait for it, and look at everything."""
    out, said = driver.communicate(timeout=TIMEOUT_S)
    assert out, said
    return result(driver.returncode, json.loads(out), said, origin, *volumes, files=files)


def result(code: int, summary: dict[str, Any], said: str, origin, *volumes: Path, files=FILES) -> Ended:
    """What is left of a run."""
    trees = [tree(volume) for volume in volumes]
    everything = {name: data for each in trees for name, data in each.items()}
    is_whole = sum(map(len, trees)) == len(files) and everything == whole(files)
    lines = [json.loads(line) for line in Path(summary["metrics"]).read_text().splitlines()]
    told = Counter(line["path"] for line in lines if line["schema"] == "cfetch.file/1")
    requests = sum(asked(origin).values())
    extra = 100 * (requests - len(files)) / len(files)
    return Ended(code, summary, said, is_whole, told, extra)


def in_place(to: Path) -> int:
    """How many files have their names."""
    return sum(len(names) for _, _, names in os.walk(to / "d"))


def wait_until(holds, driver=None) -> None:
    """Look often, for as long as that is reasonable."""
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert driver is None or driver.poll() is None, driver.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.05)
