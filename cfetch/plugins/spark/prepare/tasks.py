"""The later tasks of ``prepare``: compare entries that want one place, rewrite units, write shares.

Rows come from Spark sorted, as Arrow batches, and memory does not grow with their number. Uses no Spark.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cfetch.base.secret import printable
from cfetch.manifest.clashes import compare_entries
from cfetch.manifest.entry import Clash, Collision, Entry
from cfetch.manifest.folding import Folding
from cfetch.manifest.freezing import name_lines
from cfetch.plugins.spark.prepare.rows import rewrite_rows
from cfetch.plugins.spark.schemas import arrow_table
from cfetch.plugins.spark.share_files import file_name
from cfetch.plugins.spark.table_writer import TABLES, WRITE_ROWS, TableWriter

JUDGED = {"unit": "int", "row": "bigint", "clash": "binary"}


class _PlacedEntry(Entry, frozen=True, array_like=True, kw_only=True, gc=False):
    """An entry, and the number of its manifest."""

    source: int = 0


_decode = msgspec.msgpack.Decoder(_PlacedEntry).decode


class Numbering(msgspec.Struct, frozen=True):
    """The numbers of each unit.

    ``first``: the id of its first entry; ``own_headers``: the number of its headers.

    ``shares_per_file``: the plan's.
    """

    first: list[int]
    own_headers: list[int | None]
    shares_per_file: int


def _iterate_rows(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class _Placed:
    """Entries of rows (key, here, unit, row, entry); ``units`` and ``rows`` say where each stands."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], source_of: Mapping[int, int]) -> None:
        self._members = rows
        self._source_of = source_of
        self.units, self.rows = array("i"), array("q")

    def read(self) -> Iterator[_PlacedEntry]:
        """Yield the entries, once."""
        for _, _, unit, row, entry in self._members:
            self.units.append(unit)
            self.rows.append(row)
            yield msgspec.structs.replace(_decode(entry), source=self._source_of[unit])


def judge_places(
    batches: Iterable[Any], source_of: Mapping[int, int], names: Sequence[str], folding: Folding
) -> Iterator[Any]:
    """Compare entries that may want one place: rows (key, here, unit, row, entry), sorted so.

    ``here`` is 0 for an entry beneath a place; a unit has few of these. Yields rows of ``JUDGED``: the unit
    and the row of each entry that only repeats another, and with its clash of each that clashes.
    """
    encode = msgspec.msgpack.Encoder().encode
    judged: list[tuple[int, int, bytes | None]] = []
    for _, group in groupby(_iterate_rows(batches), itemgetter(0)):
        inner: list[_PlacedEntry] = []
        for is_here, members in groupby(group, itemgetter(1)):
            placed = _Placed(members, source_of)
            if not is_here:
                inner = list(placed.read())
                continue
            for result in compare_entries(placed.read(), inner, folding):
                position = result if isinstance(result, int) else result.position
                clash = None if isinstance(result, int) else encode(_make_clash(result, names))
                assert position is not None
                judged.append((placed.units[position], placed.rows[position], clash))
                if len(judged) >= WRITE_ROWS:
                    yield _make_judged(judged)
                    judged.clear()
    if judged:
        yield _make_judged(judged)


def _make_clash(collision: Collision, names: Sequence[str]) -> Clash:
    first, second = cast("tuple[_PlacedEntry, _PlacedEntry]", (collision.first, collision.second))
    if first.source == second.source:
        shown = name_lines(first, second)
    else:
        shown = f"{_describe_place(first, names)} and {_describe_place(second, names)}"
    other = second if collision.is_beneath else first
    return Clash(other.path, collision.message(shown))


def _describe_place(entry: _PlacedEntry, names: Sequence[str]) -> str:
    name = printable(names[entry.source])
    return f"{name} line {entry.line}" if entry.line else f"{name} entry {entry.id} (counted from 0)"


def _make_judged(rows: Sequence[tuple[int, int, bytes | None]]) -> Any:  # noqa: ANN401 - a RecordBatch
    (batch,) = arrow_table(JUDGED, rows).to_batches()
    return batch


def rewrite_units(batches: Iterable[Any], stage: Path) -> Iterator[Any]:
    """Write units without their repeats, and with the clashes of their entries: rows of ``JUDGED``, sorted.

    Yields a ``UnitReport`` for each.
    """
    decode = msgspec.msgpack.Decoder(Clash).decode
    for unit, rows in groupby(_iterate_rows(batches), itemgetter(0)):
        dropped, clashes = array("q"), dict[int, Clash]()
        for _, row, clash in rows:
            if clash is None:
                dropped.append(row)
            else:
                clashes[row] = decode(clash)
        report = msgspec.json.encode(rewrite_rows(stage, unit, dropped, clashes))
        yield pa.RecordBatch.from_pydict({"report": [report]})


def write_share_files(batches: Iterable[Any], plan: Path, numbering: Numbering) -> Iterator[Any]:
    """Write a part of the plan: rows (share, unit, row, entry, host, size, sharers), sorted so.

    Yields its number of entries.
    """
    first, own_headers = pa.array(numbering.first, pa.int64()), pa.array(numbering.own_headers, pa.int32())

    def number_rows(rows: Any) -> Any:  # noqa: ANN401 - a Table of a share
        unit = rows.column("unit")
        ids = pc.add(pc.take(first, unit), rows.column("row"))
        named = rows.append_column("id", ids).append_column("own_headers", pc.take(own_headers, unit))
        return named.select(list(TABLES["shares"]))

    for number, part in groupby(
        _split_by_share(batches), lambda segment: segment[0] // numbering.shares_per_file
    ):
        count = 0
        with TableWriter(plan / file_name(number), "shares") as table:
            for _, segments in groupby(part, itemgetter(0)):
                rows = pa.Table.from_batches([rows for _, rows in segments])
                table.write(number_rows(rows))
                count += len(rows)
        yield pa.RecordBatch.from_pydict({"entries": [count]})


def _split_by_share(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Cut rows where their first column, the share, changes; nothing is copied."""
    for rows in batches:
        runs, begin = pc.run_end_encode(rows.column(0)), 0
        for share, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield share, rows.slice(begin, end - begin)
            begin = end
