"""The tasks of ``prepare``: parts of manifests become rows in files that other tasks read. Uses no Spark.

Rows are checked by the code that reads a manifest on one machine. Files appear when they are whole
(``table_writer``), so a task may be repeated, run twice, or die.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cfetch.base.config.reading import STANDARD, ReadingOptions
from cfetch.base.errors import CfetchError, LocalFault, ManifestError, UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.collisions import DirectoriesAbove
from cfetch.manifest.compressed import is_compressed, open_decompressed
from cfetch.manifest.entry import Clash, Entry
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.fields import Headers
from cfetch.manifest.folding import KEEPS_NAMES, Folding, coarse_key
from cfetch.manifest.formats.detection import detect_format, reader_for
from cfetch.manifest.formats.json_lines import read_json_lines
from cfetch.manifest.plan_file import identity_of
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, check_row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import host_of
from cfetch.plugins.formats.parquet_pages import read_row_groups
from cfetch.plugins.formats.parquet_table import read_parquet
from cfetch.plugins.spark.table_writer import WRITE_ROWS, TableWriter
from cfetch.storage.files import input_fault, local_fault

BLOCK_BYTES = 1 << 20

_encode = msgspec.msgpack.Encoder().encode


class ReadUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a manifest that one task reads: bytes, row groups, or all of it.

    ``first`` is the number of its first row, and ``line`` that of its first line, if it is known.
    """

    number: int = 0
    source: int
    path: str
    size_bytes: int
    format: str | None = None
    begin: int = 0
    end: int | None = None
    line: int = 1
    groups: tuple[int, int] | None = None
    first: int = 0
    base_url: str | None = None


class UnitReport(msgspec.Struct, kw_only=True):
    """The report of a task on one unit.

    ``broken``: it could not be read to its end. ``usage`` and ``fault`` say why it could not be read at all.
    """

    number: int
    rows: int = 0
    known_bytes: int = 0
    unknown: int = 0
    names_batches: bool = False
    broken: bool = False
    headers: Headers = ()
    usage: str | None = None
    fault: str | None = None


@contextmanager
def open_rejects(path: Path) -> Iterator[Callable[[str, int, str], None]]:
    """Open a table of faults: manifest, line, and reason of each. It exists only if there is a fault."""
    with ExitStack() as tables:
        table: TableWriter | None = None

        def reject(source: str, line: int, reason: str) -> None:
            nonlocal table
            if table is None:
                table = tables.enter_context(TableWriter(path, "rejected"))
            table.add(printable(source), line, reason)

        yield reject


def cut_units(
    source: int, path: Path, base_url: str | None, unit_bytes: int, options: ReadingOptions = STANDARD
) -> list[ReadUnit]:
    """The parts of one manifest. Only JSON Lines and Parquet are cut; compressed files are not.

    Raises:
        UsageError: it cannot be read, or its format needs a library.
    """
    try:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            whole = ReadUnit(source=source, path=str(path), size_bytes=size_bytes, format=options.from_format)
            if whole.size_bytes <= unit_bytes or is_compressed(file.read(4)):
                return [whole]
            source_file = Source(file, str(path))
            whole = msgspec.structs.replace(
                whole, format=options.from_format or detect_format(source_file, options)
            )
            try:
                if whole.format == "jsonl":
                    return _cut_lines(whole, source_file, base_url, unit_bytes)
                if whole.format == "parquet":
                    return _cut_groups(whole, source_file, options, unit_bytes)
            except BrokenDocumentError:  # the task reports it
                return [whole]
            return [whole]
    except OSError as error:
        raise input_fault(error, f"cannot read the manifest {printable(str(path))}") from None


