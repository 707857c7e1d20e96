"""Small questions asked until they are answered: for documents and sizes, which no pool tries again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cfetch.clock import Clock
from cfetch.errors import Refused, SourceError, Transient
from cfetch.wire.judge import Action, Verdict
from cfetch.wire.retry import Limits, Spent, next_step

__all__ = ["LIMITS", "refusal", "until_answered"]

LIMITS = Limits(max_attempts=5, retry_budget_s=60.0)  # somebody waits for the answer before anything begins
T = TypeVar("T")


async def until_answered(ask: Callable[[], Awaitable[T]], *, clock: Clock, jitter: Callable[[], float]) -> T:
    """What ``ask`` gives, asked again after transient faults.

    Raises:
        SourceError: the last one, when it is for good or ``LIMITS`` are reached.
    """
    start_s, errors = clock.monotonic(), 0
    while True:
        try:
            return await ask()
        except SourceError as error:
            errors += 1
            spent = Spent(errors, 0, clock.monotonic() - start_s)
            step = next_step(error, spent, LIMITS, jitter=jitter(), can_refresh=False)
            if step.delay_s is None:
                raise
            await clock.sleep(step.delay_s)


def refusal(verdict: Verdict, status: int) -> SourceError:
    """The error of a reply that is not accepted, where there is no part to keep and no link to renew."""
    passing = verdict.action in (Action.RETRY, Action.THROTTLE)
    return (Transient if passing else Refused)(verdict.reason, http_status=status)
