"""A task whose files go to a volume of the caller's own, without receipts: shards, as Spark writes them."""

import asyncio

from cfetch.base.events import Event
from cfetch.run.collector import collect_seldom
from cfetch.tasks.shares.task import Apart, Beside, Reporter, run_pool
from cfetch.tasks.shares.work import RunSpec, Share, Turn
from cfetch.wire.loop import make_loop


def bring_apart(spec: RunSpec, share: Share, turn: Turn, beside: Beside, apart: Apart) -> None:
    """Bring all entries to their end on a volume of the caller's own; ``beside.listener`` hears of each.

    Raises LocalFault.
    """
    with collect_seldom(for_good=True), asyncio.Runner(loop_factory=make_loop) as runner:
        fault, _ = runner.run(
            run_pool(spec, share, turn, Unreported(spec, turn), lambda: None, beside, apart)
        )
    if fault is not None:
        raise fault


class Unreported(Reporter):
    """Counts only: the caller of the task takes what it needs from the events."""

    def __call__(self, event: Event) -> None:
        """Count."""
        self.counts(event)

    def is_over(self) -> bool:
        """Never: no copy of the task has the same volume."""
        return False

    def is_stopping(self) -> bool:
        """Never: Spark ends the process of a task."""
        return False

    def leave_part(self) -> None:
        """Nothing: there are no receipts."""
