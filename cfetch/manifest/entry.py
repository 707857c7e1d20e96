"""The parts of a manifest: entries, and safe relative paths as a type."""

import re
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import NamedTuple, NewType, overload

import msgspec

from cfetch.base.secret import SecretText, SecretUrl, printable
from cfetch.manifest.folding import is_state_name

SafePath = NewType("SafePath", str)
"""A relative path with forward slashes that ``safe_path`` has checked; no other function makes one."""

MAX_COMPONENT_BYTES = 255  # NAME_MAX of ext4, xfs, btrfs, apfs
MAX_PATH_BYTES = 4000  # PATH_MAX is 4096 with the NUL; the rest is for the destination's own path


PLAIN_PART = rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_COMPONENT_BYTES - 1}}}+"
PLAIN_PATH = rf"(?:{PLAIN_PART}/){{0,14}}+{PLAIN_PART}"  # fifteen parts are never too long
"""Patterns of names and paths that are always safe."""

_PLAIN_PATH = re.compile(rf"{PLAIN_PATH}\Z")


class UnsafePathError(ValueError):
    """A path that a manifest must not name; the message says why."""


def safe_path(text: str) -> SafePath:
    """Check a manifest's path. A bad path is refused, not repaired: repaired names collide and surprise.

    Raises:
        UnsafePathError: the path is absolute, has an empty, ``.`` or ``..`` component, a backslash, a drive,
            a tilde, control or invisible characters or over-long names, or is in cfetch's state directory.
    """
    if _PLAIN_PATH.match(text):  # as nearly always
        return SafePath(text)
    if not text:
        raise UnsafePathError("the path is empty")
    if (fault := _find_fault(text)) is not None:
        raise UnsafePathError(f"{printable(text, 120)!r} {fault}")
    return SafePath(text)


def _find_fault(text: str) -> str | None:
    if text[0] == "/":
        return "is absolute"
    if "\\" in text:
        return "holds a backslash"
    if text[0] == "~" or text[1:2] == ":":
        return "begins like a home directory or a drive"
    is_plain = text.isascii() and text.isprintable()
    if not is_plain:
        if printable(text, len(text) + 1) != text:
            return "holds control or invisible characters"
        try:
            text.encode()
        except UnicodeEncodeError:
            return "is not valid Unicode"
    parts = text.split("/")
    if "" in parts or "." in parts or ".." in parts:
        return "has an empty, '.' or '..' component; write the path without it"
    if len(text) > MAX_COMPONENT_BYTES or not is_plain:
        if any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts):
            return f"has a component longer than {MAX_COMPONENT_BYTES} bytes; give it a shorter name"
        if len(text.encode()) > MAX_PATH_BYTES:
            return f"is longer than {MAX_PATH_BYTES} bytes; give it a shorter one"
    return "lies in cfetch's own state directory" if is_state_name(parts[0]) else None


class Digest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stated hash: ``algorithm`` is one of ``digests.HEX_DIGITS``, ``hex`` in lower case."""

    algorithm: str
    hex: str


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The place of an entry that is a piece of a file, from ``start_byte`` on.

    The file has ``file_bytes``, and ``source`` is a hash of the sources of all its pieces. Until all entries
    of the manifest are known, ``start_byte`` has the value in the row, or -1 if the row states none.
    """

    start_byte: int
    file_bytes: int = 0
    source: str = ""


