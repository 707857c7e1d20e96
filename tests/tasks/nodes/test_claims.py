"""Which share a node takes next: each is brought, none twice at a time unless its node is dead."""

from hypothesis import given
from hypothesis import strategies as st

from cfetch.tasks.nodes.claims import Claim, Wanted, choose_claim, number_task, parse_claim

STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "end", "die", "sleep", "wake"]), st.integers(0, 3)), max_size=60
)


def test_a_share_without_a_claim_comes_first():
    """The longest shares have the lowest numbers."""
    last = {0: Claim(0, 0, "a"), 2: Claim(2, 0, "dead")}
    assert choose_claim(4, {1}, last, lambda node: node == "dead") == Wanted(3, 0)


def test_a_dead_nodes_share_gets_its_next_turn():
    """A living node keeps its share, however long it takes."""
    last = {0: Claim(0, 0, "a"), 1: Claim(1, 4, "dead")}
    assert choose_claim(2, set(), last, lambda node: node == "dead") == Wanted(1, 5)
    assert choose_claim(2, set(), last, lambda _: False) is None
    assert choose_claim(2, {0, 1}, last, lambda _: True) is None


@given(STEPS, st.integers(1, 5))
def test_every_share_is_brought_whatever_dies(steps, shares):
    """No turn has two nodes, no two turns are one task, and a living node's share is never taken."""
    over: set[int] = set()
    last: dict[int, Claim] = {}
    working: dict[int, Claim] = {}
    dead: set[str] = set()
    lives = [0] * 4
    tasks: set[int] = set()

    def take(number):
        wanted = choose_claim(shares, over, last, dead.__contains__)
        if wanted is None:
            return
        claim = Claim(*wanted, f"{number}.{lives[number]}")
        assert wanted.share not in over
        assert wanted.share not in last or last[wanted.share].node in dead
        task = number_task(shares, *wanted)
        assert task not in tasks
        tasks.add(task)
        last[wanted.share] = working[number] = claim

    for step, number in steps:
        if step == "take" and number not in working:
            take(number)
        elif step == "end" and number in working:
            over.add(working.pop(number).share)
        elif step in ("die", "sleep"):
            dead.add(f"{number}.{lives[number]}")
            lives[number] += 1
            if step == "die":
                working.pop(number, None)
    for number in list(working):
        over.add(working.pop(number).share)
    while choose_claim(shares, over, last, dead.__contains__) is not None:
        take(0)
        over.add(working.pop(0).share)
    assert over | {claim.share for claim in last.values() if claim.node not in dead} == set(range(shares))


def test_only_names_of_claims_are_claims():
    """Other files may lie beside them."""
    names = ["3-0", "12-7", "3-", "-1", "3-0.tmp", ".3-0.ab", "x-1", "3-1-2", "٣-0"]
    assert [parse_claim(name) for name in names] == [Wanted(3, 0), Wanted(12, 7), *[None] * 7]
