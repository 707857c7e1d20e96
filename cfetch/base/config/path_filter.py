"""Which paths of a list or a feed are taken. Pure.

Patterns are those of the shell for whole paths, and ``*`` matches slashes too: ``2026/*`` is all below
``2026``, ``*.parquet`` is every such file.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple

from cfetch.base.errors import UsageError


class PathFilter(NamedTuple):
    """``include``: patterns of which a path must match one, if there are any; ``exclude``: none of these."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def takes_all(self) -> bool:
        """Whether there is no pattern."""
        return not self.include and not self.exclude

    def takes(self, path: str) -> bool:
        """Whether the path is taken."""
        is_included = not self.include or any(fnmatchcase(path, pattern) for pattern in self.include)
        return is_included and not any(fnmatchcase(path, pattern) for pattern in self.exclude)

    def refuse_none(self, entries: int, name: str) -> None:
        """Raise UsageError if no entry of the list is left."""
        if not entries and not self.takes_all:
            raise UsageError(
                f"{name}: no path matches --include and --exclude; a pattern is for the whole path, as "
                "'*.parquet' or '2026/*'"
            )


ALL_PATHS = PathFilter()
