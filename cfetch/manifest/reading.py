"""Reads a manifest in constant memory: detects the format, finds rows, checks them, collects faults.

A reader of ``formats`` finds rows one by one and checks none of them. ``rows.check_row`` turns each row into
an entry, or into faults. A faulty row never ends the walk, so that the user sees all faults at once. Only
broken grammar of the document ends it, as the next row cannot be found then. Checks that need all entries,
such as collisions of paths, come later: ``freezing.freeze``.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from cfetch.base.config.reading import STANDARD, ReadingOptions
from cfetch.base.errors import UsageError
from cfetch.base.schemes import is_object_url
from cfetch.manifest.compressed import open_decompressed
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import BrokenDocumentError, Faults, UrlError
from cfetch.manifest.formats.detection import reader_for
from cfetch.manifest.rows import Document, PlainRows, check_row
from cfetch.manifest.source import FetchChunk, Source
from cfetch.manifest.urls import resolve_url

LONG_BYTES = 1 << 16  # of a list that is worth looking for plain rows: it takes a module and milliseconds
LOOKED_AT = 1000  # entries at the beginning that are searched for byte ranges


class Reading:
    """One walk over a manifest. Iteration yields the entries without faults; all faults are in ``faults``.

    ``document`` is complete after the walk.
    """

    def __init__(
        self,
        source: Source,
        base_url: str | None = None,
        *,
        options: ReadingOptions = STANDARD,
        first: int = 0,
        faults: Faults | None = None,
    ) -> None:
        """Several manifests share ``faults``; ``first`` is then the number of this one's first row.

        Raises:
            UsageError: there is no such format, or ``base_url`` is invalid.
        """
        self._source = source
        self._reader = reader_for(source, options)
        self.document = Document(
            given_base_url=None if base_url is None else check_base_url(base_url),
            own_url=source.own_url,
            options=options,
            hub=_find_endpoint,
            takes_plain=bool(source.read(source.begin + LONG_BYTES, 1)),
        )
        self._skips = options.bad_rows == "skip"
        self.rows = self._first = first
        self.faults = faults or Faults()

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self.blocks())

    def blocks(self) -> Iterator[Sequence[Entry]]:
        """The same entries: plain rows many at once, and others one by one."""
        good, before, index = 0, self.faults.total, self._first
        ranges = RangeSigns()
        try:
            for row in self._reader(self._source, self.document, self.faults):
                if type(row.fields) is PlainRows:
                    entries = row.fields.make_entries(index)
                    good += len(entries)
                    self.rows = index = index + len(entries)
                    yield entries
                    continue
                self.rows = index + 1
                entry = check_row(row, index, self.document, self.faults)
                index += 1
                if entry is not None:
                    good += 1
                    if good <= LOOKED_AT:
                        ranges.add(entry)
                    yield (entry,)
        except BrokenDocumentError as error:
            self.faults.note_break(error)
            return
        self.document.notes.extend(ranges.notes())
        if self._source.is_signed():
            self.document.notes.append(
                "the list has a signature, which cfetch does not verify: gpg --verify does"
            )
        if good and not self.document.is_faulty:
            self.faults.skippable += self.faults.total - before
            if self._skips:
                self.faults.forgive(before)


class RangeSigns:
    """Counts entries that are byte ranges, and entries that only look so: one URL with many offsets."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._rows = 0
        self._has_ranges = self._has_ranged_pieces = False

    def add(self, entry: Entry) -> None:
        """Look at one entry."""
        if entry.piece is not None:
            self._has_ranged_pieces = self._has_ranged_pieces or entry.range_start is not None
        elif entry.range_start is not None:
            self._has_ranges = True
        elif entry.offset is not None:
            first = self._offsets.setdefault(entry.url.value, entry.offset)
            self._rows += first != entry.offset

    def notes(self) -> list[str]:
        """The notes for the user; none if no entry is or looks like a byte range."""
        notes = []
        if self._has_ranges:
            notes.append(
                "offset and length together are read as byte ranges: each such row is a file of length bytes "
                "of its URL"
            )
        if self._has_ranged_pieces:
            notes.append(
                "pieces with offset and length are byte ranges of their URLs, and follow the piece before "
                "them; where offset is the place in the file, state size in place of length"
            )
        if self._rows:
            notes.append(
                f"rows that state another offset in a URL of an earlier row: {self._rows}; they look like "
                "byte ranges, but each fetches the whole file, as offset without length is only the position "
                "in the result; state length too where a range is meant"
            )
        return notes


def read_entries(
    source: BinaryIO,
    *,
    name: str,
    fetch_chunk: FetchChunk | None = None,
    base_url: str | None = None,
    options: ReadingOptions = STANDARD,
) -> Iterator[Entry]:
    """The entries of a manifest, one by one, without the checks that need all of them (see ``freeze``).

    Args:
        source: a seekable binary file.
        name: its name for messages, without secrets.
        fetch_chunk: asks for further links of a SQL statement.
        base_url: the base of relative URLs; takes precedence over the document's own.
        options: the format, the meaning of columns, and the way to name files.

    Raises:
        ManifestError: the manifest has faults; raised after the last entry, with all of them.
        UsageError: there is no such format, ``base_url`` is invalid, or a library is missing.
        LocalFault: ``source`` cannot be read.
    """
    with open_decompressed(source, name) as plain:
        reading = Reading(Source(plain, name, fetch_chunk), base_url, options=options)
        yield from reading
    reading.faults.raise_if_any(name)


def check_base_url(text: str) -> str:
    """Check a caller's base URL: it must be absolute, and end in a slash, else a join drops its last segment.

    Raises:
        UsageError: the URL is not absolute, or ends without a slash.
    """
    if is_object_url(text):
        from cfetch.manifest.object_urls import split_object_url  # most base URLs are of http

        parts = split_object_url(text)
        if parts is not None and (not parts.key or text.endswith("/")):
            return text if text.endswith("/") else f"{text}/"
    try:
        url = resolve_url(text, lambda: None)
    except UrlError as error:
        raise UsageError(f"the base URL is not valid: {error}") from None
    if not url.endswith("/") or "?" in url or "#" in url:
        raise UsageError("the base URL must end with a slash, as https://example.org/data/ does")
    return url


def _find_endpoint() -> str:
    from cfetch.manifest.repository_hub import find_endpoint  # few manifests name files of repositories

    return find_endpoint()
