"""Processes that bring batches to several volumes: the driver places, and each share is for one volume."""

from pathlib import Path

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.tasks.hub.account import Account
from cfetch.tasks.processes.engine import LocalTasks, Started
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.dealing import ShareSource
from cfetch.tasks.shares.placed_run import open_placed


class PlacedTasks(LocalTasks):
    """Implements ``TaskRunner`` for a run with several volumes; ``roots`` are their directories."""

    def __init__(
        self, plan: Plan, volumes: Volumes, settings: Settings, processes: int, clock: Clock
    ) -> None:
        self.roots = tuple(volume.root for volume in volumes.local)
        super().__init__(plan, self.roots[0], settings, processes, clock)
        self._volumes = volumes
        self._dealt_slots = processes  # for which shares are made

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - nothing is cut before
        """Do nothing: batches are dealt out as volumes take them."""
        return []

    @property
    def tasks(self) -> int:
        """How many files there are, of which shares will be made."""
        return len(self._plan)

    def _open_source(self, started: Started) -> ShareSource:
        return open_placed(
            self._plan,
            self._volumes,
            started.spec,
            started.account,
            started.hub,
            self._clock,
            slots=self._dealt_slots,
            pace=ExpectedPace(concurrency=max(1, self._settings.concurrency // self.slots)),
        )
