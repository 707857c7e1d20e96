"""What one file, batch and task cost the driver: measured here, for the arithmetic of docs/scale.md.

    python benchmarks/scale_measure.py [--folder DIR] [--no-spark] [--entries 1000000] [--receipts 100000]

Each row is a constant of ``scale_paper.Costs``. Processor time where the disk has no part in it. About ten
minutes, most of it for the receipts and for Spark.
"""

import argparse
import multiprocessing
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
from driver_cost import INSTANT, measure_apart, report_share

from cfetch.manifest.freezing import ManifestPart, Opened, freeze
from cfetch.plugins.spark.share_files import SHARES, ShareFiles, file_name, write_shares
from cfetch.tasks.hub.receipts import ReceiptReader, encode_report, share_receipt_name
from cfetch.tasks.shares.cut import ExpectedPace, cut_shares
from cfetch.tasks.shares.dealing import CutShares

A_RECEIPT = 600  # files: a batch of docs/scale.md's simulation
ROW_GROUPS = (1_000, 10_000, 100_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--receipts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--no-spark", action="store_true")
    args = parser.parse_args()
    print("| what | figure |\n|---|---|")
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="cfetch-scale-") as folder:
        rows: list[Callable[[Path], Iterator[tuple[str, str]]]] = [
            lambda one: before(one, args.entries),
            account,
            lambda one: listing(one, args.receipts),
            row_groups,
        ]
        if not args.no_spark:
            rows.append(lambda _: on_spark())
        for number, measure in enumerate(rows):
            own = Path(folder, str(number))
            own.mkdir()
            for what, figure in measure(own):
                print(f"| {what} | {figure} |", flush=True)


