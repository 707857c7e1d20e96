"""A volume as the pool sees it: where entries stand, where parts are written, how they get their names.

There are two kinds: ``DirectoryVolume`` adapts a directory of a file system, ``ObjectStoreVolume`` a bucket
of an object store. The pool asks a volume only what is in this port, and knows no difference between them.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from cfetch.errors import Blocked, CfetchError
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.manifest.urls import strip_signature
from cfetch.storage.held_ranges import HeldRanges, Segment

Ended = Callable[[CfetchError | None], None]
"""Told once for all parts that were added together: None when they have their final names for good."""

BATCHES = "batches"  # below the volume's state directory: one file a batch


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that stands whole on the volume where this lies (``cfetch.batch/1``).

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


class Sink(Protocol):
    """The receiver of one stream's bytes. ``validator`` is the strong ETag under which they came.

    ``segment``: None while bytes come in order, from ``position`` to the end of the file; else they go where
    it stands, and no further than to its end. A sink may get one while its stream runs. ``total_bytes``: the
    file's size, as far as replies have stated it.
    """

    validator: str | None
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
        """The stream is over: of its segment, if it has one, the rest is missing again. May be repeated."""


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

    async def hash_rest(self) -> None:
        """All ranges are held: read what the hash has not seen. To be done before ``verify``."""

    def change_source(self, *, mirror: bool) -> None:
        """The next bytes come from another source, whose validator is not known yet."""

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """What vouches for the bytes. Raises Corrupt; then it is empty."""

    def close(self) -> None:
        """Give up what it holds open; a later write goes on at the end."""

    def finish(self) -> None:
        """It is whole and verified, and may have to wait for the rest of its batch. Raises LocalFault."""

    def keep_leftover(self, *, whole: bool = False) -> int:
        """Keep what a later run can go on with; the number of bytes kept."""

    def discard(self) -> None:
        """Remove what is there; harmless after it was published."""


class Volume(Protocol):
    """Raises VolumeFault wherever the volume says no, or does not answer."""

    name: str

    async def open(self) -> None:
        """Look at what dead runs have left; once, before anything else."""

    def new_part(self, entry: Entry) -> Part:
        """A new, empty one."""

    async def verify_existing(self, entry: Entry) -> str | None:
        """What vouches for the file under the entry's name; None if nothing does. Raises Blocked."""

    async def adopt_leftover(self, entry: Entry, part: Part) -> None:
        """Let an empty part go on with what a dead run has left."""

    def remove_leftovers(self, entry: Entry) -> None:
        """The entry is in place: remove what dead runs have left of it."""

    async def inspect_batch(self, batch: str, entries: Sequence[Entry]) -> Holding:
        """What is here of a batch."""

    def mark_batch(self, batch: str) -> None:
        """Mark that a batch is being staged here, so that a later run comes back to it."""

    def unmark_batch(self, batch: str) -> None:
        """Take that mark away."""

    def publish(self, parts: Sequence[Part], ended: Ended, record: BatchRecord | None = None) -> None:
        """Publish all of them, or none; then write the record of their batch; then tell."""

    def remove_older(self, path: SafePath) -> None:
        """The file stands on another volume now, verified: an older one here goes away."""

    @property
    def left_behind(self) -> int:
        """Files that stand here although their batch went elsewhere: the volume took no change back."""

    def withdraw_batch(self, batch: str, parts: Sequence[Part]) -> None:
        """Undo a commit, record and all: its batch goes elsewhere."""

    async def run(self) -> None:
        """Commit, until ``drain`` and the last of it. Raises LocalFault."""

    def drain(self) -> None:
        """Nothing more will be committed."""

    @property
    def is_full(self) -> bool:
        """Whether so much waits for its commit that workers are to wait for ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait while it is full."""

    async def free_bytes(self) -> int | None:
        """What may still be written; None: no bound is known."""

    @property
    def written_bytes(self) -> int | None:
        """Bytes of parts that the volume has taken in this run; None: all that have come."""

    @property
    def is_behind(self) -> bool:
        """Something that has come is not written yet."""

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest call that has not come back."""

    def abandon(self, why: str) -> None:
        """Wait no longer: whoever does is told VolumeFault, and what comes late is undone."""

    @property
    def is_stuck(self) -> bool:
        """A call that was abandoned has not come back yet."""

    async def close(self) -> None:
        """The run is over."""
