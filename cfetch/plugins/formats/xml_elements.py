"""Reads an XML document as a stream of elements: memory does not grow with it.

Python's own parser, expat, does it. Document types are refused, as no list needs one, and entities of a
stranger may fill the memory.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from xml.parsers.expat import ExpatError, ParserCreate

from cfetch.manifest.faults import BrokenDocumentError, UrlError
from cfetch.manifest.source import HEAD_BYTES, MAX_ROW_CHARS, Source
from cfetch.manifest.url_completion import join_url

_MOST_PARTS = 10_000  # elements within one that is kept as a whole
_DEEPEST = 64


@dataclass
class Element:
    """An element with all that is in it; names have no prefix and no namespace.

    ``base`` is that of its relative links: of ``xml:base``, else the document's address; empty if unknown.
    """

    name: str
    line: int
    attributes: dict[str, str]
    text: str = ""
    parts: list["Element"] = field(default_factory=list)
    base: str = ""

    def find(self, *names: str) -> "Element | None":
        """The first element at a path of names; None: there is none."""
        element: Element | None = self
        for name in names:
            element = next((part for part in (element.parts if element else ()) if part.name == name), None)
        return element

    def find_text(self, *names: str) -> str:
        """The text of the first element at a path of names; empty if there is none."""
        element = self.find(*names)
        return "" if element is None else element.text.strip()

    def walk(self) -> Iterator["Element"]:
        """Yield the element and all that are in it."""
        yield self
        for part in self.parts:
            yield from part.walk()


class _Builder:
    """Builds the wanted elements of a document, as the parser tells its parts."""

    def __init__(self, wanted: Collection[str], own_url: str) -> None:
        self.parser = ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self._wanted = wanted
        self._open: list[Element] = []
        self._bases = [own_url]  # of the elements that are open
        self._depth = self._parts = self._chars = 0
        self.complete: list[Element] = []

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BrokenDocumentError(self._line(), f"its elements are nested more than {_DEEPEST} deep")
        self._bases.append(join_base(self._bases[-1], attributes.get("xml:base", "")))
        if not self._open and local not in self._wanted:
            return
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise BrokenDocumentError(self._line(), f"one element has more than {_MOST_PARTS} others in it")
        known = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        element = Element(local, self._line(), known, base=self._bases[-1])
        if self._open:
            self._open[-1].parts.append(element)
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._depth -= 1
        self._bases.pop()
        if not self._open:
            return
        element = self._open.pop()
        if not self._open:
            self.complete.append(element)
            self._parts = self._chars = 0

    def _add_text(self, text: str) -> None:
        if self._open:
            self._chars += len(text)
            if self._chars > MAX_ROW_CHARS:
                raise BrokenDocumentError(self._line(), f"a text is longer than {MAX_ROW_CHARS} characters")
            self._open[-1].text += text

    def _refuse(self, *_: object) -> None:
        raise BrokenDocumentError(
            self._line(), "it declares a document type or an entity, which a list does not need"
        )

    def _line(self) -> int:
        return self.parser.CurrentLineNumber


_DECLARED = re.compile(
    rb"<\?xml[^>]{0,200}\sencoding=[\"'](iso-8859-(?:1|15)|latin-?1|windows-125[0-2])[\"']", re.IGNORECASE
)


def read_texts(source: Source) -> Iterator[str]:
    """The text of an XML document in pieces: UTF-8, or else the encoding that it declares.

    Raises:
        BrokenDocumentError: it is in neither of them.
    """
    declared = _DECLARED.match(source.read(source.begin, HEAD_BYTES))
    if declared is None or _is_utf8(source):
        yield from source.texts()
        return
    position = source.begin
    while data := source.read(position, source.window_bytes):
        try:
            yield data.decode(declared[1].decode())
        except UnicodeDecodeError:
            raise BrokenDocumentError(0, "a byte is not in the encoding that it declares") from None
        position += len(data)


def _is_utf8(source: Source) -> bool:
    try:
        return all(True for _ in source.texts())
    except BrokenDocumentError:
        return False


def join_base(base: str, stated: str) -> str:
    """A link or a base joined to the base of what it stands in; unchanged where that is not known."""
    if not base or not stated:
        return stated or base
    try:
        return join_url(base, stated)
    except UrlError:
        return stated


def read_elements(source: Source, wanted: Collection[str]) -> Iterator[Element]:
    """Yield the outermost elements of these names. Raises BrokenDocumentError: it is not XML."""
    builder = _Builder(wanted, source.own_url or "")
    unheard = 0
    try:
        for text in read_texts(source):
            builder.parser.Parse(text)
            unheard = 0 if builder.complete else unheard + len(text)
            if unheard > 64 * MAX_ROW_CHARS:
                raise BrokenDocumentError(0, "a tag, a comment or a text is too long to read")
            yield from builder.complete
            builder.complete.clear()
        builder.parser.Parse(b"", True)
    except ExpatError as error:
        raise BrokenDocumentError(error.lineno, f"it is not XML: {error}") from None
    yield from builder.complete