def _cut_lines(whole: ReadUnit, source: Source, base_url: str | None, unit_bytes: int) -> list[ReadUnit]:
    document = Document(given_base_url=base_url)
    # The header, if there is one, is valid for all parts.
    next(read_json_lines(source, document, Faults()), None)
    units, begin = [], 0
    while begin < whole.size_bytes:
        end = _find_line_end(source.file, begin + unit_bytes, whole.size_bytes)
        units.append(
            msgspec.structs.replace(
                whole, begin=begin, end=end, size_bytes=end - begin, base_url=document.base_url
            )
        )
        begin = end
    return units


def _find_line_end(file: BinaryIO, position: int, size_bytes: int) -> int:
    """Find the end of the line that has the byte before ``position``."""
    if position >= size_bytes:
        return size_bytes
    file.seek(position - 1)
    while (text := file.readline(BLOCK_BYTES)) and not text.endswith(b"\n"):
        pass
    return file.tell()


def _cut_groups(whole: ReadUnit, source: Source, options: ReadingOptions, unit_bytes: int) -> list[ReadUnit]:
    faults = Faults()
    next(read_parquet(source, Document(options=options), faults), None)
    if faults.total:  # faults of the columns are reported once
        return [whole]
    units: list[ReadUnit] = []
    begin, first, rows, size_bytes = 0, 0, 0, 0
    groups = read_row_groups(source.file)
    for number, group in enumerate(groups, 1):
        rows += group.rows
        size_bytes += group.plain_bytes
        if size_bytes >= unit_bytes or number == len(groups):
            cut = {"groups": (begin, number), "first": first, "size_bytes": size_bytes}
            units.append(msgspec.structs.replace(whole, **cut))
            begin, first, rows, size_bytes = number, first + rows, 0, 0
    return units or [whole]


def count_lines(unit: ReadUnit) -> int:
    """Count the line ends in a unit. Raises LocalFault."""
    lines, left = 0, unit.size_bytes
    try:
        with Path(unit.path).open("rb") as file:
            file.seek(unit.begin)
            while data := file.read(min(left, BLOCK_BYTES)):
                lines += data.count(b"\n")
                left -= len(data)
    except OSError as error:
        raise local_fault(error, f"cannot read {printable(unit.path)}") from None
    return lines


