"""The rule by which the suspects of one host are to blame or not. Pure; loaded with the first suspect."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from cfetch.straggler.common_cause import A_QUARTER, CLEAR, CRAWLS, HOLD_S, TRY_S, Crowd, Ruling, Suspect


class _Accused(NamedTuple):
    """A suspect that is not excused. One of its ``witnesses`` suffices for ``each`` accused.

    Unless the witnesses are many, it must have been slow for ``hold_s``.
    """

    suspect: Suspect
    witnesses: int
    each: float
    hold_s: float


def rule(suspects: Iterable[Suspect], crowd: Crowd, now_s: float) -> Ruling:
    """Decide which of one host's suspects are to blame.

    A few suspects among many witnesses are guilty at once. Up to half of all attempts are guilty after they
    have been slow for ``HOLD_S`` while as many others do well, and up to three quarters if they crawl while
    the others have their normal pace. With fewer witnesses one suspect may be tried. If all are slow together
    for ``TRY_S``, the slowest may be tried, if that loses no byte.
    """
    began_s = sorted(crowd.began_s)
    accused: list[_Accused] = []
    excused: list[Suspect] = []
    by_others: dict[int, tuple[float, int, int]] = {}
    for suspect in suspects:
        others = len(began_s) - bisect_left(began_s, suspect.since_s)
        if others not in by_others:
            pace = crowd.network(others)
            by_others[others] = pace, others + crowd.witnesses(pace), others + crowd.witnesses(1.0)
        pace, witnesses, normal = by_others[others]
        if (suspect.crawls or suspect.excuse <= CRAWLS) and normal >= A_QUARTER * (len(crowd.paces) + others):
            hold_s = 0.0 if suspect.crawls else HOLD_S
            accused.append(_Accused(suspect, normal, 1 / A_QUARTER - 1, hold_s))
        elif pace > suspect.excuse:
            accused.append(_Accused(suspect, witnesses, 1, HOLD_S))
        else:
            excused.append(suspect)
    guilty: list[int] = []
    doubtful: list[Suspect] = []
    for suspect, witnesses, each, hold_s in accused:
        seen_for_s = now_s - suspect.seen_s
        waited = seen_for_s >= hold_s
        if seen_for_s < suspect.confirm_s:
            continue
        if witnesses >= CLEAR * len(accused) or (
            each * witnesses >= len(accused) and (waited or len(accused) == 1)
        ):
            guilty.append(suspect.key)
        elif waited:
            doubtful.append(suspect)
    test = min(doubtful, key=lambda suspect: (suspect.seen_s, suspect.key)).key if doubtful else None
    patient = [suspect for suspect in excused if suspect.is_free and now_s - suspect.seen_s >= TRY_S]
    probe = min(patient, key=lambda suspect: (suspect.excuse, suspect.key)).key if patient else None
    return Ruling(guilty, test, len(excused) + len(doubtful), None if test is not None else probe)
