"""Keeps what a dead task has left for the task that goes on with its share."""

from pathlib import Path

from cfetch.storage.files import on_disk
from cfetch.storage.resume import useful_parts
from cfetch.tasks.shares.work import RunSpec
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.files import LocalFiles


def keep_parts(state: Path, spec: RunSpec, task: int, *, moves: bool = True) -> None:
    """Keep the parts of a dead task on one volume for the task that goes on. Raises LocalFault.

    ``moves`` as in ``BuryTask``. After this the task can put no file in place there, should it live.
    """
    with on_disk(state):
        files = LocalFiles(state)
        try:
            attempts = Attempts([files])
            attempts.keep_task(
                spec.instant, spec.epoch, task, lambda dead: useful_parts(dead.names), move=moves
            )
        finally:
            files.close()
