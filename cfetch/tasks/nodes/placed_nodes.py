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
from cfetch.storage.hanging_calls import call_within
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.nodes.asking import GRANTS, Mail
from cfetch.tasks.nodes.beats import NodeBeats
from cfetch.tasks.nodes.board import SharedJob, write_job
from cfetch.tasks.nodes.desk import Desk
from cfetch.tasks.nodes.engine import Here, NodePart, find_own_board
from cfetch.tasks.nodes.remote_shares import LeadersRun, RemoteShares
from cfetch.tasks.processes.child_processes import ChildProcesses
from cfetch.tasks.processes.engine import Started
from cfetch.tasks.shares.dealing import ShareSource
from cfetch.tasks.shares.placed_shares import PlacedShares
from cfetch.tasks.shares.work import RunSpec
from cfetch.timeline.course import Course, read_course


class LeadingTasks(NodePart):
    """The leader's part; other nodes get theirs at its desk."""

    def __init__(self, plan: Plan, volumes: Volumes, settings: Settings, here: Here) -> None:
        super().__init__(plan, settings, here, None, volumes)
        self._given = volumes.roots
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

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start the processes, and open the desk."""
        crew = super().start(spec, account, hub)
        assert self._desk is not None
        self._desk.start(crew)
        return crew

    def _open_source(self, started: Started) -> ShareSource:
        placed, spec = super()._open_source(started), started.spec
        assert isinstance(placed, PlacedShares)
        board, table = find_own_board(spec), self._table
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


class JoinedTasks(NodePart):
    """The part of a node that has joined the run of ``joined``, whose volumes ``roots`` are."""

    def __init__(
        self, plan: Plan, volumes: Volumes, settings: Settings, here: Here, joined: SharedJob
    ) -> None:
        super().__init__(plan, settings, here, joined, volumes)
        here_too = set(map(str, self.roots))
        self.roots = tuple(map(Path, joined.roots))
        self._seen = [
            number
            for number, (root, label) in enumerate(zip(joined.roots, joined.labels, strict=True))
            if root in here_too and label in (None, _find_label(Path(root), settings))
        ]
        self.blind = [root for number, root in enumerate(self.roots) if number not in self._seen]

    def prepare(self, account: Account, directory: Path) -> list[str]:  # noqa: ARG002 - the leader cuts
        """Name the volumes that this node does not see."""
        return [
            f"this machine does not see {root} as the machine that leads does: it brings nothing there"
            for root in self.blind
        ]

    def start(self, spec: RunSpec, account: Account, hub: Hub | None) -> ChildProcesses:
        """Start this node's processes, each of which looks whether it still has its share."""
        grants = str(find_own_board(spec) / GRANTS)
        return super().start(msgspec.structs.replace(spec, grants=grants), account, hub)

    def _open_source(self, started: Started) -> ShareSource:
        spec = started.spec
        board, table = find_own_board(spec), self._table

        def has_leader() -> bool:
            """Whether the run of the leader goes on."""
            return read_course(table, spec.instant, spec.epoch) is Course.RUNNING

        beats = NodeBeats(board, spec.epoch, table.node, table.heartbeats)
        run = LeadersRun(Path(spec.receipts), spec.epoch, has_leader)
        return RemoteShares(Mail(board), beats, run, self._seen)


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
