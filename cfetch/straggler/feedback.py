"""Limits the cost of mitigation, and adapts the bar to the gain of earlier mitigations.

Each cancellation predicts when its attempt would have ended. The entry's real end is the verdict. The bar
rises by a factor for each cancellation that made the file later, and falls by a small step for each that made
it earlier, as the retry timer of the AWS CRT does (multiplicative increase, additive decrease). It does not
rise while the last cancellations have saved more than they lost: if one connection in twenty is slow, so is
one rescue in twenty.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cfetch.straggler.own_control import Group, OwnControl

WORSE = 1.5  # the bar's factor for each mitigation that took longer than no mitigation
BETTER = 0.05  # subtracted for each good mitigation: with one bad in ten the bar stays where it is
FADES = 0.8  # factor of the seconds saved so far, for each verdict: about five verdicts count
LOWEST = 0.8  # the lowest bar: 1.2 times the normal duration instead of 1.5
HIGHEST = 4.0  # an attempt at a tenth of the usual rate is still found; a bar of 16 never fell again
WEARS_OFF = 0.8  # factor of the patience with silence for each good verdict: three verdicts halve it
MOST_HOSTS = 4096  # hosts whose cold objects are remembered
SURE_S = 8.0  # a second silence counts for at most this before it ends, as connections may stall twice
LONGER = 1.5  # times the wait that was seen, so that an equally cold object is waited for next time

FREE_BYTES = 64 << 20  # may be lost in any case: at a run's start there are no bytes to take a share of
WASTED_SHARE = 0.05  # of all bytes; the extra load that Dean and Barroso (The Tail at Scale) allow
WINDOW_S = 30.0  # mitigations, completions and rescues are counted over this time
EARNED = 4  # cancellations for each rescue that has helped: up to four in five connections may be slow
MITIGATED_SHARE = 0.5  # of completions; more means that the network is slow, not single connections


class _Foretold(NamedTuple):
    """The predicted end of a cancelled attempt. ``projected_s`` None: it was silent for ``waited_s``."""

    host: str
    projected_s: float | None
    waited_s: float


@dataclass(slots=True)
class _Silence:
    """The silences of one host: entries ``first`` and ``scout`` waited for a first byte a second time.

    ``hangs``: the host does not serve fresh connections.
    """

    hangs: bool
    patience_s: float = 0.0
    first: int | None = None
    scout: int | None = None


class Feedback:
    """Compares the end of each mitigated entry with its prediction. ``leniency`` multiplies the bar.

    The end of a silent attempt cannot be predicted. Its cancellation was in vain if the file's last attempt
    waited at least as long for its first byte: then the object is cold, rather than the connection slow.
    Hosts differ in their cold objects, so each host has its own patience with silence.

    A host that serves only a limited number of connections looks alike: each fresh connection is silent. So
    if several entries wait a second time, one of them, the scout, is cancelled once more, and continues over
    a proven connection. If it is answered sooner, the fresh connections hang, and patience is of no use.
    ``hanging``: hosts for which an earlier run has found that.
    """

    def __init__(self, hanging: Collection[str] = ()) -> None:
        self._hanging = hanging
        self.leniency = 1.0
        self._saved_s = 0.0  # seconds saved by the last cancellations; below 0: seconds lost
        self._foretold: dict[int, _Foretold] = {}
        self._silences: dict[str, _Silence] = {}

    def patience_s(self, host: str, key: int | None = None) -> float:
        """Seconds of silence before which no attempt at ``host`` is cancelled; 0 for the scout ``key``."""
        silence = self._silences.get(host)
        return 0.0 if silence is None or (key is not None and silence.scout == key) else silence.patience_s

    def note_mitigation(self, key: int, host: str, projected_s: float | None, waited_s: float) -> None:
        """Note the predicted end of a cancelled attempt (None: it was silent); an entry's first counts."""
        self._foretold.setdefault(key, _Foretold(host, projected_s, waited_s))

    def note_silence(self, key: int, waited_s: float) -> None:
        """Note an attempt without a first byte: a verdict, if its entry was mitigated after less silence."""
        foretold = self._foretold.get(key)
        if foretold is None or foretold.projected_s is not None or waited_s < foretold.waited_s:
            return
        silence = self._silence_of(foretold.host)
        if silence.hangs:
            return
        if silence.first is None:
            silence.first = key
        elif silence.scout is None and silence.first != key:
            silence.scout = key
        silence.patience_s = max(silence.patience_s, LONGER * min(waited_s, SURE_S))

    def note_answer(self, key: int, first_s: float, *, is_proven: bool) -> None:
        """Note the first byte of an attempt; ``is_proven``: its connection has brought bytes before."""
        foretold = self._foretold.get(key)
        silence = None if foretold is None else self._silences.get(foretold.host)
        if foretold is None or silence is None or silence.scout != key:
            return
        if is_proven and first_s < foretold.waited_s:
            silence.hangs, silence.patience_s = True, 0.0

    def note_finish(self, key: int, now_s: float, first_s: float | None, *, is_proven: bool = False) -> None:
        """Note an entry's end, its first byte after ``first_s``: the verdict, if the entry was mitigated."""
        if key not in self._foretold:
            return
        if first_s is not None:
            self.note_answer(key, first_s, is_proven=is_proven)
        foretold = self._end(key)
        if foretold is None:
            return
        if foretold.projected_s is None:
            self._judge_silence(foretold, first_s)
            return
        self._saved_s = FADES * self._saved_s + foretold.projected_s - now_s
        if now_s <= foretold.projected_s:
            self.leniency = max(self.leniency - BETTER, LOWEST)
        elif self._saved_s < 0:
            self.leniency = min(self.leniency * WORSE, HIGHEST)

    def _judge_silence(self, foretold: _Foretold, first_s: float | None) -> None:
        silence = self._silence_of(foretold.host)
        if first_s is not None and first_s >= foretold.waited_s:
            silence.hangs = False
            silence.patience_s = max(silence.patience_s, LONGER * first_s)
        else:
            silence.patience_s *= WEARS_OFF

    def _silence_of(self, host: str) -> _Silence:
        silence = self._silences.get(host)
        if silence is None:
            if len(self._silences) >= MOST_HOSTS:
                del self._silences[next(iter(self._silences))]
            silence = self._silences[host] = _Silence(hangs=host in self._hanging)
        return silence

    def _end(self, key: int) -> _Foretold | None:
        foretold = self._foretold.pop(key, None)
        silence = None if foretold is None else self._silences.get(foretold.host)
        if silence is not None and silence.first == key:
            silence.first = None
        if silence is not None and silence.scout == key:
            silence.scout = None
        return foretold

    def note_failure(self, key: int) -> None:
        """Note that an entry was given up, which is no verdict."""
        self._end(key)


