"""Which files misbehave, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.errors import ConfigError
from cfetch.plugins.lab.bench.faults import Fault, FaultRule, draw, fault_for

SLOW = Fault(kind="slow", rate_bps=1.0)
RESET = Fault(kind="reset", after_bytes=0)


@given(st.integers(0, 400), st.floats(0, 0.5), st.floats(0, 0.4), st.integers(0, 1000))
def test_counts_are_exact_and_no_file_gets_two(n, slow, reset, seed):
    """Exactly round(fraction * n) files get each fault, whatever the seed."""
    names = [f"{i}" for i in range(n)]
    drawn = draw(names, [FaultRule(fraction=slow, fault=SLOW), FaultRule(fraction=reset, fault=RESET)], seed)
    kinds = [script[0].kind for script in drawn.values()]
    assert kinds.count("slow") == round(slow * n)
    assert kinds.count("reset") == round(reset * n)
    assert set(drawn) <= set(names)


def test_the_seed_decides_who_is_drawn():
    """The same seed draws the same files, another seed others."""
    names = [f"{i}" for i in range(500)]
    rules = [FaultRule(fraction=0.02, fault=SLOW)]
    assert draw(names, rules, 7) == draw(names, rules, 7)
    assert draw(names, rules, 7) != draw(names, rules, 8)


def test_asking_for_more_files_than_there_are_is_an_error():
    """Fractions that add up to more than all files are refused."""
    with pytest.raises(ConfigError, match="ask for 3 files, but there are 2"):
        draw(["a", "b"], [FaultRule(fraction=1, fault=SLOW), FaultRule(fraction=0.6, fault=RESET)], 0)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, "...."),
        (SLOW, "s..."),
        (Fault(kind="slow", rate_bps=1, first=2), "ss.."),
        (Fault(kind="slow", rate_bps=1, first=0), "ssss"),
        ((SLOW, RESET), "sr.."),
        ((Fault(kind="slow", rate_bps=1, first=2), Fault(kind="reset", after_bytes=0, first=0)), "ssrr"),
    ],
)
def test_a_script_covers_its_requests_in_order(script, expected):
    """Each fault covers the next ``first`` requests, 0 all that follow; then the file is served well."""
    met = [fault_for(script, n) for n in (1, 2, 3, 4)]
    assert "".join(fault.kind[0] if fault else "." for fault in met) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "slow"}, "needs 'rate_bps'"),
        ({"kind": "slow", "rate_bps": 0.0}, "'rate_bps'"),
        ({"kind": "delay", "delay_s": -1.0}, "'delay_s'"),
        ({"kind": "status", "status": 200}, "'status'.*not between 300 and 599"),
        ({"kind": "reset", "after_bytes": -1}, "'after_bytes'"),
        ({"kind": "stall"}, "needs 'after_bytes'"),
        ({"kind": "truncate"}, "needs 'after_bytes'"),
        ({"kind": "reset", "after_bytes": 1, "first": -1}, "'first'"),
    ],
)
def test_a_fault_that_says_too_little_or_too_much_is_refused(fields, message):
    """The error names the field."""
    with pytest.raises(ConfigError, match=message):
        Fault(**fields)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_outside_zero_to_one_is_refused(fraction):
    """Fractions are shares of the files."""
    with pytest.raises(ConfigError, match="'fraction'"):
        FaultRule(fraction=fraction, fault=SLOW)
