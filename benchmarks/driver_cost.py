"""What a file costs the driver of a job: its processor time and memory, without the tasks.

    python benchmarks/driver_cost.py [--files 1000000] [--share 20000] [--part 2000]

The driver is the real one, from the receipts to the metrics file and the summary. The tasks are real too, up
to their receipts, but their files are made up: one process, which does not count, reports them.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError
from cfetch.base.events import EntryFinished, VolumeView
from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.run.frame import RunFrame
from cfetch.run.fresh_links import ManifestRef
from cfetch.show.live.view import View
from cfetch.show.metrics import MetricsFile
from cfetch.straggler.knowledge import NOTHING
from cfetch.tasks.shares.driver import DriverSetup, ShareEngine
from cfetch.tasks.shares.task import Reporter
from cfetch.tasks.shares.work import RunSpec, Turn

INSTANT = "20260301T233000.123456Z-0a1b2c3d"
HOSTS = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--share", type=int, default=20_000, help="files of a share")
    parser.add_argument("--part", type=int, default=2_000, help="files that a task reports at a time")
    args = parser.parse_args()
    figures = measure_apart(args.files, args.share, args.part)
    print(f"{args.files:,} files in shares of {args.share:,}, reported {args.part:,} at a time")
    print(f"driver's processor time, a file: {figures['cpu_us_a_file']:.2f} µs")
    print(
        f"its memory: {figures['peak_mib']:.0f} MiB at the peak, {figures['start_mib']:.0f} MiB at the start"
    )
    print(
        f"metrics: {figures['metrics_lines']:,} lines, {figures['metrics_bytes_a_file']:.0f} bytes a file; "
        f"receipts: {figures['receipts_bytes_a_file']:.0f} bytes a file"
    )


def measure_apart(files: int, share: int, part: int) -> dict[str, float]:
    """Drive a job in a process of its own, for its peak of memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, files, share, part).result()


def measure(files: int, share: int, part: int) -> dict[str, float]:
    """Drive a job of so many files, whose receipts another process leaves."""
    with tempfile.TemporaryDirectory(prefix="cfetch-driver-") as name:
        folder = Path(name)
        plan: Any = _Plan(files)
        guard: Any = SimpleNamespace(
            instant=INSTANT, epoch=1, run_id="r", confirm=lambda: None, commit=_commit
        )
        setup = DriverSetup(
            plan, folder, folder / "state", Settings(), ManifestRef("m", None, None), SystemClock()
        )
        engine = ShareEngine(_Tasks(files, share, part), setup)
        frame = RunFrame(engine, plan, [folder], Settings(), SystemClock())
        metrics = folder / "metrics.jsonl"
        start_mib, began_s = _peak_mib(), _cpu_s()
        summary = frame.go(guard, MetricsFile(metrics, limit_s=Settings().write_timeout), View().apply)
        spent_s = _cpu_s() - began_s
        assert summary.files.done == files, summary
        with metrics.open("rb") as file:
            lines = sum(line.startswith(b'{"schema":"cfetch.file/1"') for line in file)
        assert lines == files
        return {
            "cpu_us_a_file": round(1e6 * spent_s / files, 3),
            "start_mib": round(start_mib, 1),
            "peak_mib": round(_peak_mib(), 1),
            "metrics_lines": lines,
            "receipts_bytes_a_file": round(_receipts_bytes(folder) / files, 1),
            "metrics_bytes_a_file": round(metrics.stat().st_size / files, 1),
        }


class _Plan:
    """As much of a plan as a driver asks for."""

    headers = ()
    sizes_unknown = 0

    def __init__(self, files: int) -> None:
        self._files = files
        self.total_bytes = files << 20

    def __len__(self) -> int:
        return self._files


class _Tasks:
    """Implements ``TaskRunner``: one process that leaves the receipts of all shares."""

    longest_pause_s = 0.25
    leads = True
    trusts_receipts = False
    sweeps = False
    slots = 2
    learned = NOTHING
    roots: tuple[Path, ...] = ()

    def __init__(self, files: int, share: int, part: int) -> None:
        self._files, self._share, self._part = files, share, part
        self.tasks = -(-files // share)

    @contextmanager
    def open(self) -> Iterator[None]:
        yield

    def prepare(self, account: object, directory: Path) -> list[str]:  # noqa: ARG002
        return []

    def find_hub_place(self) -> None:
        return None

    def start(self, spec: RunSpec, account: object, hub: object) -> "_Job":  # noqa: ARG002
        return _Job(spec.receipts, self._files, self._share, self._part)

    def explain(self, failure: BaseException, receipt: str | None) -> CfetchError:  # noqa: ARG002
        raise failure


class _Job:
    """Implements ``Job``."""

    failure = None

    def __init__(self, *args: object) -> None:
        self._process = multiprocessing.get_context("spawn").Process(target=_report_all, args=args)
        self._process.start()

    def wait(self, timeout_s: float) -> bool:
        self._process.join(timeout_s)
        return not self._process.is_alive()

    def take_notes(self) -> list[str]:
        return []

    def views(self) -> list[VolumeView]:
        return []

    def stop(self) -> None:
        pass

    def cancel(self) -> None:
        self._process.terminate()


def _report_all(receipts: str, files: int, share: int, part: int) -> None:
    for number, first in enumerate(range(0, files, share)):
        report_share(receipts, number, range(first, min(first + share, files)), part)


def report_share(receipts: str, number: int, ids: range, part: int) -> None:
    """Leave the receipt of a share, and before it those of its parts."""
    spec: Any = SimpleNamespace(
        instant=INSTANT, epoch=1, receipts=receipts, settings=Settings(), searches=False, volumes=()
    )
    reporter = Reporter(spec, Turn(number, number, 0, "executor 7 on node-17"))
    for position, file in enumerate(ids, start=1):
        reporter(make_ended(file))
        if position % part == 0:
            reporter.leave_part()
    reporter.leave_last(len(ids), None)


def make_ended(n: int) -> EntryFinished:
    """The end of a file that came at once, with the samples of a second."""
    start_s = n / 10_000
    end_s = round(start_s + 1.111111, 6)
    attempt = AttemptRecord(
        n=1,
        start_s=start_s,
        first_byte_s=start_s + 0.05,
        end_s=end_s,
        from_byte=0,
        bytes=1 << 20,
        http_status=200,
        outcome="done",
        error=None,
        peer="192.0.2.17:443",
        median_bps=None,
        expected_s=None,
        samples=[(0.251, 131_072), (0.502, 458_752), (0.753, 786_432), (1.004, 1 << 20)],
    )
    record = FileRecord(
        instant=INSTANT,
        id=n,
        offset=n,
        path=f"{n % 4096:03x}/{n:016x}.jpg",
        host=f"h{n % HOSTS}.test",
        size_bytes=1 << 20,
        bytes=1 << 20,
        status="done",
        verified="sha256",
        volume="/mnt/shared/set",
        queued_s=0.0,
        start_s=start_s,
        end_s=end_s,
        rate_bps=943_718.2,
        stragglers=0,
        attempts=[attempt],
    )
    return EntryFinished(t_s=end_s, record=record)


def _receipts_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("share-1-*"))


def _commit(*, files: int, size_bytes: int) -> None:
    pass


def _cpu_s() -> float:
    return time.process_time()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
