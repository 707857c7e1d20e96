"""Values of ``--set KEY=VALUE``, for options that no help shows."""

import difflib
from collections.abc import Iterable

from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable


def read_pairs(pairs: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """The values of ``--set KEY=VALUE``, by key. Raises ConfigError."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        name = key.strip().removeprefix("--").replace("-", "_")
        if not equals:
            raise ConfigError(f"--set is {printable(pair)!r} but must be KEY=VALUE")
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else "; `cfetch download --help-all` shows most, docs/settings.md lists all"
            )
            raise ConfigError(f"--set: there is no setting {printable(key)!r} here{hint}")
        values[name] = value.strip()
    return values
