"""Finds the meaning of each column in a foreign table, by its name or by an option of the user.

A table of URLs may have columns that cfetch does not know: they are left out, and a note says so, unless they
are kept for the metrics. Nothing is guessed: if two columns may hold the URLs, or if a name looks like a
misspelled key, the table is refused, and the message names the option that decides.
"""

import re
from collections.abc import Iterable, Sequence

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import UsageError
from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.digests import HEX_DIGITS, find_algorithm
from cfetch.manifest.faults import Misfit, quoted_key
from cfetch.manifest.kept_columns import KEPT, MOST_COLUMNS
from cfetch.manifest.names import find_relative_path
from cfetch.manifest.url_template import UrlTemplate

NO_COLUMN = "none"
MAX_REMEMBERED = 1000  # sets of keys; rows of JSON may each have another
MAX_NAME_CHARS = 10_000  # characters of one set of keys that is remembered
MAX_COLUMNS = 1000
SHOWN_COLUMNS = 12
MAX_DIGITS = 20

_URL_NAMES = frozenset({
    "url", "urls", "link", "href", "uri", "src", "image_url", "img_url", "file_url", "media_url", "video_url",
    "audio_url", "content_url", "contenturl", "download_url", "downloadurl", "browser_download_url",
    "download_link", "download_path",
})  # fmt: skip
_PATH_NAMES = frozenset(["filename", "file_name", "filepath", "file_path"])
_HASH_STEMS = ("md5", "sha", "blake")
_WATCHED = ("path", "size", *HEX_DIGITS)
"""The keys whose loss nobody would notice: files would only be named or verified in another way."""

_FURTHER, _ARGUMENT = "\0url:", "\0argument:"  # before names of columns, where rows have native keys
_OF_ONE_FILE = _WATCHED

_NO_SLIPS = frozenset({"site", "side", "bath", "math"})  # one letter from a key, but common words
_RANGE_NAMES = (
    ("warc_record_offset", "warc_record_length"),
    ("record_offset", "record_length"),
    ("byte_offset", "byte_length"),
    ("offset", "length"),
)
_ARCHIVE_NAMES = ("warc_filename", "filename")
_INDEX_NAMES = frozenset({"urlkey", "timestamp"})
"""Columns of an index of web archives: there ``url`` names the page, and ``filename`` the archive."""


_RECORD_KEYS = frozenset({"@context", "@type", "distribution", "resources", "hasPart", "assets", "files"})
"""Keys of catalogues that hold the files of a record: CKAN, schema.org, Croissant, GitHub, STAC, OSF."""


_BETWEEN_LINKS = re.compile(rf"(?<![\s|;,])[\s|;,]++(?={FILES_PATTERN}://)", re.IGNORECASE)


class ColumnError(ValueError):
    """The meaning of a table's columns is not clear; the message says which option decides."""


def is_url_name(name: str) -> bool:
    """Whether a column of this name holds the URLs."""
    return _fold(name) in _URL_NAMES


def find_key(name: str) -> str | None:
    """The native key of a path or a hash that a column of this name holds; None: it holds neither."""
    folded = _fold(name)
    if folded in _PATH_NAMES:
        return "path"
    return find_algorithm(folded.removesuffix("sum")) if folded.startswith(_HASH_STEMS) else None


