"""Which task gets which share of a run that has all of them."""

from typing import Any

from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.dealing import LEASE_S, TICK_S, CutShares, OwnShares
from cfetch.tasks.shares.work import Turn

NO_PLAN: Any = None


class Dealt:
    """Two shares, on a clock that the test moves; ``standing``: those that have receipts."""

    def __init__(self):
        self.now_s = 0.0
        self.standing: set[int] = set()
        self.shares = OwnShares(
            CutShares(NO_PLAN, [()] * 2, [1] * 2), Account(), self.standing.__contains__, lambda: self.now_s
        )

    def wait(self, seconds, *living):
        """Let an idle task ask each second, while others give signs of life. Returns the first turn."""
        for _ in range(int(seconds)):
            self.now_s += 1
            for turn in living:
                self.shares.renew(turn)
            if (turn := self.shares.take()) is not None:
                return turn
        return None


def test_a_share_is_copied_only_if_its_task_has_been_silent_while_this_process_was_at_work():
    """A look that comes after this process itself stood still blames the task for one tick only."""
    dealt = Dealt()
    first, second = Turn(0, 1), Turn(1, 2)
    assert [dealt.shares.take(), dealt.shares.take()] == [first, second]
    dealt.now_s = 10 * LEASE_S
    assert dealt.wait(LEASE_S - TICK_S, second) is None
    assert dealt.wait(1, second) == Turn(0, 3, attempt=1)
    assert dealt.wait(LEASE_S - 1, second) is None
    assert dealt.wait(LEASE_S, second) is None  # two have the one, and the other lives
    dealt.shares.end(Turn(0, 3))
    assert [dealt.shares.is_mine(turn) for turn in (first, second)] == [False, True]
    dealt.shares.end(first)  # late
    assert not dealt.shares.is_over()
    dealt.shares.end(second)
    assert dealt.shares.is_over()


def test_the_share_of_a_dead_task_goes_on_unless_its_receipt_or_a_copy_is_there():
    """A task may die between its receipt and its answer."""
    dealt = Dealt()
    first, second = Turn(0, 1), Turn(1, 2)
    assert [dealt.shares.take(), dealt.shares.take()] == [first, second]
    assert dealt.shares.take_again(first) == Turn(0, 3)
    dealt.standing.add(1)
    assert dealt.shares.take_again(second) is None
    assert not dealt.shares.is_mine(second)
    assert dealt.wait(LEASE_S - 1) is None
    assert dealt.wait(1) == Turn(0, 5, attempt=1)
    assert dealt.shares.take_again(Turn(0, 3)) is None
    assert not dealt.shares.is_over()
    dealt.shares.end(Turn(0, 5))
    assert dealt.shares.is_over()
