"""Finds where links stand in JSON that is no list, as ready expressions for ``--query``.

The text is looked at once, token by token, so that a document of any length, also one that is cut off or
broken, names its paths. No library is needed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.columns import find_key, is_url_name
from cfetch.manifest.formats.link_text import advise_links
from cfetch.manifest.source import Source

_LOOKED_AT_BYTES = 4 << 20
_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*+:)?)?|([\[{])|([\]}])', re.DOTALL)
"""A string without an end is one too, so that no character is looked at again and again."""

_LINK = re.compile(rf"{FILES_PATTERN}://[^\s]+\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SIZES = frozenset({"size", "bytes", "filesize", "file_size", "size_bytes"})
_MOST_PATHS = 200
_SHOWN = 3
_ALIKE = 3  # keys with the same beneath them are names
_STEP = "\x1f"  # between the keys of a path; a key may have dots
_HASHES = frozenset({"hash", "checksum", "digest", "shasum", "sum"})
_FILE = re.compile(r"//[^/]+/(?:[^?#]*/)?[^/?#]+\.(?!html?\b|php\b|git\b)[A-Za-z][A-Za-z0-9]{0,7}(?:[?#]|\Z)")
_DEEPEST = 64
_ABOUT = re.compile(
    r"licen[cs]e|homepage|html|schema|help|docs?\b|documentation|profile|author|contributor|creator|publisher"
    r"|avatar|thumbnail|logo|icon|self|issue|comment|doi|@id|@context|\$schema|owner|repository|api_?url|parent"
    r"|\b(?:upload|move|delete)\b|\bterms|base_uri|contact|about|sponsor|funding|organi[sz]ation|info\b|\brel\b",
    re.IGNORECASE,
)
"""Words in a path to links that lead to pages about the files."""


class _Found:
    """The links at one path: their number, and the keys of the objects that hold them."""

    def __init__(self, path: str, leaf: str | None, keys: dict[str, None]) -> None:
        self.path, self.leaf, self.keys = path, leaf, keys
        self.links = self.files = self.clones = 0
        self.has_gaps = False  # an object at the path lacks the link, or may do so

    def add(self, link: str) -> None:
        self.links += 1
        self.clones += link.endswith(".git")
        self.files += _FILE.search(link) is not None

    def join(self, other: "_Found") -> None:
        self.links += other.links
        self.clones += other.clones
        self.files += other.files
        self.keys = {key: None for key in self.keys if key in other.keys}


def advise_queries(source: Source, *, is_json: bool = True) -> str:
    """The words of a refusal that name expressions; of a document without links, those of links in its texts.

    What is not JSON, as YAML, can be read by neither jq nor, when converted, as a text.
    """
    text = source.read(0, _LOOKED_AT_BYTES).decode("utf-8", "replace")
    objects: Counter[str] = Counter()
    places = sorted(_merge(_find(text, objects)), key=_rate)
    useful = [place for place in places if not _ABOUT.search(f"{place.path}.{place.leaf}")]
    within = "" if useful or not is_json else advise_links(source)  # such as the commands of a notebook
    if not places:
        return within
    what = "links stand" if useful else "its only links by themselves look like pages about it; they stand"
    shown = (useful or places)[:_SHOWN]
    written = ", ".join(_show(place) for place in shown)
    expressions = " or ".join(f"--query '{_write(place, objects)}'" for place in shown)
    jq = f", as does jq -r '{_jq(shown[0])}' FILE" if is_json else ""
    way = f"; {what} at {written}: {expressions} reads them{jq}"
    return f"{way}{_hint_hash(shown[0])}{within if within and len(places) < _count(within) else ''}"


def _count(words: str) -> int:
    digits = re.search("[0-9]+", words)
    return int(digits[0]) if digits else 0


def _hint_hash(place: _Found) -> str:
    """How to take a hash whose sort the key does not state."""
    key = next((key for key in place.keys if key.lower() in _HASHES), None)
    return (
        ""
        if key is None
        else f" (if {key} holds hashes, add for example sha256: {_quote(key)} to the braces)"
    )


def _merge(places: Iterable[_Found]) -> Iterable[_Found]:
    """Join places that differ only in one key, such as ``nodes.a.url`` and ``nodes.b.url``: it is a name."""
    merged = list(places)
    for position in range(_DEEPEST):
        groups: dict[tuple[str, ...], list[_Found]] = {}
        for place in merged:
            steps = place.path.split(_STEP)
            if place.path and position < len(steps) and not steps[position].endswith("[]"):
                groups.setdefault(
                    (*steps[:position], "*", *steps[position + 1 :], place.leaf or ""), []
                ).append(place)
        if not groups:
            break
        for signature, group in groups.items():
            pattern = _STEP.join(signature[:-1])
            if len(group) < _ALIKE and not (len(group) > 1 and any(place.path == pattern for place in group)):
                continue
            whole = _Found(pattern, group[0].leaf, group[0].keys)
            whole.has_gaps = True
            for place in group:
                whole.join(place)
            merged = [place for place in merged if place not in group] + [whole]
    return merged


def _show(place: _Found) -> str:
    return "." + ".".join(filter(None, (place.path.replace(_STEP, "."), place.leaf and _quote(place.leaf))))


def _jq(place: _Found) -> str:
    path = place.path.replace(_STEP, ".").replace(".*", "[]").replace("*", "[]")
    leaf = place.leaf and _quote(place.leaf)
    return "." + (f"{path}.{leaf}" if leaf and path else path or leaf or "")


def _rate(place: _Found) -> tuple[object, ...]:
    """Links of rows first, and such as files have; then those whose key says that they are, then the most."""
    is_row = "[]" in place.path or "*" in place.path
    return (
        not is_row,
        2 * place.clones > place.links,
        2 * place.files < place.links,
        not is_url_name(place.leaf or ""),
        -place.links,
    )


def _write(place: _Found, objects: Mapping[str, int]) -> str:
    """The expression: the links, with what else the same object states of a file."""
    # a dot after ``.*`` binds one key only; after ``.*[]`` it binds all that follow
    path = place.path.replace(f"{_STEP}*{_STEP}", f"{_STEP}*[]{_STEP}").replace(_STEP, ".")
    if place.leaf is None:
        return path or "[]"
    has_gaps = place.has_gaps or objects.get(place.path, 0) > place.links
    if path.endswith("[]") and has_gaps:
        path, has_gaps = f"{path[:-2]}[?{_quote(place.leaf)}]", False
    members = {"url": place.leaf}
    for key in place.keys:
        known = "size" if key.lower() in _SIZES else find_key(key)
        if key != place.leaf and known is not None and known not in members:
            members[known] = key
    if len(members) == 1 and not path:
        return _quote(place.leaf)
    inner = ", ".join(f"{key}: {_quote(name)}" for key, name in members.items())
    gaps = " | [?url]" if has_gaps and ("[]" in path or "*" in path) else ""
    return f"{path}.{{{inner}}}{gaps}" if path else f"{{{inner}}}"


def _quote(key: str) -> str:
    return key if _PLAIN.match(key) else json.dumps(key)


def _find(text: str, objects: Counter[str]) -> Iterable[_Found]:
    places_by_path: dict[tuple[str, str | None], _Found] = {}
    for path, leaf, keys, link in _walk(text, objects):
        place = places_by_path.get((path, leaf))
        if place is None:
            if len(places_by_path) >= _MOST_PATHS:
                continue
            place = places_by_path[path, leaf] = _Found(path, leaf, keys)
        place.add(link)
    return places_by_path.values()


def _walk(text: str, objects: Counter[str]) -> Iterator[tuple[str, str | None, dict[str, None], str]]:
    """Yield each link's path, its own key, the keys of its object (which grow until the object ends), and it.

    ``objects`` counts the objects at each path.
    """
    levels: list[tuple[str, str, dict[str, None]]] = []  # the bracket, the path of what is in it, its keys
    key = ""
    for token in _TOKEN.finditer(text):
        string, colon, opening, closing = token.groups()
        if opening:
            if len(levels) >= _DEEPEST:
                return
            path = _extend(levels, key, opening)
            levels.append((opening, path, {}))
            objects[path] += opening == "{"
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
                yield path, None, keys, string
            elif _is_name(key):
                yield f"{path}{_STEP}*" if path else "*", None, keys, string
            else:
                yield path, key, keys, string


def _extend(levels: list[tuple[str, str, dict[str, None]]], key: str, opening: str) -> str:
    """The path of what is in a new bracket, under the last key or in an array."""
    end = "[]" if opening == "[" else ""
    if not levels:
        return end
    bracket, path, _ = levels[-1]
    if bracket == "[":
        return path + end
    name = "*" if _is_name(key) else _quote(key)
    return f"{path}{_STEP}{name}{end}" if path else f"{name}{end}"


def _is_name(key: str) -> bool:
    """Whether a key is the name of a file or a number, and not that of a value."""
    return bool(re.search(r"[./]|\A[0-9]", key)) or len(key) > 40


def _undo(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"'))
    except ValueError:
        return string
