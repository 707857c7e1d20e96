"""Keeps what a dead task has left for the task that goes on with its share."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from cfetch.storage.files import STATE_NAME, on_disk
from cfetch.storage.hanging_calls import call_within
from cfetch.storage.resume import useful_parts
from cfetch.tasks.hub.server import Hub
from cfetch.tasks.shares.dealing import ShareSource
from cfetch.tasks.shares.work import RunSpec
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.files import LocalFiles, name_disk


def bury_dead_task(source: ShareSource, spec: RunSpec, hub: Hub | None, task: int, *, moves: bool) -> None:
    """Free the leases of a dead task, and keep its parts where its share goes. Raises LocalFault."""
    if hub is not None:
        hub.forget(task)
    if not spec.volumes:
        _keep_parts(Path(spec.destination.root) / STATE_NAME, spec, task, moves=moves)
    elif (volume := source.find_volume(task)) is not None:
        state = Path(spec.volumes[volume].root) / STATE_NAME
        keep = partial(_keep_parts, state, spec, task, moves=moves)
        with suppress(TimeoutError):  # it hangs: what the task has left is fetched again
            call_within(spec.settings.write_timeout, name_disk(state), keep)


def _keep_parts(state: Path, spec: RunSpec, task: int, *, moves: bool) -> None:
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
