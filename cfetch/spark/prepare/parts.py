"""Batches of a prepared plan, as its tasks and its driver read them: Parquet files, a row group for each.

Nothing is held but the batch that is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.spark.work_file import Batch
from cfetch.storage.files import on_disk

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["Parts", "part_name"]


def part_name(number: int) -> str:
    """The plan's file of that number, from 0."""
    return f"part-{number:06d}.parquet"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` batches in files of ``directory`` with ``a_file`` of them each.

    ``own_headers`` go with the entries that name them by number. Read by the methods alone, which raise
    LocalFault: it cannot be read here.
    """

    directory: str
    count: int
    a_file: int
    own_headers: list[Headers] = []

    def batch(self, number: int) -> Batch:
        """The entries of a batch."""
        with self._opened(number // self.a_file) as file:
            table = file.read_row_group(number % self.a_file, use_threads=False)
            return Batch(list(self._entries(table)), table.column("sharers")[0].as_py())

    def ids(self) -> Iterator[list[int]]:
        """The numbers of the entries of each batch, in the order of batches."""
        for table in self._groups(["id"]):
            yield table.column(0).to_pylist()

    def entries(self) -> Iterator[Entry]:
        """All of them, batch by batch."""
        for table in self._groups(None):
            yield from self._entries(table)

    def find(self, path: str) -> int | None:
        """The number of the entry with exactly this path; reads all of the plan."""
        import pyarrow.compute as pc

        for table in self._groups(None):
            near = table.filter(pc.match_substring(table.column("entry"), path.encode()))
            for entry in self._entries(near):
                if entry.path == path:
                    return entry.id
        return None

    def _groups(self, columns: list[str] | None) -> "Iterator[pa.Table]":
        for part in range(-(-self.count // self.a_file)):
            with self._opened(part) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group, columns, use_threads=False)

    @contextmanager
    def _opened(self, part: int) -> "Iterator[pq.ParquetFile]":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(self.directory, part_name(part))
        try:
            with on_disk(path), path.open("rb") as file:
                yield pq.ParquetFile(file)
        except pa.ArrowInvalid:
            raise LocalFault(f"{path} cannot be read as it was written; prepare the manifest again") from None

    def _entries(self, table: "pa.Table") -> Iterator[Entry]:
        decode = msgspec.msgpack.Decoder(Entry).decode
        columns = (table.column(name).to_pylist() for name in ("id", "entry", "own_headers"))
        for entry_id, data, own in zip(*columns, strict=True):
            entry = decode(data)
            headers = entry.headers
            if own is not None:
                headers = tuple((dict(self.own_headers[own]) | dict(headers)).items())
            yield msgspec.structs.replace(entry, id=entry_id, headers=headers)
