"""The rows of a user's data frame as entries: each row is checked as a row of a manifest is.

A fault of a row becomes its result, and never ends the query. Entries are in the order of their paths, so the
same rows are the same piece of work in whatever order Spark brings them.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from cfetch.config.reading import ReadingOptions
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import Faults
from cfetch.manifest.plan_file import identity_of
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, Row, check_row

SAME_PATH = "another row has the same path with another url, size or hash; give it another path"


class UrlRows(NamedTuple):
    """A piece of a frame: ``entries``, and for each row the path of its entry, or its fault."""

    entries: list[Entry]
    paths: list[str | None]
    faults: dict[int, str]

    @property
    def number(self) -> int:
        """A number for these entries, the same wherever they are read; links may be signed anew."""
        digest = sha256()
        for entry in self.entries:
            digest.update(identity_of(entry))
        return int(digest.hexdigest()[:14], 16)


def read_url_rows(table: pa.Table, columns: Mapping[str, str], document: Document) -> UrlRows:
    """Read the rows of ``table``; ``columns``: the key of a manifest -> the column that holds it.

    Of rows with equal contents one entry is made.
    """
    first: dict[str, Entry] = {}
    paths: list[str | None] = []
    faults: dict[int, str] = {}
    for index, fields in enumerate(_list_fields(table, columns)):
        messages: list[str] = []
        entry = check_row(Row(0, fields), index, document, Faults(lambda _, text: messages.append(text)))  # noqa: B023
        if entry is not None and identity_of(first.setdefault(entry.path, entry)) != identity_of(entry):
            entry, messages = None, [f"{columns.get('path', 'path')}: {SAME_PATH}"]
        if entry is None:
            faults[index] = "; ".join(messages)
        paths.append(None if entry is None else entry.path)
    ordered = sorted(first.values(), key=lambda entry: entry.path)
    entries = [msgspec.structs.replace(entry, id=number) for number, entry in enumerate(ordered)]
    return UrlRows(entries, paths, faults)


def make_document(reading: ReadingOptions, base_url: str | None) -> Document:
    """The values for all rows. A file without a path is named by the hash of its URL, or by its whole path.

    The last segment of the URL would not do: rows of other tasks may have the same one, and nobody would see.
    """
    name_by = reading.name_by if reading.name_by == "url-path" else "hash"
    return Document(given_base_url=base_url, options=ReadingOptions(name_by=name_by), hub=find_endpoint)


def _list_fields(table: pa.Table, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    values: list[Sequence[Any]] = [table.column(name).to_pylist() for name in columns.values()]
    keys = [*columns]
    rows = [dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)]
    if "headers" in columns:
        for row in rows:  # Arrow's map is a list of pairs
            row["headers"] = None if row["headers"] is None else dict(row["headers"])
    return rows
