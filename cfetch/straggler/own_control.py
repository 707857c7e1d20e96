"""Compares mitigation with its own control: slow attempts that are left alone. Pure.

Over real TCP an attempt fades for seconds and comes back by itself: a packet was lost, a queue was full. A
cancellation then costs a connection and gains nothing, and the rate of the fade foretells nothing. So where
attempts are seen to fade and come back, each host has a small experiment of its own:

- The first ``UNPROVEN`` slow attempts are cancelled. Further ones have to wait until the fresh attempts run
  well; each that does so earns ``EARNED`` cancellations.
- Now and then a slow attempt is left alone for ``patience_s``: the control. If it comes back, it needed no
  help; if not, it is cancelled then. The fewer of them come back, the rarer the control.
- If the fresh attempts took about as long to get to speed as those left alone, cancelling has not helped: it
  stops at the host. Each slow attempt then gets longer than any control had; if it stays slow even so, it is
  cancelled, and that counts again.

Where no attempt has ever come back by itself there is nothing to compare with, and nobody waits.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cfetch.straggler.common_cause import NORMAL
from cfetch.straggler.fresh_attempt import MOST_HOSTS

UNPROVEN = 2  # cancellations before one of them has shown that a fresh attempt is better
EARNED = 4  # by each fresh attempt that runs well: up to four in five connections may be slow
RARER = 4  # times as many cancellations before the next control, if the last one stayed slow
FIRST_PATIENCE_S = 2.0  # two lost retransmissions of TCP take as long
MOST_PATIENCE_S = 16.0  # a silence beyond TCP's fifth retransmission is no fade
LONGER = 2.0  # times the longest control, as TCP doubles its waits
SOONER = 2 / 3  # of the time for which the controls were slow: a gain that is worth a connection
VERDICTS = 8  # controls that count, the latest ones
MOST_WAITING = 1024  # slow attempts of one host whose end is waited for
FORGOTTEN_S = 30.0  # after that a cancellation proves nothing any more


Group = tuple[str, bool]  # a host; whether its attempts have no byte yet


@dataclass(slots=True)
class _GroupControl:
    """One group.

    ``left``: since when attempts were left alone. ``cut``: when attempts were cancelled, and the pace, as a
    multiple of the others', at which the fresh one shows that this helps.
    """

    left: dict[int, float] = field(default_factory=dict)
    cut: dict[int, tuple[float, float]] = field(default_factory=dict)
    came_back: deque[bool] = field(default_factory=lambda: deque(maxlen=VERDICTS))
    left_s: deque[float] = field(default_factory=lambda: deque(maxlen=VERDICTS))
    fresh_s: deque[float] = field(default_factory=lambda: deque(maxlen=VERDICTS))
    may_cut: int = UNPROVEN
    may_renew: int = 1
    since_control: int = 0
    control_after: int = UNPROVEN
    control: int | None = None

    @property
    def is_in_vain(self) -> bool:
        """Whether cancelling has not helped, as far as the controls show."""
        if not self.left_s:
            return False
        if not self.fresh_s:
            return 2 * sum(self.came_back) > len(self.came_back)
        return sum(self.fresh_s) / len(self.fresh_s) > SOONER * sum(self.left_s) / len(self.left_s)

    @property
    def patience_s(self) -> float:
        """How long a slow attempt is left alone."""
        longest_s = max(self.left_s, default=0.0)
        return min(max(FIRST_PATIENCE_S, LONGER * longest_s), MOST_PATIENCE_S)

    def note_left(self, seconds: float, *, came_back: bool) -> None:
        """Note a control: it came back after so many seconds, or stayed slow for as long."""
        self.came_back.append(came_back)
        self.left_s.append(seconds)


class OwnControl:
    """The controls of a run. Times are on the policy's own clock.

    The attempts of a host that wait for their first byte are a group of their own: a dead connection is
    another matter than a fade.
    """

    def __init__(self) -> None:
        self._groups: dict[Group, _GroupControl] = {}

    def allows(self, group: Group, key: int, now_s: float, pace: float = NORMAL) -> bool:
        """Whether the slow attempt may be cancelled now; if not, it is left alone for now.

        Ask only where attempts have come back by themselves. If it is allowed, ``note_cut`` has to follow.
        ``pace`` above the normal one: the whole host is suspected (``regime.py``). Then one attempt may be
        cancelled; if that is much faster than the others, which are the control, more may follow.
        """
        control = self._of(group)
        if pace > NORMAL:
            return control.may_renew > 0 and not control.is_in_vain
        if key not in control.left:
            if len(control.left) >= MOST_WAITING:
                return False
            control.left[key] = now_s
        waited_s = now_s - control.left[key]
        if waited_s >= control.patience_s:
            return True
        if control.is_in_vain:
            return False
        if control.control is None and control.since_control >= control.control_after:
            control.control = key
        return control.control != key and control.may_cut > 0

    def note_cut(self, group: Group, key: int, now_s: float, pace: float) -> None:
        """Note that the attempt is cancelled; one that had its time and stayed slow is a verdict.

        ``pace``: how fast the fresh attempt has to be, as a multiple of the others at the host.
        """
        control = self._of(group)
        left_s = now_s - control.left.pop(key, now_s)
        if pace > NORMAL:
            control.may_renew -= 1
        else:
            control.may_cut = max(0, control.may_cut - 1)
        control.since_control += 1
        if key in control.cut:  # the fresh attempt of its last cancellation is slow too
            control.fresh_s.append(now_s - control.cut[key][0])
        if key >= 0:
            control.cut[key] = now_s, pace
        if left_s >= control.patience_s:
            control.note_left(left_s, came_back=False)
        if control.control == key:
            control.control, control.since_control = None, 0
            control.control_after *= RARER

    def _of(self, group: Group) -> _GroupControl:
        control = self._groups.get(group)
        if control is None:
            if len(self._groups) >= MOST_HOSTS:
                del self._groups[next(iter(self._groups))]
            control = self._groups[group] = _GroupControl()
        return control

    def judge_all(self, paces_of: Callable[[str], Mapping[int, float]], now_s: float) -> None:
        """Judge the groups that wait for a verdict; ``paces_of``: the present paces at a host, by key."""
        for group, control in self._groups.items():
            if control.left or control.cut:
                self.judge(group, paces_of(group[0]), now_s)

    def judge(self, group: Group, paces: Mapping[int, float], now_s: float) -> None:
        """Judge those of the host's attempts that run well, by their present ``paces``, by key."""
        control = self._groups[group]
        others = sorted(pace for key, pace in paces.items() if key not in control.left)
        usual = min(1.0, others[len(others) // 2]) if others else 1.0
        for key in [key for key in control.left if paces.get(key, 0.0) >= NORMAL * usual > 0]:
            self._note_good(group, key, now_s)
        for key, (cut_s, least) in list(control.cut.items()):
            if paces.get(key, 0.0) >= least * usual > 0:
                self._note_good(group, key, now_s, least)
            elif now_s - cut_s > FORGOTTEN_S:
                control.fresh_s.append(FORGOTTEN_S)
                del control.cut[key]

    def _note_good(self, group: Group, key: int, now_s: float, least: float = NORMAL) -> None:
        """Note that an attempt runs well, at ``least`` times the others' pace, or has ended well."""
        control = self._groups.get(group)
        if control is None:
            return
        left_s = control.left.pop(key, None)
        if left_s is not None:
            control.note_left(now_s - left_s, came_back=True)
            if control.control == key:
                control.control, control.since_control, control.control_after = None, 0, UNPROVEN
        elif control.cut.get(key, (0.0, math.inf))[1] <= least:
            cut_s, pace = control.cut.pop(key)
            control.fresh_s.append(now_s - cut_s)
            control.may_cut += EARNED
            control.may_renew += EARNED if pace > NORMAL else 0

    def note_finish(self, host: str, key: int, now_s: float) -> None:
        """Note that an attempt has ended well."""
        for is_silent in (False, True):
            self._note_good((host, is_silent), key, now_s)

    def note_gone(self, host: str, key: int) -> None:
        """Note that an attempt ended without a verdict."""
        for is_silent in (False, True):
            control = self._groups.get((host, is_silent))
            if control is not None:
                control.left.pop(key, None)
                if control.control == key:
                    control.control = None

    def stays_slow(self, group: Group) -> bool:
        """Whether many attempts left alone have all stayed slow, so that a slow rate foretells the end."""
        control = self._groups.get(group)
        return control is not None and len(control.came_back) == VERDICTS and not any(control.came_back)