class Columns:
    """The columns of one manifest; ``known`` are the native keys."""

    def __init__(self, options: ReadingOptions, known: Iterable[str]) -> None:
        """Raise UsageError if an option names a hash that cfetch does not know, or a column twice."""
        self.options = options
        self.left_out: dict[str, None] = {}
        self.read_as: dict[str, str] = {}
        self._known = frozenset(known)
        self._named = _named_columns(options)
        self._kept: set[str] = set()
        self._remembered: dict[tuple[str, ...], dict[str, str] | None] = {}
        self._keeps_paths = options.name_by == "last"
        self._several = tuple(f"{_FURTHER}{name}" for name in options.more_url_columns)
        self._template = None if options.url_template is None else UrlTemplate(options.url_template)
        self._is_path_too = options.path_column is not None and options.path_column == options.url_column

    def choose(self, names: Sequence[str]) -> dict[str, str]:
        """Column -> native key, for the columns that are read.

        Raises:
            ColumnError: there is no column of URLs, or a name may mean two things.
        """
        chosen = self._choose_named(names)
        taken_for_all = set(_OF_ONE_FILE) if self._several else set()
        self._choose_range(names, chosen)
        taken = set(chosen.values())
        none = {key for key, column in self._named.items() if column == NO_COLUMN}
        for name in names:
            key = name if name in self._known else self._key_of(name)
            if name in chosen or key is None or key in none or key in ("url", "length"):
                continue
            if key in taken_for_all:
                self.left_out[quoted_key(name)] = None
                continue
            if key not in taken:
                chosen[name] = key
                taken.add(key)
            elif key not in self._named:
                raise ColumnError(f"two columns may hold {key}; name one of them, or rename the other")
        if self._template is not None:
            self._choose_arguments(names, chosen)
        elif "url" not in taken:
            candidates = [name for name in names if name not in self.options.keep_columns]
            chosen[_find_url_column(candidates)] = "url"
        self._choose_kept(names, chosen)
        for name in names:
            if name not in chosen:
                self._leave_out(name, taken | none | taken_for_all)
            elif chosen[name].startswith((KEPT, _ARGUMENT, _FURTHER)):
                continue
            elif name != chosen[name] and self._named.get(chosen[name]) != name:  # nor is what an option says
                self.read_as[quoted_key(name)] = chosen[name]
        return chosen

    def rename(self, fields: object) -> object:
        """Return a row of JSON with native keys; unchanged if it has only these. A text is a URL.

        Raises:
            ColumnError: as ``choose``.
        """
        if type(fields) is not dict or len(fields) > MAX_COLUMNS:
            return {"url": fields} if type(fields) is str else fields  # ``check_row`` refuses it
        names = tuple(fields)
        if not _RECORD_KEYS.isdisjoint(names) and self._named.get("url") is None:
            _refuse_record(fields)
        try:
            chosen = self._remembered[names]
        except KeyError:
            chosen = None if self._is_plain(names) else self.choose(names)
            if len(self._remembered) < MAX_REMEMBERED and sum(map(len, names)) < MAX_NAME_CHARS:
                self._remembered[names] = chosen
        if chosen is None:
            return fields
        renamed = {key: fields[name] for name, key in chosen.items()}
        if "length" in renamed:  # indexes of web archives have digits in quotes
            for key in ("offset", "length"):
                renamed[key] = _read_digits(renamed[key])
        return renamed

    def find_plain_keys(self, fields: object) -> dict[str, str]:
        """Column -> native key, for a row that ``rename`` has taken; empty: others like it may need more."""
        names = tuple(fields) if type(fields) is dict else ()
        if names not in self._remembered or not _RECORD_KEYS.isdisjoint(names):
            return {}
        chosen = self._remembered[names]
        return {name: name for name in names} if chosen is None else chosen

    def expand(self, fields: object) -> Sequence[object]:
        """The entries of a table's row: one, unless it names several files; a relative URL keeps its path."""
        if type(fields) is not dict:
            return (fields,)
        if self._template is not None:
            fields = self._template.fill(fields)
        if self._is_path_too and "url" in fields:
            fields = {**fields, "path": fields["url"]}
        rows = self._split(fields) if self._several else (fields,)
        return [self._keep_path(each) for row in rows for each in _split_cell(row)]

    def _split(self, fields: dict[str, object]) -> Sequence[dict[str, object]]:
        urls = [fields.get(key) for key in ("url", *self._several)]
        others = {key: value for key, value in fields.items() if key != "url" and key not in self._several}
        return [{"url": url, **others} for url in urls if url is not None and url != ""] or [others]

    def _keep_path(self, fields: dict[str, object]) -> dict[str, object]:
        url = fields.get("url")
        if not self._keeps_paths or type(url) is not str or "/" not in url or "://" in url:
            return fields
        if fields.get("path") is not None or "length" in fields or (path := find_relative_path(url)) is None:
            return fields
        return {**fields, "path": path}

    def _choose_arguments(self, names: Sequence[str], chosen: dict[str, str]) -> None:
        """Choose the columns of the template. Raises ColumnError: one is not there."""
        assert self._template is not None
        self._template.places.clear()
        for name in self._template.names:
            if name not in names:
                raise ColumnError(
                    f"there is no column {quoted_key(name)} for --url-template; the columns: "
                    f"{_list_names(names)}"
                )
            self._template.places[name] = chosen.setdefault(name, _ARGUMENT + name)

    def _is_plain(self, names: Sequence[str]) -> bool:
        """Whether all names are native keys; a length without offset is not, as it may be in seconds."""
        if self.options.names_columns or "url" not in names or not self._known.issuperset(names):
            return False
        return "length" not in names or "offset" in names

    def notes(self) -> list[str]:
        """The notes for the user about the columns; none if all are native keys."""
        notes = [f"column {name} is read as {key}" for name, key in self.read_as.items()]
        if missing := [name for name in self.options.keep_columns if name not in self._kept]:
            notes.append(f"columns that are to be kept and are not there: {_list_names(missing)}")
        if self.left_out:
            names = list(self.left_out)
            more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
            shown = ", ".join(names[:SHOWN_COLUMNS])
            notes.append(f"columns that are left out: {shown}{more}")
        return notes

    def _key_of(self, name: str) -> str | None:
        folded = _fold(name)
        return folded if folded in self._known else find_key(name)

    def _choose_named(self, names: Sequence[str]) -> dict[str, str]:
        chosen = {}
        for column in self.options.more_url_columns:
            if column not in names:
                raise ColumnError(
                    f"there is no column {quoted_key(column)}; the columns: {_list_names(names)}"
                )
            chosen[column] = _FURTHER + column
        for key, column in self._named.items():
            if column == NO_COLUMN and key != "url":
                continue
            if column not in names:
                raise ColumnError(
                    f"there is no column {quoted_key(column)} for {key}; the columns: {_list_names(names)}"
                )
            chosen[column] = key
        return chosen

    def _choose_range(self, names: Sequence[str], chosen: dict[str, str]) -> None:
        """Add the columns of a byte range, and the column of the files to which the ranges belong."""
        by_fold = {_fold(name): name for name in names if name not in chosen}
        pair = next((pair for pair in _RANGE_NAMES if by_fold.keys() >= set(pair)), None)
        if pair is None:
            return
        chosen.update({by_fold[pair[0]]: "offset", by_fold[pair[1]]: "length"})
        archive = next((by_fold[name] for name in _ARCHIVE_NAMES if name in by_fold), None)
        if archive is None or "url" in chosen.values():
            return
        is_index = _fold(archive) == "warc_filename" or not _INDEX_NAMES.isdisjoint(by_fold)
        if not is_index and any(map(is_url_name, names)):
            raise ColumnError(
                f"the byte ranges may be of the files in {quoted_key(archive)} or of those in another "
                "column; name one of them with --url-column"
            )
        chosen[archive] = "url"

    def _choose_kept(self, names: Sequence[str], chosen: dict[str, str]) -> None:
        for name in self.options.keep_columns:
            if name in chosen:
                raise ColumnError(
                    f"column {quoted_key(name)} is read as {chosen[name]}; --keep-columns is for others"
                )
            if name in names:
                chosen[name] = KEPT + name
                self._kept.add(name)

    def _leave_out(self, name: str, taken: set[str]) -> None:
        folded = _fold(name)
        for key in (key for key in _WATCHED if key not in taken and folded not in _NO_SLIPS):
            if _is_slip(folded, key):
                option = f"--{key}-column " if key in ("path", "size") else f"--hash-column {key}="
                raise ColumnError(
                    f"unknown key {quoted_key(name)}; is it {key!r}? {option}NAME takes it as that, and "
                    f"{option}none leaves it out"
                )
        if len(self.left_out) < MAX_REMEMBERED:
            self.left_out[quoted_key(name)] = None


