"""A CouchDB database, or npm's registry, by ``_changes``: each document's present files, under its sequence.

A document has its attachments, or, as npm's packages, a tarball for each version. Files are
``<id>/<name>``; a slash in an id is written ``%2F``, so that no document's files are below another's. The
cursor is the sequence of the last change, which is an opaque text; only its leading number can be compared.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urlencode

import msgspec

from cfetch.base.errors import FeedReplaced, Refused, StaleAnswer, Transient
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl, printable
from cfetch.plugins.follow.backends.change_log import News, Seen, interval_below
from cfetch.plugins.follow.backends.feed_kind import FeedKind, check_url, observe
from cfetch.plugins.follow.backends.observed import Upstream
from cfetch.plugins.follow.backends.web import Web, ask_together, read_json

CHANGES = 200  # of one answer: with documents of 1 MB, as popular packages have, some 200 MB
MAX_CHANGES_BYTES = 512 << 20
MAX_DOCUMENT_BYTES = 256 << 20
GONE = frozenset({404})
_NUMBER = re.compile(r"\d{1,18}")


class _Leaf(msgspec.Struct):
    rev: str = ""


class _Change(msgspec.Struct):
    id: str
    changes: list[_Leaf] = []
    deleted: bool = False
    doc: msgspec.Raw = msgspec.Raw()


class _Changes(msgspec.Struct):
    results: list[_Change]
    last_seq: int | str
    pending: int | None = None


class _Attachment(msgspec.Struct):
    length: int | None = None
    digest: str = ""


class _Dist(msgspec.Struct):
    tarball: str
    integrity: str = ""
    shasum: str = ""


class _Version(msgspec.Struct):
    dist: _Dist | None = None


class _Document(msgspec.Struct):
    rev: str = msgspec.field(name="_rev", default="")
    attachments: dict[str, _Attachment] = msgspec.field(name="_attachments", default_factory=dict)
    versions: dict[str, _Version] = {}


_CHANGES = msgspec.json.Decoder(_Changes)
_DOCUMENT = msgspec.json.Decoder(_Document)


class CouchdbUpstream:
    """An ``Upstream``: the database at ``url``.

    ``documents``: the URL below which documents are asked for, where ``_changes`` does not include them.
    """

    def __init__(self, url: SecretUrl, web: Web, documents: str | None = None) -> None:
        self.shown = str(url)
        self.account = url.origin()
        self._url = url.reveal().rstrip("/")
        self._documents = (documents or self._url).rstrip("/")
        self._web = web
        self._includes = documents is None

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says. The cursor is the last sequence."""
        query = {"since": cursor or "0", "limit": str(CHANGES)}
        if self._includes:
            query |= {"include_docs": "true"}
        answer = await self._web.ask(
            f"{self._url}/_changes?{urlencode(query)}", max_bytes=MAX_CHANGES_BYTES, expected=GONE
        )
        if answer.status == HTTPStatus.NOT_FOUND:
            if b'"not_found"' not in answer.body:  # a proxy's word says nothing about the database
                raise Transient(f"something other than {self.shown} answers HTTP 404", http_status=404)
            if cursor:
                raise FeedReplaced(f"the database {self.shown} was deleted")
            raise Refused(f"there is no database at {self.shown}", http_status=answer.status)
        changes = read_json(answer.body, _CHANGES, f"the list of changes of {self.shown}")
        end = str(changes.last_seq)
        if _number_of(end) < _number_of(cursor):
            raise StaleAnswer(
                f"the database {self.shown} has gone back: it is at {end}, and was at {cursor}; an old "
                "replica answers, or it was made anew"
            )
        latest = {change.id: change for change in changes.results}
        asks = [partial(self._list_files, change) for change in latest.values()]
        by_document = dict(zip(latest, await ask_together(asks), strict=True))
        known = {name: files for name, files in by_document.items() if files is not None}
        seen = [file for files in known.values() for file in files]
        is_last = len(changes.results) < CHANGES and not changes.pending
        return News(end, seen, [interval_below(_name_directory(name)) for name in known], is_last)

    async def close(self) -> None:
        """Close connections."""
        await self._web.close()

    async def _list_files(self, change: _Change) -> list[Seen] | None:
        """The files of a document as it is now: it may have changed again since the list.

        None: it is not there, though the list does not say that it was deleted; a later change will tell.

        Raises StaleAnswer: its revision is older than the list's, so an old copy of it answers.
        """
        what = f"the document {printable(change.id, 100)} of {self.shown}"
        if change.deleted:
            return []
        url = f"{self._documents}/{quote(change.id, safe='@')}"
        body = bytes(change.doc)
        if body in (b"", b"null"):
            answer = await self._web.ask(url, max_bytes=MAX_DOCUMENT_BYTES, expected=GONE)
            if answer.status in GONE:
                return None
            body = answer.body
        document = read_json(body, _DOCUMENT, what)
        listed = max((leaf.rev for leaf in change.changes), key=_number_of, default="")
        if document.rev and _number_of(document.rev) < _number_of(listed):
            raise StaleAnswer(f"{what} is an old copy: it has revision {document.rev}, and the list {listed}")
        directory = _name_directory(change.id)
        return [Seen(f"{directory}/{name}", row) for name, row in _make_rows(document, url)]


def _number_of(sequence: str) -> int:
    """The leading number of a sequence, or of a revision."""
    match = _NUMBER.match(sequence)
    return int(match[0]) if match else 0


def _name_directory(document: str) -> str:
    return document.replace("%", "%25").replace("/", "%2F")


def _make_rows(document: _Document, url: str) -> Iterator[tuple[str, dict[str, object]]]:
    for name, attachment in document.attachments.items():
        row: dict[str, object] = {"url": f"{url}/{quote(name, safe='')}?rev={quote(document.rev)}"}
        if attachment.length is not None:
            row["size"] = attachment.length
        yield name, row | _read_hash(attachment.digest, ("md5",))
    for version in document.versions.values():
        if (dist := version.dist) is not None:
            known = _read_hash(dist.integrity, ("sha512", "sha256"))
            row = {"url": dist.tarball} | (known or ({"sha1": dist.shasum} if dist.shasum else {}))
            yield dist.tarball.rpartition("/")[2], row


def _read_hash(text: str, known: Iterable[str]) -> dict[str, object]:
    """The first hash of ``algorithm-base64`` texts (W3C's Subresource Integrity) that is known."""
    for word in text.split():
        algorithm, _, encoded = word.partition("-")
        try:
            if algorithm in known:
                return {algorithm: base64.b64decode(encoded.partition("?")[0], validate=True).hex()}
        except binascii.Error:
            continue
    return {}


def _make_upstream(url: SecretUrl, web: Web, documents: list[str]) -> Upstream:
    return CouchdbUpstream(url, web, check_url(documents[0]) if documents else None)


FEED = FeedKind("couchdb+http(s)://…", observe("documents", _make_upstream), WEB)
