"""A Databricks SQL statement's reply with ``external_links``, as the API returns it; each link is an entry.

The reader accepts a whole reply, and the bare ``{"external_links": […]}`` of a chunk request. One reply may
hold many links. The *last* link's ``next_chunk_index`` names the next chunk; if it names none, the result
ends. The earlier links' indices name chunks of the same reply, which would be read twice.
"""

from collections.abc import Iterator
from typing import Any

from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import BrokenDocumentError, Faults, kind_of
from cfetch.manifest.fields import FieldError, check_size
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import decode_text

# Read as a whole: 100 GiB of chunks make some MiB, as Python objects 25 times as much.
MAX_REPLY_BYTES = 16 << 20

_ENDINGS = {"ARROW_STREAM": ".arrow", "JSON_ARRAY": ".json", "CSV": ".csv"}
_COMPRESSIONS = {"LZ4_FRAME": ".lz4"}
_KEYS = {
    "external_link": "url",
    "byte_count": "size",
    "row_offset": "offset",
    "expiration": "expires_at",
    "http_headers": "headers",
}
"""A link's key -> an entry's key."""


def parse_chunk_links(data: bytes) -> tuple[Entry, ...]:
    """The links of one reply as entries, for a refresh: match by ``chunk``, take url, headers, expires_at.

    Raises:
        ManifestError: the reply does not follow the API; it names all faults.
    """
    faults = Faults()
    entries: list[Entry] = []
    try:
        reply = _decode(data, "the reply")
        links = _Links(_ending(reply), faults)
        rows = links.rows(reply)
        entries = [entry for i, row in enumerate(rows) if (entry := check_row(row, i, Document(), faults))]
    except BrokenDocumentError as error:
        faults.note_break(error)
    faults.raise_if_any("the reply with fresh links")
    return tuple(entries)


def read_sql_statement(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the links whose chunks have rows, of this reply and of the replies by ``source.fetch_chunk``."""
    reply = _decode(source.read(0, MAX_REPLY_BYTES + 1), "the reply")
    _check_state(reply)
    links = _Links(_ending(reply), faults)
    yield from links.rows(reply)
    while (following := links.following) is not None:
        if source.fetch_chunk is None:
            faults.add(0, _missing(following, reply))
            return
        reply_of_chunk = _decode(source.fetch_chunk(following), f"the reply for chunk {following}")
        yield from links.rows(reply_of_chunk)
        if following not in links.seen:
            raise BrokenDocumentError(
                0, f"the reply for chunk {following} holds no link of that chunk; run the statement again"
            )


class _Links:
    """Follows links from reply to reply; ``following`` is the index of the next chunk to ask for."""

    def __init__(self, ending: str, faults: Faults) -> None:
        self._ending = ending
        self._faults = faults
        self.seen: set[int] = set()
        self.following: int | None = None

    def rows(self, reply: dict[str, Any]) -> Iterator[Row]:
        self.following = None
        for position, link in enumerate(_external_links(reply)):
            label = f"external_links[{position}]"
            try:
                chunk, row_count, self.following = _indexes(link)
            except FieldError as error:
                self._faults.add(0, f"{label}: {error}")
                continue
            if chunk in self.seen:
                self._faults.add(0, f"{label}: chunk {chunk} is given twice")
            self.seen.add(chunk)
            if row_count:
                fields = {ours: link.get(theirs) for theirs, ours in _KEYS.items() if theirs in link}
                yield Row(0, {**fields, "path": f"chunk-{chunk:05d}{self._ending}"}, "chunk", chunk)
        if self.following in self.seen:
            self._faults.add(0, f"the last link goes on with chunk {self.following}, which was already read")
            self.following = None


def _indexes(link: object) -> tuple[int, int, int | None]:
    """A link's own index, its number of rows, and the index of the chunk after it."""
    if type(link) is not dict:
        raise FieldError(f"a link must be an object, not {kind_of(link)}")
    row_count = _index(link, "row_count") if "row_count" in link else 1
    following = _index(link, "next_chunk_index") if link.get("next_chunk_index") is not None else None
    return _index(link, "chunk_index"), row_count, following


def _index(link: dict[str, Any], key: str) -> int:
    try:
        return check_size(link.get(key))
    except FieldError as error:
        raise FieldError(f"{key}: {error}") from None


def _decode(data: bytes, what: str) -> dict[str, Any]:
    if len(data) > MAX_REPLY_BYTES:
        raise BrokenDocumentError(0, f"{what} is longer than {MAX_REPLY_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BrokenDocumentError(0, f"{what}: the byte at offset {error.start} is not UTF-8") from None
    try:
        reply = decode_text(text, 1)
    except BrokenDocumentError as error:
        raise BrokenDocumentError(error.line, f"{what}: {error}") from None
    if type(reply) is not dict:
        raise BrokenDocumentError(1, f"{what} must be an object, not {kind_of(reply)}")
    return reply


def _part(reply: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under ``key``; empty if it is not given."""
    part = reply.get(key)
    if part is not None and type(part) is not dict:
        raise BrokenDocumentError(0, f"{key} must be an object, not {kind_of(part)}")
    return part or {}


def _check_state(reply: dict[str, Any]) -> None:
    state = _part(reply, "status").get("state", "SUCCEEDED")
    if state != "SUCCEEDED":
        shown = printable(state, 40) if type(state) is str else kind_of(state)
        raise BrokenDocumentError(0, f"the statement's state is {shown}; save the reply once it is SUCCEEDED")


def _external_links(reply: dict[str, Any]) -> list[Any]:
    holder = reply if "external_links" in reply else _part(reply, "result")
    if "data_array" in holder:
        raise BrokenDocumentError(
            0, "the result is INLINE; run the statement with disposition EXTERNAL_LINKS"
        )
    links = holder.get("external_links")
    if links is not None and type(links) is not list:
        raise BrokenDocumentError(0, f"external_links must be an array, not {kind_of(links)}")
    return links or []


def _ending(reply: dict[str, Any]) -> str:
    """The file ending of the chunks, from the reply's manifest, which states the actual format."""
    manifest = _part(reply, "manifest")
    stated = [manifest.get(key) for key in ("format", "result_compression")]
    form, compression = (text if type(text) is str else "" for text in stated)
    return _ENDINGS.get(form, "") + _COMPRESSIONS.get(compression, "")


def _missing(first: int, reply: dict[str, Any]) -> str:
    total = _part(reply, "manifest").get("total_chunk_count")
    if type(total) is not int or total <= first:
        named = f"the links from chunk {first} on are missing"
    elif total == first + 1:
        named = f"the link of chunk {first} is missing"
    else:
        named = f"the links of chunks {first} to {total - 1} are missing"
    return f"{named}; set DATABRICKS_HOST and DATABRICKS_TOKEN so that they can be asked for"
