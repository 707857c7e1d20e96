"""A file report of the European Nucleotide Archive: cells hold addresses, sizes and MD5, separated by ``;``.

The columns are ``fastq_ftp``, ``fastq_md5`` and ``fastq_bytes``, or the same with ``submitted``, ``sra`` or
``bam``. The addresses have no scheme; the archive serves them by https. The same report in JSON is an array.
"""

from collections.abc import Iterator, Sequence

from cfetch.base.schemes import FTP, HTTPS
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.json_document import read_elements
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits

KINDS = ("fastq", "submitted", "sra", "bam")


def is_report_head(line: str) -> bool:
    """Whether the first line names the columns of such a report."""
    return bool(set(line.split("\t")) & {f"{kind}_ftp" for kind in KINDS})


def read_ena_report(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``size`` and ``md5``, one for each file of a run."""
    wanted = document.options.url_column if document.options else None
    is_json = source.head().startswith("[")
    kind, without = "", 0
    for line, cells in _read_objects(source, faults) if is_json else _read_table(source, faults):
        kind = kind or _choose_kind(list(cells), wanted)
        files = _split(cells.get(f"{kind}_ftp"))
        without += not any(files)
        sizes, hashes = (_split(cells.get(f"{kind}_{part}"), len(files)) for part in ("bytes", "md5"))
        if any(len(parts) not in (0, len(files)) for parts in (sizes, hashes)):
            counts = f"files: {len(files)}, sizes: {len(sizes)}, MD5: {len(hashes)}"
            faults.add(line, f"{kind}: it does not name as many of each: {counts}")
            continue
        for place, file in enumerate(files):
            if not file:
                continue
            fields: dict[str, object] = {"url": f"{HTTPS}://{file.removeprefix(f'{FTP}://')}"}
            if sizes and sizes[place]:
                fields["size"] = read_digits(sizes[place], "no digits")
            if hashes and hashes[place]:
                fields["md5"] = hashes[place]
            yield Row(line, fields)
    if without:
        document.notes.append(f"rows that name no file of the kind {kind}: {without}")


def _read_table(source: Source, faults: Faults) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows by the names of their columns."""
    lines = source.lines(faults)
    columns = next(lines, (1, ""))[1].split("\t")
    for line, text in lines:
        row = text.split("\t")
        if len(row) == len(columns):
            yield line, dict(zip(columns, row, strict=True))
        elif text:
            faults.add(
                line, f"cells of this row: {len(row)}, columns that the first row names: {len(columns)}"
            )


def _read_objects(source: Source, faults: Faults) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a report in JSON, whose values are texts."""
    for row in read_elements(source):
        if isinstance(row.fields, dict):
            yield row.line, {name: str(value or "") for name, value in row.fields.items()}
        else:
            faults.add(row.line, "the row is no object")


def _choose_kind(columns: Sequence[str], wanted: str | None) -> str:
    kinds = [kind for kind in KINDS if f"{kind}_ftp" in columns]
    if wanted is not None:
        kinds = [kind for kind in kinds if wanted == f"{kind}_ftp"]
    if len(kinds) != 1:
        shown = ", ".join(f"{kind}_ftp" for kind in KINDS if f"{kind}_ftp" in columns)
        raise BrokenDocumentError(1, f"name one of its columns with --url-column: {shown or 'it has none'}")
    return kinds[0]


def _split(cell: str | None, count: int = 0) -> list[str]:
    """Split a cell at each ``;``, one of which may end it.

    A part may be empty: the archive does not know the MD5 of that file. ``count`` is the number of parts.
    """
    parts = cell.split(";") if cell else []
    return parts[:-1] if len(parts) != count and parts[-1:] == [""] else parts
