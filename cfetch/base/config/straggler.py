"""The options of straggler mitigation. They are checked at once, so a bad value never reaches a run.

``StragglerConfig(...)`` takes cfetch's own names and is on by default. ``StragglerConfig.parse`` reads the
six property names of the Databricks drivers and is off by default, as in the drivers. Unlike the drivers, it
refuses a value that it cannot read, instead of quietly using the default.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable

PROPERTY_PREFIX = "adbc.databricks.cloudfetch."


class StragglerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """When an attempt counts as a straggler, and how many stragglers make entries run one at a time.

    ``multiplier``: the limit, in normal durations; above 1, as else half of all entries would be stragglers.
    ``quantile``: the share of known entries that must have finished first; above 0, as a median needs some.
    ``percentile``: normal is the speed that this many per cent of the finished entries reach; 50 is the
    median. ``padding_s``: extra seconds for every entry, so that jitter does not make small files
    stragglers.
    ``max_stragglers_before_fallback``: with ``sequential_fallback``, this many stragglers end parallel
    downloads for the run; 0 means sequential from the start.

    Raises:
        ConfigError: a value is out of range or not finite; the error names key, value and range.
    """

    DISABLED: ClassVar["StragglerConfig"]

    enabled: bool = True
    multiplier: float = 1.5
    quantile: float = 0.6
    percentile: int = 50
    padding_s: float = 5.0
    max_stragglers_before_fallback: int = 10
    sequential_fallback: bool = False

    def __post_init__(self) -> None:
        for field, limit in _LIMITS.items():
            value = getattr(self, field)
            if not limit.admits(value):
                raise ConfigError(f"{field} is {value}; it must be {limit.words}")

    @property
    def slower_share(self) -> float:
        """The share of finished entries that are slower than normal."""
        return 1 - self.percentile / 100

    @classmethod
    def parse(cls, properties: Mapping[str, str] | None) -> "StragglerConfig":
        """Read the drivers' properties; ``DISABLED`` unless they enable mitigation. Ignore other keys.

        Raises:
            ConfigError: a value cannot be read or is out of range; the error names the full property key.
        """
        given = properties or {}
        if not _read(given, "enabled"):
            return cls.DISABLED
        values = {field: _read(given, field) for field in _PROPERTIES}
        return cls(**{field: value for field, value in values.items() if value is not None})


class _Limit(NamedTuple):
    """The allowed values of an option, as a test and in words."""

    holds: Callable[[float], bool]
    words: str

    def admits(self, value: float) -> bool:
        return abs(value) < math.inf and self.holds(value)


_LIMITS = {
    "multiplier": _Limit(lambda v: v > 1, "a finite number greater than 1.0"),
    "quantile": _Limit(lambda v: 0 < v <= 1, "a number greater than 0.0 and at most 1.0"),
    "percentile": _Limit(lambda v: 1 <= v <= 99, "a whole number from 1 to 99"),
    "padding_s": _Limit(lambda v: v >= 0, "a finite number of seconds, 0 or more"),
    "max_stragglers_before_fallback": _Limit(lambda v: v >= 0, "a whole number, 0 or more"),
}


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _number(text: str) -> float:
    if "_" in text:  # float() would read 1_5 as 15
        raise ValueError(text)
    return float(text)


def _whole(text: str) -> int:
    if "_" in text:
        raise ValueError(text)
    return int(text)


class _Property(NamedTuple):
    """The driver property that gives a field its value, and how its text is read."""

    name: str
    read: Callable[[str], Any]
    form: str


_PROPERTIES = {
    "enabled": _Property("straggler_mitigation_enabled", _boolean, "true or false"),
    "multiplier": _Property("straggler_multiplier", _number, _LIMITS["multiplier"].words),
    "quantile": _Property("straggler_quantile", _number, _LIMITS["quantile"].words),
    "padding_s": _Property("straggler_padding_seconds", _number, _LIMITS["padding_s"].words),
    "max_stragglers_before_fallback": _Property(
        "max_stragglers_per_query", _whole, _LIMITS["max_stragglers_before_fallback"].words
    ),
    "sequential_fallback": _Property("synchronous_fallback_enabled", _boolean, "true or false"),
}


_SETTINGS = {
    "enabled": "mitigation",
    "multiplier": "multiplier",
    "quantile": "quantile",
    "padding_s": "padding",
    "max_stragglers_before_fallback": "max_stragglers",
    "sequential_fallback": "sequential_fallback",
}  # the same options by their names in ``Settings``


def list_properties() -> list[str]:
    """The drivers' names that are read here."""
    return [PROPERTY_PREFIX + known.name for known in _PROPERTIES.values()]


def spell_property(name: str) -> tuple[str, str]:
    """The two ways to write a property; a shell cannot export a name with dots."""
    return name, name.upper().replace(".", "_")


def find_properties(variables: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Find the drivers' properties among keys of a file or variables: name -> (name as written, value).

    A variable may also be written in capitals with underscores.
    """
    spellings = {spelling: name for name in list_properties() for spelling in spell_property(name)}
    return {spellings[key]: (key, value) for key, value in variables.items() if key in spellings}


def name_property(setting: str) -> str:
    """The drivers' name for one of the options that ``read_properties`` returns."""
    return next(
        PROPERTY_PREFIX + _PROPERTIES[field].name for field, name in _SETTINGS.items() if name == setting
    )


def read_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Values of ``Settings`` from the drivers' properties; only ``mitigation`` if they leave it off.

    Raises:
        ConfigError: as ``StragglerConfig.parse``.
    """
    config = StragglerConfig.parse(properties)
    if not config.enabled:
        return {"mitigation": False}
    return {
        _SETTINGS[field]: getattr(config, field)
        for field, known in _PROPERTIES.items()
        if PROPERTY_PREFIX + known.name in properties
    }


def _read(given: Mapping[str, str], field: str) -> Any:  # noqa: ANN401 - the field's own type
    """The value of ``field``, or None where its property is not given."""
    name, read, form = _PROPERTIES[field]
    text = given.get(PROPERTY_PREFIX + name)
    if text is None:
        return None
    try:
        value = read(text)
    except (ValueError, KeyError):
        value = None
    if value is None or (field in _LIMITS and not _LIMITS[field].admits(value)):
        raise ConfigError(f"{PROPERTY_PREFIX}{name} is {printable(text)!r}; it must be {form}")
    return value


StragglerConfig.DISABLED = StragglerConfig(enabled=False)
