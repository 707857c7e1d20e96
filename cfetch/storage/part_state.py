"""What parts in memory and on a disk have in common: their source, ranges, and the hash of their bytes."""

from typing import TYPE_CHECKING

from cfetch.manifest.entry import Digest, Entry

if TYPE_CHECKING:
    from cfetch.manifest.hashing import Hash
    from cfetch.storage.held_ranges import HeldRanges, Segment


class PartHash:
    """The hash of a part's bytes, from the first byte on: the manifest's hash, else the server's, else none.

    ``seen_bytes``: the number of hashed bytes, if the part is in ranges.
    """

    __slots__ = ("_entry", "running", "seen_bytes")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.running: Hash | None = None
        self.seen_bytes = 0
        self.begin(entry.digest)

    def begin(self, expected: Digest | None) -> None:
        """Begin the hash, unless it has begun or none is expected; no byte may have come yet."""
        if self.running is None and expected is not None:
            from cfetch.storage.running_hash import new_running_hash  # many lists state no hash

            self.running = new_running_hash(expected.algorithm, self._entry.size_bytes)


class PartState:
    """The state of one part; its subclasses keep the bytes.

    ``segment``: in ranges, the one that its owner brings. ``total_bytes``: the size that the reply stated.
    """

    __slots__ = (
        "_hash",
        "entry",
        "last_modified",
        "position",
        "ranges",
        "segment",
        "stated",
        "total_bytes",
        "validator",
    )

    def __init__(self, entry: Entry) -> None:
        self._hash = PartHash(entry)
        self.entry = entry
        self.position = 0
        self.ranges: HeldRanges | None = None
        self.segment: Segment | None = None
        self.validator: str | None = None
        self.last_modified: str | None = None
        self.stated: Digest | None = None
        self.total_bytes: int | None = None

    def release_segment(self) -> None:
        """Implements ``volume.Sink.release_segment``."""
        if self.ranges is not None and self.segment is not None:
            self.ranges.give_back(self.segment)
            self.segment = None

    def forget(self, segment: "Segment") -> None:
        """Drop the bytes of ``segment``, as they cannot be trusted; they are missing again."""
        if self.ranges is None or segment.start == segment.position:
            return
        self.ranges.forget(segment)
        self.position = self.ranges.held_bytes
        if segment.start < self._hash.seen_bytes:
            self._hash = PartHash(self.entry)
            self._hash.begin(self.stated)

    @property
    def has_rest(self) -> bool:
        """Whether there are bytes that the hash has not seen."""
        if self._hash.running is None:
            return self.stated is not None and self.position > 0
        return self.ranges is not None and self._hash.seen_bytes != self.position
