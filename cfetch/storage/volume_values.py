"""What a volume says about files and batches (``volume.py`` is the port), and how a batch is named."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cfetch.base.errors import Blocked, CfetchError, Unstorable
from cfetch.manifest.entry import Entry
from cfetch.manifest.urls import strip_signature
from cfetch.storage.etags import is_hash

Ended = Callable[[CfetchError | None], None]
"""Called once for all parts that were added together: with None when they are published for good."""

BATCHES = "batches"  # below the volume's state directory: one file a batch


class SourceRecord(msgspec.Struct, frozen=True):
    """``identity`` is a hash of the link; ``etag`` is the kept form of the bytes' strong ETag.

    ``size_bytes`` is the size of the file when it was published. None: not known.
    """

    identity: str
    etag: str | None = None
    size_bytes: int | None = None


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is committed on the volume of this record (``cfetch.batch/1``).

    ``name`` comes from the manifest. ``files`` and ``bytes`` are in place there, ``files`` of the batch's
    ``entries``; ``why`` says why the batch was placed there. ``paths``: the files that are there; None: an
    earlier version wrote the record, which named no files. ``moves``: the volumes that had the batch before.
    """

    schema: str = "cfetch.batch/1"
    id: str
    name: str | None
    instant: str
    entries: int
    files: int
    bytes: int
    why: str
    paths: tuple[str, ...] | None = None
    moves: tuple[str, ...] = ()


def batch_id(entries: Iterable[Entry]) -> str:
    """A hash of the files and their sources, without signatures of links; 32 hex digits."""
    texts = sorted(
        f"{entry.path}\0{entry.size_bytes}\0{entry.digest}\0{strip_signature(entry.url.value)}"
        + ("" if entry.range_start is None else f"\0{entry.range_start}")
        + ("" if entry.piece is None else f"\0{entry.piece.start_byte}")
        for entry in entries
    )
    running = hashlib.blake2b(digest_size=16)
    for text in texts:
        running.update(text.encode() + b"\n")
    return running.hexdigest()


class Holding(NamedTuple):
    """The state of a batch on a volume: ``is_committed``: it has a record; ``is_begun``: it has a mark.

    ``same_size`` and ``other_size`` are the entries with a file under the final name, by their positions in
    the batch; ``blocked`` are the entries with something else in place of the file. ``learned``: the bytes of
    files of which the manifest states no size.
    """

    is_committed: bool = False
    is_begun: bool = False
    same_size: Sequence[int] = ()
    blocked: Mapping[int, Blocked | Unstorable] = {}
    other_size: Sequence[int] = ()
    learned: Mapping[int, int] = {}


class Standing(NamedTuple):
    """A file that is in place; ``verified`` is its proof.

    ``unless``: the headers by which the server tells whether it has another version now; empty: it need not
    be asked. ``etag_hash``: the hash of the ETag that the answer must have, if it has one. ``size_bytes``: of
    the file, if the server is asked.
    """

    verified: str
    unless: Mapping[str, str] = {}
    etag_hash: str | None = None
    size_bytes: int | None = None


def unless_changed(verified: str, etag: str | None, changed_s: float, size_bytes: int) -> Standing:
    """A file that is in place unless the server has another version now.

    ``etag`` is its ETag, in the form of a record, and ``changed_s`` the time of its last change. The server
    answers 304 without a body as long as its file is the same (RFC 9110, 13.1).
    """
    if etag is not None and not is_hash(etag):
        return Standing(verified, {"If-None-Match": etag}, None, size_bytes)
    from email.utils import formatdate  # with ETags, no run needs it

    return Standing(verified, {"If-Modified-Since": formatdate(changed_s, usegmt=True)}, etag, size_bytes)
