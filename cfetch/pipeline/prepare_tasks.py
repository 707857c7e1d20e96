"""The later tasks of ``prepare``: what wants one place is compared, repeats go, batches are written.

Rows come from Spark sorted, as Arrow batches, and memory does not grow with their number. No Spark in it.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import msgspec

from cfetch.manifest.collisions import Collision, compared
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan import places
from cfetch.pipeline.prepare_rows import WRITE_ROWS, Rejects, Table, rejects, without
from cfetch.secret import printable

__all__ = ["BATCHES_A_FILE", "Numbering", "judge", "part_name", "rewrite", "write_batches"]

BATCHES_A_FILE = 16  # some 100,000 entries: large enough for any disk, and a batch is a row group of its own


class _Placed(Entry, frozen=True, array_like=True, kw_only=True, gc=False):
    """An entry, and where it was staged."""

    unit: int = 0
    source: int = 0


class Numbering(msgspec.Struct, frozen=True):
    """``first``: the id of each unit's first entry. ``headers``: what each unit's entries are to have too."""

    first: dict[int, int]
    headers: dict[int, Headers]


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
                for one in compared(wanting(some), inner):
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


def write_batches(batches: Iterable[Any], plan: Path, numbering: Numbering) -> Iterator[Any]:
    """Write a part of the plan: rows (batch, unit, row, entry, host, size, sharers), sorted so.

    Yields its number of entries, and when the first of its links ends.
    """
    import pyarrow as pa

    decode, encode = msgspec.msgpack.Decoder(Entry).decode, msgspec.msgpack.Encoder().encode
    for number, part in groupby(_rows(batches), lambda row: row[0] // BATCHES_A_FILE):
        count, expires_at = 0, math.inf
        with Table(plan / part_name(number), "plan", group_rows=None) as table:
            for _, rows in groupby(part, itemgetter(0)):
                for batch, unit, row, data, host, size, sharers in rows:
                    entry_id = numbering.first[unit] + row
                    entry = msgspec.structs.replace(decode(data), id=entry_id)
                    if extra := numbering.headers.get(unit):
                        headers = tuple((dict(extra) | dict(entry.headers)).items())
                        entry = msgspec.structs.replace(entry, headers=headers)
                    table.add(batch, entry_id, encode(entry), host, size, sharers)
                    count += 1
                    if entry.expires_at is not None:
                        expires_at = min(expires_at, entry.expires_at)
                table.flush()
        yield pa.RecordBatch.from_pydict({"entries": [count], "expires_at": [expires_at]})


def part_name(number: int) -> str:
    """The file that has batches ``number * BATCHES_A_FILE`` and on."""
    return f"part-{number:06d}.parquet"
