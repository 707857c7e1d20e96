"""Makes a suspect of an attempt that looks too slow, or excuses it. Pure; loaded with the first of them.

It must still be too slow if the bytes that its cancellation loses are counted. It is excused while it is
young, while it gets to speed, and while it delays nothing: where a host's link is full, a slow attempt takes
a slot that nothing else needs, and its end matters only if the run would wait for it.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING

from cfetch.straggler.attempt_limits import AttemptLimits
from cfetch.straggler.common_cause import A_QUARTER, CRAWLS, LATELY_S, Suspect
from cfetch.straggler.handshake import gains_by_another, round_trip_s
from cfetch.straggler.watched_attempts import MOST_FADE_S, TICK_S, JudgedAttempt, WatchedAttempts

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live

HALF = 0.5  # of the attempts
CRAWLS_S = 0.2  # after it can be judged at all: two checks show whether it gets to speed
SLOW_FROM_START = 0.25  # an attempt below this share of the usual pace, on average, was slow from its start
SETTLE_SHARE = 0.1  # of the normal duration: the start of a download that takes a minute shows little
MOST_SETTLE_S = 3.0  # the longest window is over by then, so waiting longer would show nothing more
CONFIRM_SHARE = 0.02  # of the normal duration: a minute's download may pause for a second
MOST_CONFIRM_S = 2.0  # with the windows, this allows five seconds of silence at most
YOUNG_TRIPS = 8  # of its own round trips, which a full queue prolongs: slow start and a loss take as long
MOST_YOUNG_S = 4.0  # a handshake that took longer than half a second has probably lost a packet itself


def make_suspect(
    attempt: JudgedAttempt, seen: "Live | None", watch: WatchedAttempts, own_s: float
) -> Suspect | None:
    """The attempt as a suspect; None if it is not too slow when the bytes that would be lost count."""
    if seen is None or seen.is_held or attempt.size_bytes is None:
        return None
    if attempt.spared_until_s > watch.now_s:
        return None
    evidence, column = watch.find_evidence(attempt)
    # its time begins when its connection is made: a lost SYN says nothing about the path of the bytes
    terms, shook_s = evidence.terms(column), seen.handshake_s
    age_s, began_s, guard_s = evidence.age_s(column) - shook_s, attempt.start_s + shook_s, terms.guard_s
    if shook_s:
        guard_s = max(guard_s, min(YOUNG_TRIPS * round_trip_s(shook_s), MOST_YOUNG_S))
    is_old = age_s >= guard_s + CRAWLS_S
    if not seen.received:
        if age_s <= terms.silent_s:
            return None
        if seen.connecting_since_s is None and seen.slack_s >= 0 and age_s < watch.fade_s(attempt.host):
            return None
        since_s = seen.connecting_since_s
        if since_s is not None and not gains_by_another(own_s - since_s, terms.guard_s):
            return None
        excuse, is_free, waits = terms.silent_s / age_s, not attempt.immune, _may_wait(attempt, seen, terms)
        return Suspect(attempt.key, excuse, began_s, began_s, 0.0, is_free, crawls=is_old, may_wait=waits)
    needed_bytes = attempt.size_bytes - (seen.received if seen.resumable else 0)
    remaining_s, slow_s = watch.remaining_s(attempt), evidence.slow_s(column)
    assert remaining_s is not None
    fade_s = watch.fade_s(attempt.host)
    fades = slow_s > 0 and (seen.carried_bytes > 0 or slow_s < age_s)  # it was fast before
    if fades and slow_s < fade_s:  # a fade foretells as much again
        remaining_s = min(remaining_s, slow_s + needed_bytes * terms.pace_s)
    left_s = remaining_s - terms.limit_s
    fresh_s = terms.limit_s_per_byte * needed_bytes
    normal_s = attempt.size_bytes * terms.pace_s
    settle_s = max(guard_s, min(SETTLE_SHARE * normal_s, MOST_SETTLE_S))
    if left_s <= fresh_s or age_s < settle_s:
        return None
    end_s = min(remaining_s, slow_s + normal_s) if fade_s else remaining_s
    if _may_pass(attempt, seen, watch, end_s, slow_s, fade_s if fades else 0.0):
        return None
    if shook_s and age_s < MOST_YOUNG_S and _mends(seen) and seen.has_lost_packets():
        return None  # slow start has overflowed a queue or a limit, and TCP repeats a burst of packets
    if age_s < MOST_SETTLE_S and evidence.accelerates(column):
        return None  # it is getting to speed
    slow_from_start = seen.received * terms.pace_s < age_s * SLOW_FROM_START
    since_s = began_s if slow_from_start else max(began_s, watch.now_s - LATELY_S)
    confirm_s = min(CONFIRM_SHARE * normal_s - TICK_S, MOST_CONFIRM_S)
    confirm_s = max(confirm_s, watch.dip_s(attempt.host))
    excuse = max(fresh_s / left_s, settle_s / age_s)
    is_free = seen.resumable and not attempt.immune
    crawls = is_old and seen.received * terms.pace_s < age_s * CRAWLS / 2
    waits = _may_wait(attempt, seen, terms)
    return Suspect(attempt.key, excuse, since_s, began_s, confirm_s, is_free, crawls, waits)


def _may_pass(
    attempt: JudgedAttempt, seen: "Live", watch: WatchedAttempts, end_s: float, slow_s: float, fade_s: float
) -> bool:
    """Whether an attempt is left alone for now, as it may get to speed again before the run waits for it.

    One that was fast, where others have faded and come back, gets as long as the longest of them took, if
    entries wait. If packets come while bytes stand still, its path lives and TCP waits for a lost packet: it
    is left alone while entries wait or helpers can bring its rest, else as long as any fade may take.
    Where the link is full, it has as long as the run has slack. ``end_s``: until it is done, by its fade;
    ``slow_s``: for so long it has been slow; ``fade_s``: the longest fade, 0 if it was never fast.
    """
    evidence, column = watch.find_evidence(attempt)
    mends = not evidence.instant_bps()[column] and _mends(seen)
    waits, is_helped = seen.slack_s >= 0, seen.resumable and watch.remaining_s(attempt) != math.inf
    mended_s = math.inf if waits or is_helped else MOST_FADE_S
    patience_s = mended_s if mends else fade_s if waits else 0.0
    if fade_s and slow_s < patience_s:
        return True
    # one that stands still may have lost its path
    return end_s < seen.slack_s and evidence.lately_bps(column) > 0


def _mends(seen: "Live") -> bool:
    """Whether packets still come, so its path lives."""
    age_s = seen.packet_age_s()
    return age_s is not None and age_s < LATELY_S


def _may_wait(attempt: JudgedAttempt, seen: "Live", terms: AttemptLimits) -> bool:
    """Whether the attempt can be cancelled later without delay for the run, as its host's link is full.

    A fresh one, and the time until that can be judged, fit into the slack, which is half of the run's rest.
    """
    return seen.slack_s > (attempt.size_bytes or 0) * terms.pace_s + terms.guard_s


def leave_out_patient(by_host: dict[str, list[Suspect]], watch: WatchedAttempts) -> dict[str, list[Suspect]]:
    """Leave out what can be cancelled later, where most attempts do well and so keep the link full.

    Where attempts come back by themselves, up to half of them may be slow for a while.
    """
    alive = Counter(attempt.host for attempt in watch.live.values())
    left = {}
    for host, suspects in by_host.items():
        most = (HALF if watch.fade_s(host) else A_QUARTER) * alive[host]
        kept = suspects if len(suspects) > most else [each for each in suspects if not each.may_wait]
        if kept:
            left[host] = kept
    return left