def _split_cell(fields: dict[str, object]) -> Sequence[dict[str, object]]:
    """A row for each link of the cell with the URL, between which are blanks, bars, commas or semicolons.

    A comma or semicolon in a query may be a part of it, and a path, size or hash is that of one file.
    """
    cell = fields.get("url")
    if type(cell) is not str or cell.find("://") == cell.rfind("://"):
        return (fields,)
    urls = _BETWEEN_LINKS.split(cell.strip())
    if len(urls) == 1:
        return (fields,)
    if "?" in urls[0] and not re.search(r"[\s|]", cell.strip()):
        why = "what may be one link or several: percent-encode the mark before the second, or give each a row"
        return ({**fields, "url": Misfit(why)},)
    if any(fields.get(key) not in (None, "") for key in (*_OF_ONE_FILE, "offset", "length")):
        why = "links of several files, beside a path, size or hash of one: give each a row, or state mirrors"
        return ({**fields, "url": Misfit(why)},)
    return [{**fields, "url": url} for url in urls]


def _refuse_record(fields: dict[str, object]) -> None:
    """Raise ColumnError if an object lists files beside its ``url``, which then is a page about them."""
    for key in _RECORD_KEYS & fields.keys():
        if key[0] == "@" or (isinstance(fields[key], list | dict) and fields[key]):
            what = f"it is a record with {key!r}"
            if not any(map(is_url_name, fields)):
                raise ColumnError(f"{what}, which lists its files; --query '[].{key}[]' reads these")
            raise ColumnError(
                f"{what}, and its url is a page about it; --query reads the files "
                "that it lists, and --url-column url says that the pages are meant"
            )


