"""The parts of the leader and of the other nodes in a run with several volumes.

Shares cannot be cut beforehand there, as the placer decides while files come. So the leader deals for all
nodes, and only the leader needs to see all volumes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.plan import Plan
from cfetch.run.labels import read_label
from cfetch.run.volumes import Volumes
from cfetch.storage.files import make_private, on_disk
from cfetch.storage.hanging_calls import call_within
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub, HubPlace
from cfetch.tasks.nodes.asking import GRANTS, Mail
from cfetch.tasks.nodes.beats import NodeBeats
from cfetch.tasks.nodes.board import SharedJob, write_job
from cfetch.tasks.nodes.desk import Crew, Desk
from cfetch.tasks.nodes.engine import MANY_NODES, Here, board_of
from cfetch.tasks.nodes.remote_shares import LeadersRun, RemoteShares
from cfetch.tasks.processes.child_processes import ChildProcesses
from cfetch.tasks.processes.engine import Started
from cfetch.tasks.processes.placed_tasks import PlacedTasks
from cfetch.tasks.shares.dealing import ShareSource
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import RunSpec
from cfetch.timeline.course import Course, read_course


class LeadingTasks(PlacedTasks):
    """Implements ``TaskRunner`` by the leader's part of the work; other nodes get theirs at its desk."""

    blind: Sequence[Path] = ()
    longest_pause_s = 2.0  # many nodes read the same receipts
    trusts_receipts = True  # nodes of a run that died may still be leaving theirs

    def __init__(self, plan: Plan, volumes: Volumes, settings: Settings, here: Here) -> None:
        super().__init__(plan, volumes, settings, here.processes, here.clock)
        self._given = volumes.roots
        self._here = here
        self._name = here.table.node.owner.host
        self._dealt_slots = MANY_NODES * here.processes
        self._desk: Desk | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Close the desk, and then the volumes, when the run is over."""
        with super().open():
            try:
                yield
            finally:
                if self._crew is not None:
                    self._crew.stop()
                if self._desk is not None:
                    self._desk.close()

    def prepare(self, account: Account, directory: Path) -> list[str]:
        """Show that this run shares its plan: nothing is cut before."""
        with on_disk(directory):
            make_private(directory)
        return super().prepare(account, directory)

    def find_hub_place(self) -> HubPlace | None:
        """The name by which other nodes know this one."""
        return HubPlace(self._name)

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start the processes, and open the desk."""
        crew = super().start(spec, account, hub)
        assert self._desk is not None
        self._desk.start(Crew(crew.wait_for_receipts, crew.fail))
        return crew

    def _open_source(self, started: Started) -> ShareSource:
        placed, spec = super()._open_source(started), started.spec
        assert isinstance(placed, PlacedShares)
        board, table = board_of(Path(spec.receipts).parent, spec.epoch), self._here.table
        beats = NodeBeats(board, spec.epoch, table.node, table.heartbeats)
        mail = Mail(board)
        mail.open()
        self._desk = Desk(mail, placed, Path(spec.receipts), spec.epoch, beats, started.bury_task)
        used = list(map(str, self.roots))
        job = SharedJob(
            roots=used,
            labels=[_find_label(root, self._settings) for root in self.roots],
            unseen=[str(root) for root in self._given if str(root) not in used],
            wall_start_s=spec.wall_start_s,
            hub=spec.hub,
        )
        write_job(board, job)
        return placed


class JoinedTasks(PlacedTasks):
    """Implements ``TaskRunner`` by the part of a node that has joined the run of ``joined``."""

    leads = False
    longest_pause_s = 2.0
    trusts_receipts = True

    def __init__(
        self, plan: Plan, volumes: Volumes, settings: Settings, here: Here, joined: SharedJob
    ) -> None:
        super().__init__(plan, volumes, settings, here.processes, here.clock)
        here_too = set(map(str, self.roots))
        self.roots = tuple(map(Path, joined.roots))
        self._seen = [
            number
            for number, (root, label) in enumerate(zip(joined.roots, joined.labels, strict=True))
            if root in here_too and label in (None, _find_label(Path(root), settings))
        ]
        self.blind: Sequence[Path] = [
            root for number, root in enumerate(self.roots) if number not in self._seen
        ]
        self._here = here
        self._joined = joined
        self._name = here.table.node.owner.host

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - the leader cuts
        """Name the volumes that this node does not see."""
        return [
            f"this machine does not see {root} as the machine that leads does: it brings nothing there"
            for root in self.blind
        ]

    def find_hub_place(self) -> HubPlace | None:
        """Nowhere: the hub is the leader's."""
        return None

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start this node's processes."""
        grants = str(board_of(Path(spec.receipts).parent, spec.epoch) / GRANTS)
        job = self._joined
        return super().start(
            msgspec.structs.replace(spec, hub=job.hub, wall_start_s=job.wall_start_s, grants=grants),
            account,
            hub,
        )

    def _open_source(self, started: Started) -> ShareSource:
        spec = started.spec
        board, table = board_of(Path(spec.receipts).parent, spec.epoch), self._here.table

        def has_leader() -> bool:
            """Whether the run of the leader goes on."""
            return read_course(table, spec.instant, spec.epoch) is Course.RUNNING

        beats = NodeBeats(board, spec.epoch, table.node, table.heartbeats)
        run = LeadersRun(Path(spec.receipts), spec.epoch, has_leader)
        return RemoteShares(self._plan, Mail(board), beats, run, self._seen)


def refuse_other_volumes(roots: Sequence[str | Path], job: SharedJob) -> None:
    """Raise ConfigError unless a node gives the volumes of the run that it joins, as far as those matter."""
    theirs = [*job.roots, *job.unseen]
    if (job.roots or len(roots) > 1) and sorted(map(str, roots)) != sorted(theirs):
        shown = ", ".join(theirs) or "one directory"
        raise ConfigError(
            f"the machine that leads this plan brings it to {shown}: give the same --to on all machines (a "
            "volume that a machine does not see is left out there)"
        )


def _find_label(root: Path, settings: Settings) -> str | None:
    with suppress(TimeoutError):
        return call_within(settings.write_timeout, str(root), lambda: read_label(root))
    return None
