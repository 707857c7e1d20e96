"""The first task of ``prepare``: it makes rows of a part of a manifest. Uses no Spark.

Rows are checked by the code that reads a manifest on one machine.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from cfetch.base.config.reading import STANDARD, ReadingOptions
from cfetch.base.errors import CfetchError, LocalFault, ManifestError, UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.collisions import DirectoriesAbove
from cfetch.manifest.compressed import is_compressed, open_decompressed
from cfetch.manifest.entry import Entry
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
from cfetch.plugins.spark.schemas import arrow_table
from cfetch.storage.files import input_fault, local_fault

BLOCK_BYTES = 1 << 20
WRITE_ROWS = 8192  # in memory at a time: some 5 MB
ENTRIES = {"unit": "int", "row": "bigint", "key": "bigint", "entry": "binary"} | {
    "host": "string",
    "size": "bigint",
    "identity": "binary",
}
STAGED = ENTRIES | {"line": "bigint", "reason": "string", "report": "binary"}
"""What a unit is made of: entries; directories above them (no host); faults (``reason``); its ``report``."""

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
    faults: int = 0
    names_batches: bool = False
    broken: bool = False
    headers: Headers = ()
    usage: str | None = None
    fault: str | None = None


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


def read_unit(
    unit: ReadUnit,
    base_url: str | None,
    options: ReadingOptions = STANDARD,
    folding: Folding = KEEPS_NAMES,
) -> Iterator[Any]:
    """Check the rows of a unit. Yields batches of rows of ``STAGED``; its report is the last row."""
    report = UnitReport(number=unit.number)
    rows: list[tuple[object, ...]] = []
    nothing = (None,) * len(ENTRIES)

    def note_fault(line: int, reason: str) -> None:
        rows.append((unit.number, *nothing[1:], line, reason, None))

    faults, directories = Faults(note_fault), DirectoriesAbove()
    try:
        for entry in _check_entries(unit, base_url, options, faults, report):
            if entry is not None:
                rows += _list_rows(entry, report, directories, folding)
            if len(rows) >= WRITE_ROWS:
                yield from arrow_table(STAGED, rows).to_batches()
                rows.clear()
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
    report.faults = faults.total
    rows.append((*nothing, None, None, msgspec.json.encode(report)))
    yield from arrow_table(STAGED, rows).to_batches()


def _check_entries(
    unit: ReadUnit, base_url: str | None, options: ReadingOptions, faults: Faults, report: UnitReport
) -> Iterator[Entry | None]:
    """Yield the entry of each row; None: the row has faults."""
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
            yield check_row(row, index, document, faults)
        report.headers = document.headers


def _list_rows(
    entry: Entry, report: UnitReport, directories: DirectoriesAbove, folding: Folding
) -> Iterator[tuple[object, ...]]:
    """The rows of an entry: its own, and one for each directory above it that is new in the unit."""
    unit, row, none = report.number, report.rows, (None, None, None)
    key, host = _hash_path(entry.path, folding), host_of(entry.url.value)
    yield unit, row, key, _encode(entry), host, entry.size_bytes, identity_of(entry), *none
    report.rows += 1
    report.names_batches |= entry.batch is not None
    for directory in directories.list_new(entry.path):  # as stated: ``D`` and ``d`` may be two
        slim = Entry(id=entry.id, url=SecretUrl(""), path=entry.path, line=entry.line)
        yield unit, row, _hash_path(directory, folding), _encode(slim), *none, *none


def _hash_path(path: str, folding: Folding) -> int:
    """64 bits of a collision key, the same on every machine; equal ones are only candidates."""
    key = coarse_key(path, folding).encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little", signed=True)
