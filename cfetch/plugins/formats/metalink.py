"""Metalink 4 (RFC 5854) and 3: each ``file`` with its size, hashes and sources, the best source first.

Version 3 differs in names, and in elements around files, hashes and sources. Fedora's mirrors still use it.

The document is parsed as a stream, so that memory does not grow with it. Document types and entities are
refused. Hashes of pieces, torrents and sources that are not http are left out.
"""

import re
import xml.sax
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.manifest.digests import missing_library
from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit
from cfetch.manifest.rows import MAX_MIRRORS, Document, Row
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import read_digits
from cfetch.plugins.formats.xml_elements import read_texts

NAMESPACE = "urn:ietf:params:xml:ns:metalink"
OLD_NAMESPACE = "http://www.metalinker.org/"
MAX_DEPTH = 32  # Metalink has five levels; elements of other namespaces have a few of their own
MAX_PARTS = 10_000  # sizes, hashes and sources of one file; they are in memory until it ends
LAST_PRIORITY = 999_999  # section 4.2.16.1: the priority of a source that states none

_ALGORITHMS = {
    "sha-512": "sha512", "sha-384": "sha384", "sha-256": "sha256", "sha-224": "sha224", "sha-1": "sha1",
    "md5": "md5",
}  # fmt: skip
"""The registry's name of a hash (IANA's "Hash Function Textual Names", see RFC 5854) -> cfetch's name."""

_OLD_ALGORITHMS = {f"sha{bits}": f"sha-{bits}" for bits in (512, 384, 256, 224, 1)}  # version 3's name -> 4's
_OLD_WRAPPERS = frozenset({"files", "verification", "resources"})
_MOST_PREFERENCE = 100  # version 3's best source

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_HTTP = re.compile(r"https?:", re.IGNORECASE)


