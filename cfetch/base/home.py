"""The user's home directory, which not every user has: a container may give HOME to nobody."""

from collections.abc import Mapping
from pathlib import Path


def find_home(env: Mapping[str, str]) -> Path | None:
    """The user's home directory; None if the environment has none and the system does not know the user."""
    if home := env.get("HOME"):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:
        return None
