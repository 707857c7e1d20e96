"""The headers of a reply, as all who read them see them. Pure."""

import re
from collections.abc import KeysView
from typing import Protocol

from multidict import istr

RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII | re.IGNORECASE)
_NOTHING: list[str] = []
_MEDIA_TYPE = istr("Content-Type")
LIMITS = ("RateLimit", "X-RateLimit", "X-Rate-Limit")  # how headers about limits of requests begin
_LIMIT_SIGNS = tuple(istr(f"{limit}{tail}") for limit in LIMITS for tail in ("", "-Remaining"))
AMAZON_HASHES = tuple(
    (f"x-amz-checksum-{algorithm}", algorithm) for algorithm in ("crc64nvme", "crc32c", "crc32", "sha256")
)
_HASH_SIGNS = tuple(map(istr, ("x-goog-hash", "x-ms-blob-type", *(name for name, _ in AMAZON_HASHES))))


class Headers(Protocol):
    """Case-insensitive reply headers that may repeat."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """All values of a header, in order."""

    def keys(self) -> KeysView[str]:
        """The names."""


def states_limits(headers: Headers) -> bool:
    """Whether a reply tells of limits of requests, which ``pauses.py`` reads. Nearly all replies do not."""
    return not headers.keys().isdisjoint(_LIMIT_SIGNS)


def may_state_hash(headers: Headers) -> bool:
    """Whether a reply is an object store's, whose hashes ``stated_hash.py`` reads. Nearly all are not."""
    return not headers.keys().isdisjoint(_HASH_SIGNS)


def read_media_type(headers: Headers) -> str:
    """The type of the body, in lower case; empty if none is stated."""
    stated = headers.getall(_MEDIA_TYPE, _NOTHING)
    return stated[0].partition(";")[0].strip().lower() if stated else ""
