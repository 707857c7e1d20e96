"""The hash that one part is to have; the code that computes it is loaded with the first."""

from typing import TYPE_CHECKING

from cfetch.manifest.entry import Digest, Entry

if TYPE_CHECKING:
    from cfetch.manifest.hashing import Hash


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
