"""docs/conditions.md is true: every condition once, every test and every case is there, the sum is right."""

import re
from pathlib import Path

import pytest

from tests.conditions.cases import CASES

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
TEXT = (ROOT / "docs/conditions.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r" \| ", line.strip("| "))]
    for line in TEXT.splitlines()
    if re.match(r"\| \d+ \|", line)
]
WHERE = {int(number): where for number, _, _, where in ROWS}
NAMED = {number: set(re.findall(r"`([^`]+)`", where)) for number, where in WHERE.items()}
REASONS = ("not yet: ", "not applicable: ", "falls short: ")


def functions(path):
    """The names of the tests in a file."""
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE))


TESTS_OF = {str(path.relative_to(TESTS)): functions(path) for path in TESTS.rglob("test_*.py")}


def test_all_conditions_in_their_order():
    """1 to 110, each with a verdict, and with tests or a reason why there are none."""
    assert [int(row[0]) for row in ROWS] == list(range(1, 111))
    assert all(len(row) == 4 and all(row) for row in ROWS)
    bare = [number for number, where in WHERE.items() if not NAMED[number]]
    assert [number for number in bare if not WHERE[number].startswith(REASONS)] == []


def test_the_sum():
    """What the head says is what the rows say."""
    covered = sum(bool(names) for names in NAMED.values())
    assert f"\nCovered {covered} / 110.\n" in TEXT


@pytest.mark.parametrize("number", sorted(NAMED))
@pytest.mark.needs_plugins
def test_every_test_that_a_row_names_exists(number):
    """``file::test`` below tests/, or ``[case]``."""
    cases = {f"[{case.name}]" for case in CASES if number in case.numbers}
    tests = {f"{file}::{name}" for file, names in TESTS_OF.items() for name in names}
    assert NAMED[number] - cases - tests == set()
    assert cases <= NAMED[number]


@pytest.mark.needs_plugins
def test_tests_named_by_a_condition_stand_in_its_row():
    """A test ``test_c35_…`` that the table does not know would be proof that nobody finds."""
    missing = []
    for file, names in TESTS_OF.items():
        for name in names:
            found = re.match(r"test((?:_c\d+)+)_", name)
            numbers = re.findall(r"\d+", found[1]) if found else ()
            missing += [
                f"{number}: {file}::{name}"
                for number in numbers
                if f"{file}::{name}" not in NAMED[int(number)]
            ]
    assert missing == []
