"""What the tasks are to do, as one Parquet file that driver and executors see: a row group for each batch.

A task reads its own group and no other, so nothing is shuffled, and no lost shuffle file makes Spark run a
whole stage again.
"""

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.spark.shares import Shares
from cfetch.storage.files import on_disk, open_replacement

__all__ = ["Batch", "read_batch", "write_work"]


class Batch(NamedTuple):
    """The entries of one task; ``sharers``: so many tasks at a time ask the same host, itself among them."""

    entries: list[Entry]
    sharers: int


def write_work(path: Path, plan: Plan, left: Sequence[int], cut: Shares, sharers: Sequence[int]) -> None:
    """``left`` are indexes of the plan, ``cut`` says the batch of each.

    Private: it holds links. Raises LocalFault.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("entry", pa.binary()), ("sharers", pa.int32())])
    encode = msgspec.msgpack.Encoder().encode
    with (
        on_disk(path),
        open_replacement(path) as file,
        pq.ParquetWriter(file, schema, use_dictionary=False) as writer,
    ):
        for places, many in zip(_places(cut), sharers, strict=True):
            entries = pa.array([encode(plan.entry(left[place])) for place in places], pa.binary())
            shared = pa.array([many] * len(places), pa.int32())
            writer.write_table(pa.table([entries, shared], schema), row_group_size=len(places))


def _places(cut: Shares) -> Iterator["array[int]"]:
    """The places of each batch's entries, batch by batch."""
    found = [array("I") for _ in cut.cost_s]
    for place, batch in enumerate(cut.batch_of):
        found[batch].append(place)
    yield from found


def read_batch(path: Path, batch: int) -> Batch:
    """On an executor. Raises LocalFault: it does not see the file, or the run is over."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    decode = msgspec.msgpack.Decoder(Entry).decode
    try:
        with on_disk(path), path.open("rb") as file:
            table = pq.ParquetFile(file).read_row_group(batch, use_threads=False)
    except pa.ArrowInvalid:
        raise LocalFault(f"{path} cannot be read as it was written; run the same command again") from None
    entries = [decode(one) for one in table.column(0).to_pylist()]
    return Batch(entries, table.column(1)[0].as_py())
