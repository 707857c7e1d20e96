"""The resolved options as a document that ``--config`` reads back: ``--show-config``."""

import json
from typing import Any

from cfetch.base.config.document import quote
from cfetch.base.config.kinds import OptionKind
from cfetch.base.config.layers import Resolved
from cfetch.base.config.settings import KINDS


def show(resolved: Resolved) -> str:
    """YAML that ``--config`` reads back, with each value's origin as a comment."""
    lines = []
    for name, kind in KINDS.items():
        value = getattr(resolved.settings, name)
        if value is None:
            shown = f"# {name}: not set"
        elif kind.secret:
            shown = f"# {name}: <redacted>"
        else:
            shown = f"{name}: {_as_yaml(kind, value)}"
        lines.append(f"{shown:<40}  # {resolved.origins[name]}")
    return "\n".join(lines)


def _as_yaml(kind: OptionKind, value: Any) -> str:  # noqa: ANN401 - each option has its own type
    if kind.is_list and len(value) == 1:
        (value,) = value
    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(item) for item in value) + "]"  # no comma splits an item
    return quote(value) if isinstance(value, str) else kind.show(value)
