"""How many files may be deleted because a source lacks them. Pure.

A source that lacks many files at once may not be whole: its disk is not mounted, or its list was cut. So more
deletes than a person has allowed are refused as a whole. A person allows a number (int), or a share (float).
"""

import math
from collections.abc import Callable

from cfetch.show.format import plural

SHARE = 0.1
FEW = 10  # deletes that are allowed where no person has set a limit: 10 % of 9 files is none
WINDOW_S = 3600.0  # a disk is mounted again within it; the ordinary deletes of days do not add up


def take_share(share: float, files: int) -> int:
    """Round the share of files down, but not because of a float: 0.29 times 100 is 28.999999999999996."""
    return math.floor(round(share * files, 6))


def count_allowed(most: float, files: int) -> int:
    """How many of ``files`` may be deleted at once by a process for which no person waits."""
    return max(FEW, take_share(most, files)) if isinstance(most, float) else int(most)


class DeleteLimit:
    """Adds up the deletes of one follower. Of more than ``most`` within an hour it allows none."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._since_s = -math.inf
        self._deleted = 0
        self._allowed = 0

    def take(self, deletes: int, now_s: float, count_files: Callable[[], int]) -> str | None:
        """Count further deletes; the reason if they are refused, and then they do not count.

        ``count_files``: how many files there are; it is asked once an hour, as it walks over all of them.
        """
        if not deletes:
            return None
        if now_s - self._since_s > WINDOW_S:
            files = count_files()
            self._since_s, self._deleted, self._allowed = now_s, 0, count_allowed(self._most, files)
        if self._deleted + deletes > self._allowed:
            wanted = self._deleted + deletes
            return (
                f"{plural(wanted, 'file')} would be deleted within an hour, and --max-delete allows "
                f"{self._allowed}; if the source is whole, give --max-delete {wanted}"
            )
        self._deleted += deletes
        return None
