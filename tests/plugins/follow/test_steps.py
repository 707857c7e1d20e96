"""Rounds of a step: order where it matters, and as few as possible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.manifest.folding import collision_key
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.steps import keep_latest, plan_rounds


def change(path, lsn=0, *, delete=False):
    path = safe_path(path)
    entry = None if delete else Entry(id=0, url=SecretUrl(f"http://h/{path}?{lsn}"), path=path)
    return Change(lsn, 0, path, entry)


def shown(found):
    return [([one.path for one in each.deletes], [one.path for one in each.upserts]) for each in found]


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([], []),
        (["a", "b", "c/d"], [([], ["a", "b", "c/d"])]),
        (["a", "b", "a"], [([], ["a", "b"]), ([], ["a"])]),
        (["a", "-a", "a"], [([], ["a"]), (["a"], []), ([], ["a"])]),
        (["-a", "b"], [(["a"], ["b"])]),
        (["a", "-a", "a/b/c"], [([], ["a"]), (["a"], []), ([], ["a/b/c"])]),
        (["a/b/c", "-a/b/c", "a"], [([], ["a/b/c"]), (["a/b/c"], []), ([], ["a"])]),
        (["-a/b", "-a/c", "a"], [(["a/b", "a/c"], []), ([], ["a"])]),
        (["A", "a"], [([], ["A"]), ([], ["a"])]),
    ],
)
def test_rounds(paths, wanted):
    """A minus is a delete."""
    changes = [change(path.strip("-"), n, delete=path[0] == "-") for n, path in enumerate(paths)]
    assert shown(plan_rounds(changes)) == wanted


NAMES = st.sampled_from(["a", "A", "a/b", "a/b/c", "b", "b/a", "c"])
CHANGES = st.lists(st.tuples(NAMES, st.booleans()), max_size=30)


def meet(one, other):
    """Whether one path is the other's, or a directory above it."""
    one, other = collision_key(one), collision_key(other)
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


@given(CHANGES)
def test_rounds_keep_the_order_of_what_meets(drawn):
    """Nothing is lost; no two of a round meet; each change is as early as those before it allow."""
    changes = [change(path, n, delete=delete) for n, (path, delete) in enumerate(drawn)]
    found = plan_rounds(changes)
    number = {one.lsn: n for n, each in enumerate(found) for part in each for one in part}
    assert sorted(number) == [one.lsn for one in changes]
    for n, one in enumerate(changes):
        before = [number[other.lsn] for other in changes[:n] if meet(one.path, other.path)]
        assert number[one.lsn] == 1 + max(before, default=-1)


@given(CHANGES, st.sets(st.integers(0, 29)))
def test_a_change_that_waits_divides_the_rounds(drawn, waiting):
    """All before it are in earlier rounds, and none behind it is; deletes in a row share a round."""
    changes = [
        change(path, n, delete=delete)._replace(waits=n in waiting) for n, (path, delete) in enumerate(drawn)
    ]
    number = {one.lsn: n for n, each in enumerate(plan_rounds(changes)) for part in each for one in part}
    for n in waiting & number.keys():
        first = n
        while drawn[n][1] and first - 1 in waiting and drawn[first - 1][1]:
            first -= 1
        assert all(number[before] < number[n] for before in range(first))
        assert all(number[behind] >= number[n] for behind in range(n + 1, len(changes)))


@given(CHANGES)
def test_latest_is_what_a_dict_holds(drawn):
    """One change a path, the last, in order."""
    changes = [change(path, n, delete=delete) for n, (path, delete) in enumerate(drawn)]
    found = keep_latest(changes)
    assert {one.path: one.lsn for one in found} == {one.path: one.lsn for one in changes}
    assert [one.lsn for one in found] == sorted(one.lsn for one in found)
    waiting = [one._replace(waits=one.lsn % 2 == 0) for one in changes]
    kinds = [(one.waits, one.waits and one.entry is None, one.lsn) for one in keep_latest(waiting)]
    assert kinds == sorted(kinds)
