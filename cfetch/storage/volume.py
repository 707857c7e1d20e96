"""The port of a volume: tells which entries are in place, writes parts, and publishes them.

There are two kinds: ``DirectoryVolume`` adapts a directory of a file system, ``ObjectStoreVolume`` a bucket
of an object store. The pool uses a volume only by this port, and knows no difference between the two.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage.volume_values import BatchRecord, Ended, Holding, Standing

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges, Segment


class Sink(Protocol):
    """The receiver of one stream's bytes. ``validator`` is the strong ETag of these bytes.

    ``segment``: None while bytes come in order, from ``position`` to the end of the file; else bytes go to
    the segment's position, up to its end. A sink may get a segment while its stream runs. ``total_bytes`` is
    the file's size, if replies have stated it. ``last_modified`` is the last reply's header.

    ``stated``: the hash of the whole file that the server states; if the manifest has no hash, the file is
    verified by it. It may be set when bytes of an earlier run are there already.
    """

    validator: str | None
    stated: Digest | None
    last_modified: str | None
    total_bytes: int | None
    segment: "Segment | None"

    @property
    def position(self) -> int:
        """The position of the next byte that is needed; for a part as a whole, the number of bytes held."""

    def write(self, data: Bytes) -> None:
        """Take the next bytes; the caller may use the memory of a ``memoryview`` again afterwards.

        Raises LocalFault for this write or an earlier one.
        """

    @property
    def must_wait(self) -> bool:
        """Whether the volume is behind, so that callers with more bytes have to await ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait for the volume. Raises LocalFault."""

    def restart(self) -> None:
        """Forget the bytes: all bytes of the file, or for a helper's stream only its own bytes."""

    def release_segment(self) -> None:
        """End the stream's segment, if it has one: the rest of it is missing again. May be repeated."""


class PartPort(Sink, Protocol):
    """One entry's bytes on their way. Its own state is known at once, in the event loop.

    ``position`` is the number of bytes held. ``ranges``: None while bytes come in order.
    """

    ranges: "HeldRanges | None"

    def can_split(self, size_bytes: int) -> bool:
        """Whether several streams may bring the file from now on, if it has ``size_bytes``."""

    def split_into_ranges(self, size_bytes: int) -> "HeldRanges":
        """Let several streams bring the file; the present stream gets its own segment. Raises LocalFault."""

    def open_segment(self, segment: "Segment", *, same_source: bool = True) -> Sink:
        """Open a sink for a further stream that brings ``segment``.

        The owner's stream goes to the part itself.

        ``same_source``: the stream has the same source as the other bytes, so its ETag must be the same.
        Bytes from another source are joined only if the manifest's hash will prove them.
        """

    def open_second(self) -> "PartPort | None":
        """Make another, empty part of the same entry, for a second request; None: the volume cannot."""

    @property
    def has_rest(self) -> bool:
        """Whether the hash has not seen all bytes, so that ``hash_rest`` has to read them."""

    async def hash_rest(self) -> None:
        """Read the bytes that the hash has not seen, when all bytes are held; needed before ``verify``."""

    def change_source(self, *, mirror: bool) -> None:
        """Note that the next bytes come from another source, whose validator is not known yet."""

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """Verify the bytes, and return the proof. Raises Corrupt; then the part is empty."""

    def close(self) -> None:
        """Close the open file, if any; a later write appends."""

    def finish(self) -> None:
        """Note that the part is verified, and may wait for the rest of its batch. Raises LocalFault."""

    def keep_leftover(self, *, whole: bool = False, even_small: bool = False) -> int:
        """Keep the bytes that a later run can continue; return their number. See ``part.Part``."""

    def discard(self) -> None:
        """Remove the part; harmless after it was published."""


class Search(Protocol):
    """Looks for many files at once, in the event loop."""

    def has_any(self) -> bool:
        """Whether there may be files at all."""

    def find(self, entries: Sequence[Entry]) -> Sequence[str | None]:
        """The proof for the file under the name of each entry, if a quick check finds one.

        None means only that ``Volume.verify_existing`` has to decide.
        """


