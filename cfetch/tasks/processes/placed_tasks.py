"""Processes that bring batches to several volumes: the driver places, and each share is for one volume."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.processes.child_processes import ShareContents
from cfetch.tasks.processes.engine import LocalTasks
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.dealing import BuryTask, ShareSource
from cfetch.tasks.shares.placed_run import VolumeFinder, bury_on_volume, open_placed
from cfetch.tasks.shares.work import RunSpec


class PlacedSource(ShareSource, ShareContents, VolumeFinder, Protocol):
    """A source of shares for several volumes."""

    def close(self) -> None:
        """Let go of what it uses."""


class PlacedTasks(LocalTasks):
    """Implements ``TaskRunner`` for a run with several volumes; ``roots`` are their directories."""

    def __init__(
        self, plan: Plan, volumes: Volumes, settings: Settings, processes: int, clock: Clock
    ) -> None:
        self.roots = tuple(volume.root for volume in volumes.local)
        super().__init__(plan, self.roots[0], settings, processes, clock)
        self._volumes = volumes
        self._placed: PlacedSource | None = None
        self._dealt_slots = processes  # for which shares are made

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let go of the volumes when the run is over."""
        try:
            yield
        finally:
            if self._placed is not None:
                self._placed.close()

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - nothing is cut before
        """Do nothing: batches are dealt out as volumes take them."""
        return []

    @property
    def tasks(self) -> int:
        """How many files there are, of which shares will be made."""
        return len(self._plan)

    def _keep_parts(self, spec: RunSpec, task: int, *, moves: bool) -> None:
        assert self._placed is not None
        bury_on_volume(self._placed, spec, task, moves=moves)

    def _find_contents(self) -> ShareContents:
        assert self._placed is not None
        return self._placed

    def _open_source(
        self,
        spec: RunSpec,
        bury_task: BuryTask,  # noqa: ARG002 - the children's parent calls it
        account: Account,
        hub: Hub | None,
    ) -> PlacedSource:
        self._placed = placed = open_placed(
            self._plan,
            self._volumes,
            spec,
            account,
            hub,
            self._clock,
            slots=self._dealt_slots,
            pace=ExpectedPace(concurrency=max(1, self._settings.concurrency // self.slots)),
        )
        return placed