def _hash_key(path: str) -> int:
    """64 bits of a collision key, the same on every machine; equal ones are only candidates."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little", signed=True)


def read_unit(
    unit: ReadUnit,
    stage: Path,
    rejected: Path,
    base_url: str | None,
    options: ReadingOptions = STANDARD,
    folding: Folding = KEEPS_NAMES,
) -> UnitReport:
    """Check the rows of a unit, and leave ``entries-N`` and ``above-N``; ``rows-N`` if there are faults."""
    report = UnitReport(number=unit.number)
    name = f"{unit.number:08d}.parquet"
    try:
        with (
            open_rejects(rejected / f"rows-{name}") as reject,
            TableWriter(stage / f"entries-{name}", "entries") as entries,
            TableWriter(stage / f"above-{name}", "above") as above,
        ):
            faults = Faults(partial(reject, unit.path))
            try:
                checked = _check_entries(unit, base_url, options, faults, report)
                _stage(checked, report, entries, above, folding)
            except BrokenDocumentError as error:
                report.broken = True
                faults.note_break(error)
            except ManifestError as error:  # the compressed data is broken
                report.broken = True
                for problem in error.problems:
                    faults.add(problem.line, problem.message)
    except UsageError as error:
        report.usage = error.message
    except CfetchError as error:
        report.fault = error.message
    return report


def _check_entries(
    unit: ReadUnit, base_url: str | None, options: ReadingOptions, faults: Faults, report: UnitReport
) -> Iterator[Entry]:
    try:
        opened = Path(unit.path).open("rb")  # noqa: SIM115 - see the with
    except OSError as error:
        raise LocalFault(
            f"cannot read {printable(unit.path)} on {os.uname().nodename}: {error.strerror}; "
            "all executors must see the manifests under the same names"
        ) from None
    with opened as file, open_decompressed(file, printable(unit.path)) as plain:
        groups = None if unit.groups is None else range(*unit.groups)
        part = Source(plain, unit.path, begin=unit.begin, end=unit.end, line=unit.line, row_groups=groups)
        document = Document(
            base_url=unit.base_url, given_base_url=base_url, options=options, hub=find_endpoint
        )
        reader = reader_for(part, msgspec.structs.replace(options, from_format=unit.format))
        for index, row in enumerate(reader(part, document, faults), unit.first):
            entry = check_row(row, index, document, faults)
            if entry is not None:
                yield entry
        report.headers = document.headers


def _stage(
    checked: Iterable[Entry], report: UnitReport, entries: TableWriter, above: TableWriter, folding: Folding
) -> None:
    """Write entries to the tables of a unit, and sum them up in its report."""
    unit, directories = report.number, DirectoriesAbove()
    for entry in checked:
        row, key, size = report.rows, coarse_key(entry.path, folding), entry.size_bytes
        host = host_of(entry.url.value)
        entries.add(unit, row, _hash_key(key), _encode(entry), host, size, identity_of(entry))
        report.rows += 1
        report.known_bytes += size or 0
        report.unknown += size is None
        report.names_batches |= entry.batch is not None
        for directory in directories.list_new(entry.path):  # as stated: ``D`` and ``d`` may be two
            slim = Entry(id=entry.id, url=SecretUrl(""), path=entry.path, line=entry.line)
            above.add(unit, row, _hash_key(coarse_key(directory, folding)), _encode(slim))


def rewrite_rows(
    stage: Path, number: int, dropped_rows: Sequence[int], clashes: Mapping[int, Clash]
) -> UnitReport:
    """Leave ``kept-N``: the entries of a unit without some rows, numbered anew; ``clashes`` are by row."""
    name = f"{number:08d}.parquet"
    report = UnitReport(number=number)
    dropped = pa.array(dropped_rows, pa.int64())
    with (
        TableWriter(stage / f"kept-{name}", "entries") as kept,
        (stage / f"entries-{name}").open("rb") as file,
    ):
        for batch in pq.ParquetFile(file).iter_batches(batch_size=WRITE_ROWS):
            left = batch.filter(pc.invert(pc.is_in(batch.column("row"), value_set=dropped)))
            if len(left):
                left = _add_clashes(left, clashes)
                numbers = pa.array(range(report.rows, report.rows + len(left)), pa.int64())
                left = left.set_column(1, "row", numbers)
                kept.write(pa.Table.from_batches([left]))
                sizes = left.column("size")
                report.rows += len(left)
                report.unknown += sizes.null_count
                report.known_bytes += sum(size for size in sizes.to_pylist() if size is not None)
    return report


def _add_clashes(rows: pa.RecordBatch, clashes: Mapping[int, Clash]) -> pa.RecordBatch:
    """The rows, in which the entries of ``clashes`` have them."""
    here = [place for place, row in enumerate(rows.column("row").to_pylist()) if row in clashes]
    if not here:
        return rows
    columns = {name: rows.column(name).to_pylist() for name in ("row", "entry", "identity")}
    for place in here:
        entry = msgspec.msgpack.decode(columns["entry"][place], type=Entry)
        entry = msgspec.structs.replace(entry, clash=clashes[columns["row"][place]])
        columns["entry"][place], columns["identity"][place] = _encode(entry), identity_of(entry)
    for name in ("entry", "identity"):
        number = rows.schema.get_field_index(name)
        rows = rows.set_column(number, rows.schema.field(number), pa.array(columns[name], pa.binary()))
    return rows


def read_identities(path: Path) -> Iterator[memoryview]:
    """The encoded identities of a file's staged entries, joined, in pieces."""
    with path.open("rb") as file:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=WRITE_ROWS, columns=["identity"]):
            column = batch.column(0)
            _, ends, data = column.buffers()
            offsets = memoryview(ends).cast("i")
            if data is not None:
                yield memoryview(data)[offsets[column.offset] : offsets[column.offset + len(column)]]
