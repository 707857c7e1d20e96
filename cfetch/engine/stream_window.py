"""Which entries of a stream may be begun, so that what is held in memory stays within a bound. Pure.

Entries are admitted in the order of the manifest, and each counts with its size from its admission until its
bytes are given away. If memory were taken in the order in which entries happen to begin, later ones could
take all of it while the reader waits for an earlier one, for ever. As it is, every entry before an admitted
one is admitted too, so that the one for which the reader waits can always be brought.

An entry of unknown size counts with a guess until a reply states its size: as the largest that was stated.
"""

from collections.abc import Sequence

FIRST_GUESS = 16  # so many files of unknown size are begun at first, and fewer if they turn out larger


class StreamWindow:
    """The admitted entries, by index. ``held_bytes``: the sum of what they count with, never above the limit.

    Only one entry alone may be larger, as it could never be brought otherwise; and entries of unknown size
    may be, until those after the first of them wait (``must_wait``).
    """

    def __init__(self, sizes: Sequence[int], limit_bytes: int) -> None:
        """``sizes``: bytes by entry; -1 is unknown."""
        self._sizes = sizes
        self._largest_bytes = 0  # of the sizes that replies have stated
        self._charges: dict[int, int] = {}  # of the entries admitted and not given away, in order
        self._end = 0  # the first entry that is not admitted
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._admit_more()

    def admits(self, index: int) -> bool:
        """Whether the entry may be begun."""
        return index < self._end

    def note_size(self, index: int, size_bytes: int) -> bool:
        """Note the size that an entry turns out to have. Returns whether others may begin now."""
        charge, end = self._charges.get(index), self._end
        self._largest_bytes = max(self._largest_bytes, size_bytes)
        if charge is None or charge == size_bytes:
            return False
        self._charges[index] = size_bytes
        self.held_bytes += size_bytes - charge
        self._admit_more()
        return self._end > end

    def note_bytes(self, index: int, size_bytes: int) -> None:
        """Note that so many bytes of an entry have come."""
        if size_bytes > self._charges.get(index, size_bytes):
            self.note_size(index, size_bytes)

    def must_wait(self, index: int) -> bool:
        """Whether the entry's further bytes have to wait until earlier entries are given away."""
        return self.held_bytes > self.limit_bytes and index in self._charges and index != self._first

    def give_away(self, index: int) -> None:
        """Note that nothing of the entry is held any more."""
        self.held_bytes -= self._charges.pop(index, 0)
        self._admit_more()

    def lend(self, size_bytes: int) -> bool:
        """Take memory for a second copy of an entry, if there is room for it."""
        if self.held_bytes + size_bytes > self.limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give back what ``lend`` has lent."""
        self.held_bytes -= size_bytes
        self._admit_more()

    @property
    def _guess_bytes(self) -> int:
        return self._largest_bytes or max(1, self.limit_bytes // FIRST_GUESS)

    @property
    def _first(self) -> int:
        return next(iter(self._charges))

    def _admit_more(self) -> None:
        while self._end < len(self._sizes):
            size_bytes = self._sizes[self._end]
            charge = self._guess_bytes if size_bytes < 0 else size_bytes
            if self._charges and self.held_bytes + charge > self.limit_bytes:
                return
            self._charges[self._end] = charge
            self._end += 1
            self.held_bytes += charge
