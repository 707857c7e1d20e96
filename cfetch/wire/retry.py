"""How long clients wait before they ask again: back-off, the budget of a run, and who is refused. Pure.

The random number is passed in; ``next_step.py`` decides what a failed try is followed by.

Back-off is "full jitter": uniform between 0 and min(cap, base x 2^n) (AWS Architecture Blog, "Exponential
Backoff and Jitter", 2015), so that clients that failed together do not come back together.
"""

from enum import Enum, auto
from typing import NamedTuple

import msgspec

from cfetch.base.backoff import double_from

BASE_S = 0.5  # two quick tries fit into the time a proxy takes to fail over
CAP_S = 32.0  # as in the CloudFetch driver; presigned links do not live through longer waits
RETRY_SHARE = 0.2  # retries for each first request, as in Twitter's Finagle ("RetryBudget")
RETRIES_PER_S = 10.0  # retries that are always allowed, so that a short run can try again
MAX_SAVED_RETRIES = 100.0  # the most retries that a long time without errors can save up
SEVERAL = 5  # files refused in a row; with a share of 10 %, this is chance once in 10,000 refusals
SERVED_WORTH = 0.365  # of a refusal: ln(0.9 / 0.5) / ln(0.5 / 0.1), if a throttled host refuses one in two
REMEMBERED = 32  # refusals; a host that serves more downloads in between does not throttle
SHORTLY_S = 10.0


class Limits(msgspec.Struct, frozen=True, gc=False):
    """The limits of one entry: ``max_attempts`` failed tries, ``retry_budget_s`` seconds since its start."""

    max_attempts: int
    retry_budget_s: float


class RetryBudget:
    """Limits the retries of a run to a share of its requests; retries beyond it wait, and do not fail."""

    def __init__(self) -> None:
        self._saved = MAX_SAVED_RETRIES
        self._at_s = 0.0

    def earn(self) -> None:
        """Note a request that is no retry."""
        self._saved = min(MAX_SAVED_RETRIES, self._saved + RETRY_SHARE)

    def spend_s(self, now_s: float) -> float:
        """Note a retry. Return the seconds until its turn, at most ``CAP_S``; a longer debt is dropped."""
        saved = self._saved + RETRIES_PER_S * max(0.0, now_s - self._at_s) - 1.0
        self._saved = min(MAX_SAVED_RETRIES, max(saved, -RETRIES_PER_S * CAP_S))
        self._at_s = now_s
        return max(0.0, -self._saved / RETRIES_PER_S)


class Matter(Enum):
    """The subject of a refusal; ``UNCLEAR``: the file, if another download of the host gets bytes."""

    FILE = auto()
    HOST = auto()
    UNCLEAR = auto()


class _Refusal(NamedTuple):
    file: int
    now_s: float
    served: int


class Refusals:
    """Tells whether a host refuses one file with a 503, or all of them.

    The host refuses all files if the refusals of different files within ``SHORTLY_S`` seconds, less
    ``SERVED_WORTH`` for each download that it has begun to serve in between, reach ``SEVERAL``. This is a
    cumulative sum, the fastest test for a higher share of refusals (E. S. Page, "Continuous inspection
    schemes", 1954). Before the host has served a first download, the result is unclear.

    ``unclear_window``: the places that the host had before unclear refusals; the caller sets it, and gives
    these places back.
    """

    __slots__ = ("_ended", "_recent", "unclear_window")

    def __init__(self) -> None:
        self.unclear_window: float | None = None
        self._recent: list[_Refusal] = []
        self._ended = 0

    def note_end(self) -> None:
        """Note that a download is complete."""
        self._ended += 1

    def judge(self, file: int, now_s: float, being_served: int) -> Matter:
        """Note that ``file`` was refused, and tell what the refusal is about.

        ``being_served``: downloads whose bodies the host is sending. A body takes longer than a refusal, so
        if only whole files counted, refusals would look more frequent.
        """
        served = self._ended + being_served
        since_s = now_s - SHORTLY_S
        others = [refusal for refusal in self._recent if refusal.file != file and refusal.now_s >= since_s]
        self._recent = [*others, _Refusal(file, now_s, served)][-REMEMBERED:]
        scores = (
            count - SERVED_WORTH * (served - refusal.served)
            for count, refusal in enumerate(reversed(self._recent), start=1)
        )
        if max(scores) >= SEVERAL:
            return Matter.HOST
        return Matter.FILE if served else Matter.UNCLEAR


def backoff_s(errors: int, jitter: float) -> float:
    """Seconds to wait after the ``errors``-th failure (from 1); ``jitter`` is uniform in [0, 1)."""
    return jitter * double_from(BASE_S, errors - 1, CAP_S)
