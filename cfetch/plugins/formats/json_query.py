"""Rows of any JSON, JSON Lines, YAML, TOML or reply of an API, by an expression of JMESPath (``--query``).

If the expression begins with a path to an array or an object, as ``images[]``, ``[]``, ``a.b[*]`` or
``packages.*``, the document is read as a stream, element by element, however long it is. An object among the
values of ``.*`` has the name of its value under the key ``@key``. Any other expression needs the whole
document in memory, so its length is limited.

The rows may have foreign keys, as those of a table; a text is a URL.
"""

import re
from collections.abc import Iterator
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.manifest.columns import ColumnError
from cfetch.manifest.digests import missing_library
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.config_text import convert_to_json
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.link_text import advise_links
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import MAX_DOCUMENT_BYTES, Source

KEY = "@key"
MAX_ELEMENT_BYTES = 64 << 20  # of one element of the array that is streamed
_NUMBERS = frozenset({"size", "offset", "length"})
_DIGITS = re.compile(r"[0-9]{1,18}\Z")
_PROJECTIONS = frozenset({"projection", "filter_projection", "value_projection"})
_STEPS = _PROJECTIONS | {"flatten"}


def read_query(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows that the expression makes.

    Raises:
        UsageError: the expression is not valid, or a library is not installed.
    """
    try:
        import ijson
        import jmespath
        from jmespath.exceptions import JMESPathError
        from jmespath.parser import ParsedResult
    except ImportError as error:
        raise UsageError(missing_library("--query", error.name or "jmespath", "query")) from None
    assert document.options is not None  # the reader is chosen by one of them
    expression = document.options.query or ""
    try:
        parsed = jmespath.compile(expression).parsed
    except JMESPathError as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"--query is no expression of JMESPath: {reason}") from None
    source = convert_to_json(source) or source
    path, rest, is_object = _split(parsed)
    query = ParsedResult(expression, parsed if rest is None else rest)
    columns = document.make_columns()
    rows = 0
    file = _Bytes(source, MAX_DOCUMENT_BYTES if rest is None else MAX_ELEMENT_BYTES)
    try:
        for value in _read_values(ijson, file, path, is_streamed=rest is not None, is_object=is_object):
            file.begin_element()
            for fields in _list_rows(query.search(value)):
                rows += 1
                try:
                    renamed = _convert_digits(columns.rename(fields))
                    yield from (Row(0, each, "rows") for each in columns.expand(renamed))
                except ColumnError as error:
                    faults.add(0, f"rows[{rows - 1}]: {error}")
    except JMESPathError as error:
        raise BrokenDocumentError(0, f"--query fails on it: {' '.join(str(error).split())[:200]}") from None
    except (ijson.JSONError, ValueError, RecursionError) as error:
        # such as a template of JSON, or a lock file with a conflict of a merge
        way = advise_links(source)
        raise BrokenDocumentError(0, f"it is not JSON: {' '.join(str(error).split())[:200]}{way}") from None
    if not rows:
        raise BrokenDocumentError(0, f"--query finds nothing in it{advise_queries(source)}")
    document.notes.extend(columns.notes())


def _convert_digits(fields: object) -> object:
    """Sizes as numbers: YAML has none without a schema, and stores' APIs write them as texts."""
    if not isinstance(fields, dict):
        return fields
    return {
        key: int(value) if key in _NUMBERS and isinstance(value, str) and _DIGITS.match(value) else value
        for key, value in fields.items()
    }


def _split(parsed: dict[str, Any]) -> tuple[str, dict[str, Any] | None, bool]:
    """The path that an expression begins with, in ijson's words; the rest; whether it leads to an object.

    The rest is for a document that has one element in place of the array or object at the path. It is None
    if the expression has no such beginning.
    """
    node, above = parsed, []
    while node["type"] in _STEPS:
        above.append(node)
        node = node["children"][0]
    names = _list_names(node)
    if names is None or not above:
        return "", None, False
    rest: dict[str, Any] = {"type": "identity", "children": []}
    for step in reversed(above):
        rest = step | {"children": [rest, *step["children"][1:]]}
    return ".".join(names), rest, above[-1]["type"] == "value_projection"


def _list_names(node: dict[str, Any]) -> list[str] | None:
    """The names of a path of plain keys; None: it is another expression."""
    if node["type"] in ("identity", "current"):
        return []
    if node["type"] == "field":
        return [node["value"]] if "." not in node["value"] else None  # ijson separates names by dots
    if node["type"] == "subexpression":
        parts = [_list_names(child) for child in node["children"]]
        return None if None in parts else [name for part in parts if part for name in part]
    return None


def _read_values(
    ijson: Any,  # noqa: ANN401 - a module that is not typed
    file: "_Bytes",
    path: str,
    *,
    is_streamed: bool,
    is_object: bool,
) -> Iterator[Any]:
    options = {"use_float": True, "multiple_values": True}
    if not is_streamed:
        yield from ijson.items(file, "", **options)
    elif is_object:
        for key, value in ijson.kvitems(file, path, **options):
            yield {key: value | {KEY: key} if isinstance(value, dict) else value}
    else:
        for value in ijson.items(file, f"{path}.item" if path else "item", **options):
            yield [value]


def _list_rows(result: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON is any value
    if isinstance(result, list):
        for value in result:
            yield from _list_rows(value) if isinstance(value, list) else [value]
    elif result is not None:
        yield result


class _Bytes:
    """The bytes of a document as a file; too many for one element are refused."""

    def __init__(self, source: Source, most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._position = self._begin = 0

    def begin_element(self) -> None:
        """Note that an element has been read."""
        self._begin = self._position

    def read(self, size_bytes: int = -1) -> bytes:
        """Read further bytes."""
        data = self._source.read(self._position, size_bytes)
        if self._position == 0:
            data = data.removeprefix(b"\xef\xbb\xbf")
        self._position += len(data)
        if self._position - self._begin > self._most_bytes:
            raise BrokenDocumentError(
                0,
                f"more than {self._most_bytes} bytes of it belong to one value; begin --query with the path "
                f"of the array or object whose values are the rows{advise_queries(self._source)}",
            )
        return data
