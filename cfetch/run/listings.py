"""Lists the files of a prefix or a pattern: objects of a store, or files of a Hugging Face repository.

A repository is listed by the tree API of its hub, a page at a time; the address of the next page is in the
``Link`` header. Only the query is taken from that address, so the login is never sent to another host.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import Refused, SourceError, UsageError
from cfetch.base.records import NOT_DECODED
from cfetch.base.schemes import is_repository_url
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.object_urls import Listing, ObjectUrl, make_listing, split_object_url
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.repository_urls import (
    find_git_hash,
    make_link,
    make_tree_address,
    split_repository_url,
)
from cfetch.run.request_connections import open_loop
from cfetch.wire.document import MAX_REPLY_BYTES, Answer, ask
from cfetch.wire.headers import Headers
from cfetch.wire.link_header import find_next_link
from cfetch.wire.network import Network
from cfetch.wire.transport import Transport

MOST_IDLE_PAGES = 100  # consecutive pages without a file; a hub puts up to 1,000 entries on a page
REFUSALS = frozenset({401, 403, 404, 410})
_CAUSES = {  # by the value of the header X-Error-Code
    "GatedRepo": "access to it has to be asked for on its page; then set HF_TOKEN",
    "RevisionNotFound": "it has no such revision",
    "EntryNotFound": "it has no such directory",
}


class _Large(msgspec.Struct):
    oid: str
    size: int


class _Listed(msgspec.Struct):
    """An entry of a tree; ``oid`` is git's hash. For a large file, ``lfs.oid`` is its SHA-256."""

    type: str
    path: str
    oid: str
    size: int | None = None
    lfs: _Large | None = None


_PAGE = msgspec.json.Decoder(list[_Listed])


def find_listing(text: str) -> Listing | None:
    """The listing that a URL means; None if it means a single document or file."""
    return make_listing(split_repository_url(text) if is_repository_url(text) else split_object_url(text))


class ListedFile(NamedTuple):
    """``row`` is as in a manifest: ``url``, ``path`` below the prefix, ``size``, a stated hash.

    ``version`` changes when the content changes: the ETag, if the store has one.
    """

    row: dict[str, object]
    version: str


def list_files(listing: Listing, clock: Clock, network: Network) -> Iterator[ListedFile]:
    """List the files of a listing.

    Raises:
        UsageError: a library is not installed, or the store or hub says no.
    """
    if is_repository_url(listing.store):
        return _list_repository(listing, clock, network)
    from cfetch.storage.buckets.object_source import list_objects

    return (ListedFile(row, version) for row, version in list_objects(listing))


def _list_repository(listing: Listing, clock: Clock, network: Network) -> Iterator[ListedFile]:
    endpoint = find_endpoint()
    with open_loop(network) as (runner, transport):
        address, seen, idle_pages = make_tree_address(listing, endpoint), set[str](), 0
        query: str | None = "recursive=true"
        while query is not None:
            if query in seen:  # an end without an error would look like the end of the list
                raise UsageError(
                    f"cannot list {printable(listing.store)}: its pages lead back to earlier ones"
                )
            seen.add(query)
            answer = runner.run(_ask_page(listing, SecretUrl(f"{address}?{query}"), transport, clock))
            entries = _read_page(listing, answer.body)
            idle_pages = 0 if any(entry.type == "file" for entry in entries) else idle_pages + 1
            if idle_pages > MOST_IDLE_PAGES:
                why = f"{idle_pages} pages one after the other have no file, and each names a next one"
                raise UsageError(f"cannot list {printable(listing.store)}: {why}")
            yield from _select_files(listing, entries, endpoint)
            query = _find_next(listing, answer)


async def ask_list(what: str, url: SecretUrl, transport: Transport, clock: Clock) -> Answer:
    """Ask for a page of a list, which errors name as ``what``; one of ``REFUSALS`` is an answer too.

    Raises:
        UsageError: it cannot be had.
    """
    try:
        return await ask(
            url,
            transport=transport,
            clock=clock,
            jitter=random.random,
            expected=REFUSALS,
            max_bytes=MAX_REPLY_BYTES,
        )
    except SourceError as error:
        raise UsageError(f"cannot list {what}: {error}") from None


async def _ask_page(listing: Listing, url: SecretUrl, transport: Transport, clock: Clock) -> Answer:
    """Ask for a page of a listing. Raises UsageError."""
    shown = printable(listing.store)
    answer = await ask_list(shown, url, transport, clock)
    if answer.status not in REFUSALS:
        _refuse_other_place(shown, url, answer)
        return answer
    code = next(iter(answer.headers.getall("X-Error-Code", [])), "")
    why = _CAUSES.get(
        code, "there is no such repository, or it is private: set HF_TOKEN, or correct the name"
    )
    raise UsageError(f"cannot list {shown}: HTTP {answer.status}: {why}")


def _refuse_other_place(shown: str, url: SecretUrl, answer: Answer) -> None:
    """Raise UsageError if another list answers: files that it lacks would seem to be gone."""
    if leads_away(url, answer.source):
        raise UsageError(
            f"cannot list {shown}: the hub sends its list to {answer.source}; if the repository has another "
            "name now, give that"
        )


def leads_away(asked: SecretUrl, source: SecretUrl) -> bool:
    """Whether a redirect does more than add a slash, or go from http to https."""
    first, last = urlsplit(asked.reveal()), urlsplit(source.reveal())
    places = ((parts.hostname, parts.port, parts.path.rstrip("/")) for parts in (first, last))
    return len(set(places)) > 1 or first.query != last.query


def find_further_page(headers: Headers) -> str | None:
    """The reason why a document may go on elsewhere, by its header ``Link``; None: there is none."""
    try:
        if find_next_link(headers.getall("Link", [])) is not None:
            return "the answer goes on: its header Link leads to a further page, which is left out"
    except Refused as error:
        return str(error)
    return None


def _read_page(listing: Listing, body: bytes) -> list[_Listed]:
    """Decode a page. Raises UsageError."""
    try:
        return _PAGE.decode(body)
    except NOT_DECODED:
        raise UsageError(f"cannot list {printable(listing.store)}: the answer is no list of files") from None


def _select_files(listing: Listing, entries: list[_Listed], endpoint: str) -> Iterator[ListedFile]:
    for entry in entries:
        rest = entry.path.removeprefix(listing.prefix)
        if entry.type != "file" or not entry.path.startswith(listing.prefix):
            continue
        if not listing.pattern.match(rest):
            continue
        link = make_link(ObjectUrl(listing.store, entry.path), endpoint)
        row: dict[str, object] = {"url": link, "path": rest}
        large = entry.lfs
        if large is not None:
            stated: dict[str, object] = {"size": large.size, "sha256": large.oid}
        else:
            stated = {"size": entry.size} | find_git_hash(entry.oid, entry.size)
        yield ListedFile(row | stated, f'"{entry.oid}"')


def _find_next(listing: Listing, answer: Answer) -> str | None:
    """The query of the next page's address; None: this page is the last one. Raises UsageError."""
    try:
        link = find_next_link(answer.headers.getall("Link", []))
        return None if link is None else urlsplit(link).query
    except Refused as error:
        raise UsageError(f"cannot list {printable(listing.store)}: {error}") from None
    except ValueError:
        shown = printable(listing.store)
        raise UsageError(f"cannot list {shown}: the link to its next page is wrong") from None
