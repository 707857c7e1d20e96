"""The modules of cfetch as syntax trees, for the tests that hold rules of the whole house.

To parse them all takes more than a second. So a process parses each module once, and the tests that need all
of them go to one process (``TOGETHER`` in conftest.py).
"""

import ast
from functools import cache
from pathlib import Path

__all__ = ["list_nodes", "parse"]


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module, itself first."""
    return tuple(ast.walk(ast.parse(path.read_bytes())))


def parse(path: Path) -> ast.Module:
    """The tree of a module."""
    module = list_nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module
