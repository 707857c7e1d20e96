"""The room decides; it reads no clock, rolls no dice and opens nothing."""

import ast
from pathlib import Path

import pytest

import cfetch.straggler

ALLOWED = {
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "heapq",
    "functools",
    "itertools",
    "math",
    "msgspec",
    "numpy",
    "typing",
    "cfetch.base.backoff",
    "cfetch.base.config.straggler",
    "cfetch.base.errors",
    "cfetch.straggler",
}
MODULES = sorted(Path(cfetch.straggler.__path__[0]).rglob("*.py"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def is_pure(name):
    return any(name == allowed or name.startswith(allowed + ".") for allowed in ALLOWED)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_room_imports_nothing_impure(path):
    """Every import of every module of the room is on the list of pure ones."""
    names = imported(ast.parse(path.read_text(encoding="utf-8")))
    assert [name for name in names if not is_pure(name)] == []


def test_the_room_was_found():
    """The test above looks at the real modules, and would see an impure import."""
    assert {"detector", "stall"} <= {path.stem for path in MODULES}
    assert list(imported(ast.parse("import time\nfrom asyncio import sleep"))) == ["time", "asyncio"]
    assert not is_pure("time")
