"""Reads scenarios from YAML files.

An example with all keys; only ``files`` is required::

    description: its purpose in one line
    seed: 2
    concurrency: 16
    files:
      - {count: 500, size: 1MiB}
    faults:
      - {kind: slow, fraction: 2%, rate: 16KiB/s, first: 1}
    options:
      padding: 1s
    network:
      latency: 50ms
      latency_sigma: 0.3
      rate: 10MiB/s
      rate_sigma: 0.2
      link: 100MiB/s
      requests: 100
      ranges: yes
      sizes: yes
      connections: 8
      drowns_above: 32
      slow_start: yes
      slow: {fraction: 2%, rate: 16KiB/s, after: 0}
      stalls: {fraction: 1%, after: 0}
      wear: {every: 4MiB, factor: 0.5, least: 16KiB/s}
      burst: {size: 2MiB, rate: 64KiB/s}
      loss: {every: 4MiB, for: 64KiB, factor: 0.1}
      changes:
        - {at: 20s, until: 50s, factor: 10, host: 0}
      hosts:
        - {share: 2, rate_factor: 1, latency_factor: 1}
    volumes:
      - {rate: 100MiB/s}

A fault has ``kind`` and ``fraction``, and the value for its kind: ``rate``, ``after``, ``delay`` or
``status``. It may have ``first`` (how many requests of a file it covers, 0: all) and ``retry_after``.
``options`` are those of ``cfetch download``. ``network.py`` explains the keys of ``network``; there
a list ``rates`` can replace ``rate``. The simulator writes to ``volumes``, each with its speed.

Each table at the end of the file maps the keys of one YAML mapping to a field and a function that reads its
value; ``_fields`` walks a mapping by its table, so every error names the whole key.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cfetch.base.config.document import load
from cfetch.base.config.settings import KINDS as OPTIONS
from cfetch.base.config.units import parse_duration, parse_size, size_text
from cfetch.base.errors import ConfigError
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import KINDS, Fault, FaultRule
from cfetch.plugins.lab.bench.network import (
    Burst,
    HostShare,
    Loss,
    NetworkChange,
    NetworkModel,
    Slow,
    Stall,
    Wear,
)
from cfetch.plugins.lab.bench.scenario import Scenario

T = TypeVar("T")
# from a key to its field and the function that reads its value
_Table = Mapping[str, tuple[str, Callable[[Any], object]]]

MAX_FILES = 10_000_000  # names have seven digits
# options that the bench sets itself
OURS = {"to", "state", "concurrency", "mitigation", "metrics", "json", "quiet", "dry_run"}
SIMULATED = "simulated"  # the folder of scenarios that take minutes, in virtual time
_FOLDERS = (Path(__file__).parent / "scenarios", Path(__file__).parents[4] / "benchmarks" / "scenarios")


def scenario_names() -> list[str]:
    """The scenarios that come with cfetch, sorted."""
    return sorted({path.stem for folder in _FOLDERS for path in folder.glob("*.yaml")})


def simulated_names() -> list[str]:
    """The scenarios of `cfetch bench --simulate`, sorted."""
    return sorted({path.stem for folder in _FOLDERS for path in (folder / SIMULATED).glob("*.yaml")})


def find_scenario(name_or_file: str) -> Scenario:
    """Load a scenario: by name if it comes with cfetch, else by file (``.yaml``, ``.yml`` or with a slash).

    Raises:
        ConfigError: there is no such scenario, or it is wrong; names the known ones, or file and key.
    """
    if "/" in name_or_file or name_or_file.endswith((".yaml", ".yml")):
        return load_scenario(Path(name_or_file))
    for folder in (*_FOLDERS, *(folder / SIMULATED for folder in _FOLDERS)):
        path = folder / f"{name_or_file}.yaml"
        if path.is_file():
            return load_scenario(path)
    known = ", ".join([*scenario_names(), *simulated_names()])
    raise ConfigError(f"there is no scenario {name_or_file!r}; give a YAML file, or one of: {known}")


def load_scenario(path: Path) -> Scenario:
    """Read one file; its name is the scenario's.

    Raises:
        ConfigError: names the file and the key.
    """
    document = load(path)
    try:
        scenario = Scenario(name=path.stem, **{"groups": (), **_fields(document, _SCENARIO, "")})
        _ = scenario.faults
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not scenario.groups:
        raise ConfigError(f"{path}: 'files' is missing: name at least one {{count, size}}")
    return scenario


def _fields(node: object, table: _Table, where: str) -> dict[str, Any]:
    """A mapping's values by field name, each read by the table's function; ``where`` is the key so far."""
    if not isinstance(node, dict):
        raise ConfigError(f"{where.removesuffix('.')!r} must be a mapping of {', '.join(table)}")
    values = {}
    for key, value in node.items():
        if key not in table:
            raise ConfigError(f"unknown key {f'{where}{key}'!r}; known keys: {', '.join(table)}")
        field, read = table[key]
        try:
            values[field] = read(value)
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{f'{where}{key}'!r} is {value!r}, but {error}") from None
    return values


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if (
            not isinstance(text, str)
            or not text.isascii()
            or not text.isdigit()
            or not low <= int(text) <= high
        ):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return read


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("must be one line of text")
    return value


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"must be one of {', '.join(KINDS)}")
    return text


def _fraction(text: str) -> float:
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _rate(text: str) -> float:
    return float(parse_size(text.removesuffix("/s")))


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def _list(value: object, key: str) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"must be a list; write each of the {key} behind a dash")
    return value


def _network(value: object) -> NetworkModel:
    return NetworkModel(**_fields(value, _NETWORK, "network."))


def _part_of_network(kind: Callable[..., T], table: _Table, where: str) -> Callable[[object], T]:
    """Reads a mapping below ``network``, all of whose required keys are there."""

    def read(value: object) -> T:
        try:
            return kind(**_fields(value, table, f"{where}."))
        except TypeError:
            raise ValueError(f"something is missing; {where} knows {', '.join(table)}") from None

    return read


def _volume(value: object) -> float:
    fields = _fields(value, {"rate": ("rate_bps", _rate)}, "volumes.")
    if not fields:
        raise ValueError("each of the volumes must have a rate")
    return float(fields["rate_bps"])


def _many(read: Callable[[Any], T], key: str) -> Callable[[object], tuple[T, ...]]:
    return lambda value: tuple(read(node) for node in _list(value, key))


def _groups(value: object) -> tuple[Group, ...]:
    groups = []
    for index, node in enumerate(_list(value, "files")):
        fields = _fields(node, _GROUP, f"files[{index}].")
        if fields.keys() != {"count", "size_bytes"}:
            raise ConfigError(f"'files[{index}]' must have both count and size")
        groups.append(Group(prefix=f"{index}-{size_text(fields['size_bytes'])}-", **fields))
    return tuple(groups)


def _rules(value: object) -> tuple[FaultRule, ...]:
    rules = []
    for index, node in enumerate(_list(value, "faults")):
        fields = _fields(node, _FAULT, f"faults[{index}].")
        if not {"kind", "fraction"} <= fields.keys():
            raise ConfigError(f"'faults[{index}]' must have both kind and fraction")
        rules.append(FaultRule(fraction=fields.pop("fraction"), fault=Fault(**fields)))
    return tuple(rules)


def _options(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError("must be a mapping of cfetch download's options")
    options = {}
    for key, text in value.items():
        name = str(key).replace("-", "_")
        if name not in OPTIONS or name in OURS:
            why = "the bench sets it itself" if name in OURS else "cfetch download has no such option"
            raise ConfigError(f"'options.{key}' cannot be set: {why}")
        try:
            OPTIONS[name].parse(_text(text))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"'options.{key}' is {text!r} but {error}") from None
        options[name] = text
    return options


_SCENARIO: _Table = {
    "description": ("description", _text),
    "seed": ("seed", _whole(0, 2**32)),
    "concurrency": ("concurrency", _whole(1, 1024)),
    "files": ("groups", _groups),
    "faults": ("rules", _rules),
    "options": ("options", _options),
    "network": ("network", _network),
    "volumes": ("volumes_bps", _many(_volume, "volumes")),
}
_SLOW: _Table = {
    "fraction": ("fraction", _fraction),
    "rate": ("rate_bps", _rate),
    "after": ("after_bytes", parse_size),
}
_STALL: _Table = {"fraction": ("fraction", _fraction), "after": ("after_bytes", parse_size)}
_WEAR: _Table = {
    "every": ("every_bytes", parse_size),
    "factor": ("factor", _number),
    "least": ("least_bps", _rate),
}
_BURST: _Table = {"size": ("size_bytes", parse_size), "rate": ("rate_bps", _rate)}
_LOSS: _Table = {
    "every": ("every_bytes", parse_size),
    "for": ("for_bytes", parse_size),
    "factor": ("factor", _number),
}
_CHANGE: _Table = {
    "at": ("at_s", parse_duration),
    "until": ("until_s", parse_duration),
    "factor": ("factor", _number),
    "host": ("host", _whole(0, 1000)),
}
_HOST: _Table = {key: (key, _number) for key in ("share", "rate_factor", "latency_factor")}
_NETWORK: _Table = {
    "latency": ("latency_s", parse_duration),
    "latency_sigma": ("latency_sigma", _number),
    "rate": ("rate_bps", _rate),
    "rate_sigma": ("rate_sigma", _number),
    "rates": ("rates_bps", _many(_rate, "rates")),
    "link": ("link_bps", _rate),
    "requests": ("requests", _whole(0, 1_000_000)),
    "ranges": ("ranges", _yes),
    "sizes": ("sizes", _yes),
    "connections": ("connections", _whole(0, 1_000_000)),
    "drowns_above": ("drowns_above", _whole(0, 1_000_000)),
    "slow_start": ("slow_start", _yes),
    "slow": ("slow", _part_of_network(Slow, _SLOW, "network.slow")),
    "stalls": ("stalls", _part_of_network(Stall, _STALL, "network.stalls")),
    "wear": ("wear", _part_of_network(Wear, _WEAR, "network.wear")),
    "burst": ("burst", _part_of_network(Burst, _BURST, "network.burst")),
    "loss": ("loss", _part_of_network(Loss, _LOSS, "network.loss")),
    "changes": ("changes", _many(_part_of_network(NetworkChange, _CHANGE, "network.changes"), "changes")),
    "hosts": ("hosts", _many(_part_of_network(HostShare, _HOST, "network.hosts"), "hosts")),
}
_GROUP: _Table = {
    "count": ("count", _whole(1, MAX_FILES)),
    "size": ("size_bytes", parse_size),
}
_FAULT: _Table = {
    "kind": ("kind", _kind),
    "fraction": ("fraction", _fraction),
    "first": ("first", _whole(0, 1000)),
    "rate": ("rate_bps", _rate),
    "after": ("after_bytes", parse_size),
    "delay": ("delay_s", parse_duration),
    "status": ("status", _whole(300, 599)),
    "retry_after": ("retry_after_s", lambda text: round(parse_duration(text))),
}
