"""Which paths of a feed a follower takes. Pure.

Patterns are those of the shell for whole paths, and ``*`` matches slashes too: ``2026/*`` is all below
``2026``, ``*.parquet`` is every such file.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple


class PathFilter(NamedTuple):
    """``include``: patterns of which a path must match one, if there are any; ``exclude``: none of these."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Whether the follower takes the path."""
        is_included = not self.include or any(fnmatchcase(path, pattern) for pattern in self.include)
        return is_included and not any(fnmatchcase(path, pattern) for pattern in self.exclude)
