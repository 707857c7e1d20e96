"""Lists of ``hashdeep`` and ``md5deep -c``: sizes and hashes, in the columns that the second line names."""

from collections.abc import Iterator

from cfetch.manifest.digests import find_algorithm
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits
from cfetch.manifest.url_completion import make_relative_url

_BEGIN = "%%%% HASHDEEP-"


def is_hashdeep(line: str) -> bool:
    """Whether a list begins as those of hashdeep do."""
    return line.startswith(_BEGIN)


def read_hashdeep(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and the hashes."""
    columns: list[str] = []
    dropped: set[str] = set()
    for line, text in source.lines(faults, "leave out"):
        if text.startswith("%%%% ") and not text.startswith(_BEGIN):
            columns = text[5:].split(",")
        elif text and text[0] != "#" and not text.startswith("%%%%"):
            if columns[-1:] != ["filename"]:
                raise BrokenDocumentError(line, "no line before it names the columns: %%%% size,md5,filename")
            cells = text.split(",", len(columns) - 1)
            if len(cells) != len(columns):
                faults.add(line, f"cells of this row: {len(cells)}, columns: {len(columns)}")
                continue
            path = cells[-1].removeprefix("./")
            fields: dict[str, object] = {"url": make_relative_url(path), "path": path}
            for column, cell in zip(columns[:-1], cells[:-1], strict=True):
                if column == "size":
                    fields["size"] = read_digits(cell, "a cell that is not all digits")
                elif (algorithm := find_algorithm(column)) is not None:
                    fields[algorithm] = cell
                else:
                    dropped.add(column)
            yield Row(line, fields)
    if dropped:
        document.notes.append(
            f"hashes that cfetch does not know, and that are left out: {', '.join(sorted(dropped))}"
        )
