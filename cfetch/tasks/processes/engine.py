"""The engine of one machine on several cores: child processes run the tasks, and this process drives them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.receipts import share_receipt_name
from cfetch.tasks.hub.server import Hub, HubPlace
from cfetch.tasks.processes.child_processes import ChildProcesses
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.dealing import BuryTask, CutShares, OwnShares, ShareSource
from cfetch.tasks.shares.driver import POLL_S
from cfetch.tasks.shares.plan_cut import cut_plan
from cfetch.tasks.shares.salvage import bury_dead_task
from cfetch.tasks.shares.work import RunSpec

HUB_HOST = "127.0.0.1"


class Started(NamedTuple):
    """The facts of a run that begins, for its source of shares: see ``TaskRunner.start``."""

    spec: RunSpec
    account: Account
    hub: Hub | None
    bury_task: BuryTask


class LocalTasks:
    """Implements ``TaskRunner`` by processes of this machine.

    ``volumes``: if there are several; their batches are dealt out as they take them, and nothing is cut
    before. ``wanted``: the tasks at a time for which shares are made; None: as many as ``processes``.
    """

    longest_pause_s = POLL_S  # there are few receipts, and Ctrl-C has to be prompt
    trusts_receipts = False  # files in place are checked as in a run of one process
    leads = True
    sweeps = False  # the death of a child is noticed, and its parts are kept at once

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        processes: int,
        clock: Clock,
        volumes: Volumes | None = None,
        *,
        wanted: int | None = None,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._clock = clock
        self._volumes = volumes
        self._wanted = wanted or processes
        self._crew: ChildProcesses | None = None
        self._source: ShareSource | None = None
        self._cut = CutShares(plan, (), ())
        self._name = ""
        self._pace = ExpectedPace(concurrency=max(1, settings.concurrency // processes))
        self.roots: tuple[Path, ...] = (
            () if volumes is None else tuple(volume.root for volume in volumes.local)
        )
        self.slots = processes

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let go of the source of shares when the run is over."""
        try:
            yield
        finally:
            if self._source is not None:
                self._source.close()

    @property
    def is_whole(self) -> bool:
        """Whether all shares of the run are over; also if there were none."""
        return not self.tasks or (self._source is not None and self._source.is_whole)

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - they stay in the plan's file
        """Cut the plan, if there is one volume."""
        if not self.roots:
            self._cut_plan(account)
            self.slots = min(self.slots, self.tasks)
        return []  # the notes about slow hosts are for clusters

    def _cut_plan(self, account: Account) -> list[str]:
        """Cut the plan. Returns notes for a person."""
        self._cut, notes = cut_plan(
            self._plan, account, pace=self._pace, slots=self._wanted, per_host=self._settings.per_host
        )
        return notes

    @property
    def tasks(self) -> int:
        """How many shares there are, or of how many files they will be made."""
        return len(self._plan if self.roots else self._cut.members)

    def find_hub_place(self) -> HubPlace | None:
        """The loopback, on which children reach the hub."""
        return HubPlace(HUB_HOST)

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start the processes."""
        most = spec.settings.most_at_once // self.slots
        own = replace(
            spec.settings,
            concurrency=max(1, spec.settings.concurrency // self.slots),
            max_concurrency=max(1, most),
        )
        spec = msgspec.structs.replace(spec, settings=own, searches=True)

        def bury_task(task: int, *, moves: bool = True) -> None:
            """Let the task that continues its share have what it has left."""
            bury_dead_task(source, spec, hub, task, moves=moves)

        source = self._source = self._open_source(Started(spec, account, hub, bury_task))
        self._crew = ChildProcesses(
            spec,
            bury_task,
            processes=self.slots,
            wall=self._clock.wall,
            source=source,
            name=self._name,
        )
        self._crew.start()
        return self._crew

    def _open_source(self, started: Started) -> ShareSource:
        """Open the source of the shares: this run has all of them for itself."""
        spec, account = started.spec, started.account
        if self._volumes is not None:
            from cfetch.tasks.shares.placed_run import open_placed  # few runs have several volumes

            return open_placed(
                self._plan,
                self._volumes,
                spec,
                account,
                started.hub,
                self._clock,
                slots=self._wanted,
                pace=self._pace,
            )
        receipts, epoch = Path(spec.receipts), spec.epoch

        def stands(share: int) -> bool:
            """Whether the share has its receipt."""
            return (receipts / share_receipt_name(epoch, share)).exists()

        return OwnShares(self._cut, account, stands, self._clock.monotonic)

    @property
    def learned(self) -> Knowledge:
        """The knowledge that all processes together have learned."""
        return NOTHING if self._crew is None else self._crew.learned

    def explain(self, failure: BaseException, receipt: str | None) -> CfetchError:  # noqa: ARG002 - it is the same
        """A task's fault is this machine's, as in a run of one process; anything else is a bug."""
        if not isinstance(failure, CfetchError):
            raise failure
        return failure
