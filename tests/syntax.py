"""The modules of cfetch as syntax trees, for the tests that hold rules of the whole house.

To parse them all takes more than a second. So a process parses each module once, and the tests that need all
of them go to one process (``TOGETHER`` in conftest.py).
"""

import ast
import gc
from functools import cache
from pathlib import Path

__all__ = ["list_nodes", "parse"]


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module, itself first; they stay.

    The collector took longer to look at them, a million, again and again, than it takes to parse them.
    """
    if not list_nodes.cache_info().currsize:
        gc.collect()  # of what other tests have left
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return tuple(ast.walk(ast.parse(path.read_bytes())))
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def parse(path: Path) -> ast.Module:
    """The tree of a module."""
    module = list_nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module
