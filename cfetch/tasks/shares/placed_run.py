"""Opens the dealer of a run with several volumes: ``PlacedShares`` with what the run knows of them."""

from collections.abc import Mapping, Sequence

from cfetch.base.clock import Clock, RunClock
from cfetch.base.events import Event, VolumePaused
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.storage.volume import Volume
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.placed_batches import Placing
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import RunSpec


def open_placed(
    plan: Plan,
    volumes: Volumes,
    spec: RunSpec,
    account: Account,
    hub: Hub | None,
    clock: Clock,
    *,
    slots: int,
    pace: ExpectedPace,
) -> PlacedShares:
    """Open the dealer; its ``close`` lets go of the volumes. ``hub`` has heard what tasks have brought.

    ``slots``: how many tasks there are at a time; ``pace``: of one of them.
    """
    settings = spec.settings
    run_clock = RunClock(clock, elapsed_s=max(0.0, clock.wall() - spec.wall_start_s))

    def open_volumes() -> Sequence[Volume]:
        """Make the volumes as a run in one process has them: the driver looks, and tasks write."""
        return volumes.volumes(
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
        volumes.local[index].holds_files = True

    placing = Placing(
        options=settings.placing,
        open_volumes=open_volumes,
        note_files=note_files,
        earlier=volumes.find_earlier(),
        pace=pace,
        slots=slots,
        instant=spec.instant,
    )
    refused: list[Event] = [
        VolumePaused(t_s=0.0, volume=name, pause_s=None, reason=str(fault)) for name, fault in volumes.refused
    ]
    return PlacedShares(plan, placing, account, run_clock.now, count_brought, refused)
