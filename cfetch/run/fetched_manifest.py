"""Fetches a manifest from a server or a store; a prefix or a pattern becomes the list of its files."""

import asyncio
import random
from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.schemes import is_object_url, is_repository_url
from cfetch.base.secret import SecretUrl
from cfetch.manifest.faults import BrokenDocumentError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.formats.table import INDEX, Continued, find_more
from cfetch.manifest.freezing import Opened
from cfetch.manifest.object_urls import Listing, split_object_url
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.repository_urls import make_link, split_repository_url
from cfetch.manifest.source import Source
from cfetch.manifest.urls import is_url
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
    if (listing := _find_listing(manifest)) is not None:
        _write_rows(spool, (file.row for file in list_files(listing, clock, network)))
        return Opened(spool)
    fetched = asyncio.run(fetch_to(spool, _find_document(manifest), clock, network))
    own_url, doubt = fetched.place.reveal(), _find_doubt(manifest, fetched)
    if is_object_url(manifest):
        own_url = manifest[: manifest.rindex("/") + 1]
    more = _find_more(spool, own_url, whole_tree=whole_tree, is_page=is_url(manifest))
    if more is not None:
        _write_rows(spool, more.list_files(clock, network))
        return Opened(spool, own_url, doubt or more.doubt, more.notes)
    return Opened(spool, own_url, doubt)


def _find_more(spool: BinaryIO, own_url: str, *, whole_tree: bool, is_page: bool) -> Continued | None:
    """The rest of the list in ``spool``, if it is one whose rest has to be asked for.

    ``whole_tree``: the directories below a directory index are wanted too. ``is_page``: the document comes
    from an http(s) URL, so that it may name a next page.
    """
    source = Source(spool, own_url=own_url)
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
    if is_url(manifest) and leads_away(SecretUrl(manifest), fetched.source):
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
