"""Finds where links stand in JSON that is no list, as ready expressions for ``--query``.

The text is looked at once, token by token, so that a document of any length, also one that is cut off or
broken, names its paths. No library is needed.
"""

import json
import re
from collections.abc import Iterable, Iterator

from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.columns import find_key, is_url_name
from cfetch.manifest.source import Source

_LOOKED_AT_BYTES = 4 << 20
_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*+:)?)?|([\[{])|([\]}])', re.DOTALL)
"""A string without an end is one too, so that no character is looked at again and again."""

_LINK = re.compile(rf"{FILES_PATTERN}://[^\s]+\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SIZES = frozenset({"size", "bytes", "filesize", "file_size", "size_bytes"})
_MOST_PATHS = 200
_SHOWN = 3
_DEEPEST = 64
_ABOUT = re.compile(
    r"licen[cs]e|homepage|html|schema|help|docs?\b|documentation|profile|author|contributor|creator|publisher"
    r"|avatar|thumbnail|logo|icon|self|issue|comment|doi|@id|@context|\$schema|owner|repository|api_?url|parent"
    r"|\bterms|contact|about|sponsor|funding|organi[sz]ation|info\b|\brel\b",
    re.IGNORECASE,
)
"""Words in a path to links that lead to pages about the files."""


class _Found:
    """The links at one path: their number, and the keys of the objects that hold them."""

    def __init__(self, path: str, leaf: str | None, keys: dict[str, None]) -> None:
        self.path, self.leaf, self.keys = path, leaf, keys
        self.links = 0


def advise_queries(source: Source) -> str:
    """The words of a refusal that name expressions; empty if the document has no links."""
    text = source.read(0, _LOOKED_AT_BYTES).decode("utf-8", "replace")
    places = sorted(_find(text), key=_rate)
    if not places:
        return ""
    useful = [place for place in places if not _ABOUT.search(f"{place.path}.{place.leaf}")] or places
    shown = useful[:_SHOWN]
    written = ", ".join(f".{place.path}{f'.{place.leaf}' if place.leaf else ''}" for place in shown)
    expressions = " or ".join(f"--query '{_write(place)}'" for place in shown)
    return f"; links stand at {written}: {expressions} reads them, as does jq -r '.{_jq(shown[0])}' FILE"


def _jq(place: _Found) -> str:
    path = place.path.replace(".*", "[]").replace("*", "[]")
    return f"{path}.{place.leaf}" if place.leaf and path else path or place.leaf or ""


def _rate(place: _Found) -> tuple[int, int, int]:
    """Links of rows first, then those whose key says that they are, then the most."""
    is_row = "[]" in place.path or "*" in place.path
    return (not is_row, not is_url_name(place.leaf or ""), -place.links)


def _write(place: _Found) -> str:
    """The expression: the links, with what else the same object states of a file."""
    if place.leaf is None:
        return place.path or "[]"
    members = {"url": place.leaf}
    for key in place.keys:
        known = "size" if key.lower() in _SIZES else find_key(key)
        if key != place.leaf and known is not None and known not in members:
            members[known] = key
    if len(members) == 1 and not place.path:
        return _quote(place.leaf)
    inner = ", ".join(f"{key}: {_quote(name)}" for key, name in members.items())
    return f"{place.path}.{{{inner}}}" if place.path else f"{{{inner}}}"


def _quote(key: str) -> str:
    return key if _PLAIN.match(key) else json.dumps(key)


def _find(text: str) -> Iterable[_Found]:
    places_by_path: dict[tuple[str, str | None], _Found] = {}
    for path, leaf, keys in _walk(text):
        place = places_by_path.get((path, leaf))
        if place is None:
            if len(places_by_path) >= _MOST_PATHS:
                continue
            place = places_by_path[path, leaf] = _Found(path, leaf, keys)
        place.links += 1
    return places_by_path.values()


def _walk(text: str) -> Iterator[tuple[str, str | None, dict[str, None]]]:
    """Yield each link's path, its own key, and the keys of its object (which grow until the object ends)."""
    levels: list[tuple[str, str, dict[str, None]]] = []  # the bracket, the path of what is in it, its keys
    key = ""
    for token in _TOKEN.finditer(text):
        string, colon, opening, closing = token.groups()
        if opening:
            if len(levels) >= _DEEPEST:
                return
            levels.append((opening, _extend(levels, key, opening), {}))
        elif closing:
            if not levels:
                return
            levels.pop()
        elif colon and levels and levels[-1][0] == "{":
            key = _undo(string)
            keys = levels[-1][2]
            if len(keys) < 50:
                keys[key] = None
        elif levels and _LINK.match(string.replace("\\/", "/")):
            bracket, path, keys = levels[-1]
            if bracket == "[":
                yield path, None, keys
            elif _is_name(key):
                yield f"{path}.*" if path else "*", None, keys
            else:
                yield path, key, keys


def _extend(levels: list[tuple[str, str, dict[str, None]]], key: str, opening: str) -> str:
    """The path of what is in a new bracket, under the last key or in an array."""
    end = "[]" if opening == "[" else ""
    if not levels:
        return end
    bracket, path, _ = levels[-1]
    if bracket == "[":
        return path + end
    name = "*" if _is_name(key) else _quote(key)
    return f"{path}.{name}{end}" if path else f"{name}{end}"


def _is_name(key: str) -> bool:
    """Whether a key is the name of a file or a number, and not that of a value."""
    return bool(re.search(r"[./]|\A[0-9]", key)) or len(key) > 40


def _undo(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"'))
    except ValueError:
        return string
