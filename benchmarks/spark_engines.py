"""What Spark costs: cfetch's job, its function, a loop by hand and one process, in turn, on one session.

Prints a Markdown table for each set: medians of wall and processor seconds of everything but the server, and
their ratios to the loop; ``first`` is the first run of the session, whose workers have yet to start. Each way
has Python workers of its own, as what cfetch leaves in them would help the loop. Every file is compared with
what was served. ``--peers`` names a Python that has img2dataset or daft, which run as whole commands; daft
keeps the bytes in memory. ``shards / directory``: the ratios of the rounds, least, median and most. Usage::

    python benchmarks/spark_engines.py [--rounds 3] [--master local[2]] [--folder /dev/shm] [--peers PYTHON]
    [--only slow] [--ways loop,download,webdataset]
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.plugins.lab.bench.content import Group, count_right
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.static_server import static_server
from cfetch.plugins.spark import download, register
from cfetch.plugins.spark.session import spark_session

SLOW = FaultRule(fraction=0.02, fault=Fault(kind="slow", rate_bps=1600.0))  # left alone, 10 s a file
SETS = {
    "4,000 × 16 KiB": Scenario(name="small", groups=(Group("s", 4000, 16 << 10),)),
    "400 × 1 MiB": Scenario(name="medium", groups=(Group("m", 400, 1 << 20),)),
    "2,000 × 16 KiB, 2 % slow": Scenario(name="slow", groups=(Group("s", 2000, 16 << 10),), rules=(SLOW,)),
}
FILES_PER_SHARD = 250
PARTS = 8  # four tasks for each of two slots, as the job cuts
AT_A_TIME = 16
DAFT = (
    "import sys, daft; urls = open(sys.argv[1]).read().split(); data = daft.from_pydict({'url': urls})"
    ".with_column('data', daft.col('url').download(max_connections=16)).collect();"
    "assert data.where(daft.col('data').not_null()).count_rows() == len(urls)"
)
IMG2DATASET = (
    "import sys; from img2dataset import download; download(url_list=sys.argv[1], output_folder=sys.argv[2],"
    "processes_count=2, thread_count=16, disable_all_reencoding=True, output_format='webdataset')"
)


class Cost(NamedTuple):
    """Wall and processor seconds of one run."""

    wall_s: float
    cpu_s: float


class Set(NamedTuple):
    """A set that is being served; ``urls`` is a file with a URL in each line."""

    scenario: Scenario
    url: str
    manifest: Path
    urls: Path


# What users write by hand: a loop over the rows of each partition.


def loop_task(to: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Fetch all rows of a partition, some at a time, with two more tries."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            statuses = asyncio.run(fetch_all(rows))
            yield pa.RecordBatch.from_pydict({"path": [row["path"] for row in rows], "status": statuses})

    async def fetch_all(rows: list[dict[str, Any]]) -> list[str]:
        turns = asyncio.Semaphore(AT_A_TIME)
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            return await asyncio.gather(*(fetch(session, turns, row) for row in rows))

    async def fetch(session: aiohttp.ClientSession, turns: asyncio.Semaphore, row: dict[str, Any]) -> str:
        async with turns:
            for _ in range(3):
                try:
                    async with session.get(row["url"]) as reply:
                        reply.raise_for_status()
                        data = await reply.read()
                except aiohttp.ClientError as error:
                    status = f"failed: {error}"
                    continue
                path = Path(to, row["path"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)  # noqa: ASYNC240 - as by hand
                return "done"
            return status

    return task


def frame_of(spark: SparkSession, served: Set) -> DataFrame:
    """The set as a data frame in ``PARTS`` partitions."""
    names = served.scenario.names
    table = {"url": [served.url + name for name in names], "path": names}
    return spark.createDataFrame(pa.table(table)).repartition(PARTS)


def run_loop(spark: SparkSession, served: Set, to: Path) -> None:
    """The loop."""
    frame = frame_of(spark, served)
    rows = frame.mapInArrow(loop_task(str(to)), "path string, status string").where("status != 'done'")
    assert rows.count() == 0


def run_function(spark: SparkSession, served: Set, to: Path) -> None:
    """``cfetch.spark.download``."""
    rows = download(frame_of(spark, served), to=to, path="path").where("status != 'done'")
    assert rows.count() == 0


def run_shards(spark: SparkSession, served: Set, to: Path) -> None:
    """The same files as tar files for WebDataset."""
    sink = frame_of(spark, served).write.format("cfetch.webdataset").mode("append")
    sink.option("path_column", "path").option("files_per_shard", FILES_PER_SHARD).save(str(to / "set"))


def unpack_shards(to: Path) -> None:
    """Let the files of shards stand where a download puts them."""
    for path in to.glob("set/*.tar"):
        with tarfile.open(path) as tar:
            tar.extractall(to, [member for member in tar if not member.name.endswith(".json")], filter="data")


def run_engine(engine: str, served: Set, to: Path) -> None:
    """A job, or one process."""
    with prepare(str(served.manifest), Settings(to=(str(to),), engine=engine), env={}) as prepared:
        summary = prepared.run(lambda _: None)
    if summary is None or summary.exit_code != 0:
        raise SystemExit(f"{engine} ended with {summary}")


@contextmanager
def serve(scenario: Scenario, folder: Path) -> Iterator[Set]:
    """Serve a set for one run: a fault is over when its file was asked for."""
    with ExitStack() as stack:
        inner = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        if scenario.rules:
            url = stack.enter_context(OriginProcess(scenario.spec(faulty=True))).url
        else:
            url = stack.enter_context(static_server(scenario, inner)).url
        served = Set(scenario, url, inner / "manifest.json", inner / "urls.txt")
        served.manifest.write_bytes(scenario.manifest(url))
        served.urls.write_text("\n".join(url + name for name in scenario.names))
        yield served


def measure_once(run: Callable[[Set, Path], None], scenario: Scenario, folder: Path) -> Cost:
    """One run into an empty directory."""
    with tempfile.TemporaryDirectory(dir=folder) as to, serve(scenario, folder) as served:
        before = Cost(time.perf_counter(), read_cpu_s())
        run(served, Path(to))
        cost = Cost(time.perf_counter() - before.wall_s, read_cpu_s() - before.cpu_s)
        unpack_shards(Path(to))
        names = scenario.names
        if count_right(Path(to), names, scenario.files) != len(names):
            raise SystemExit("files are missing or wrong")
    return cost


def measure_peer(python: str, program: str, scenario: Scenario, folder: Path) -> Cost:
    """A whole command."""
    with tempfile.TemporaryDirectory(dir=folder) as to, serve(scenario, folder) as served:
        before = Cost(time.perf_counter(), sum(os.times()[2:4]))
        command = [python, "-c", program, str(served.urls), str(Path(to, "out"))]
        subprocess.run(command, check=True, capture_output=True)
        return Cost(time.perf_counter() - before.wall_s, sum(os.times()[2:4]) - before.cpu_s)


def read_cpu_s() -> float:
    """Processor seconds of this process and its descendants, without servers."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            is_server = (
                "nginx" in name or b"cfetch.plugins.lab.bench" in stat.with_name("cmdline").read_bytes()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        if not is_server:
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours |= found
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def measure(
    spark: SparkSession, what: str, scenario: Scenario, folder: Path, args: argparse.Namespace
) -> str:
    """The table of one set."""
    ways: dict[str, Callable[[Set, Path], None]] = {
        "a loop by hand": lambda served, to: run_loop(spark, served, to),
        "`cfetch.spark.download`": lambda served, to: run_function(spark, served, to),
        "`cfetch.webdataset`": lambda served, to: run_shards(spark, served, to),
        "`--engine spark`": lambda served, to: run_engine("spark", served, to),
        "`--engine local`": lambda served, to: run_engine("local", served, to),
    }
    ways = {way: run for way, run in ways.items() if not args.ways or any(word in way for word in args.ways)}
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    first = {}
    for round_number in range(args.rounds + 1):
        for way, run in ways.items():
            spark.sparkContext.environment["WAY"] = way  # its workers are shared with no other
            cost = measure_once(run, scenario, folder)
            if round_number:
                costs[way].append(cost)
            else:
                first[way] = f"{cost.wall_s:.1f} s"
    for program, way in ((IMG2DATASET, "img2dataset, a command"), (DAFT, "daft, a command, no files")):
        if args.peers:
            costs[way] = [measure_peer(args.peers, program, scenario, folder) for _ in range(args.rounds)]
    medians = {
        way: Cost(*(statistics.median(column) for column in zip(*found, strict=True)))
        for way, found in costs.items()
    }
    loop = medians.get("a loop by hand", Cost(float("nan"), float("nan")))
    rows = [
        f"| {way} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {cost.wall_s / loop.wall_s:.2f} | "
        f"{cost.cpu_s / loop.cpu_s:.2f} | {first.get(way, '')} |"
        for way, cost in medians.items()
    ]
    head = f"| {what} | wall | CPU | wall / loop | CPU / loop | first |\n|---|---|---|---|---|---|"
    shards, directory = costs.get("`cfetch.webdataset`"), costs.get("`cfetch.spark.download`")
    if shards and directory:
        for name, column in (("wall", 0), ("CPU", 1)):
            ratios = sorted(one[column] / two[column] for one, two in zip(shards, directory, strict=True))
            spread = ", ".join(f"{ratio:.2f}" for ratio in (ratios[0], statistics.median(ratios), ratios[-1]))
            rows.append(f"\nshards / directory, {name}: {spread}")
    return "\n".join([head, *rows, ""])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, default=None, help="where files go; a RAM disk measures best")
    parser.add_argument("--only", help="the sets whose names have this, such as slow")
    parser.add_argument("--peers", help="a Python with img2dataset and daft")
    parser.add_argument("--ways", type=lambda text: text.split(","), help="words of the ways to compare")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-spark-") as outer,
        spark_session(args.master) as spark,
    ):
        register(spark)
        for what, scenario in SETS.items():
            if args.only and args.only not in what:
                continue
            print(measure(spark, what, scenario, Path(outer), args), flush=True)


if __name__ == "__main__":
    main()
