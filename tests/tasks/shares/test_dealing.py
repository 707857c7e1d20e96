"""Which task gets which share of a run that has all of them."""

from cfetch.tasks.shares.dealing import LEASE_S, OwnShares, Turn


class Dealt:
    """Two shares, on a clock that stands still; ``standing``: those that have receipts."""

    def __init__(self):
        self.now_s = 0.0
        self.standing: set[int] = set()
        self.shares = OwnShares(2, self.standing.__contains__, lambda: self.now_s)


def test_a_share_is_copied_only_if_its_task_has_been_silent_for_two_looks():
    """The first look may come late because this process itself stood still."""
    dealt = Dealt()
    first, second = Turn(0, 1), Turn(1, 2)
    assert [dealt.shares.take(), dealt.shares.take()] == [first, second]
    dealt.now_s = LEASE_S - 1
    dealt.shares.renew(second)
    dealt.now_s = LEASE_S
    assert [dealt.shares.take(), dealt.shares.take()] == [None, Turn(0, 3, is_copy=True)]
    assert [dealt.shares.take(), dealt.shares.take()] == [None, None]  # two have the one, and the other lives
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
    dealt.now_s = LEASE_S
    assert [dealt.shares.take(), dealt.shares.take()] == [None, Turn(0, 5, is_copy=True)]
    assert dealt.shares.take_again(Turn(0, 3)) is None
    assert not dealt.shares.is_over()
    dealt.shares.end(Turn(0, 5))
    assert dealt.shares.is_over()