def read_metalink(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows, each with the line number of its ``file`` element.

    Raises:
        UsageError: the library defusedxml is not installed.
    """
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.expatreader import DefusedExpatParser
    except ImportError:
        raise UsageError(missing_library("Metalink", "defusedxml", "metalink")) from None
    parser = DefusedExpatParser(namespaceHandling=1, forbid_dtd=True)
    files = _Files(parser, faults)
    parser.setContentHandler(files)
    try:
        for text in read_texts(source):
            files.fed_chars += len(text)
            parser.feed(text)
            files.check_length()
            yield from files.take_rows()
        parser.close()
    except DefusedXmlException:
        message = "it declares a document type or an entity, which a Metalink does not need"
        raise BrokenDocumentError(_line(parser), message) from None
    except xml.sax.SAXParseException as error:
        raise BrokenDocumentError(
            error.getLineNumber() or 0, f"it is not XML: {error.getMessage()}"
        ) from None
    yield from files.take_rows()
    if not files.seen_root:
        raise BrokenDocumentError(0, "it is empty")


def _line(parser: Any) -> int:  # noqa: ANN401 - a foreign, untyped parser
    number: int | None = parser.getLineNumber()
    return number or 0


@dataclass
class _File:
    line: int
    name: str | None
    sizes: list[str] = field(default_factory=list)
    hashes: list[tuple[str, str]] = field(default_factory=list)
    urls: list[tuple[int, str]] = field(default_factory=list)


class _Files(xml.sax.ContentHandler):
    """Collects the current file; ``take_rows`` returns the files that are complete."""

    def __init__(self, parser: Any, faults: Faults) -> None:  # noqa: ANN401
        super().__init__()
        self._parser = parser
        self._faults = faults
        self._path: list[str] = []  # without the wrappers of version 3
        self._wrappers = 0
        self._text: list[str] = []
        self._text_chars = 0
        self._attribute: str | None = None
        self._file: _File | None = None
        self._rows: list[Row] = []
        self._heard_at = 0
        self.fed_chars = 0
        self.seen_root = False

    def take_rows(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    def check_length(self) -> None:
        """Limit the length of a tag or comment, as it is in memory as a whole until it ends."""
        if self.fed_chars - self._heard_at > MAX_ROW_CHARS:
            raise self._make_broken_error(
                f"a tag, a comment or a text is longer than {MAX_ROW_CHARS} characters"
            )

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:  # noqa: ANN401, ARG002, N802 - the SAX interface
        self._heard_at = self.fed_chars
        space, local = name if len(name) == 2 else (None, name[-1])  # a namespace may hold wide spaces
        tag = local if space in (NAMESPACE, OLD_NAMESPACE) else f"other:{local}"
        if not self.seen_root and tag != "metalink":
            raise self._make_broken_error(f"its root is not a metalink element of {NAMESPACE} (version 4)")
        self.seen_root = True
        self._text, self._text_chars = [], 0
        if _is_wrapper(name):
            self._wrappers += 1
        else:
            self._path.append(tag)
        if len(self._path) + self._wrappers > MAX_DEPTH:
            raise self._make_broken_error(f"its elements are nested more than {MAX_DEPTH} deep")
        if tag == "file" and self._path == ["metalink", "file"]:
            self._file = _File(_line(self._parser), attrs.get((None, "name")))
        self._attribute = None
        if tag == "hash":
            kind = attrs.get((None, "type"))
            self._attribute = _OLD_ALGORITHMS.get(kind, kind) if space == OLD_NAMESPACE else kind
        elif tag == "url":
            old = space == OLD_NAMESPACE
            self._attribute = _read_preference(attrs) if old else attrs.get((None, "priority"))

    def characters(self, content: str) -> None:
        self._heard_at = self.fed_chars
        self._text.append(content)
        self._text_chars += len(content)
        if self._text_chars > MAX_ROW_CHARS:
            raise self._make_broken_error(f"a text is longer than {MAX_ROW_CHARS} characters")

    def endElementNS(self, name: Any, qname: Any) -> None:  # noqa: ANN401, ARG002, N802 - the SAX interface
        self._heard_at = self.fed_chars
        if _is_wrapper(name):
            self._wrappers -= 1
            return
        if self._file is not None and self._path[:2] == ["metalink", "file"]:
            if len(self._path) == 2:
                self._rows.append(_row(self._file, self._faults))
                self._file = None
            elif len(self._path) == 3:
                self._take(self._file, self._path[2], "".join(self._text).strip())
        self._path.pop()
        self._text, self._text_chars = [], 0

    def _take(self, file: _File, tag: str, text: str) -> None:
        if len(file.sizes) + len(file.hashes) + len(file.urls) >= MAX_PARTS:
            raise self._make_broken_error(f"a file has more than {MAX_PARTS} sizes, hashes and sources")
        if tag == "size":
            file.sizes.append(text)
        elif tag == "hash" and self._attribute is not None:
            file.hashes.append((self._attribute.lower(), text))
        elif tag == "url":
            priority = self._attribute
            if priority is not None and not (_NUMBER.match(priority) and 1 <= int(priority) <= LAST_PRIORITY):
                self._faults.add(_line(self._parser), f"priority: it must be from 1 to {LAST_PRIORITY}")
            file.urls.append((int(priority) if priority and _NUMBER.match(priority) else LAST_PRIORITY, text))

    def _make_broken_error(self, message: str) -> BrokenDocumentError:
        return BrokenDocumentError(_line(self._parser), message)


def _is_wrapper(name: Any) -> bool:  # noqa: ANN401 - the SAX interface
    return len(name) == 2 and name[0] == OLD_NAMESPACE and name[1] in _OLD_WRAPPERS


def _read_preference(attrs: Any) -> str | None:  # noqa: ANN401 - the SAX interface
    """The priority that means the same as a preference of version 3, of which the highest is the best."""
    preference = attrs.get((None, "preference")) or ""
    is_known = _NUMBER.match(preference) and int(preference) <= _MOST_PREFERENCE
    return str(_MOST_PREFERENCE + 1 - int(preference)) if is_known else None


def _row(file: _File, faults: Faults) -> Row:
    ordered = [url for _, url in sorted(file.urls, key=lambda pair: pair[0])]
    usable = [url for url in ordered if _HTTP.match(url)] or ordered[:1]
    fields: dict[str, object] = {"path": file.name if file.name is not None else Misfit("a missing name")}
    if usable:
        fields |= {"url": usable[0], "mirrors": usable[1 : MAX_MIRRORS + 1]}
    if file.sizes:
        fields["size"] = read_digits(file.sizes[0], "a text that is not all digits")
        if len(file.sizes) > 1:
            faults.add(file.line, "size: it is given twice")
    for kind, digits in file.hashes:
        if algorithm := _ALGORITHMS.get(kind):
            fields[algorithm] = digits
    if file.hashes and not fields.keys() & set(_ALGORITHMS.values()):
        faults.add(file.line, f"hash: none is of a type that cfetch knows: {', '.join(_ALGORITHMS)}")
    return Row(file.line, fields)