class Budget:
    """Limits how many more attempts may be cancelled now, and how many more bytes may be lost by that.

    ``control``: the record of what cancellations have brought; None before the first one.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._ended: deque[float] = deque(maxlen=max(1024, 8 * concurrency))
        self._mitigated: deque[float] = deque(maxlen=max(1024, 8 * concurrency))
        self._rescued: deque[float] = deque(maxlen=max(1024, 8 * concurrency))
        self._bytes = 0
        self._wasted = 0
        self._asked_twice = 0
        self.control: OwnControl | None = None

    def note_finish(self, now_s: float, size_bytes: int) -> None:
        """Note that an attempt completed."""
        self._ended.append(now_s)
        self._bytes += size_bytes

    def may_mitigate(self, group: "Group", key: int, own_s: float, pace: float, *, fades: bool) -> bool:
        """Whether an attempt may be cancelled, and note it, by the record of its ``group``.

        ``fades``: attempts at its host have been slow and come back by themselves. ``pace``: how fast the
        fresh attempt has to be, as a multiple of the others, to show that this helps.
        """
        if self.control is None:
            from cfetch.straggler.own_control import OwnControl  # most runs cancel no attempt

            self.control = OwnControl()
        allowed = not fades or self.control.allows(group, key, own_s, pace)
        if allowed:
            self.control.note_cut(group, key, own_s, pace)
        return allowed

    def stays_slow(self, host: str) -> bool:
        """Whether attempts of ``host`` that were left alone have stayed slow."""
        return self.control is not None and self.control.stays_slow((host, False))

    def note_mitigation(self, now_s: float) -> None:
        """Note that an attempt is cancelled."""
        self._mitigated.append(now_s)

    def note_rescue(self, now_s: float) -> None:
        """Note that a fresh connection has brought its bytes at the usual speed."""
        self._rescued.append(now_s)

    def note_waste(self, wasted_bytes: int) -> None:
        """Note that a cancellation lost these bytes."""
        self._wasted += wasted_bytes

    def allows_bytes(self, wasted_bytes: int, running_bytes: int) -> bool:
        """Whether these bytes may be lost too; ``running_bytes`` have come for the attempts under way."""
        return self._wasted + wasted_bytes <= max(FREE_BYTES, WASTED_SHARE * (self._bytes + running_bytes))

    def allows_second(self, size_bytes: int) -> bool:
        """Whether these bytes may be asked for a second time; if so, they count, apart from lost bytes."""
        most = max(FREE_BYTES, WASTED_SHARE * self._bytes)
        is_allowed = self._asked_twice + size_bytes <= most
        self._asked_twice += size_bytes if is_allowed else 0
        return is_allowed

    def count_allowed(self, now_s: float) -> int:
        """How many attempts may be cancelled at this check: at most a quarter of all, at least two."""
        for times in (self._ended, self._mitigated, self._rescued):
            while times and times[0] < now_s - WINDOW_S:
                times.popleft()
        most = max(self._concurrency, MITIGATED_SHARE * len(self._ended)) + EARNED * len(self._rescued)
        return max(0, min(max(2, self._concurrency // 4), int(most) - len(self._mitigated)))
