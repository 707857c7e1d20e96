"""Processes that bring batches to several volumes: the driver places, and each share is for one volume."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from cfetch.base.clock import Clock, RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.events import Event, VolumePaused
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.storage.files import STATE_NAME
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.volume import Volume
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.processes.child_processes import ShareContents
from cfetch.tasks.processes.engine import LocalTasks, keep_parts
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.dealing import BuryTask, ShareSource
from cfetch.tasks.shares.placed_batches import Placing
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import RunSpec


class PlacedSource(ShareSource, ShareContents, Protocol):
    """A source of shares for several volumes."""

    def find_volume(self, task: int) -> int | None:
        """The volume of a task's share."""

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
        if (volume := self._placed.find_volume(task)) is not None:
            state = self.roots[volume] / STATE_NAME
            with suppress(TimeoutError):  # it hangs: what the task has left is fetched again
                call_within(
                    self._settings.write_timeout,
                    str(state),
                    lambda: keep_parts(state, spec, task, moves=moves),
                )

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
        settings, elapsed_s = self._settings, max(0.0, self._clock.wall() - spec.wall_start_s)
        run_clock = RunClock(self._clock, elapsed_s=elapsed_s)

        def open_volumes() -> Sequence[Volume]:
            """Make the volumes as a run in one process has them: the driver looks, and tasks write."""
            return self._volumes.volumes(
                durable=settings.durability == "power",
                existing=settings.existing,
                keeps_time=settings.mtime,
                clock=run_clock,
                run_id=f"{spec.instant}.{spec.epoch}",
                confirm=lambda: None,
            )

        def count_brought() -> Mapping[int, tuple[int, int]]:
            """Return what each task has brought, as the hub has heard."""
            return {} if hub is None else hub.view().brought

        def note_files(index: int) -> None:
            """Let the volume be looked at as one that holds files of this run."""
            self._volumes.local[index].holds_files = True

        placing = Placing(
            options=settings.placing,
            open_volumes=open_volumes,
            note_files=note_files,
            earlier=self._volumes.find_earlier(),
            pace=ExpectedPace(concurrency=max(1, settings.concurrency // self.slots)),
            slots=self._dealt_slots,
            instant=spec.instant,
        )
        refused: list[Event] = [
            VolumePaused(t_s=0.0, volume=name, pause_s=None, reason=str(fault))
            for name, fault in self._volumes.refused
        ]
        self._placed = placed = PlacedShares(
            self._plan, placing, account, run_clock.now, count_brought, refused
        )
        return placed
