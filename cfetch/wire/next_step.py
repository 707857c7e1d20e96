"""Decides the step after a failed try: when, with a fresh link, from another source, or not at all. Pure."""

import msgspec

from cfetch.base.errors import Corrupt, Expired, NotReady, SourceError, Straggling, Throttled, Transient
from cfetch.wire.retry import Limits, backoff_s

MOST_SHOWN_S = 1e9  # a header may state any number, also one that is infinite
MAX_REFRESHES = 3  # a link that is refused after three renewals is revoked, and not expired


class Spent(msgspec.Struct, frozen=True, gc=False):
    """The tries and seconds spent, with this failed try; ``corrupt`` tries brought wrong bytes."""

    errors: int
    refreshes: int
    elapsed_s: float
    corrupt: int = 0


class NextStep(msgspec.Struct, frozen=True, gc=False):
    """The next step; ``delay_s`` None means give up, and ``reason`` says which limit was reached.

    ``refresh``: try with a fresh link; ``leave``: try another source, and never this source again.
    """

    delay_s: float | None
    refresh: bool = False
    leave: bool = False
    reason: str = ""


def next_step(
    error: SourceError,
    spent: Spent,
    limits: Limits,
    *,
    jitter: float,
    can_refresh: bool,
    others: bool = False,
    untried: bool = False,
    joined: bool = False,
) -> NextStep:
    """Choose the step after a failed try.

    ``others``: the entry has other sources that may be asked; ``untried``: some of them have not failed yet.
    ``joined``: the try continued earlier bytes, so the wrong bytes may be the earlier bytes.
    """
    if isinstance(error, Straggling):
        return NextStep(0.0)
    if isinstance(error, Expired) and can_refresh and spent.refreshes < MAX_REFRESHES:
        return NextStep(0.0, refresh=True)
    blamed = isinstance(error, Expired) or (isinstance(error, Corrupt) and not joined)
    if others and (not error.retryable or blamed):
        return NextStep(0.0, leave=True)
    if isinstance(error, Expired):
        if can_refresh:
            return NextStep(None, reason=f"refused after {MAX_REFRESHES} fresh links")
        return NextStep(
            None,
            reason="the link was refused or has expired, and cfetch has no way to get a fresh one "
            "(--refresh-command is one); if its host asks for a login, see --bearer-env, --header and "
            "--cookies",
        )
    if not error.retryable:
        return NextStep(None)
    if isinstance(error, Corrupt) and spent.corrupt > 1:
        return NextStep(None, reason="the file was fetched again and is still wrong")
    if isinstance(error, Corrupt) and joined:
        return NextStep(0.0)  # nobody has been asked for the whole file yet
    if spent.errors >= limits.max_attempts:
        return NextStep(
            None, reason=f"gave up after {spent.errors} {'try' if spent.errors == 1 else 'tries'}"
        )
    return NextStep(0.0) if untried else _wait(error, spent, limits, jitter)


def _wait(error: SourceError, spent: Spent, limits: Limits, jitter: float) -> NextStep:
    """Wait for the next try: by back-off, or as long as the server asks for."""
    delay = backoff_s(spent.errors, jitter)
    asked = ""
    if isinstance(error, Throttled | Transient) and error.retry_after_s is not None:
        delay = max(delay, error.retry_after_s)
        asked = f"its server asks for a pause of {min(delay, MOST_SHOWN_S):.0f} s, so "
    if spent.elapsed_s + delay > limits.retry_budget_s:
        budget = f"the next try would exceed the retry budget of {limits.retry_budget_s:g} s"
        if isinstance(error, NotReady):
            budget += " (--retry-budget)"
        return NextStep(None, reason=asked + budget)
    return NextStep(delay)
