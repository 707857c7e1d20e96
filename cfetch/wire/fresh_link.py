"""A fresh link for an entry whose link has expired, and the port to its source (``refresh.py``)."""

import math
from typing import Protocol

import msgspec

from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.entry import Entry

LEAST_LEFT = 0.25  # share of its life that a link must have left when it is used: it must not end on the way


class Link(msgspec.Struct, frozen=True):
    """A fresh link. ``expires_at`` and ``made_s`` are seconds since 1970; None is unknown."""

    url: SecretUrl
    expires_at: float | None = None
    headers: tuple[tuple[str, SecretText], ...] = ()
    made_s: float | None = None

    def is_used_up(self, stale: "Link", wall_s: float) -> bool:
        """Whether this is the same link as ``stale``, or has expired too."""
        left_s, life_s = math.inf, 0.0
        if self.expires_at is not None:
            left_s = self.expires_at - wall_s
            life_s = 0.0 if self.made_s is None else self.expires_at - self.made_s
        return left_s <= LEAST_LEFT * life_s or (
            self.url == stale.url and dict(self.headers) == dict(stale.headers)
        )


class UrlRefresher(Protocol):
    """The port to a source of fresh links."""

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Get a link for ``entry`` other than ``stale``, which no longer works. Raises SourceError."""
