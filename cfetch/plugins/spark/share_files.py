"""The shares of a plan on disk: Parquet files in one directory, with a row group for each share.

Two writers use this format: the driver, for a manifest that it holds (``write_shares``), and Spark's tasks,
for a manifest that no machine holds (``prepare.tasks``). A task reads only its own row group, so nothing is
shuffled, and no lost shuffle file makes Spark run a stage again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan import Plan
from cfetch.plugins.spark.schemas import arrow_schema, arrow_table
from cfetch.storage.files import make_private, on_disk, open_replacement, writing
from cfetch.tasks.shares.dealing import CutShares
from cfetch.tasks.shares.work import Share

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


ENTRIES_PER_FILE = 100_000  # some 20 MB, which a task writes in a second
MOST_SHARES_PER_FILE = 256  # a reader of one share reads the metadata of all shares in the file: 100 KB
SHARES = {"share": "int", "id": "bigint", "entry": "binary", "host": "string", "size": "bigint"} | {
    "sharers": "int",
    "own_headers": "int",
}
_FEW_VALUES = {"host", "source", "share", "sharers", "own_headers"}  # of columns that repeat them


def file_name(number: int) -> str:
    """The name of a directory's file of that number, from 0."""
    return f"part-{number:06d}.parquet"


def shares_per_file(files: int, shares: int) -> int:
    """How many shares, each a row group, one Parquet file has, for a plan of so many ``files``."""
    return max(1, min(MOST_SHARES_PER_FILE, ENTRIES_PER_FILE * shares // max(1, files)))


@contextmanager
def open_table(path: Path, columns: Mapping[str, str]) -> "Iterator[pq.ParquetWriter]":
    """Write a Parquet file under a hidden name until it is whole.

    So a task may be repeated, run twice, or die, and no reader ever sees half a file. Only the owner can read
    it, as links are signed. Raises LocalFault.
    """
    import pyarrow.parquet as pq

    few = [name for name in columns if name in _FEW_VALUES]
    with (
        writing(path),
        open_replacement(path) as file,
        pq.ParquetWriter(file, arrow_schema(columns), use_dictionary=few) as table,
    ):
        yield table


class ShareFiles(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` shares in the files of ``directory``, ``per_file`` of them in each but the last.

    ``own_headers`` go with the entries that refer to them by number. Only the share that is read is in
    memory. All methods raise LocalFault if the files cannot be read.
    """

    directory: str
    count: int
    per_file: int
    own_headers: list[Headers] = []

    def read_share(self, number: int) -> Share:
        """The share of that number, from 0."""
        with self._open(number // self.per_file) as file:
            table = file.read_row_group(number % self.per_file, use_threads=False)
            return Share(list(self._entries(table)), table.column("sharers")[0].as_py())

    def read_ids(self) -> Iterator[list[int]]:
        """The numbers of the entries of each share, in the order of shares."""
        for table in self._row_groups(["id"]):
            yield table.column(0).to_pylist()

    def read_entries(self) -> Iterator[Entry]:
        """All entries, share by share."""
        for table in self._row_groups(None):
            yield from self._entries(table)

    def find(self, path: str) -> int | None:
        """The number of the entry with exactly this path; reads all shares."""
        import pyarrow.compute as pc

        for table in self._row_groups(None):
            near = table.filter(pc.match_substring(table.column("entry"), path.encode()))
            for entry in self._entries(near):
                if entry.path == path:
                    return entry.id
        return None

    def _row_groups(self, columns: list[str] | None) -> "Iterator[pa.Table]":
        for number in range(-(-self.count // self.per_file)):
            with self._open(number) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group, columns, use_threads=False)

    @contextmanager
    def _open(self, number: int) -> "Iterator[pq.ParquetFile]":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(self.directory, file_name(number))
        try:
            with on_disk(path), path.open("rb") as file:
                yield pq.ParquetFile(file)
        except pa.ArrowInvalid:
            raise LocalFault(
                f"{path} cannot be read as it was written; prepare the manifest, or run the command, again"
            ) from None

    def _entries(self, table: "pa.Table") -> Iterator[Entry]:
        decode = msgspec.msgpack.Decoder(Entry).decode
        columns = (table.column(name).to_pylist() for name in ("id", "entry", "own_headers"))
        for entry_id, data, own in zip(*columns, strict=True):
            entry = decode(data)
            headers = entry.headers
            if own is not None:
                headers = tuple((dict(self.own_headers[own]) | dict(headers)).items())
            yield msgspec.structs.replace(entry, id=entry_id, headers=headers)


def write_shares(directory: Path, cut: CutShares) -> ShareFiles:
    """Write the shares of a plan; existing files are replaced. Raises LocalFault."""
    plan, members, sharers = cut
    with on_disk(directory):
        make_private(directory)
    count = len(members)
    per_file = shares_per_file(sum(map(len, members)), count)
    for number, first in enumerate(range(0, count, per_file)):
        with open_table(directory / file_name(number), SHARES) as table:
            for share in range(first, min(first + per_file, count)):
                rows = arrow_table(SHARES, _list_rows(plan, members[share], share, sharers[share]))
                table.write_table(rows, row_group_size=len(rows))
    return ShareFiles(directory=str(directory), count=count, per_file=per_file)


def _list_rows(plan: Plan, indexes: Sequence[int], share: int, sharers: int) -> Iterator[tuple[object, ...]]:
    encode = msgspec.msgpack.Encoder().encode
    for index in indexes:
        entry, host = plan.entry(index), plan.hosts[plan.host_of[index]]
        yield share, entry.id, encode(entry), host, entry.size_bytes, sharers, None
