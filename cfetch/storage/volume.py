"""The port of a volume: tells which entries are in place, writes parts, and publishes them.

There are two kinds: ``DirectoryVolume`` adapts a directory of a file system, ``ObjectStoreVolume`` a bucket
of an object store. The pool asks a volume only what is in this port, and knows no difference between them.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import formatdate
from typing import NamedTuple, Protocol

import msgspec

from cfetch.errors import Blocked, CfetchError
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.manifest.urls import strip_signature
from cfetch.storage.etags import is_hash
from cfetch.storage.held_ranges import HeldRanges, Segment

Ended = Callable[[CfetchError | None], None]
"""Told once for all parts that were added together: None when they have their final names for good."""

BATCHES = "batches"  # below the volume's state directory: one file a batch


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is whole on the volume of this record (``cfetch.batch/1``).

    ``name`` is the manifest's; ``files`` and ``bytes`` are what stands there, ``files`` of ``entries`` that
    the batch has; ``why`` says why it was placed there.
    """

    schema: str = "cfetch.batch/1"
    id: str
    name: str | None
    instant: str
    entries: int
    files: int
    bytes: int
    why: str


def batch_id(entries: Iterable[Entry]) -> str:
    """The same for the same files from the same sources, however links are signed; 32 hex digits."""
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
    """What a volume has of a batch: ``is_committed``: its record; ``is_begun``: it was being staged here.

    By position among the batch's entries, the files under their final names: ``same_size`` and
    ``other_size``; and ``blocked``: something else is in their place.
    """

    is_committed: bool = False
    is_begun: bool = False
    same_size: Sequence[int] = ()
    blocked: Mapping[int, Blocked] = {}
    other_size: Sequence[int] = ()


class Standing(NamedTuple):
    """A file that stands in place: ``verified`` says what vouches for it.

    ``unless``: the headers under which the server says whether it has another version now; empty: it need
    not be asked. ``etag_hash``: of the ETag that its answer has to name, if it names one.
    """

    verified: str
    unless: Mapping[str, str] = {}
    etag_hash: str | None = None


def unless_changed(verified: str, etag: str | None, changed_s: float) -> Standing:
    """A file that stands in place unless the server has another version now.

    It came under ``etag``, as a record keeps it, and was changed last at ``changed_s``. The server answers
    304 without a body as long as its file is the same (RFC 9110, 13.1).
    """
    if etag is not None and not is_hash(etag):
        return Standing(verified, {"If-None-Match": etag})
    return Standing(verified, {"If-Modified-Since": formatdate(changed_s, usegmt=True)}, etag)


