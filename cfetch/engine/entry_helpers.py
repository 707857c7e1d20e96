"""The helpers that one entry has now, and how helping it has gone so far; ``segments.py`` decides with this.

A helper is an attempt by an idle worker at a segment of the entry, or at the whole file a second time.
"""

import asyncio

from cfetch.base.errors import LocalFault

_NOT_NEEDED = 1  # is never a helper's key: those are below 0


class Helpers:
    """The helpers of one entry by their keys, how many of them have failed, and when one more may be tried.

    ``failures``: how many helpers have failed. If they are too many, one more may be tried at ``opens_s``,
    which is ``pause_s`` after the last one. ``has_refusal``: the server has refused one of them its range.
    ``fault``: a volume's fault that one of them has met.

    ``second``: the key of the second request for the whole file, 0 before there is one, and of none at all
    once the file is there. ``has_won``: the second request has brought the file.
    """

    __slots__ = (
        "_changed",
        "failures",
        "fault",
        "has_refusal",
        "has_won",
        "keys",
        "opens_s",
        "pause_s",
        "second",
    )

    def __init__(self) -> None:
        self.keys: frozenset[int] = frozenset()
        self.failures = 0
        self.opens_s = 0.0
        self.pause_s = 0.0
        self.second = 0
        self.has_refusal = False
        self.has_won = False
        self.fault: LocalFault | None = None
        self._changed: asyncio.Future[None] | None = None

    def end_second(self) -> None:
        """Note that the file is there: none of its requests for the whole file is needed."""
        self.second = _NOT_NEEDED

    @property
    def has_second(self) -> bool:
        """Whether a second request for the whole file is under way: no helper brings ranges meanwhile."""
        return self.second in self.keys

    def add(self, key: int) -> None:
        """Add one more helper."""
        self.keys |= {key}

    def remove(
        self, key: int, fault: LocalFault | None, *, has_failed: bool, is_refusal: bool = False
    ) -> None:
        """Remove a helper that has ended, and wake the entry's owner."""
        self.keys -= {key}
        self.fault = self.fault or fault
        self.failures += has_failed
        self.has_refusal = self.has_refusal or is_refusal
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def wait_for_change(self) -> None:
        """Wait until one of the helpers has ended."""
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed
