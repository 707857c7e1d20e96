"""Four layers of option values: default < file < environment < flag. The origin of each value is kept."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cfetch.config.kinds import Kind
from cfetch.config.settings import FORMULA, KINDS, Settings
from cfetch.errors import ConfigError
from cfetch.secret import printable

ENV_PREFIX = "CFETCH_"
_ENV_OF_THE_COMMAND_LINE = {"CFETCH_CONFIG"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings, and for each name where its value came from.

    ``notes`` are for the start of a run: which policy an option has chosen, and which options nobody reads.
    """

    settings: Settings
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()


def resolve(
    *, flags: Mapping[str, str | list[str]], env: Mapping[str, str], file: Path | None = None
) -> Resolved:
    """Lay the layers over each other. ``flags`` and ``env`` hold text; absent means not given.

    A list comes from a repeated flag, from a list or a single value in the file, or from an environment
    variable with commas. It replaces the list of the layer below.

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
            try:
                values[name] = _read(KINDS[name], raw)
                origins[name] = where
            except ValueError as error:
                problems.append(f"{where}: {_name_value(name, raw)} {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    note = _choose_policy(values, origins)
    settings = Settings(**values)
    notes = [note, _unread(settings, origins)] if settings.mitigation else []
    return Resolved(settings, origins, tuple(text for text in notes if text))


def _choose_policy(values: dict[str, Any], origins: dict[str, str]) -> str:
    """Let an option of the formula choose the formula where no policy is named; a note that says so."""
    option = next((name for name in FORMULA if origins[name] != "default"), None)
    if option is None or origins["policy"] != "default":
        return ""
    values["policy"], origins["policy"] = "cloudfetch", origins[option]
    return (
        f"policy cloudfetch instead of {Settings().policy}, because only its formula reads {option} "
        f"({origins[option]}); name a policy to decide it yourself"
    )


def _unread(settings: Settings, origins: Mapping[str, str]) -> str:
    """A note on options that were given for this run alone, and which the named policy does not read."""
    if settings.policy == "cloudfetch":
        return ""
    given = [f"{name} ({origins[name]})" for name in FORMULA if origins[name].startswith(("--", ENV_PREFIX))]
    if not given:
        return ""
    return f"policy {settings.policy} ({origins['policy']}) does not read {', '.join(given)}"


def _read(kind: Kind, raw: object) -> Any:  # noqa: ANN401 - each option has its own type
    """Raises ValueError whose text says what is allowed."""
    if isinstance(raw, str):
        return kind.parse(raw)
    if not kind.is_list:
        raise ValueError("must be a single value, not a list or a mapping")
    if not isinstance(raw, list) or not all(isinstance(value, str) for value in raw):
        raise ValueError("must be a single value or a list of them, not a mapping")
    kind.check(tuple(raw))
    return tuple(raw)


def _name_value(name: str, raw: object) -> str:
    """The value as an error quotes it. A value that may hold a secret, as a URL may, is not quoted."""
    if KINDS[name].secret or not isinstance(raw, str) or "://" in raw:
        return name
    return f"{name} is {printable(raw, 60)!r} but"


def _layers(
    flags: Mapping[str, str | list[str]], env: Mapping[str, str], file: Path | None, problems: list[str]
) -> list[tuple[Any, Mapping[str, object]]]:
    layers: list[tuple[Any, Mapping[str, object]]] = []
    if file is not None:
        from cfetch.config.document import load  # a run without a file does not wait for yaml

        given = load(file)
        alone = {key: [raw] for key, raw in given.items() if isinstance(raw, str) and _is_list(key)}
        layers.append((lambda _: str(file), given | alone))
    variables: dict[str, object] = {}
    for variable, raw in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in _ENV_OF_THE_COMMAND_LINE:
            continue
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key.upper() != variable.removeprefix(ENV_PREFIX):
            problems.append(f"environment variable {printable(variable)!r}: write it in upper case")
        variables[key] = raw
    layers.append((lambda key: f"{ENV_PREFIX}{key.upper()}", variables))
    layers.append((lambda key: "--" + key.replace("_", "-"), flags))
    return layers


def _is_list(name: str) -> bool:
    return name in KINDS and KINDS[name].is_list


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key.replace("-", "_").lower(), KINDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(KINDS)}"


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


def _as_yaml(kind: Kind, value: Any) -> str:  # noqa: ANN401 - each option has its own type
    from cfetch.config.document import quote

    if kind.is_list and len(value) == 1:
        (value,) = value
    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(item) for item in value) + "]"  # YAML that no comma takes apart
    return quote(value) if isinstance(value, str) else kind.show(value)
