"""Reading a manifest: detect the format, find rows, check them, collect faults. Constant memory."""

from collections.abc import Iterator
from typing import BinaryIO

from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats import reader_for
from cfetch.manifest.rows import Document, checked_row
from cfetch.manifest.source import FetchChunk, Source

__all__ = ["Reading", "read_entries"]


class Reading:
    """One walk over a manifest. Iterating yields the entries without faults; the rest is in ``faults``.

    ``document`` is complete after the walk.
    """

    def __init__(self, source: Source, format: str | None) -> None:  # noqa: A002 - the public word
        self._source = source
        self._reader = reader_for(source, format)
        self.document = Document()
        self.faults = Faults()

    def __iter__(self) -> Iterator[Entry]:
        try:
            for index, row in enumerate(self._reader(self._source, self.document, self.faults)):
                entry = checked_row(row, index, self.document, self.faults)
                if entry is not None:
                    yield entry
        except BrokenDocumentError as error:
            self.faults.broken(error)


def read_entries(
    source: BinaryIO,
    *,
    name: str,
    format: str | None = None,  # noqa: A002
    fetch_chunk: FetchChunk | None = None,
) -> Iterator[Entry]:
    """The entries of a manifest, one by one, without the checks that need all of them (see ``freeze``).

    Args:
        source: a seekable binary file.
        name: what messages call it; without secrets.
        format: a name from ``formats.READERS``; None detects it.
        fetch_chunk: asks for further links of a SQL statement.

    Raises:
        ManifestError: after the last entry, with all faults.
        UsageError: an unknown ``format``.
        LocalFault: ``source`` cannot be read.
    """
    reading = Reading(Source(source, name, fetch_chunk), format)
    yield from reading
    reading.faults.raise_if_any(name)
