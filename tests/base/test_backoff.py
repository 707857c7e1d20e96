"""Waits that double."""

import ast
from pathlib import Path

import pytest

from cfetch.base.backoff import double, double_from
from tests.syntax import list_nodes

ROOT = Path(__file__).parents[2]


def test_a_wait_doubles_up_to_its_limit():
    """Each step is twice the one before it; a step beyond the limit is the limit."""
    waits = [1.0]
    for _ in range(4):
        waits.append(double(waits[-1], 6.0))
    assert waits == [1.0, 2.0, 4.0, 6.0, 6.0]
    assert double(3, 5) == 5


@pytest.mark.parametrize(("doublings", "wait_s"), [(0, 0.5), (1, 1.0), (3, 4.0), (6, 30.0), (10_000, 30.0)])
def test_a_wait_after_many_doublings_stays_at_its_limit(doublings, wait_s):
    """Whatever their number, it neither overflows nor goes beyond the limit."""
    assert double_from(0.5, doublings, 30.0) == wait_s


def doubles_by_hand(node):
    """Whether the expression is ``min(2 * x, most)``, in any order."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "min"):
        return False
    return any(
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Mult)
        and any(isinstance(side, ast.Constant) and side.value == 2 for side in (value.left, value.right))
        and any(isinstance(side, ast.Name | ast.Attribute) for side in (value.left, value.right))
        and all(isinstance(other, ast.Name | ast.Attribute) for other in node.args if other is not value)
        for value in node.args
    )


def test_no_wait_is_doubled_by_hand():
    """One function knows how waits grow; whoever needs one calls it."""
    assert doubles_by_hand(ast.parse("min(2 * self.x, MOST)").body[0].value)  # type: ignore[attr-defined]
    by_hand = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "cfetch").rglob("*.py"))
        if path.name != "backoff.py" and "min(" in path.read_text("utf-8")  # to parse all takes two seconds
        for node in list_nodes(path)
        if isinstance(node, ast.Call) and doubles_by_hand(node)
    ]
    assert by_hand == []
