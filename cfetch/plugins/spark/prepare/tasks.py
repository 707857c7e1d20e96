"""The later tasks of ``prepare``: compare entries that may want one place, drop repeats, write shares.

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
from cfetch.manifest.entry import Collision, Entry
from cfetch.manifest.freezing import name_lines
from cfetch.plugins.spark.prepare.rows import drop_rows, open_rejects
from cfetch.plugins.spark.schemas import arrow_table
from cfetch.plugins.spark.share_files import file_name
from cfetch.plugins.spark.table_writer import TABLES, WRITE_ROWS, TableWriter

REPEATS = {"unit": "int", "row": "bigint"}


class _PlacedEntry(Entry, frozen=True, array_like=True, kw_only=True, gc=False):
    """An entry, and the number of its manifest."""

    source: int = 0


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


def judge_places(
    batches: Iterable[Any], source_of: Mapping[int, int], names: Sequence[str], path: Path
) -> Iterator[Any]:
    """Compare entries that may want one place: rows (key, here, unit, row, entry), sorted so.

    ``here`` is 0 for an entry beneath a place. Yields (unit, row) of each entry that only repeats another;
    each fault is written to ``path``.
    """
    decode = msgspec.msgpack.Decoder(_PlacedEntry).decode
    pairs: list[tuple[int, int]] = []
    with open_rejects(path) as reject:
        for _, group in groupby(_iterate_rows(batches), itemgetter(0)):
            inner: list[_PlacedEntry] = []
            position = (0, 0)

            def wanting(rows: Iterator[tuple[Any, ...]]) -> Iterator[_PlacedEntry]:
                nonlocal position
                for _, _, *place, entry in rows:
                    position = place[0], place[1]
                    yield msgspec.structs.replace(decode(entry), source=source_of[position[0]])

            for is_here, members in groupby(group, itemgetter(1)):
                if not is_here:
                    inner = [next(wanting(members))]
                    continue
                for result in compare_entries(wanting(members), inner):
                    if not isinstance(result, int):
                        reject(*_describe_collision(result, names))
                        continue
                    pairs.append(position)
                    if len(pairs) >= WRITE_ROWS:
                        yield _make_pairs(pairs)
                        pairs.clear()
    if pairs:
        yield _make_pairs(pairs)


def _describe_collision(collision: Collision, names: Sequence[str]) -> tuple[str, int, str]:
    """The manifest and the line of the later entry, and the reason."""
    first, second = cast("tuple[_PlacedEntry, _PlacedEntry]", (collision.first, collision.second))
    if first.source == second.source:
        shown = name_lines(first, second)
    else:
        shown = f"{_describe_place(first, names)} and {_describe_place(second, names)}"
    last = max(first, second, key=lambda entry: (entry.source, entry.line))
    return names[last.source], last.line, collision.message(shown)


def _describe_place(entry: _PlacedEntry, names: Sequence[str]) -> str:
    name = printable(names[entry.source])
    return f"{name} line {entry.line}" if entry.line else f"{name} entry {entry.id} (counted from 0)"


def _make_pairs(pairs: Sequence[tuple[int, int]]) -> Any:  # noqa: ANN401 - a RecordBatch
    (batch,) = arrow_table(REPEATS, pairs).to_batches()
    return batch


def rewrite_units(batches: Iterable[Any], stage: Path) -> Iterator[Any]:
    """Write units without their repeats: rows (unit, row), sorted so. Yields a ``UnitReport`` for each."""
    for unit, rows in groupby(_iterate_rows(batches), itemgetter(0)):
        report = msgspec.json.encode(drop_rows(stage, unit, array("q", (row for _, row in rows))))
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
