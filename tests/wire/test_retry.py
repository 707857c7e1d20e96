"""When to try again: the back-off, what servers ask for, and the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.errors import Corrupt, Expired, Refused, Straggling, Throttled, Transient
from cfetch.wire.next_step import NextStep, Spent, next_step
from cfetch.wire.retry import CAP_S, Limits, Matter, Refusals, backoff_s

LIMITS = Limits(max_attempts=3, retry_budget_s=100.0)


@pytest.mark.parametrize(("errors", "most_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 32.0), (10_000, CAP_S)])
def test_p21_the_ceiling_of_the_back_off(errors, most_s):
    """Doubling from half a second up to the cap."""
    assert backoff_s(errors, 1.0) == most_s


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_p21_full_jitter(errors, jitter):
    """The wait is the drawn share of the ceiling, from nothing on: clients spread over all of it."""
    assert backoff_s(errors, jitter) == jitter * backoff_s(errors, 1.0)


def step(error, *, errors=1, refreshes=0, elapsed_s=0.0, corrupt=0, can_refresh=True):
    spent = Spent(errors, refreshes, elapsed_s, corrupt)
    return next_step(error, spent, LIMITS, jitter=0.5, can_refresh=can_refresh)


@pytest.mark.parametrize(("error", "spent", "expected"), [
    (Straggling("x"), {"errors": 99, "elapsed_s": 1e6}, NextStep(0.0)),
    (Transient("x"), {"errors": 1}, NextStep(0.25)),
    (Transient("x"), {"errors": 2}, NextStep(0.5)),
    (Transient("x"), {"errors": 3}, NextStep(None, reason="gave up after 3 tries")),
    (Transient("x"), {"elapsed_s": 99.75}, NextStep(0.25)),
    (Refused("x"), {}, NextStep(None)),
    (Throttled("x", retry_after_s=7.0), {}, NextStep(7.0)),
    (Throttled("x", retry_after_s=0.01), {}, NextStep(0.25)),
    (Throttled("x"), {}, NextStep(0.25)),
    (Expired("x"), {"errors": 99, "elapsed_s": 1e6}, NextStep(0.0, refresh=True)),
    (Corrupt("x"), {"errors": 2, "corrupt": 1}, NextStep(0.5)),
    (
        Corrupt("x"),
        {"errors": 2, "corrupt": 2},
        NextStep(None, reason="the file was fetched again and is still wrong"),
    ),
])  # fmt: skip
def test_what_follows_a_failed_try(error, spent, expected):
    """The class decides whether, the limits how often."""
    assert step(error, **spent) == expected


@pytest.mark.parametrize(("error", "spent", "words"), [
    (Transient("x"), {"elapsed_s": 99.76}, ""),
    (Throttled("x", retry_after_s=101.1), {}, "its server asks for a pause of 101 s, so "),
    (Throttled("x", retry_after_s=float("inf")), {}, "its server asks for a pause of 1000000000 s, so "),
])  # fmt: skip
def test_43_beyond_the_budget_is_the_end(error, spent, words):
    """Nobody waits for what will not be allowed any more; a pause that the server wants is named."""
    assert step(error, **spent).reason == f"{words}the next try would exceed the retry budget of 100 s"


def test_wrong_joined_bytes_are_no_try_of_the_whole_file():
    """Else ``--max-attempts 1`` joins the same bytes in every run. Once only: the rest may be wrong too."""

    def after(corrupt):
        return next_step(
            Corrupt("x"), Spent(3, 0, 1.0, corrupt), LIMITS, jitter=0.5, can_refresh=False, joined=True
        )

    assert after(1) == NextStep(0.0)
    assert after(2).delay_s is None


@pytest.mark.parametrize(
    ("refreshes", "can_refresh", "words"), [(3, True, "3 fresh links"), (0, False, "no way")]
)
def test_46_when_a_link_is_over_for_good(refreshes, can_refresh, words):
    """After three fresh ones, or when nobody can bring one."""
    assert words in step(Expired("x"), refreshes=refreshes, can_refresh=can_refresh).reason


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"others": True, "untried": True}, NextStep(0.0)),
        ({"others": True}, NextStep(0.25)),
        ({"others": True, "untried": True, "errors": 3}, NextStep(None, reason="gave up after 3 tries")),
    ],
)
def test_23_a_source_that_has_not_failed_is_asked_at_once(how, expected):
    """Without back-off, which is for the server that was just asked."""
    spent = Spent(how.pop("errors", 1), 0, 0.0)
    assert next_step(Transient("x"), spent, LIMITS, jitter=0.5, can_refresh=False, **how) == expected


@pytest.mark.parametrize(
    ("word", "matters"),
    [
        ("R", "U"),
        ("RRRRR", "UUUUH"),
        ("SRRRR", "FFFF"),
        ("SRRRRR", "FFFFH"),
        ("SRRRRSR", "FFFFF"),
        ("SRRRRSSRRR", "FFFFFHH"),
        ("SRSSRSSRSSRSSRSSRSSR", "F" * 7),
        ("SRSRSRSRSRSRSRSR", "FFFFFFFH"),
        ("S" + "RSSSSSSSSS" * 20, "F" * 20),
        ("SR.R.R.R.R.R", "F" * 6),
    ],
)
def test_42_whom_refusals_concern(word, matters):
    """R: a file is refused, S: one is served, a dot: 3 s. H: all files of the host wait, U: nobody knows."""
    refusals, served, now_s, said = Refusals(), 0, 0.0, ""
    letters = {Matter.HOST: "H", Matter.FILE: "F", Matter.UNCLEAR: "U"}
    for n, letter in enumerate(word):
        served += letter == "S"
        now_s += 3.0 * (letter == ".")
        if letter == "R":
            said += letters[refusals.judge(n, now_s, served)]
    assert said == matters


def test_42_a_file_that_is_refused_again_and_again_is_one():
    """However often it is asked for."""
    refusals = Refusals()
    refusals.note_end()
    assert {refusals.judge(7, float(n) / 10, 0) for n in range(50)} == {Matter.FILE}
