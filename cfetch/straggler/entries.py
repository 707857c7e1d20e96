"""Keeps the entries of a run that have finished, and those that are between two attempts."""


class EntryHistory:
    """Ids are indices of the manifest: one byte per id up to the largest that has finished.

    ``finished``: the number of entries that have finished; ``in_flight``: the number of entries with an
    attempt under way, which the caller counts.
    """

    def __init__(self) -> None:
        self.finished = 0
        self.in_flight = 0
        self._done = bytearray()  # 1 at the index of each finished id
        self._paused: set[int] = set()

    @property
    def paused(self) -> int:
        """Entries that wait for another attempt."""
        return len(self._paused)

    def has_finished(self, entry_id: int) -> bool:
        """Whether the entry has finished; False for a key of a further segment."""
        return 0 <= entry_id < len(self._done) and self._done[entry_id] == 1

    def finish(self, entry_id: int) -> None:
        """Note that the entry has finished."""
        if entry_id >= len(self._done):
            self._done.extend(bytes(entry_id + 1 - len(self._done)))
        self.finished += not self._done[entry_id]
        self._done[entry_id] = 1

    def pause(self, entry_id: int) -> None:
        """Note that the attempt is over and another will follow."""
        self._paused.add(entry_id)

    def forget(self, entry_id: int) -> None:
        """Note that the entry is in flight again, or given up: it is neither finished nor paused."""
        self._paused.discard(entry_id)
        if self.has_finished(entry_id):
            self._done[entry_id] = 0
            self.finished -= 1
