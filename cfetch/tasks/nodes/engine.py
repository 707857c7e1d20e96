"""The engine of one node: processes of this machine bring the shares that the node claims.

The leader is a run like any other, whose shares stand on a board. A node that joins does not hold the plan:
it reads the same receipts, so it shows the same run, and waits until the leader has settled the plan.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, Held, LocalFault
from cfetch.base.events import RunNoted
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Run
from cfetch.run.volumes import Volumes
from cfetch.storage.files import make_private, on_disk
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub, HubPlace
from cfetch.tasks.nodes.board import Board, SharedJob, write_job
from cfetch.tasks.processes.child_processes import ChildProcesses
from cfetch.tasks.processes.engine import LocalTasks, Started
from cfetch.tasks.shares.dealing import CutShares, ShareSource
from cfetch.tasks.shares.driver import Driver, DriverSetup, ShareEngine, locate_shares
from cfetch.tasks.shares.work import RunSpec
from cfetch.timeline.course import Course, count_completed, read_course
from cfetch.timeline.table import Table

MANY_NODES = 16  # shares are cut for so many, as nobody knows how many will join
LOOK_S = 0.5  # between looks whether the leader has settled the plan


class Here(NamedTuple):
    """The facts of this node. ``table`` is the open timeline, ``processes`` their number on this machine."""

    table: Table
    processes: int
    clock: Clock


class NodesEngine(ShareEngine):
    """Implements ``Engine`` for a plan whose destinations are directories that nodes see. Used once."""

    def __init__(self, tasks: "NodePart", setup: DriverSetup, table: Table) -> None:
        super().__init__(tasks, setup)
        self._files = len(setup.plan)
        self._table = table
        self._tasks = tasks
        self._roots = tasks.roots or (Path(setup.root),)

    @property
    def unseen(self) -> Sequence[Path]:
        """The volumes of the leader that this node does not see."""
        return self._tasks.blind

    def bring(self, run: Run) -> CfetchError | None:
        """Implements ``Engine.bring``. Returns Held if the leader's run ended before all shares were over."""
        driver = self.drive(run)
        try:
            error = driver.bring()
        except LocalFault:  # the directory of a plan goes when it is completed
            if self._tasks.leads or not self._is_completed(run):
                raise
            error = None
        is_whole = self._tasks.is_whole
        if error is not None or (is_whole and run.counts.ended.settled == self._files):
            return error
        if self._tasks.leads:
            if not is_whole:
                run.guard.confirm()  # it stood still, and another node leads now; or it was stopped
        elif self._is_completed(run):
            self._emit_rest(run, driver)
        elif not is_whole:
            return Held("the run that led the others has ended; this node looks at the plan again")
        return None

    def _emit_rest(self, run: Run, driver: Driver) -> None:
        """Emit the files that no receipt tells of any more, as receipts go with a plan that is completed."""
        blind = set(self._tasks.blind)
        for root in self._roots:
            try:
                if root not in blind:
                    driver.emit_unreported(root)
            except LocalFault as fault:
                blind.add(root)
                note = f"{fault}; its files count as the leader counted them, and cfetch verify reads them"
                run.emit(RunNoted(t_s=run.clock.now(), note=note))
        left = self._files - run.counts.ended.settled
        if left and blind and count_completed(self._table, run.guard.instant) == self._files:
            driver.emit_unreported(max(blind), looks=False)

    def _is_completed(self, run: Run) -> bool:
        return read_course(self._table, run.guard.instant, run.guard.epoch) is Course.COMPLETED


class JoinedGuard:
    """Implements ``Guard`` for a node that joined: the plan is the leader's, who settles it.

    ``over``: where the leader says that its run has come to its end, whatever that was.
    """

    def __init__(self, table: Table, instant: str, epoch: int, over: Path) -> None:
        self._table = table
        self.instant = instant
        self.epoch = epoch
        self.run_id = f"{instant}.{epoch}"
        self._over = over

    def confirm(self) -> None:
        """Raise Held if the leader's run has ended early."""
        if not self._over.exists() and read_course(self._table, self.instant, self.epoch) is Course.ENDED:
            raise Held(f"the run that led the others at plan {self.instant} has ended")

    def commit(self, *, files: int, size_bytes: int) -> None:  # noqa: ARG002 - the leader knows them
        """Wait until the leader has completed the plan. Raises Held: it has ended before."""
        while read_course(self._table, self.instant, self.epoch) is not Course.COMPLETED:
            self.confirm()
            self._table.node.sleep(LOOK_S)


def find_own_board(spec: RunSpec) -> Path:
    """The board of a run: the directory of its shares."""
    return locate_shares(Path(spec.receipts).parent, spec.epoch)


class NodePart(LocalTasks):
    """Implements most of ``TaskRunner`` by this machine's part of the work.

    ``joined``: the job of the run that leads the others; None: this node leads. ``blind``: the volumes that
    it cannot see, if there are several.
    """

    blind: Sequence[Path] = ()
    longest_pause_s = 2.0  # many nodes read the same receipts
    trusts_receipts = True  # a leader that died has left them, and its nodes may still be leaving theirs

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        here: Here,
        joined: SharedJob | None,
        volumes: Volumes | None = None,
    ) -> None:
        wanted = MANY_NODES * here.processes
        super().__init__(plan, settings, here.processes, here.clock, volumes, wanted=wanted)
        self.leads = joined is None
        self._table = here.table
        self._joined = joined
        self._name = here.table.node.owner.host

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - a part may cut the plan
        """Show that this run shares its plan, if this node leads."""
        if self.leads:
            with on_disk(directory):
                make_private(directory)
        return []

    def find_hub_place(self) -> HubPlace | None:
        """The name by which other nodes know this one; a node that joined has no hub."""
        return HubPlace(self._name) if self.leads else None

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start this node's processes."""
        job = self._joined
        if job is not None:
            spec = msgspec.structs.replace(spec, hub=job.hub, wall_start_s=job.wall_start_s)
        return super().start(spec, account, hub)


class NodeTasks(NodePart):
    """The part of one node, if the plan goes to one directory."""

    def prepare(self, account: Account, directory: Path) -> list[str]:
        """Cut the plan, or take the leader's cut."""
        super().prepare(account, directory)
        if (job := self._joined) is None:
            return self._cut_plan(account)
        self._cut = CutShares(self._plan, job.members, job.sharers)
        return []

    def _open_source(self, started: Started) -> ShareSource:
        spec = started.spec
        directory = find_own_board(spec)
        if self.leads:
            job = SharedJob(
                members=[list(members) for members in self._cut.members],
                sharers=list(self._cut.sharers),
                wall_start_s=spec.wall_start_s,
                hub=spec.hub,
            )
            write_job(directory, job)
        return Board(
            directory,
            self._cut,
            epoch=spec.epoch,
            receipts=Path(spec.receipts),
            fence=Path(spec.destination.fence),
            node=self._table.node,
            heartbeats=self._table.heartbeats,
            bury_task=started.bury_task,
        )
