"""Functions for readers of other programs' JSON: one document about one data set, read as a whole."""

import re
from collections.abc import Iterator
from typing import Any

from cfetch.manifest.digests import find_algorithm
from cfetch.manifest.faults import BrokenDocumentError, Misfit, kind_of
from cfetch.manifest.source import MAX_DOCUMENT_BYTES, Source
from cfetch.manifest.strict_json import decode_text

_CONTENT_SIZE = re.compile(r"([0-9]{1,20})(?: ?B)?\Z")


def load_text(source: Source, what: str) -> str:
    """The whole text. Raises BrokenDocumentError: it is longer than ``MAX_DOCUMENT_BYTES``, or not UTF-8."""
    pieces, chars = [], 0
    for piece in source.texts():
        chars += len(piece)
        if chars > MAX_DOCUMENT_BYTES:
            limit = (
                f"{what} is longer than {MAX_DOCUMENT_BYTES} characters, which cfetch does not read at once"
            )
            from cfetch.manifest.formats.json_links import advise_queries  # only a refusal advises

            raise BrokenDocumentError(0, f"{limit}{advise_queries(source)}")
        pieces.append(piece)
    return "".join(pieces)


def load_bytes(source: Source, what: str) -> bytes:
    """All bytes, in whatever encoding. Raises BrokenDocumentError: more than ``MAX_DOCUMENT_BYTES``."""
    data = source.read(source.begin, MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise BrokenDocumentError(
            0, f"{what} is longer than {MAX_DOCUMENT_BYTES} bytes, which cfetch does not read at once"
        )
    return data


def load_json(source: Source, what: str) -> Any:  # noqa: ANN401 - JSON is any value
    """The whole document; ``what`` is its name for messages. Raises BrokenDocumentError: it is not JSON."""
    document = decode_text(load_text(source, what), 1)
    if isinstance(document, Misfit):
        raise BrokenDocumentError(1, f"{what} is {document.reason}")
    return document


def load_object(source: Source, what: str) -> dict[str, Any]:
    """The whole document, which must be an object. Raises BrokenDocumentError: it is not, or no JSON."""
    document = load_json(source, what)
    if not isinstance(document, dict):
        raise BrokenDocumentError(1, f"{what} must be an object, not {kind_of(document)}")
    return document


def get_object(holder: object, *keys: str) -> dict[str, Any]:
    """The object under a path of keys; empty if there is none."""
    for key in keys:
        holder = holder.get(key) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def list_objects(holder: object, key: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array: ``holder`` itself, or its value under ``key``.

    Raises:
        BrokenDocumentError: an element is no object, so its meaning is unknown.
    """
    array = holder if key is None else holder.get(key) if isinstance(holder, dict) else None
    for place, element in enumerate(array if isinstance(array, list) else ()):
        if not isinstance(element, dict):
            shown = f"{key or 'element'}[{place}]"
            raise BrokenDocumentError(0, f"{shown} must be an object, not {kind_of(element)}")
        yield element


def read_content_size(thing: dict[str, Any]) -> int | None:
    """The bytes in schema.org's ``contentSize``; None if it is not stated, or in another unit."""
    match = _CONTENT_SIZE.match(str(thing.get("contentSize")))
    return int(match[1]) if match else None


class Hashes:
    """Makes fields of stated hashes, and counts those of kinds that cfetch does not know."""

    def __init__(self) -> None:
        self.unknown = 0

    def read(self, text: object) -> dict[str, object]:
        """``sha256:…`` as a row's field; empty for an unknown algorithm, or another value."""
        name, _, digits = text.partition(":") if isinstance(text, str) else ("", "", "")
        algorithm = find_algorithm(name)
        self.unknown += bool(name) and algorithm is None
        return {} if algorithm is None else {algorithm: digits}

    def read_named(self, name: object, digits: object) -> dict[str, object]:
        """The same of a name and the digits, each by itself."""
        return self.read(f"{name}:{digits}") if name and digits else {}

    def list_notes(self) -> list[str]:
        """A note of how many were left out, if any were."""
        said = f"hashes of a kind that cfetch does not know, which are left out: {self.unknown}"
        return [said] if self.unknown else []
