"""The hashes that a manifest may state: their lengths, which one is trusted most, and how each is computed.

sha512, sha256, sha1 and md5 come with Python. crc32c (as the clouds' object stores give it) and blake3 need a
library each, which only a manifest that states them asks for: ``pip install 'cfetch[hashes]'``.
"""

import functools
import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

from cfetch.errors import UsageError
from cfetch.manifest.entry import Digest

HEX_DIGITS = {"sha512": 128, "sha256": 64, "blake3": 64, "sha1": 40, "md5": 32, "crc32c": 8}
"""Algorithm -> hexadecimal digits, the most trusted first.

What Python itself computes stands before blake3, so that it is asked for only where nothing else will do.
sha1 and md5 can be forged, and crc32c sees accidents only.
"""

_RANK = {algorithm: rank for rank, algorithm in enumerate(HEX_DIGITS)}
_LIBRARIES = {"blake3": ("blake3", "blake3"), "crc32c": ("google_crc32c", "google-crc32c")}


class Hash(Protocol):
    """A running hash."""

    def update(self, data: bytes, /) -> object:
        """Go on with ``data``."""

    def hexdigest(self) -> str:
        """The hash of all data so far, in lower case."""

    def copy(self) -> "Hash":
        """The same so far; each goes on by itself."""


def new_hash(algorithm: str) -> Hash:
    """A running hash of nothing yet.

    Raises:
        UsageError: its library is not installed; the message says how to get it.
    """
    if algorithm not in _LIBRARIES:
        return hashlib.new(algorithm, usedforsecurity=False)
    missing = needs_library(algorithm)
    if missing is not None:
        raise UsageError(missing)
    if algorithm == "crc32c":
        return _Crc32c()
    from blake3 import blake3

    return blake3()


@functools.cache  # asked for every entry, and a look at the disk each time
def needs_library(algorithm: str) -> str | None:
    """What to install before ``algorithm`` can be computed; None when it can."""
    module, package = _LIBRARIES.get(algorithm, ("", ""))
    if not module or find_spec(module) is not None:
        return None
    return missing_library(algorithm, package, "hashes")


def missing_library(what: str, package: str, extra: str) -> str:
    """The sentence for a library that is not there."""
    return f"{what} needs the library {package}, which is not installed: pip install 'cfetch[{extra}]'"


def choose_stronger(digest: Digest | None, other: Digest) -> Digest:
    """The hash to go by where a file has several."""
    if digest is None or _RANK[digest.algorithm] >= _RANK[other.algorithm]:
        return other
    return digest


class _Crc32c:
    """CRC-32C (RFC 9260, appendix A), most significant byte first, as in ``x-goog-hash``."""

    __slots__ = ("_extend", "_value")

    def __init__(self) -> None:
        from google_crc32c import extend

        self._extend: Callable[[int, bytes], int] = extend
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._extend(self._value, data)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"

    def copy(self) -> "_Crc32c":
        other = _Crc32c()
        other._value = self._value
        return other
