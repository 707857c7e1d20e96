"""Waits until the run that holds a plan lets other nodes join, or until another node leads."""

from collections.abc import Sequence
from pathlib import Path

from cfetch.base.errors import Held, LocalFault
from cfetch.base.events import Listener, RunNoted
from cfetch.tasks.nodes.board import SharedJob, read_job
from cfetch.tasks.nodes.engine import LOOK_S
from cfetch.tasks.shares.driver import locate_shares
from cfetch.timeline.course import Course, find_epoch, read_course
from cfetch.timeline.table import Table

SIGN_S = 30.0  # in which a run that shares its plan shows that, also over the caches of a network file system


def wait_for_board(
    table: Table, state: Path, instant: str, listener: Listener
) -> tuple[int, SharedJob] | None:
    """Wait for the board of the plan's present run; its epoch and job. None: that run has ended.

    Raises:
        Held: the run does not share the plan.
        LocalFault: the timeline or the board cannot be read.
    """
    epoch = find_epoch(table, instant)
    board = locate_shares(state / "plans" / instant, epoch)  # it stands once the run shares its plan
    began_s, is_shared = table.node.monotonic(), False
    while read_course(table, instant, epoch) is Course.RUNNING:
        job = read_job(board)
        if job is not None:
            listener(
                RunNoted(t_s=0.0, note=f"joins run {epoch} of plan {instant}, which another machine leads")
            )
            return epoch, job
        is_shared = is_shared or board.is_dir()
        if not is_shared and table.node.monotonic() - began_s > SIGN_S:
            raise Held(
                f"another run has plan {instant} and does not share it; wait until it has ended, or end it "
                "and start it again with --together"
            )
        table.node.sleep(LOOK_S)
    return None


def wait_for_leader(
    table: Table, instant: str, unseen: Sequence[Path], patience_s: float, listener: Listener
) -> bool:
    """Wait until another node leads the plan; False: the plan is completed.

    A node that does not see all volumes must not lead: it would bring what stands on the others again.

    Raises:
        LocalFault: nobody leads for ``patience_s``, or the timeline cannot be read.
    """
    began_s, shown = table.node.monotonic(), ", ".join(map(str, unseen))
    is_noted = False
    while (course := read_course(table, instant, find_epoch(table, instant))) is Course.ENDED:
        if table.node.monotonic() - began_s > patience_s:
            raise LocalFault(
                f"the machine that led plan {instant} has ended, and this one cannot lead, as it does not "
                f"see {shown}; run the same command on a machine that sees all volumes"
            )
        if not is_noted:
            note = f"the machine that led has ended: waits for one that sees {shown} to lead plan {instant}"
            listener(RunNoted(t_s=0.0, note=note))
            is_noted = True
        table.node.sleep(LOOK_S)
    return course is Course.RUNNING
