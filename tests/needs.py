"""Marks single cases that need a plug-in: ``scripts/test --core`` runs the other cases of the same test."""

from typing import Any

import pytest

from cfetch.manifest.formats.table import FORMATS

__all__ = ["case", "case_of_format", "is_plugin"]


def case(*values: Any, needs_plugins: bool = True, name: str | None = None) -> Any:
    """A case of a test; ``needs_plugins``: it is left out where there are none."""
    return pytest.param(*values, id=name, marks=[pytest.mark.needs_plugins] if needs_plugins else [])


def is_plugin(place: str) -> bool:
    """Whether ``module:object`` is in a plug-in."""
    return place.startswith("cfetch.plugins.")


def case_of_format(format_name: str, *more: Any) -> Any:
    """A case whose first value is the name of a format."""
    needs_plugins = format_name in FORMATS and is_plugin(FORMATS[format_name].reader)
    return case(format_name, *more, needs_plugins=needs_plugins)