class Clash(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why an entry of a list is not brought: its file would be one with that of the entry at ``other``."""

    other: SafePath
    message: str


class Entry(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """One file of a manifest, validated, or a piece of a file.

    ``id`` is its index in the manifest, the only identity; ``offset`` is its position in the result (bytes or
    rows), which two entries may share. ``size_bytes`` None is unknown. ``expires_at`` is seconds since 1970.

    ``range_start``: the file is a range of the resource at its URL, ``size_bytes`` (known then) from this
    byte on; None: the file is the whole resource. Two ranges of one URL are two files.

    ``is_unnamed``: its path is the hash of its URL until its server has been asked for a name.

    ``is_named_by_server``: its path is what the server states, or a new one because of a clash, so it
    replaces no file of the user.

    ``replaces``: the only files that it may replace, each by inode, size and time of change; None: any file.

    ``piece``: the entry is a piece of the file at ``path``, which has other entries too. ``kept``: names and
    values of columns for the metrics.

    ``clash``: the entry fails without a request, as its name is another entry's; what stands under its name
    is never its file.
    """

    id: int
    url: SecretUrl
    path: SafePath
    size_bytes: int | None = None
    offset: int | None = None
    digest: Digest | None = None
    expires_at: float | None = None
    batch: str | None = None
    headers: tuple[tuple[str, SecretText], ...] = ()
    mirrors: tuple[SecretUrl, ...] = ()
    line: int = 0
    chunk: int | None = None  # index of a result chunk, for entries of a SQL statement's reply
    range_start: int | None = None
    piece: Piece | None = None
    kept: tuple[tuple[str, str], ...] = ()
    is_unnamed: bool = False
    is_named_by_server: bool = False
    replaces: tuple[tuple[int, int, int], ...] | None = None
    clash: Clash | None = None

    @property
    def file_bytes(self) -> int | None:
        """The size of the file at ``path``; None if unknown."""
        return self.size_bytes if self.piece is None else self.piece.file_bytes

    @property
    def spares_others(self) -> bool:
        """Whether it must not replace every file at its path: somebody else may have put a file there."""
        return self.is_named_by_server or self.replaces is not None

    @property
    def position(self) -> int:
        """``offset``, or the entry's number if the manifest states no offset."""
        return self.id if self.offset is None else self.offset


class PlainEntries(Sequence[Entry]):
    """Entries that state nothing but a URL, a path, a size and a hash: as columns, and made when asked for.

    A column of sizes or hashes is None if no entry states one.
    """

    def __init__(
        self,
        first: int,
        lines: Sequence[int],
        urls: Sequence[str],
        paths: Sequence[SafePath],
        sizes: Sequence[int | None] | None,
        digests: Sequence[Digest | None] | None,
    ) -> None:
        """``first``: the ``id`` of the first; the ids of the others follow it."""
        self._first, self._lines = first, lines
        self.urls = urls
        self.paths = paths
        self.sizes = sizes
        self.digests = digests

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[Entry]:
        sizes, digests = self.sizes or repeat(None), self.digests or repeat(None)
        columns = zip(count(self._first), self._lines, self.urls, self.paths, sizes, digests, strict=False)
        return iter([
            Entry(id=index, url=SecretUrl(url), path=path, size_bytes=size, digest=digest, line=line)
            for index, line, url, path, size, digest in columns
        ])  # fmt: skip

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        return list(self)[index]

    def list_fields(self) -> Iterator[tuple[object, ...]]:
        """The fields of each, in the order of ``Entry``, up to ``line``: all others have their defaults."""
        sizes, digests, none = self.sizes or repeat(None), self.digests or repeat(None), repeat(None)
        urls, empty = zip(self.urls, strict=True), repeat(())
        return zip(
            count(self._first), urls, self.paths, sizes, none, digests, none, none, empty, empty,
            self._lines, strict=False,
        )  # fmt: skip


class Collision(NamedTuple):
    """Two entries that cannot both be downloaded. ``second`` is the later one, except for file and directory.

    If a piece of a file does not fit by itself, ``first`` and ``second`` are the same entry. ``position``: of
    the entry, among those that were compared, without which the other can be downloaded; None: there is none.
    ``other``: the position of the other one, among those beneath a path if ``is_beneath``.
    """

    first: Entry
    second: Entry
    what: str
    remedy: str
    position: int | None = None
    other: int = -1
    is_beneath: bool = False

    def message(self, places: str) -> str:
        """The message about the collision; ``places`` says where the two entries are."""
        return f"{self.what}: {places}; {self.remedy}"
