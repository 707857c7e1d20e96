"""The sources that a download takes: a manifest's name, entries in memory, or a data frame.

Entries in memory become a manifest in JSON Lines, in a temporary file that only its owner can read. It is
read, checked and frozen as any other manifest, so that columns, names, faults and hashes mean the same.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, Protocol, TypeAlias, TypedDict, cast

import msgspec

from cfetch.api.entry import Entry, from_manifest
from cfetch.app.download import prepare
from cfetch.app.given import prepare_document
from cfetch.app.prepared import Prepared
from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from cfetch.manifest.spool import open_spool
from cfetch.run.header_hosts import make_list_network
from cfetch.run.manifest_reader import ManifestReader
from cfetch.storage.files import local_fault

ENTRIES, FRAME = "the list of files", "the data frame"
GROUP_ROWS = 1000  # encoded and written at once


class DataFrameLike(Protocol):
    """A data frame of pandas, polars or pyarrow: it has columns, and a method of ``_write_frame``."""

    @property
    def columns(self) -> Any:  # noqa: ANN401 - names, or in pyarrow the columns themselves
        """Its columns."""


Source: TypeAlias = (
    str | os.PathLike[str] | DataFrameLike | Mapping[str, str] | Iterable[Entry | Mapping[str, object] | str]
)
"""A manifest (path, URL, prefix), a data frame, URLs with their names, or entries, rows or URLs."""


class _How(TypedDict):
    """The keywords that both ways of preparing share."""

    env: Mapping[str, str]
    progress: Callable[[int], None]
    needs_room: bool


@contextmanager
def prepare_source(
    source: Source, settings: Settings, progress: Callable[[int], None], *, needs_room: bool = True
) -> Iterator[Prepared]:
    """Prepare a plan of ``source``. Raises UsageError, LocalFault as ``app.download.prepare``."""
    how: _How = {"env": os.environ, "progress": progress, "needs_room": needs_room}
    if isinstance(source, str | os.PathLike):
        with prepare(os.fspath(source), settings, **how) as prepared:
            yield prepared
        return
    if isinstance(source, Mapping):
        source = _name_files(source)
    is_frame = hasattr(source, "columns")
    with open_spool() as file:
        try:
            if is_frame:
                _write_frame(cast("DataFrameLike", source), file, progress)
            else:
                _write_rows(cast("Iterable[Any]", source), file, progress)
            file.flush()
        except OSError as error:
            raise local_fault(error, "cannot keep the entries in a temporary file") from None
        name = FRAME if is_frame else ENTRIES
        settings = replace(settings, from_format="jsonl")
        with prepare_document(file, name, settings, **how) as prepared:
            yield prepared


def _name_files(names: Mapping[Any, Any]) -> list[dict[str, object]]:
    """The rows of a mapping from URLs to names. Raises UsageError: it is one entry, or has no names."""
    if "url" in names:
        raise UsageError(f"{ENTRIES}: this mapping is one entry; put it into a list")
    rows: list[dict[str, object]] = []
    for url, name in names.items():
        if not isinstance(name, str | os.PathLike):
            raise UsageError(f"{ENTRIES}: the name of a file is {type(name).__name__}, not a text or a path")
        rows.append({"url": url, "path": os.fspath(name)})
    return rows


def read_manifest(manifest: str | os.PathLike[str], settings: Settings) -> list[Entry]:
    """All entries of a manifest. Raises as ``cfetch.read_manifest``."""
    name = os.fspath(manifest)
    network = make_list_network(settings, [name], os.environ)
    with ManifestReader(settings.reading, settings.base_url, network=network).freeze(name) as plan:
        return [from_manifest(entry, plan.headers) for entry in plan.entries()]


def _write_rows(
    rows: Iterable[Entry | Mapping[str, object] | str], file: BinaryIO, progress: Callable[[int], None]
) -> None:
    """Write the rows as JSON Lines; ``progress`` gets their number. Raises UsageError, OSError."""
    encoder = msgspec.json.Encoder(enc_hook=_make_plain)
    group: list[object] = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Entry | Mapping | str):
            raise UsageError(f"{ENTRIES}: number {number} is {type(row).__name__}, not Entry, mapping or URL")
        group.append({"url": row} if isinstance(row, str) else row)
        if len(group) == GROUP_ROWS:
            file.write(_encode(encoder, group))
            group.clear()
            progress(number)
    file.write(_encode(encoder, group))


def _encode(encoder: msgspec.json.Encoder, rows: list[object]) -> bytes:
    try:
        return encoder.encode_lines(rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{ENTRIES} holds a value that no manifest has: {error}") from None


def _make_plain(value: Any) -> object:  # noqa: ANN401 - whatever the caller's rows hold
    """A number of numpy or a path as plain Python. Raises TypeError."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a value of type {type(value).__name__}")


def _write_frame(frame: Any, file: BinaryIO, progress: Callable[[int], None]) -> None:  # noqa: ANN401 - of one of three libraries
    """Write the rows of the frame as JSON Lines. A missing value is null, and a whole number stays whole."""
    if hasattr(frame, "write_ndjson"):  # polars
        frame.write_ndjson(file)
    elif hasattr(frame, "convert_dtypes"):  # pandas: with a missing value, a column of integers has floats
        frame.convert_dtypes().to_json(file, orient="records", lines=True, date_format="iso")
    elif hasattr(frame, "to_batches"):  # pyarrow
        for batch in frame.to_batches(max_chunksize=GROUP_ROWS):
            _write_rows(batch.to_pylist(), file, progress)
    else:
        raise UsageError(f"{type(frame).__name__} is no data frame of pandas, polars or pyarrow")
