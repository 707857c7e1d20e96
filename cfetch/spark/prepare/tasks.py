"""The later tasks of ``prepare``: entries that want one place are compared, repeats go, shares are written.

Rows come from Spark sorted, as Arrow batches, and memory does not grow with their number. No Spark in it.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import msgspec

from cfetch.manifest.collisions import Collision, compare_entries
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import places
from cfetch.secret import printable
from cfetch.spark.prepare.rows import Rejects, rejects, without
from cfetch.spark.share_files import file_name
from cfetch.spark.table_writer import WRITE_ROWS, TableWriter, table_schemas

__all__ = ["Numbering", "judge", "rewrite", "write_share_files"]


class _Placed(Entry, frozen=True, array_like=True, kw_only=True, gc=False):
    """An entry, and where it was staged."""

    unit: int = 0
    source: int = 0


class Numbering(msgspec.Struct, frozen=True):
    """By unit: ``first``, the id of its first entry, and ``own_headers``, which of the plan's these have.

    ``shares_per_file``: of the plan.
    """

    first: list[int]
    own_headers: list[int | None]
    shares_per_file: int


def _rows(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def judge(
    batches: Iterable[Any], source_of: Mapping[int, int], names: Sequence[str], path: Path, partition: int
) -> Iterator[Any]:
    """Compare entries that may want one place: rows (key, here, unit, row, entry), sorted so.

    ``here`` is 0 for what lies beneath a place. Yields (unit, row) of each that only repeats another one, and
    (-1, ``partition``) for each fault, which is left in ``path``.
    """
    decode = msgspec.msgpack.Decoder(_Placed).decode
    found: list[tuple[int, int]] = []
    with rejects(path) as faults:
        for _, group in groupby(_rows(batches), itemgetter(0)):
            inner: _Placed | None = None
            at = (0, 0)

            def wanting(rows: Iterator[tuple[Any, ...]]) -> Iterator[_Placed]:
                nonlocal at
                for _, _, *place, entry in rows:
                    at = place[0], place[1]
                    yield msgspec.structs.replace(decode(entry), unit=at[0], source=source_of[at[0]])

            for is_here, some in groupby(group, itemgetter(1)):
                if not is_here:
                    inner = next(wanting(some))
                    continue
                for one in compare_entries(wanting(some), inner):
                    if isinstance(one, int):
                        found.append(at)
                    else:
                        _tell(one, names, faults)
                        found.append((-1, partition))
                    if len(found) >= WRITE_ROWS:
                        yield _pairs(found)
                        found.clear()
    yield _pairs(found)


def _tell(found: Collision, names: Sequence[str], faults: Rejects) -> None:
    first, second = cast("tuple[_Placed, _Placed]", (found.first, found.second))
    if first.source == second.source:
        shown = places(first, second)
    else:
        shown = f"{_place(first, names)} and {_place(second, names)}"
    last = max(first, second, key=lambda one: (one.source, one.line))
    faults.add_to(names[last.source], last.line, found.message(shown))


def _place(entry: _Placed, names: Sequence[str]) -> str:
    name = printable(names[entry.source])
    return f"{name} line {entry.line}" if entry.line else f"{name} entry {entry.id} (counted from 0)"


def _pairs(pairs: Sequence[tuple[int, int]]) -> Any:  # noqa: ANN401 - a RecordBatch
    import pyarrow as pa

    units, rows = (
        pa.array([one for one, _ in pairs], pa.int32()),
        pa.array([one for _, one in pairs], pa.int64()),
    )
    return pa.RecordBatch.from_arrays([units, rows], names=["unit", "row"])


def rewrite(batches: Iterable[Any], stage: Path) -> Iterator[Any]:
    """Leave units without their repeats: rows (unit, row), sorted so. Yields a ``Read`` for each."""
    import pyarrow as pa

    for unit, rows in groupby(_rows(batches), itemgetter(0)):
        told = msgspec.json.encode(without(stage, unit, array("q", (row for _, row in rows))))
        yield pa.RecordBatch.from_pydict({"told": [told]})


def write_share_files(batches: Iterable[Any], plan: Path, numbering: Numbering) -> Iterator[Any]:
    """Write a part of the plan: rows (share, unit, row, entry, host, size, sharers), sorted so.

    Yields its number of entries.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    first, own_headers = pa.array(numbering.first, pa.int64()), pa.array(numbering.own_headers, pa.int32())

    def numbered(rows: Any) -> Any:  # noqa: ANN401 - a Table of a share
        unit = rows.column("unit")
        ids = pc.add(pc.take(first, unit), rows.column("row"))
        named = rows.append_column("id", ids).append_column("own_headers", pc.take(own_headers, unit))
        return named.select(table_schemas()["shares"].names)

    for number, part in groupby(_segments(batches), lambda one: one[0] // numbering.shares_per_file):
        count = 0
        with TableWriter(plan / file_name(number), "shares") as table:
            for _, segments in groupby(part, itemgetter(0)):
                rows = pa.Table.from_batches([rows for _, rows in segments])
                table.write(numbered(rows))
                count += len(rows)
        yield pa.RecordBatch.from_pydict({"entries": [count]})


def _segments(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Rows cut where their first column, the share, changes; nothing is copied."""
    import pyarrow.compute as pc

    for rows in batches:
        runs, begin = pc.run_end_encode(rows.column(0)), 0
        for share, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield share, rows.slice(begin, end - begin)
            begin = end
