"""Six layers of option values: default < preset < user's file < file < environment < flag; and their origins.

File and environment may also hold the six property names of the Databricks drivers (``straggler.py``).
"""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from cfetch.base.config.kinds import OptionKind
from cfetch.base.config.option_table import FORMULA, PRESETS
from cfetch.base.config.settings import KINDS, Settings, cap_concurrency
from cfetch.base.config.straggler import (
    PROPERTY_PREFIX,
    find_properties,
    list_properties,
    name_property,
    read_properties,
)
from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable

ENV_PREFIX = "CFETCH_"
_BY_PROPERTY = f", {PROPERTY_PREFIX}*"  # suffix of the origin if a value has its name of the drivers
_FOLDERS = (Path(__file__).parent / "presets", Path(__file__).parents[3] / "configs")  # installed, checkout
USER_FILE = "CFETCH_USER_CONFIG"  # a variable: the user's own file; empty: none
_ENV_OF_THE_COMMAND_LINE = {"CFETCH_CONFIG", USER_FILE}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings, and for each name the origin of its value.

    ``notes`` are for the start of a run: the policy that an option has chosen, and options without effect.
    """

    settings: Settings
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()


def resolve(
    *,
    flags: Mapping[str, str | list[str]],
    env: Mapping[str, str],
    file: Path | None = None,
    user_file: Path | None = None,
) -> Resolved:
    """Lay the layers over each other. ``flags`` and ``env`` hold text; a missing key means not given.

    ``user_file`` (``find_user_file``) lies below ``file``: a tuned file keeps the user's proxy and login.

    A list comes from a repeated flag, from a list or a single value in the file, or from an environment
    variable with commas. It replaces the list of the layer below.

    Raises:
        ConfigError: keys are unknown, or values cannot be read or are out of range; it names all of them.
    """
    values: dict[str, Any] = {}
    origins = {field.name: "default" for field in fields(Settings)}
    problems: list[str] = []
    layers = _layers(flags, env, [path for path in (user_file, file) if path is not None], problems)
    for layer in [*_find_preset(layers), *layers]:
        _lay_over(layer, values, origins, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    note = _choose_policy(values, origins)
    if origins["concurrency"].startswith(("--", ENV_PREFIX)):
        cap_concurrency(values)
    settings = Settings(**values)
    if settings.mitigation:
        notes = [note, _unread(settings, origins)]
    else:
        notes = [_explain_mitigation_off(origins["mitigation"])]
    return Resolved(settings, origins, tuple(text for text in notes if text))


class _Layer(NamedTuple):
    """Values as they are written, by key; ``origin`` says where a key was found."""

    origin: Callable[[str], str]
    values: Mapping[str, object]


def _lay_over(layer: _Layer, values: dict[str, Any], origins: dict[str, str], problems: list[str]) -> None:
    """Read one layer's values over those of the layers below."""
    properties = find_properties(layer.values)
    spellings = {spelling for spelling, _ in properties.values()}
    for key, raw in layer.values.items():
        if key in spellings:
            continue
        where = printable(layer.origin(key))
        if key not in KINDS:
            problems.append(f"{where}: unknown key {printable(key)!r}{_nearest(key)}")
            continue
        try:
            values[key] = _read(KINDS[key], raw)
            origins[key] = where
        except ValueError as error:
            named = _name_value(key, raw)
            problems.append(
                f"{where}{named.removeprefix(key) if where[:2] == '--' else f': {named}'} {error}"
            )
    _follow_earlier_name(layer, values, origins)
    if not properties:
        return
    first, _ = next(iter(properties.values()))
    where = printable(layer.origin(first))
    try:
        asked = read_properties({name: str(raw) for name, (_, raw) in properties.items()})
    except ConfigError as error:
        problems.append(f"{where}: {error}")
        return
    problems += [
        f"{where}: {twice} and its name of the drivers stand side by side; leave out one"
        for twice in sorted(asked.keys() & layer.values.keys())
    ]
    for option, value in asked.items():
        spelling, _ = properties.get(name_property(option), (first, ""))
        values[option], origins[option] = value, f"{printable(layer.origin(spelling))}{_BY_PROPERTY}"


def _follow_earlier_name(layer: _Layer, values: dict[str, Any], origins: dict[str, str]) -> None:
    """Let ``log_format`` mean ``progress`` in its layer, so that the nearer of both names counts."""
    if "progress" in layer.values:
        if "log_format" not in layer.values:
            values.pop("log_format", None)
            origins["log_format"] = "default"
    elif "log_format" in layer.values and "log_format" in values:
        values["progress"] = "json" if values["log_format"] == "json" else "auto"
        origins["progress"] = origins["log_format"]


def _find_preset(layers: Sequence[_Layer]) -> list[_Layer]:
    """The layer of the preset that the highest layer names; none if it names no known preset."""
    named = [layer.values["preset"] for layer in layers if "preset" in layer.values]
    name = str(named[-1]).strip() if named else ""
    if name not in PRESETS:
        return []
    from cfetch.base.config.document import load

    path = next(path for folder in _FOLDERS if (path := folder / f"{name}.yaml").is_file())
    return [_Layer(lambda _: f"preset {name}", load(path))]


