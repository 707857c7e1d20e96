"""The events of tries that did not bring their entry: a straggler that was cancelled, a retry that waits."""

from cfetch.base.errors import SourceError
from cfetch.base.events import RetryScheduled, StragglerCancelled
from cfetch.engine.attempt import Attempt
from cfetch.engine.transfer import Transfer


def make_cancelled(
    transfer: Transfer, attempt: Attempt, now_s: float, *, completed: bool
) -> StragglerCancelled:
    """The event of a cancelled straggler; ``completed``: its last byte had come, and the file is whole."""
    entry = transfer.entry
    return StragglerCancelled(
        t_s=now_s,
        id=entry.id,
        offset=entry.position,
        path=entry.path,
        size_bytes=entry.size_bytes,
        elapsed_s=now_s - attempt.start_s,
        attempt=attempt.assignment.n,
        kept_bytes=transfer.part.position if transfer.may_resume() else 0,
        completed=completed,
    )


def make_retry(transfer: Transfer, error: SourceError, delay_s: float, now_s: float) -> RetryScheduled:
    """The event of a try that follows ``error`` in ``delay_s``."""
    return RetryScheduled(
        t_s=now_s,
        id=transfer.entry.id,
        path=transfer.entry.path,
        n=len(transfer.attempts) + 1,
        delay_s=delay_s,
        error_kind=error.kind,
        error=str(error),
    )
