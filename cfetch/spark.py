"""The functions for data frames under their public names: ``from cfetch.spark import download, register``.

They are a plug-in's, found by its name when one of them is used first (``cfetch/plugins/spark``).
"""

from typing import Any

from cfetch.base.registry import SHIPPED, load


def __getattr__(name: str) -> Any:  # noqa: ANN401 - functions, whose types are the plug-in's
    """Import a public name when it is used first (PEP 562). Raises UsageError: PySpark is missing."""
    if name in SHIPPED["frames"]:
        return load("frames", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(SHIPPED["frames"])