class Loans(Protocol):
    """Lends the parts of entries whose batches have left the volume, or leave it now, to another volume."""

    def keep(self, part: PartPort, *, whole: bool) -> None:
        """Keep a part, if its bytes can be proved; else discard it. ``whole``: it is verified."""

    async def lend(self, entry: Entry, part: PartPort) -> None:
        """Copy the bytes that are kept of the entry and that another volume's ``part`` lacks; drop them here.

        Bytes that cannot be read, or not soon, are not copied. Raises LocalFault of ``part``.
        """

    def forget(self, entry: Entry) -> None:
        """Drop what is kept of the entry."""


class Volume(Protocol):
    """The port. Its methods raise VolumeFault if the volume refuses, or does not answer.

    ``search``: None if each file has to be checked by itself.
    """

    name: str
    search: Search | None

    @property
    def loans(self) -> Loans | None:
        """The port that lends its parts to other volumes; None: its parts cannot be read."""

    async def open(self) -> None:
        """Look up the leftovers of dead runs; called once, before all other methods."""

    def new_part(self, entry: Entry) -> PartPort:
        """Make a new, empty part."""

    @property
    def has_parts(self) -> bool:
        """Whether parts may be here of dead runs, or of batches that have left the volume."""

    def has_nothing_of(self, entry: Entry) -> bool:
        """Whether neither a file nor a part of the entry was here before this run; answers at once.

        False means only that ``verify_existing`` and ``adopt_leftover`` have to look.
        """

    async def verify_existing(self, entry: Entry) -> Standing | None:
        """Verify the file under the entry's name. None: there is no file with a proof. Raises Blocked."""

    async def adopt_leftover(self, entry: Entry, part: PartPort) -> None:
        """Let an empty part continue the part that a dead run has left."""

    def remove_leftovers(self, entries: Sequence[Entry]) -> None:
        """Remove the parts that dead runs have left of entries that are in place."""

    async def inspect_batches(self, batches: Sequence[tuple[str, Sequence[Entry]]]) -> list[Holding]:
        """Look up the state of each batch on this volume, by its id and entries."""

    def mark_batch(self, batch: str) -> None:
        """Mark that a batch was begun here, so that a later run continues it here."""

    def unmark_batch(self, batch: str) -> None:
        """Remove that mark."""

    def publish(self, parts: Sequence[PartPort], ended: Ended, record: BatchRecord | None = None) -> None:
        """Publish all parts or none, then write the record of their batch, then call ``ended``."""

    def remove_older(self, entry: Entry) -> None:
        """Remove an older version of a file that is now, verified, on another volume.

        If ``entry.replaces`` states files, only one of these.
        """

    @property
    def left_behind(self) -> int:
        """The number of files that stayed here although their batch moved, as they could not be removed."""

    def withdraw_batch(self, batch: str, parts: Sequence[PartPort]) -> None:
        """Undo the commit of a batch that moves to another volume, its record included."""

    async def run(self) -> None:
        """Publish parts until ``drain`` was called and all are published.

        Raises LocalFault; also VolumeFault if the files or batches of this run do not stand any more.
        """

    def drain(self) -> None:
        """Note that no more parts will come."""

    @property
    def is_full(self) -> bool:
        """Whether so many parts wait to be published that workers have to await ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait while ``is_full``."""

    async def free_bytes(self) -> int | None:
        """Bytes that may still be written, or are held by parts of dead runs; None: no limit is known."""

    @property
    def written_bytes(self) -> int | None:
        """Bytes of parts that the volume has taken in this run; None: all received bytes."""

    @property
    def is_behind(self) -> bool:
        """Whether received bytes are not written yet."""

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest call that has not returned."""

    def abandon(self, why: str) -> None:
        """Stop waiting: callers get VolumeFault, and late results are undone."""

    @property
    def is_stuck(self) -> bool:
        """Whether an abandoned call has not returned yet."""

    async def close(self) -> None:
        """Close the volume at the end of the run."""