class Sink(Protocol):
    """The receiver of one stream's bytes. ``validator`` is the strong ETag under which they came.

    ``segment``: None while bytes come in order, from ``position`` to the end of the file; else they go where
    it stands, and no further than to its end. A sink may get one while its stream runs. ``total_bytes``: the
    file's size, as far as replies have stated it. ``last_modified`` is the last reply's header.

    ``stated``: the hash of the whole file by its server; where the manifest has no hash, the file is verified
    by it. It may be set when an earlier run's bytes are there already.
    """

    validator: str | None
    stated: Digest | None
    last_modified: str | None
    total_bytes: int | None
    segment: Segment | None

    @property
    def position(self) -> int:
        """The position of the first byte that is wanted; of a part as a whole, the number of bytes held."""

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises LocalFault for this write or an earlier one."""

    @property
    def must_wait(self) -> bool:
        """Whether the volume is behind, so that callers with more bytes are to wait for ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait for the volume. Raises LocalFault."""

    def restart(self) -> None:
        """Forget what came: all of the file, but for a stream that helps only what this stream brought."""

    def release_segment(self) -> None:
        """End the stream: the rest of its segment, if it has one, is missing again. May be repeated."""


class Part(Sink, Protocol):
    """One entry's bytes on their way. What concerns only itself is known at once, in the event loop.

    ``position`` is the number of bytes held. ``ranges``: None while they come in order.
    """

    ranges: HeldRanges | None

    def can_split(self, size_bytes: int) -> bool:
        """Whether several streams may bring it from now on, if it is a file of ``size_bytes``."""

    def split_into_ranges(self, size_bytes: int) -> HeldRanges:
        """Let several streams bring it; the one under way goes on with its own segment. Raises LocalFault."""

    def open_segment(self, segment: Segment, *, same_source: bool = True) -> Sink:
        """Open a sink for a further stream that brings ``segment``.

        The owner's stream goes to the part itself.

        ``same_source``: from where the other bytes came, so their ETag must be the same; from elsewhere only
        bytes are joined that the manifest's hash will prove.
        """

    def open_second(self) -> "Part | None":
        """Make another, empty part of the same entry, for a second request; None: the volume has no such."""

    @property
    def has_rest(self) -> bool:
        """Whether the hash has not seen all bytes, so that ``hash_rest`` has to read them."""

    async def hash_rest(self) -> None:
        """Read what the hash has not seen, once all bytes are held. To be done before ``verify``."""

    def change_source(self, *, mirror: bool) -> None:
        """The next bytes come from another source, whose validator is not known yet."""

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """Verify the bytes, and return what vouches for them. Raises Corrupt; then the part is empty."""

    def close(self) -> None:
        """Close what it holds open; a later write appends."""

    def finish(self) -> None:
        """Note that it is whole and verified, and may wait for the rest of its batch. Raises LocalFault."""

    def keep_leftover(self, *, whole: bool = False) -> int:
        """Keep what a later run can go on with; the number of bytes kept."""

    def discard(self) -> None:
        """Remove what is there; harmless after it was published."""


class Search(Protocol):
    """Looks for many files at once, in the event loop."""

    def has_any(self) -> bool:
        """Whether there may be files at all."""

    def find(self, entries: Sequence[Entry]) -> Sequence[str | None]:
        """What vouches for the file under the name of each entry, where one look tells.

        None says nothing: ``Volume.verify_existing`` is to be asked.
        """


class Volume(Protocol):
    """The port. Its methods raise VolumeFault if the volume refuses, or does not answer.

    ``search``: None where each file has to be asked for.
    """

    name: str
    search: Search | None

    async def open(self) -> None:
        """Look at what dead runs have left; once, before anything else."""

    def new_part(self, entry: Entry) -> Part:
        """Make a new, empty part."""

    def has_nothing_of(self, entry: Entry) -> bool:
        """Whether nothing of the entry was here before this run, neither a file nor a part; at once.

        False says nothing: ``verify_existing`` and ``adopt_leftover`` are to be asked.
        """

    async def verify_existing(self, entry: Entry) -> Standing | None:
        """Verify the file under the entry's name. None: nothing vouches for one. Raises Blocked."""

    async def adopt_leftover(self, entry: Entry, part: Part) -> None:
        """Let an empty part go on with what a dead run has left."""

    def remove_leftovers(self, entry: Entry) -> None:
        """Remove what dead runs have left of an entry that is in place."""

    async def inspect_batch(self, batch: str, entries: Sequence[Entry]) -> Holding:
        """Look up what this volume has of a batch."""

    def mark_batch(self, batch: str) -> None:
        """Mark that a batch is being staged here, so that a later run comes back to it."""

    def unmark_batch(self, batch: str) -> None:
        """Remove that mark."""

    def publish(self, parts: Sequence[Part], ended: Ended, record: BatchRecord | None = None) -> None:
        """Publish all of them, or none; then write the record of their batch; then tell."""

    def remove_older(self, path: SafePath) -> None:
        """Remove an older version of a file that is on another volume now, verified."""

    @property
    def left_behind(self) -> int:
        """The number of files that stayed here although their batch moved, as they could not be removed."""

    def withdraw_batch(self, batch: str, parts: Sequence[Part]) -> None:
        """Undo the commit of a batch that moves to another volume, its record included."""

    async def run(self) -> None:
        """Commit until ``drain`` was called and all is committed.

        Raises LocalFault; VolumeFault too if batches stood here that have gone since.
        """

    def drain(self) -> None:
        """Note that nothing more will be given to commit."""

    @property
    def is_full(self) -> bool:
        """Whether so much waits for its commit that workers are to wait for ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait while it is full."""

    async def free_bytes(self) -> int | None:
        """Bytes that may still be written; None: no bound is known."""

    @property
    def written_bytes(self) -> int | None:
        """Bytes of parts that the volume has taken in this run; None: all that have come."""

    @property
    def is_behind(self) -> bool:
        """Whether bytes that have come are not written yet."""

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest call that has not come back."""

    def abandon(self, why: str) -> None:
        """Stop waiting: callers get VolumeFault, and what comes late is undone."""

    @property
    def is_stuck(self) -> bool:
        """Whether a call that was abandoned has not come back yet."""

    async def close(self) -> None:
        """Close the volume at the end of the run."""
