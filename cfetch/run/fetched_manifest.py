"""Fetches a manifest from a server or a store; a prefix or a pattern becomes the list of its files.

So does an identifier (``doi:10.…``), and the page of a record in a repository whose lists are known.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.schemes import find_doi, is_object_url, is_repository_url, is_web
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import BrokenDocumentError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.formats.landing_pages import find_list_address
from cfetch.manifest.formats.table import INDEX, Continued, find_more
from cfetch.manifest.freezing import Opened
from cfetch.manifest.object_urls import Listing, split_object_url
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.repository_urls import make_link, split_repository_url
from cfetch.manifest.source import Source
from cfetch.run.listings import find_further_page, find_listing, leads_away, list_files
from cfetch.run.request_connections import open_transport
from cfetch.wire.document import MAX_MANIFEST_BYTES, Fetched, fetch_document
from cfetch.wire.network import Network


def fetch_manifest(
    spool: BinaryIO, manifest: str, clock: Clock, network: Network, *, whole_tree: bool
) -> Opened:
    """Write the manifest to ``spool``; if its name means a list of files, write the rows of that list.

    Raises SourceError, UsageError, OSError.
    """
    if (doi := find_doi(manifest)) is not None:
        from cfetch.run.identifiers import find_list_of  # few lists are named by an identifier

        manifest, note = find_list_of(doi, clock, network)
        opened = _fetch(spool, manifest, clock, network, whole_tree=whole_tree)
        return opened._replace(notes=[note, *opened.notes])
    opened = _fetch(spool, manifest, clock, network, whole_tree=whole_tree)
    if (address := _find_list_of_page(opened)) is None:
        return opened
    spool.seek(0)
    spool.truncate()
    opened = _fetch(spool, address, clock, network, whole_tree=whole_tree)
    return opened._replace(
        notes=[f"the list of the files of that page is {printable(address)}", *opened.notes]
    )


def _find_list_of_page(opened: Opened) -> str | None:
    """The address of the list that belongs to a page for people; None: it is no such page."""
    if opened.own_url is None or (address := find_list_address(opened.own_url)) is None:
        return None
    return address if detect_format(Source(opened.file, own_url=opened.own_url)) == "html" else None


def _fetch(spool: BinaryIO, manifest: str, clock: Clock, network: Network, *, whole_tree: bool) -> Opened:
    """Write the manifest of that very address to ``spool``."""
    if (listing := _find_listing(manifest)) is not None:
        _write_rows(spool, (file.row for file in list_files(listing, clock, network)))
        return Opened(spool)
    fetched = asyncio.run(fetch_to(spool, _find_document(manifest), clock, network))
    own_url, doubt = fetched.place.reveal(), _find_doubt(manifest, fetched)
    if is_object_url(manifest):
        own_url = manifest[: manifest.rindex("/") + 1]
    source = Source(spool, own_url=own_url, content_type=fetched.content_type)
    more = _find_more(source, whole_tree=whole_tree, is_page=is_web(manifest))
    if more is not None:
        _write_rows(spool, more.list_files(clock, network))
        return Opened(spool, own_url, doubt or more.doubt, more.notes)
    return Opened(spool, own_url, doubt, content_type=source.content_type)


def _find_more(source: Source, *, whole_tree: bool, is_page: bool) -> Continued | None:
    """The rest of the list in ``source``, if it is one whose rest has to be asked for.

    ``whole_tree``: the directories below a directory index are wanted too. ``is_page``: the document comes
    from an http(s) URL, so that it may name a next page.
    """
    name = detect_format(source)
    if not (whole_tree if name == INDEX else is_page):
        return None
    try:
        return find_more(source, name)
    except BrokenDocumentError:  # the format's reader reports it
        return None


def _write_rows(spool: BinaryIO, rows: Iterable[object]) -> None:
    """Replace the document in ``spool`` by the rows of a list."""
    spool.seek(0)
    spool.truncate()
    spool.writelines(msgspec.json.encode(row) + b"\n" for row in rows)


def _find_listing(manifest: str) -> Listing | None:
    """The listing that a URL of objects means; None for a manifest by itself. Raises UsageError."""
    if is_object_url(manifest) and split_object_url(manifest) is None:
        raise UsageError(f"{SecretUrl(manifest)} is no URL of a bucket, like s3://bucket/prefix/")
    if is_repository_url(manifest) and split_repository_url(manifest) is None:
        raise UsageError(
            f"{SecretUrl(manifest)} is no URL of a repository, like hf://datasets/owner/name@revision/"
        )
    return find_listing(manifest)


def _find_document(manifest: str) -> SecretUrl:
    """The URL of the manifest itself."""
    file = split_repository_url(manifest)
    return SecretUrl(manifest if file is None else make_link(file, find_endpoint()))


def _find_doubt(manifest: str, fetched: Fetched) -> str | None:
    """The reason why the document may lack files of its source; None: there is no such reason."""
    if (doubt := find_further_page(fetched.headers)) is not None:
        return doubt
    if is_web(manifest) and leads_away(SecretUrl(manifest), fetched.source):
        return f"its server redirects it to {fetched.source}, which may be another list; give the URL of that"
    return None


async def fetch_to(
    sink: BinaryIO, url: SecretUrl, clock: Clock, network: Network, *, max_bytes: int = MAX_MANIFEST_BYTES
) -> Fetched:
    """Write the document at ``url`` to ``sink``, over a connection of its own.

    Raises:
        SourceError: it cannot be had.
    """
    async with open_transport(network) as transport:
        return await fetch_document(
            url, sink, transport=transport, clock=clock, jitter=random.random, max_bytes=max_bytes
        )