def _named_columns(options: ReadingOptions) -> dict[str, str]:
    """Native key -> the column that the user has named for it."""
    named = {
        key: column
        for key, column in (
            ("url", options.url_column),
            ("path", options.path_column),
            ("size", options.size_column),
        )
        if column
    }
    if options.hash_column:
        algorithm, equals, column = options.hash_column.partition("=")
        if algorithm not in HEX_DIGITS or not equals or not column:
            raise UsageError(
                f"--hash-column is ALGORITHM=COLUMN, such as sha256=digest; cfetch knows "
                f"{', '.join(HEX_DIGITS)}"
            )
        named[algorithm] = column
    if len(options.keep_columns) > MOST_COLUMNS:
        raise UsageError(f"--keep-columns takes {MOST_COLUMNS} columns at most")
    if options.url_column is not None and options.path_column == options.url_column:
        del named["path"]  # the URL is relative, and its path is the file's
    if options.url_template is not None and options.url_column is not None:
        raise UsageError("--url-template makes the URLs, so --url-column has nothing to name")
    if options.more_url_columns and len(named) > 1:
        raise UsageError("with several --url-column, no column states the path, size or hash of each file")
    columns = [column for column in (*named.values(), *options.more_url_columns) if column != NO_COLUMN]
    if len(set(columns)) < len(columns):
        raise UsageError("one column is named for two things")
    return named


def _find_url_column(names: Sequence[str]) -> str:
    candidates = [name for name in names if is_url_name(name)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ColumnError(
            f"{len(candidates)} columns may hold the URLs: {_list_names(candidates)}; "
            "name one with --url-column, or repeat it if each row has several files"
        )
    raise ColumnError(
        "the column url is missing: the columns must have url among them, or name the column that has the "
        "URLs with --url-column, or make URLs of others by --url-template 'https://…/{NAME}'; its columns: "
        f"{_list_names(names)}"
    )


def _read_digits(value: object) -> object:
    is_number = type(value) is str and value.isascii() and value.isdigit() and len(value) < MAX_DIGITS
    return int(str(value)) if is_number else value


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    shown = map(quoted_key, names[:SHOWN_COLUMNS])
    return ", ".join(f"one {name}" if name.startswith("of ") else name for name in shown) + more


def _fold(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _is_slip(name: str, key: str) -> bool:
    """Whether ``name`` is ``key`` with two letters swapped, or one letter wrong, lacking or too many."""
    if abs(len(name) - len(key)) > 1 or len(name) < 3:
        return False
    if len(name) == len(key):
        wrong = [place for place in range(len(key)) if name[place] != key[place]]
        return len(wrong) <= 1 or sorted(name) == sorted(key)
    longer, shorter = sorted((name, key), key=len, reverse=True)
    return any(longer[:place] + longer[place + 1 :] == shorter for place in range(len(longer)))
