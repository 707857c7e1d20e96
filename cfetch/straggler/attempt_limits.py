"""The terms by which one attempt is judged: limits derived from its host's normal duration."""

import math
from functools import lru_cache
from typing import NamedTuple

from cfetch.straggler.fresh_attempt import Fit

GUARD_S = 0.5  # no attempt is judged earlier: TCP repeats a lost segment after 0.2 s, and again after 0.4 s
GUARD_LATENCIES = 4  # TCP begins with ten segments a round trip and doubles: 200 KiB in the fourth
PADDING_S = 0.5  # a smaller gain is not worth a request; it covers two checks and a delay of the scheduler
PADDING_SIGMAS = 2.0  # times the spread, of the normal duration: at a sigma of 0.3, 1.5 becomes 2.1
MOST_PADDING = 1.0  # of the normal duration: at a sigma of 1 the mean is 1.65 medians; 1.5 means are 2.5
MIN_SEGMENT_BYTES = 64 << 10  # the least that shows a rate; the gain in seconds decides about the request


class AttemptLimits(NamedTuple):
    """The limits of one attempt.

    The attempt is too slow if its rest of ``r`` bytes needs more than ``limit_s + r * limit_s_per_byte``
    seconds, or its first byte more than ``silent_s``; never before ``guard_s``. ``pace_s`` is the normal time
    of a byte: rate times pace is 1 for a normal attempt.
    """

    limit_s: float
    limit_s_per_byte: float
    guard_s: float
    silent_s: float
    pace_s: float


NO_TERMS = AttemptLimits(math.nan, math.nan, math.nan, math.nan, math.nan)  # no attempt exceeds these


@lru_cache(maxsize=1024)  # a run's attempts have few different sizes, and are judged anew twice a second
def terms_of(fit: Fit, size_bytes: float, multiplier: float, leniency: float) -> AttemptLimits:
    """The terms for an attempt at ``size_bytes``; ``leniency`` is 1 at a run's start.

    A fresh attempt needs a connection, which costs one more latency than a request.
    """
    times = leniency * (multiplier + min(PADDING_SIGMAS * fit.spread, MOST_PADDING))
    pace_s = fit.pace_s(size_bytes)
    return AttemptLimits(
        limit_s=times * (fit.latency_s + fit.first_byte_s) + leniency * PADDING_S,
        limit_s_per_byte=times * pace_s,
        guard_s=max(GUARD_S, GUARD_LATENCIES * fit.first_byte_s),
        silent_s=leniency * max(GUARD_S, multiplier * 2 * fit.late_s),
        pace_s=pace_s,
    )
