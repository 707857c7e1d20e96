"""Makes entries of the rows that readers find: the only place where a manifest's rows become trusted.

A reader only finds rows; it never checks them. ``null`` means that a key was not given.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from cfetch.base.config.reading import ASKING, ReadingOptions
from cfetch.base.schemes import HUGGING_FACE, is_object_url, is_repository_url, is_web
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import choose_stronger, find_stated, needs_library
from cfetch.manifest.entry import Digest, Entry, Piece, PlainEntries, SafePath
from cfetch.manifest.faults import Faults, UrlError, kind_of, quoted_key
from cfetch.manifest.fields import CHECKS, MAX_INT, FieldError, Headers, check_flag, check_headers, check_path
from cfetch.manifest.urls import find_repository_link, last_segment, resolve_url

if TYPE_CHECKING:
    from cfetch.manifest.columns import Columns

KEYS = ("url", *CHECKS, "mirrors")
"""The keys that an entry may have in every format: keys of JSON, columns of tables."""

HEADER_KEYS = ("version", "base_url", "headers", "assemble")
"""The keys that a document may have for all of its entries."""

_SECOND = re.compile(r"\S\s{1,9}[A-Za-z0-9+]{2,10}://")
_MD5 = re.compile(r"[0-9A-Fa-f]{32}\Z")
MAX_FIELDS = 100  # keys of one entry; the search for a similar key takes time for each unknown key
MAX_MIRRORS = 100  # more sources for one file are a mistake, and each would be tried before the entry fails


class Row(NamedTuple):
    """One row of a reader: ``fields`` by key, its line from 1 (0: unknown), its array's name if any.

    If ``Document.takes_plain``, ``fields`` may be ``PlainRows``, which are many rows.
    """

    line: int
    fields: object
    array: str = ""
    chunk: int | None = None


class PlainRows(NamedTuple):
    """Rows in which no check can find a fault, as ``plain_rows.py`` has seen; a column for each key."""

    lines: Sequence[int]
    urls: Sequence[str]
    paths: Sequence[SafePath]
    sizes: Sequence[int | None] | None
    digests: Sequence[Digest | None] | None

    def make_entries(self, first: int) -> PlainEntries:
        """Make their entries, numbered from ``first`` on."""
        return PlainEntries(first, *self)


@dataclass
class Document:
    """The values that hold for all entries.

    ``given_base_url`` comes from the caller and takes precedence over the document's own; ``own_url`` is the
    document's address and counts if there is no other. ``look_ahead`` finds a ``base_url`` after the entries.
    ``options`` are the user's, for a list of any kind; without them rows have the native keys, and URLs are
    not encoded. ``hub`` finds the address of the hub for ``hf://``. ``assemble``: rows are pieces of files
    unless they say otherwise. ``notes`` are for the user. ``is_faulty``: a value for all entries has a fault,
    so no entry may be used. ``partial``: the reason why the source may have files that are not in the list;
    None: no such reason is known. ``takes_plain``: a reader may yield ``PlainRows``.
    """

    base_url: str | None = None
    headers: Headers = ()
    look_ahead: Callable[[], str | None] | None = None
    given_base_url: str | None = None
    own_url: str | None = None
    options: ReadingOptions | None = None
    hub: Callable[[], str] = lambda: HUGGING_FACE
    assemble: bool = False
    notes: list[str] = field(default_factory=list)
    is_faulty: bool = False
    partial: str | None = None
    takes_plain: bool = False

    def note_partial(self, why: str) -> None:
        """Note that files of the source may be missing here: a sync must not take them for gone.

        What never belongs to the list, such as a package without a file, is only one of ``notes``.
        """
        self.notes.append(why)
        self.partial = why

    def make_columns(self) -> "Columns":
        """Make the chooser of a table's columns. Raises UsageError: the options contradict each other."""
        from cfetch.manifest.columns import Columns  # only tables have columns

        return Columns(self.options or ReadingOptions(), KEYS)

    def base(self) -> str | None:
        """The base URL; the document is searched for it once, and only when a relative URL needs it."""
        if self.given_base_url is not None:
            return self.given_base_url
        if self.base_url is None and self.look_ahead is not None:
            find, self.look_ahead = self.look_ahead, None
            self.base_url = find()
        return self.own_url if self.base_url is None else self.base_url

    def take(
        self, key: str, value: object, line: int, faults: Faults, known: tuple[str, ...] = HEADER_KEYS
    ) -> None:
        """Take one of ``HEADER_KEYS``; any other key is a fault, whose message lists ``known``."""
        before = faults.total
        try:
            if key not in HEADER_KEYS:
                faults.add(line, describe_unknown_key(key, known))
            elif key == "version":
                if type(value) is not int or value != 1:
                    raise FieldError("this cfetch reads version 1")
            elif value is None:
                return
            elif key == "base_url":
                self.base_url = _check_url(value, None)
            elif key == "assemble":
                self.assemble = check_flag(value)
            else:
                self.headers = check_headers(value)
        except (FieldError, UrlError) as error:
            faults.add(line, f"{key}: {error}")
        self.is_faulty = self.is_faulty or faults.total > before


def describe_unknown_key(key: str, known: tuple[str, ...]) -> str:
    """The message about an unknown key."""
    near = get_close_matches(key.lower(), known, 1)
    return f"unknown key {quoted_key(key)}; " + (
        f"is it {near[0]!r}?" if near else f"known are {', '.join(known)}"
    )


def check_row(row: Row, index: int, document: Document, faults: Faults) -> Entry | None:
    """Make the entry of ``row``; None if the row has faults, which are then all in ``faults``."""
    fields = row.fields
    before = faults.total
    label = f"{row.array}[{index if row.chunk is None else row.chunk}]: " if row.array else ""
    if type(fields) is not dict or len(fields) > MAX_FIELDS:
        what = kind_of(fields) if type(fields) is not dict else f"one with more than {MAX_FIELDS} keys"
        faults.add(row.line, f"{label}an entry must be an object, not {what}")
        return None
    values: dict[str, Any] = {}
    if document.options is not None and document.options.keep_columns:
        from cfetch.manifest.kept_columns import take_kept  # only --keep-columns keeps some

        values["kept"] = take_kept(fields)
    for key, value in fields.items():
        try:
            if rule := CHECKS.get(key):
                if value is not None:
                    name, check = rule
                    checked = check(value)
                    values[name] = (
                        choose_stronger(values.get(name), checked) if isinstance(checked, Digest) else checked
                    )
            elif key == "url":
                values["url"] = SecretUrl(_check_url(value, document))
            elif key == "mirrors":
                values["mirrors"] = _check_mirrors(value, document)
            else:
                faults.add(row.line, label + describe_unknown_key(key, KEYS))
        except (FieldError, UrlError) as error:
            way = "; --size-column none leaves all sizes out" if key == "size" and document.options else ""
            faults.add(row.line, f"{label}{key}: {error}{way}")
    _take_fragment(values)
    is_sound = faults.total == before
    for fault in _complete(values, fields, index, document, is_sound=is_sound):
        if fault is not None:
            faults.add(row.line, label + fault)
    if faults.total != before:
        return None
    return Entry(id=index, line=row.line, chunk=row.chunk, **values)


def _take_fragment(values: dict[str, Any]) -> None:
    """Take the hash in a URL's fragment, as package indexes and conda write it: ``#sha256=…``, ``#HEX``.

    The fragment never reaches the server, so it says something only about the file.
    """
    url = values["url"].value if "url" in values else ""
    if "#" not in url:
        return
    text = url.rpartition("#")[2]
    stated = find_stated(text) or (("md5", text) if _MD5.match(text) else None)
    if stated is not None and not is_object_url(url):  # the key of an object may end so
        digest, other = Digest(stated[0], stated[1].lower()), values.get("digest")
        values["digest"] = digest if other is None else choose_stronger(digest, other)


def _complete(
    values: dict[str, Any], fields: dict[str, Any], index: int, document: Document, *, is_sound: bool
) -> list[str | None]:
    """Add to ``values`` what follows from several keys; return the faults, and None for each rule kept.

    ``is_sound``: each key by itself is right. Ranges and pieces are made only then.
    """
    problems: list[str | None] = []
    is_piece = values.pop("assemble", document.assemble)
    if is_sound and "length" in fields:
        problems.append(_take_range(values))
    if is_sound and is_piece and not any(problems):
        problems.append(_take_piece(values))
    if "url" not in fields:
        problems.append("url: it is missing; an entry needs one, and --bad-rows skip leaves such rows out")
    elif "url" in values and fields.get("path") is None:
        problems.append(_set_default_path(values, index, document.options))
    if "digest" in values:
        problems.append(_find_hash_fault(values))
    return problems


def _find_hash_fault(values: dict[str, Any]) -> str | None:
    algorithm = values["digest"].algorithm
    if algorithm == "git_sha1" and values.get("size_bytes") is None:
        return "git_sha1: it is a hash of the size too, so the row has to state the size"
    return needs_library(algorithm)


def _check_url(value: object, document: Document | None) -> str:
    if type(value) is not str:
        raise FieldError(f"it must be a string, not {kind_of(value)}")
    if document is not None and document.options is not None and is_repository_url(value):
        return find_repository_link(value, document.hub())
    find_base = document.base if document else _find_no_base
    try:
        return resolve_url(value, find_base)
    except UrlError:
        from cfetch.manifest.url_completion import encode_url  # few lists have such a fault

        if document is None or document.options is None or (encoded := encode_url(value)) == value:
            raise
    if _SECOND.search(value):
        raise UrlError("a second URL stands in it, behind a blank; give each a row of its own")
    return resolve_url(encoded, find_base)


def _find_no_base() -> None:
    return None


def _check_mirrors(value: object, document: Document) -> tuple[SecretUrl, ...]:
    if value is None:
        return ()
    if type(value) is not list or len(value) > MAX_MIRRORS:
        raise FieldError(f"it must be an array of at most {MAX_MIRRORS} URLs")
    return tuple(SecretUrl(_check_url(url, document)) for url in value)


def _take_range(values: dict[str, Any]) -> str | None:
    """Turn ``offset`` and ``length`` into the byte range of the URL that is the file; return the fault."""
    start, length_bytes = values.pop("offset", None), values.pop("length", None)
    if start is None and length_bytes is None:
        return None
    if start is None or length_bytes is None:
        lacking, stated = ("offset", "length") if start is None else ("length", "offset")
        return f"{lacking}: it is missing beside {stated}; both together are the range of the URL"
    if start + length_bytes > MAX_INT:
        return f"length: with offset it goes beyond {MAX_INT}"
    if values.get("size_bytes", length_bytes) != length_bytes:
        return "size: it is not the same as length, which is the size of the file; leave size out"
    values["range_start"], values["size_bytes"] = start, length_bytes
    return None


def _take_piece(values: dict[str, Any]) -> str | None:
    """Make the row a piece of the file at its path, or return the fault.

    The pieces of one file are published together.
    """
    from cfetch.manifest.assembly import name_batch  # few manifests have pieces

    for key, field_name in (("path", "path"), ("size", "size_bytes")):
        if field_name not in values:
            return f"{key}: it is missing; a piece of a file states path and size"
    values["piece"] = Piece(values.get("offset", -1))
    values.setdefault("batch", name_batch(values["path"]))
    return None


def _set_default_path(values: dict[str, Any], index: int, options: ReadingOptions | None) -> str | None:
    """Name the file of a row that states no path, or return the fault."""
    name_by = options.name_by if options is not None else "last"
    try:
        url = values["url"].value
        if name_by in ASKING:
            asks = is_web(url)  # the key of an object, or the path of any other scheme, is the name
            name_by, values["is_unnamed"] = ("hash" if asks else "last"), asks
        is_range = "range_start" in values and name_by != "row"
        values["path"] = check_path(
            _choose_other_path(url, index, name_by, values if is_range else None)
            if is_range or name_by != "last"
            else last_segment(url)
        )
    except (FieldError, UrlError) as error:
        remedy = " or name files by --name-by row or hash" if options is not None else ""
        return f"path: it is not given, and {error}; state path{remedy}"
    return None


def _choose_other_path(url: str, index: int, name_by: str, range_of: dict[str, Any] | None) -> str:
    """The path, not checked yet, where it is not just the last segment. Raises UrlError."""
    from cfetch.manifest.names import choose_path, name_range  # most manifests need no such rule

    path = last_segment(url) if name_by == "last" else choose_path(url, index, name_by)
    return path if range_of is None else name_range(path, range_of["range_start"], range_of["size_bytes"])
