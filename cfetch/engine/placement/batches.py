"""Cuts entries into batches, which are placed and committed together. Pure; made for millions of entries.

A batch is never divided afterwards, so its size bounds how even the loads can be (no two need differ by more
than the largest batch) and how many bytes wait for one commit. The caller makes named batches, which are
never cut.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

FRACTION = 0.02  # of all bytes: the fullest of eight volumes is at most 14 % above the mean
MOST_FILES = 1000  # with more files in a commit, small files would wait long for their names
SMALLEST_FRACTION = 0.0001  # 10,000 batches; each costs a record and a look at every volume
NOT_YET = 0xFFFFFFFF  # no entry of this named batch has been met so far


class Cut(NamedTuple):
    """Batches by number, in the order of their first entries.

    ``batch_of``: each entry's batch. ``bytes``, ``files``, ``named`` (1 if it has a name): per batch.
    ``order``: the numbers of the batches in the order of arrival. ``start`` and ``members`` hold the
    entries of each batch, in the order of the manifest.
    """

    batch_of: "array[int]"
    bytes: "array[int]"
    files: "array[int]"
    named: bytearray
    order: "array[int]"
    start: "array[int]"
    members: "array[int]"
    unknown_bytes: int

    def entries(self, batch: int) -> "array[int]":
        """The entries of one batch."""
        return self.members[self.start[batch] : self.start[batch + 1]]


def fit_fraction(fraction: float, total_bytes: int, spare_bytes: int, volumes: int) -> float:
    """The largest of ``fraction``, a half of it, a quarter and so on, with which all batches surely fit.

    On each volume less than one batch of space may remain unused, so ``volumes`` batches must not exceed the
    space to spare. It is halved, not computed, so that a later run with a little less space cuts the same
    batches.
    """
    while fraction * total_bytes * volumes > spare_bytes and fraction > SMALLEST_FRACTION:
        fraction /= 2
    return fraction


def cut(
    sizes: Sequence[int],
    named: Sequence[int] | None,
    *,
    fraction: float = FRACTION,
    most_files: int = MOST_FILES,
    largest_first: bool = True,
) -> Cut:
    """Cut batches of at most ``fraction`` of all bytes and ``most_files`` files, unless they have names.

    ``sizes`` are bytes, -1 for unknown, which counts as the mean of the known ones, 1 at least. ``named`` is
    the number of each entry's named batch, from 0, or -1 for none. An entry as large as the cap is a batch of
    its own; the batch that is being filled stays open meanwhile. Without ``largest_first`` the batches arrive
    in the order of their first entries, as in ADR 19.
    """
    known = [size for size in sizes if size >= 0]
    mean = max(1, sum(known) // len(known)) if known else 1
    cap = max(1, int(fraction * (sum(known) + mean * (len(sizes) - len(known)))))
    del known
    batch_of = array("I", bytes(4 * len(sizes)))
    totals, files, has_name = array("q"), array("I"), bytearray()
    numbers = array("I", [NOT_YET]) * (max(named, default=-1) + 1 if named else 0)
    filling = -1
    for entry, stated in enumerate(sizes):
        size = stated if stated >= 0 else mean
        name = named[entry] if named else -1
        if name >= 0:
            batch = numbers[name]
            new = batch == NOT_YET
        else:
            batch = filling
            new = batch < 0 or size >= cap or totals[batch] + size > cap or files[batch] >= most_files
        if new:
            batch = len(totals)
            totals.append(0)
            files.append(0)
            has_name.append(name >= 0)
            if name >= 0:
                numbers[name] = batch
            elif size < cap:
                filling = batch
        batch_of[entry] = batch
        totals[batch] += size
        files[batch] += 1
    order = array("I", range(len(totals)))
    if largest_first:
        order = array("I", sorted(order, key=totals.__getitem__, reverse=True))
    start, members = _group(batch_of, files)
    return Cut(batch_of, totals, files, has_name, order, start, members, mean)


def _group(batch_of: "array[int]", files: "array[int]") -> "tuple[array[int], array[int]]":
    """The list of all entries by batch, and where each batch starts in it (a counting sort)."""
    start = array("I", [0])
    for count in files:
        start.append(start[-1] + count)
    members = array("I", bytes(4 * len(batch_of)))
    free = start[:]
    for entry, batch in enumerate(batch_of):
        members[free[batch]] = entry
        free[batch] += 1
    return start, members
