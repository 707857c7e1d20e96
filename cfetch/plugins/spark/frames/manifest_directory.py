"""A growing directory of JSON Lines manifests, and positions in them.

A position in a manifest is lines and bytes. Only whole lines count: a line that its writer has not
ended yet is read at the next look.
"""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError, UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import BrokenDocumentError
from cfetch.manifest.fields import Headers
from cfetch.manifest.formats.json_lines import is_header
from cfetch.manifest.reading import Reading
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import decode_text
from cfetch.storage.files import on_disk

ENDING = ".jsonl"
PIECE_BYTES = 1 << 20  # of a line that may have no end


class DirectoryPosition(NamedTuple):
    """A position in a manifest: a number of lines, and of bytes."""

    lines: int
    bytes: int


START = DirectoryPosition(0, 0)


class ManifestLine(NamedTuple):
    """A line that is no header: its number from 0, and its entry or its fault."""

    number: int
    entry: Entry | None
    error: str | None


class ManifestText(NamedTuple):
    """A piece of a manifest; ``headers`` go with every request."""

    headers: Headers
    lines: list[ManifestLine]


def list_manifests(directory: Path) -> dict[str, int]:
    """The manifests by name, with their present sizes; names that begin with a dot are not ready.

    Raises LocalFault.
    """
    with on_disk(directory):
        paths = sorted(path for path in directory.iterdir() if path.name.endswith(ENDING))
        return {path.name: path.stat().st_size for path in paths if path.name[0] != "." and path.is_file()}


def advance(
    path: Path, begin: DirectoryPosition, end_bytes: int, most_lines: int | None
) -> DirectoryPosition:
    """Advance by whole lines, at most to ``end_bytes`` and by ``most_lines``.

    Raises:
        UsageError: the manifest is shorter than the part that was read.
        LocalFault: it cannot be read.
    """
    if end_bytes < begin.bytes:
        raise UsageError(
            f"{printable(str(path))} has {end_bytes:,} bytes, and {begin.bytes:,} were read: the manifests "
            "of a feed only grow; put it back, or add what is new as another file"
        )
    lines, end = 0, begin.bytes
    with on_disk(path), path.open("rb") as file:
        position = file.seek(begin.bytes)
        for piece in iter(partial(file.readline, PIECE_BYTES), b""):
            position += len(piece)
            if lines == most_lines or position > end_bytes:
                break
            if piece.endswith(b"\n"):
                lines, end = lines + 1, position
    return DirectoryPosition(begin.lines + lines, end)


def read_lines(
    path: Path, begin: DirectoryPosition, end: DirectoryPosition, base_url: str | None
) -> ManifestText:
    """The lines from ``begin`` to ``end``. The manifest's first line may be a header for all of them.

    Raises:
        UsageError: ``base_url`` is no base URL.
        LocalFault: the manifest cannot be read.
    """
    with on_disk(path), path.open("rb") as file:
        first = file.readline(MAX_ROW_CHARS)
        file.seek(begin.bytes)
        text = file.read(end.bytes - begin.bytes)
    header = first if _states_header(first) else b""
    numbered = enumerate(text.split(b"\n")[:-1], begin.lines)
    lines = [
        _line(number, line, header, base_url)
        for number, line in numbered
        if line.strip() and not (header and number == 0)
    ]
    return ManifestText(_read(header, base_url)[1].document.headers, lines)


def _states_header(line: bytes) -> bool:
    try:
        return is_header(decode_text(line.decode(), 1))
    except (BrokenDocumentError, UnicodeDecodeError):
        return False


def _line(number: int, line: bytes, header: bytes, base_url: str | None) -> ManifestLine:
    entries, reading = _read(header + line, base_url)
    try:
        reading.faults.raise_if_any("the feed")
    except ManifestError as error:
        return ManifestLine(number, None, "; ".join(problem.message for problem in error.problems))
    if not entries:
        return ManifestLine(number, None, "it has no url; a header is only the first line of a manifest")
    return ManifestLine(number, msgspec.structs.replace(entries[0], id=number), None)


def _read(text: bytes, base_url: str | None) -> tuple[list[Entry], Reading]:
    options = ReadingOptions(from_format="jsonl")
    reading = Reading(Source(BytesIO(text), "the feed"), base_url, options=options)
    return list(reading), reading
