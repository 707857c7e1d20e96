"""Four layers, each over the one before: default < file < environment < flag; origins are kept."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cfetch.config.settings import KINDS, Settings
from cfetch.errors import ConfigError
from cfetch.secret import printable

__all__ = ["ENV_PREFIX", "Resolved", "resolve", "show"]

ENV_PREFIX = "CFETCH_"
_ENV_OF_THE_COMMAND_LINE = {"CFETCH_CONFIG"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings, and for each name where its value came from."""

    settings: Settings
    origins: Mapping[str, str]


def resolve(*, flags: Mapping[str, str], env: Mapping[str, str], file: Path | None = None) -> Resolved:
    """Lay the layers over each other. ``flags`` and ``env`` hold text; absent means not given.

    Raises:
        ConfigError: an unknown key, or a value that cannot be read or is out of range; all of them named.
    """
    values: dict[str, Any] = {}
    origins = {field.name: "default" for field in fields(Settings)}
    problems: list[str] = []
    for origin, layer in _layers(flags, env, file, problems):
        for key, raw in layer.items():
            name, where = key, printable(origin(key))
            if name not in KINDS:
                problems.append(f"{where}: unknown key {printable(key)!r}{_nearest(key)}")
                continue
            if not isinstance(raw, str):
                problems.append(f"{where}: {key} must be a single value, not a list or a mapping")
                continue
            try:
                values[name] = KINDS[name].parse(raw)
                origins[name] = where
            except ValueError as error:
                shown = name if KINDS[name].secret else f"{name} is {printable(raw, 60)!r} but"
                problems.append(f"{where}: {shown} {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return Resolved(Settings(**values), origins)


def _layers(
    flags: Mapping[str, str], env: Mapping[str, str], file: Path | None, problems: list[str]
) -> list[tuple[Any, Mapping[str, object]]]:
    layers: list[tuple[Any, Mapping[str, object]]] = []
    if file is not None:
        from cfetch.config.document import load  # a run without a file does not wait for yaml

        layers.append((lambda _: str(file), load(file)))
    mine: dict[str, object] = {}
    for variable, raw in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in _ENV_OF_THE_COMMAND_LINE:
            continue
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key.upper() != variable.removeprefix(ENV_PREFIX):
            problems.append(f"environment variable {printable(variable)!r}: write it in upper case")
        mine[key] = raw
    layers.append((lambda key: f"{ENV_PREFIX}{key.upper()}", mine))
    layers.append((lambda key: "--" + key.replace("_", "-"), flags))
    return layers


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key.replace("-", "_").lower(), KINDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(KINDS)}"


def show(resolved: Resolved) -> str:
    """YAML that ``--config`` reads back, with each value's origin as a comment."""
    from cfetch.config.document import quoted

    lines = []
    for name, kind in KINDS.items():
        value = getattr(resolved.settings, name)
        if value is None:
            shown = f"# {name}: not set"
        elif kind.secret:
            shown = f"# {name}: <redacted>"
        else:
            shown = f"{name}: {quoted(value) if isinstance(value, str) else kind.show(value)}"
        lines.append(f"{shown:<40}  # {resolved.origins[name]}")
    return "\n".join(lines)
