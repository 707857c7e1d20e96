"""Limits how many entries each volume gets at a time: equally many, but fewer for a slow volume.

A volume that writes less than its share of the network makes attempts wait. Each of them holds a slot that
another volume could use. So such a volume gets as many slots as do not wait, and ``RESERVE`` more, which
keep it busy; the other volumes share the rest. If all volumes are too slow, all keep equally many.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

RESERVE = 1  # one waiting attempt, so that the volume never waits for the network
IS_SLOW = 0.5  # waiting attempts on average; with fewer slots a volume stays slow, as its reserve waits
PERIOD_S = 0.5  # the time over which waiting attempts are averaged; not shorter than between two rounds


class Load(NamedTuple):
    """The load of a volume: ``running`` entries, of which ``waiting`` wait to write, on average.

    ``has_work``: entries for it are under way, or wait for a slot.
    """

    has_work: bool
    running: int
    waiting: float


class VolumeSlots:
    """Divides a run's ``slots`` among its volumes, by how many attempts have lately waited for each."""

    def __init__(self, slots: int, volumes: int) -> None:
        self._slots = slots
        self._waiting = [0.0] * volumes
        self._looked_s = 0.0
        self._turn = 0
        self._held_s: Sequence[float] = [0.0] * volumes

    def note_waits(self, now_s: float, held_s: Sequence[float]) -> None:
        """Note the seconds for which each volume has made attempts wait since the run's start, in total."""
        elapsed_s = now_s - self._looked_s
        if elapsed_s < PERIOD_S:
            return
        pairs = zip(held_s, self._held_s, strict=True)
        self._waiting = [(now - before) / elapsed_s for now, before in pairs]
        self._looked_s, self._held_s = now_s, held_s
        self._turn += 1

    def divide(
        self,
        has_work: Sequence[bool],
        running: Sequence[int],
        borne: int | None = None,
        *,
        is_last: bool = False,
    ) -> list[int]:
        """The number of entries that each volume may have under way, at least 1.

        ``borne``: no more than these run at the hosts now; None: as many as the run has slots. ``is_last``:
        no further batches come, so a slow volume that is alone at work holds nobody's slots.
        """
        waiting = [0.0] * len(running) if is_last and sum(has_work) == 1 else self._waiting
        loads = list(map(Load, has_work, running, waiting))
        if borne is None or borne >= self._slots:
            return divide_slots(self._slots, loads)
        return self._trim(divide_slots(borne, loads), loads, borne)

    def _trim(self, shares: list[int], loads: Sequence[Load], borne: int) -> list[int]:
        """Take back what was rounded up, from each volume in turn: a host bears no part of an attempt.

        Else a host that bears four would serve two of three volumes twice, and one not at all.
        """
        at_work = [index for index, load in enumerate(loads) if load.has_work]
        over = sum(shares[index] for index in at_work) - borne
        for step in range(len(at_work)):
            index = at_work[(self._turn + step) % len(at_work)]
            if over > 0 and shares[index] > 1:
                shares[index] -= 1
                over -= 1
        return shares


def divide_slots(slots: int, loads: Sequence[Load]) -> list[int]:
    """The number of entries that each volume may have under way, at least 1; a volume without work gets all.

    ``slots`` are the run's.
    """
    at_work = sum(load.has_work for load in loads)
    equal = max(1, ceil(slots / max(1, at_work)))
    shares = [equal if load.has_work else slots for load in loads]
    slow = [index for index, load in enumerate(loads) if load.has_work and load.waiting >= IS_SLOW]
    if not slow or all(load.waiting >= IS_SLOW for load in loads):
        return shares
    for index in slow:
        needed = max(1, ceil(loads[index].running - loads[index].waiting)) + RESERVE
        shares[index] = min(equal, needed)
    rest = slots - sum(shares[index] for index in slow)
    for index, load in enumerate(loads):
        if load.has_work and index not in slow:
            shares[index] = max(equal, ceil(rest / (at_work - len(slow))))
    return shares