def _explain_mitigation_off(origin: str) -> str:
    """A note if the drivers' properties have switched mitigation off, as here it is on by default."""
    if not origin.endswith(_BY_PROPERTY):
        return ""
    name = f"{PROPERTY_PREFIX}straggler_mitigation_enabled"
    return f"mitigation is off, as in the drivers, because {name} is not true ({origin})"


def _choose_policy(values: dict[str, Any], origins: dict[str, str]) -> str:
    """If no policy is named, let an option of the formula choose it; return a note that says so."""
    by_property = (name for name in KINDS if origins[name].endswith(_BY_PROPERTY))
    option = next((name for name in FORMULA if origins[name] != "default"), next(by_property, None))
    if option is None or origins["policy"] != "default":
        return ""
    values["policy"], origins["policy"] = "cloudfetch", origins[option]
    if option not in FORMULA:
        return (
            f"policy cloudfetch instead of {Settings().policy}, because {option} has its name of the drivers "
            f"({origins[option]}); name a policy to decide it yourself"
        )
    return (
        f"policy cloudfetch instead of {Settings().policy}, because only its formula reads {option} "
        f"({origins[option]}); name a policy to decide it yourself"
    )


def _unread(settings: Settings, origins: Mapping[str, str]) -> str:
    """A note on flags and variables that the named policy does not read."""
    if settings.policy == "cloudfetch":
        return ""
    given = [f"{name} ({origins[name]})" for name in FORMULA if origins[name].startswith(("--", ENV_PREFIX))]
    if not given:
        return ""
    return f"policy {settings.policy} ({origins['policy']}) does not read {', '.join(given)}"


def _read(kind: OptionKind, raw: object) -> Any:  # noqa: ANN401 - each option has its own type
    """Read a value of a layer. Raises ValueError, whose text says what is allowed."""
    if isinstance(raw, str):
        return kind.parse(raw)
    if not kind.is_list:
        raise ValueError("must be a single value, not a list or a mapping")
    if not isinstance(raw, list) or not all(isinstance(value, str) for value in raw):
        raise ValueError("must be a single value or a list of them, not a mapping")
    kind.check(tuple(raw))
    return tuple(raw)


def _name_value(name: str, raw: object) -> str:
    """The value for an error message. A value that may hold a secret, such as a URL, is not quoted."""
    if KINDS[name].secret or not isinstance(raw, str) or "://" in raw or "@" in raw:
        return name
    return f"{name} is {printable(raw, 60)!r} but"


def _layers(
    flags: Mapping[str, str | list[str]], env: Mapping[str, str], files: Sequence[Path], problems: list[str]
) -> list[_Layer]:
    layers = [_read_file(file) for file in files]
    of_drivers = dict(find_properties(env).values())
    if any(variable[:5].lower() in ("adbc.", "adbc_") for variable in env.keys() - of_drivers.keys()):
        from cfetch.base.config.misspelt import find_misspelt  # few environments have such names

        for variable, right in find_misspelt(env).items():
            problems.append(
                f"environment variable {printable(variable)!r} is unknown; did you mean {right!r}?"
            )
    variables = dict(of_drivers)
    for variable, raw in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in _ENV_OF_THE_COMMAND_LINE:
            continue
        key = variable.removeprefix(ENV_PREFIX).lower()
        if key.upper() != variable.removeprefix(ENV_PREFIX):
            problems.append(f"environment variable {printable(variable)!r}: write it in upper case")
        variables[key] = raw
    layers.append(_Layer(lambda key: key if key in of_drivers else f"{ENV_PREFIX}{key.upper()}", variables))
    layers.append(_Layer(lambda key: "--" + key.replace("_", "-"), flags))
    return layers


def _read_file(file: Path) -> _Layer:
    from cfetch.base.config.document import load  # a run without a file does not wait for yaml

    given = load(file)
    alone = {key: [raw] for key, raw in given.items() if isinstance(raw, str) and _is_list(key)}
    return _Layer(lambda _: str(file), given | alone)


def find_user_file(env: Mapping[str, str]) -> Path | None:
    """The user's own file: ``~/.config/cfetch/config.yaml`` if it exists, or what a variable names."""
    if USER_FILE in env:
        return Path(env[USER_FILE]) if env[USER_FILE] else None
    home = env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '')}/.config"
    file = Path(home, "cfetch", "config.yaml")
    return file if file.is_absolute() and os.path.lexists(file) else None


def _is_list(name: str) -> bool:
    return name in KINDS and KINDS[name].is_list


def _nearest(key: str) -> str:
    if key.lower().startswith(PROPERTY_PREFIX):
        from cfetch.base.config.misspelt import find_nearest_property  # the same

        nearest = find_nearest_property(key.removeprefix(PROPERTY_PREFIX))
        known = ", ".join(list_properties())
        return f"; did you mean {nearest!r}?" if nearest else f"; known names of the drivers: {known}"
    near = difflib.get_close_matches(key.replace("-", "_").lower(), KINDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(KINDS)}"
