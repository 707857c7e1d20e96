"""Values as Python code states them: also lists, mappings, paths, durations and texts. Pure."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from cfetch.base.config.kinds import OptionKind


def take(kind: OptionKind, value: Any) -> Any:  # noqa: ANN401 - each option has its own type
    """The value as ``kind.check`` wants it. Raises ValueError."""
    if kind.is_list:
        return _take_list(value)
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if kind.low is not None:
        return kind.read(value) if isinstance(value, str) else value
    if kind.is_flag or kind.choices or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ",".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _take_list(value: Any) -> Any:  # noqa: ANN401 - see take
    """One value or several as a tuple; a mapping is one of headers."""
    if isinstance(value, str):
        return (value,)
    if hasattr(value, "__fspath__"):
        return (value.__fspath__(),)
    if isinstance(value, Mapping):
        return tuple(f"{name}: {item}" for name, item in value.items())
    if isinstance(value, Iterable):
        return tuple(item.__fspath__() if hasattr(item, "__fspath__") else item for item in value)
    return value