def before(folder: Path, entries: int) -> Iterator[tuple[str, str]]:
    """Freezing a plan, cutting it and writing the work file, in a process of its own for its memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield from pool.apply(_before, (folder, entries))


def _before(folder: Path, entries: int) -> list[tuple[str, str]]:
    dice = random.Random(0)
    manifest = folder / "m.jsonl"
    with manifest.open("w") as file:
        for n in range(entries):
            host = min(int(dice.paretovariate(0.6)), 2000)
            size = int(dice.lognormvariate(13.9, 1.66))
            name = f"{n % 4096:03x}/{dice.getrandbits(64):016x}.jpg"
            row = f'{{"url":"http://h{host}.test/{name}?sig={n:032x}","path":"{name}","size":{size}}}\n'
            file.write(row)
    resident = _resident_bytes()
    found = []
    began_s = time.process_time()
    with manifest.open("rb") as source:
        opened = Opened(source)
        plan = freeze([ManifestPart("m", lambda: nullcontext(opened))], name="m", directory=folder)
    found.append(("freeze a plan, an entry", f"{1e6 * (time.process_time() - began_s) / entries:.1f} µs"))
    held = _resident_bytes() - resident
    found.append(("... memory of the driver, an entry", f"{held / entries:.0f} bytes"))
    began_s = time.process_time()
    cut = cut_shares(plan.sizes, plan.host_of, pace=ExpectedPace(), slots=4000)
    found.append(("cut into batches, an entry", f"{1e6 * (time.process_time() - began_s) / entries:.1f} µs"))
    peak = _status_bytes("VmHWM") - resident - held
    found.append(("... memory at its peak, an entry", f"{peak / entries:.0f} bytes"))
    began_s = time.process_time()
    written = folder / "shares"
    write_shares(written, CutShares(plan, cut.list_members(range(entries)), [1] * len(cut.cost_s)))
    found.append(("write the shares, an entry", f"{1e6 * (time.process_time() - began_s) / entries:.1f} µs"))
    found.append(
        (
            "... its size, an entry",
            f"{sum(one.stat().st_size for one in written.iterdir()) / entries:.0f} bytes",
        )
    )
    plan.close()
    return found


def _resident_bytes() -> int:
    return _status_bytes("VmRSS")


def _status_bytes(key: str) -> int:
    line = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None
    return int(line[1]) << 10


def account(folder: Path, batches: int = 200) -> Iterator[tuple[str, str]]:
    """What a file costs the driver, in the shares of the simulation, each of three parts."""
    figures = measure_apart(batches * A_RECEIPT, A_RECEIPT, A_RECEIPT // 3)
    yield "driver: take in and pass on, a file", f"{figures['cpu_us_a_file']:.1f} µs"
    yield "a receipt, a file in it", f"{figures['receipts_bytes_a_file']:.0f} bytes"
    yield "metrics, a file", f"{figures['metrics_bytes_a_file']:.0f} bytes"
    began_s = time.monotonic()
    for batch in range(batches):
        report_share(str(folder), batch, range(batch * A_RECEIPT, (batch + 1) * A_RECEIPT), A_RECEIPT + 1)
    wall_s = time.monotonic() - began_s
    yield f"receipts of {A_RECEIPT} files left and flushed, by one writer", f"{batches / wall_s:.0f} a second"


def listing(folder: Path, many: int) -> Iterator[tuple[str, str]]:
    """A directory of so many small receipts: what a look at it takes when nothing is new."""
    report_share(str(folder), 0, range(1), 2)
    for first in ReceiptReader(folder, INSTANT).read_new(share_receipt_name(1, 0).__eq__):
        records = first.read_records()
        for batch in range(1, many):
            report = msgspec.structs.replace(first.reports[0], share=batch)
            (folder / share_receipt_name(1, batch)).write_bytes(encode_report(report, records))
    receipts = ReceiptReader(folder, INSTANT)
    for what in ("the first look at {:,} receipts of one file", "... each further look"):
        began_s = time.monotonic()
        seen = sum(1 for _ in receipts.read_new(lambda name: name.startswith("share-1-")))
        spent_s = time.monotonic() - began_s
        yield what.format(many), f"{spent_s:.2f} s ({seen:,} read)"


def row_groups(folder: Path) -> Iterator[tuple[str, str]]:
    """What a task pays to find its own row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cfetch.base.secret import SecretUrl
    from cfetch.manifest.entry import Entry, safe_path
    from cfetch.plugins.spark.schemas import arrow_schema

    entry = msgspec.msgpack.encode(Entry(id=0, path=safe_path("a"), url=SecretUrl("http://h.test/a")))
    schema = arrow_schema(SHARES)
    values = ([0], [0], [entry], ["h.test"], [None], [1], [None])
    arrays = [pa.array(one, field.type) for one, field in zip(values, schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    for many in ROW_GROUPS:
        own = folder / str(many)
        own.mkdir()
        path = own / file_name(0)
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for _ in range(many):
                writer.write_table(table)
        with path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            footer = int.from_bytes(file.read(4), "little")
        began_s = time.process_time()
        ShareFiles(directory=str(own), count=many, per_file=many).read_share(many // 2)
        spent_s = time.process_time() - began_s
        yield (
            f"a task finds its own of {many:,} row groups",
            f"{1e3 * spent_s:.0f} ms, {footer / many:.0f} bytes of footer each",
        )


def on_spark() -> Iterator[tuple[str, str]]:
    """Tasks that do nothing: how fast they begin, and what the result of each weighs."""
    from cfetch.plugins.spark.session import spark_session

    with spark_session("local[2]", settings={"spark.driver.maxResultSize": "2m"}) as spark:

        def begun_a_s(many: int) -> float:
            began_s = time.monotonic()
            spark.range(0, many, 1, numPartitions=many).write.format("noop").mode("overwrite").save()
            return many / (time.monotonic() - began_s)

        begun_a_s(2_000)
        yield "tasks of Spark itself, 8,000, `local[2]`", f"{begun_a_s(8_000):.0f} a second"

        def same(rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            yield from rows

        def python(many: int) -> float:
            began_s = time.monotonic()
            numbers = spark.range(0, many, 1, numPartitions=many)
            numbers.mapInArrow(same, "id long").write.format("noop").mode("overwrite").save()
            return many / (time.monotonic() - began_s)

        python(100)
        yield "tasks with Python in them, 1,000, `local[2]`", f"{python(1_000):.0f} a second"
        try:
            spark.range(0, 16_000, 1, numPartitions=16_000).collect()
        except Exception as error:  # noqa: BLE001 - of py4j; its text is what is asked for
            said = re.search(r"results of (\d+) tasks \(([\d.]+) (\w+)\)", str(error))
            if said is not None:
                scale = {"KiB": 1 << 10, "MiB": 1 << 20}[said[3]]
                yield (
                    "the result of a task on the driver",
                    f"{float(said[2]) * scale / int(said[1]):.0f} bytes",
                )


if __name__ == "__main__":
    main()
