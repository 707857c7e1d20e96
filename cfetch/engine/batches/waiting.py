"""The batches that have arrived and are not over: each gets a volume, is begun there, or is given up.

It carries out the decisions of ``Placer``, for one process (``rounds.py``) and for a driver whose tasks bring
the batches (``tasks/shares/placed_batches.py``). A batch that no volume takes until the deadline, or that was
begun too often in vain, is given up: its entries fail, and the run ends with that fault.
"""

from collections.abc import Callable, Sequence

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.events import Event
from cfetch.engine.batches.arrivals import Arrivals
from cfetch.engine.batches.staging import Batch
from cfetch.engine.batches.volume_events import make_batch_placed, make_unplaced_fault
from cfetch.engine.placement.books import Placed
from cfetch.engine.placement.chooser import NO_ROOM
from cfetch.engine.placement.placer import Placer, Unplaceable

MOST_MOVES = 16  # placements of one batch; so many take minutes, as volumes that fail are paused


class WaitingBatches:
    """``batches``: by number; ``names``: of the volumes.

    ``fail`` gets each batch that is given up, and why; ``lose`` each volume that fails while it is asked.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        placer: Placer,
        batches: dict[int, Batch],
        names: Sequence[str],
        now_s: Callable[[], float],
        emit: Callable[[Event], None],
        fail: Callable[[Batch, VolumeFault], None],
        lose: Callable[[int, LocalFault], None],
    ) -> None:
        self._arrivals = arrivals
        self._placer = placer
        self._batches = batches
        self._names = names
        self._now_s = now_s
        self._emit = emit
        self._fail = fail
        self._lose = lose

    @property
    def is_over(self) -> bool:
        """Whether all batches have arrived and are over."""
        return self._arrivals.is_over and not self._batches

    def wants_more(self) -> bool:
        """Whether another batch has to arrive before anything can be begun."""
        return not self._arrivals.is_over and self._placer.wants_more(self._now_s())

    async def arrive(self) -> None:
        """Look where the files of the next batch stand, and let it wait for a volume."""
        self.add(await self._arrivals.next(self._lose))

    def add(self, batch: Batch) -> None:
        """Let a batch wait for a volume."""
        self._batches[batch.number] = batch
        try:
            self._placer.submit(
                batch.number,
                batch.missing_bytes + batch.joined_bytes,
                len(batch.entries),
                self._now_s(),
                home=batch.home,
                in_place=len(batch.standing),
                without=batch.avoids,
            )
        except Unplaceable as reason:
            self._give_up(batch, str(reason))

    def assign(self) -> set[int]:
        """Give volumes to the batches that wait. Returns the numbers of those that have got one."""
        for batch in [batch for batch in self._batches.values() if batch.moves > MOST_MOVES]:
            self._placer.cancel(batch.number)
            self._give_up(batch, f"it was started {batch.moves} times and never completed")
        assigned = self._placer.assign(self._now_s())
        for placed in assigned:
            self._emit_placed(placed)
        return {placed.batch for placed in assigned}

    def begin(self, volume: int) -> tuple[Batch, Placed] | None:
        """Begin the next batch on a volume, perhaps one that waits for another; None: it has none now."""
        placed = self._placer.begin(volume, self._now_s())
        if placed is None:
            return None
        if placed.stolen_from is not None and not placed.probe:
            self._emit_placed(placed)
        return self._batches[placed.batch], placed

    def give_up_overdue(self) -> None:
        """Give up the batches that have waited for too long."""
        for overdue in self._placer.overdue(self._now_s()):
            self._give_up(self._batches[overdue.batch], overdue.why, overdue.reasons)

    def _give_up(self, batch: Batch, why: str, reasons: Sequence[str] | None = None) -> None:
        """Fail a batch that no volume takes; ``reasons``: by volume; by default its last one to any batch."""
        volumes = range(len(self._names))
        said = [self._placer.view(volume).reason or NO_ROOM for volume in volumes]
        self._fail(batch, make_unplaced_fault(batch, why, reasons or said, self._names))

    def _emit_placed(self, placed: Placed) -> None:
        batch = self._batches[placed.batch]
        self._emit(make_batch_placed(self._now_s(), batch, placed, self._names))
