"""The later tasks of ``prepare``: compare entries that want one place, and write shares.

Rows come from Spark sorted, as Arrow batches, and memory does not grow with their number. Uses no Spark.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
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
from cfetch.manifest.plan_file import identity_of
from cfetch.plugins.spark.prepare.rows import WRITE_ROWS
from cfetch.plugins.spark.schemas import arrow_table
from cfetch.plugins.spark.share_files import SHARES, file_name, open_table

JUDGED = {"unit": "int", "row": "bigint", "is_repeated": "boolean", "marked": "binary", "marked_as": "binary"}


class _PlacedEntry(Entry, frozen=True, array_like=True, kw_only=True, gc=False):
    """An entry, and the name of its manifest."""

    source: str = ""


_decode = msgspec.msgpack.Decoder(_PlacedEntry).decode
_decode_plain = msgspec.msgpack.Decoder(Entry).decode  # it leaves out the manifest's name
_encode = msgspec.msgpack.Encoder().encode


def judge_places(batches: Iterable[Any], source_of: Sequence[str], folding: Folding) -> Iterator[Any]:
    """Compare entries that may want one place: rows (key, here, unit, row, entry), sorted so.

    ``here`` is 0 for an entry beneath a place; a unit has few of these. ``source_of`` names the manifest of
    each unit. Yields rows of ``JUDGED`` for entries that only repeat another, and for those that clash, with
    what replaces the columns ``entry`` and ``identity``.
    """
    judged: list[tuple[object, ...]] = []
    for _, group in groupby(_iterate_rows(batches), itemgetter(0)):
        inner: list[_PlacedEntry] = []
        for is_here, members in groupby(group, itemgetter(1)):
            units, rows = array("i"), array("q")  # of the entries that were read
            entries = _read_entries(members, source_of, units, rows)
            if not is_here:
                inner = list(entries)
                continue
            for result in compare_entries(entries, inner, folding):
                if isinstance(result, int):
                    judged.append((units[result], rows[result], True, None, None))
                else:
                    assert result.position is not None
                    marked = _mark_clash(result)
                    row = units[result.position], rows[result.position]
                    judged.append((*row, False, _encode(marked), identity_of(marked)))
                if len(judged) >= WRITE_ROWS:
                    yield from arrow_table(JUDGED, judged).to_batches()
                    judged.clear()
    yield from arrow_table(JUDGED, judged).to_batches()


def _iterate_rows(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _read_entries(
    members: Iterable[tuple[Any, ...]], source_of: Sequence[str], units: "array[int]", rows: "array[int]"
) -> Iterator[_PlacedEntry]:
    for _, _, unit, row, entry in members:
        units.append(unit)
        rows.append(row)
        yield msgspec.structs.replace(_decode(entry), source=source_of[unit])


def _mark_clash(collision: Collision) -> Entry:
    """The entry that gives way, with its clash."""
    first, second = cast("tuple[_PlacedEntry, _PlacedEntry]", (collision.first, collision.second))
    if first.source == second.source:
        shown = name_lines(first, second)
    else:
        shown = f"{_describe_place(first)} and {_describe_place(second)}"
    entry, other = (first, second) if collision.is_beneath else (second, first)
    clash = Clash(other.path, collision.message(shown))
    return msgspec.structs.replace(_decode_plain(_encode(entry)), clash=clash)


def _describe_place(entry: _PlacedEntry) -> str:
    name = printable(entry.source)
    return f"{name} line {entry.line}" if entry.line else f"{name} entry {entry.id} (counted from 0)"


def write_share_files(batches: Iterable[Any], plan: Path, per_file: int) -> Iterator[Any]:
    """Write files of the plan, of ``per_file`` shares: rows of ``SHARES``, sorted by share and id.

    Yields the number of entries.
    """
    count = 0
    for number, part in groupby(_split_by_share(batches), lambda segment: segment[0] // per_file):
        with open_table(plan / file_name(number), SHARES) as table:
            for _, segments in groupby(part, itemgetter(0)):
                rows = pa.Table.from_batches([rows for _, rows in segments])
                table.write_table(rows, row_group_size=len(rows))
                count += len(rows)
    yield pa.RecordBatch.from_pydict({"entries": [count]})


def _split_by_share(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Cut rows where their first column, the share, changes; nothing is copied."""
    for rows in batches:
        runs, begin = pc.run_end_encode(rows.column(0)), 0
        for share, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield share, rows.slice(begin, end - begin)
            begin = end
