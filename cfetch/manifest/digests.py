"""The hashes that a manifest may state: their lengths, which one is trusted most, and how each is computed.

sha512, sha256, sha1 and md5 come with Python. crc32c (as the clouds' object stores give it) and blake3 need a
library each, which only a manifest that states them asks for: ``pip install 'cfetch[hashes]'``. crc32 and
crc64nvme no manifest states: they are what a store may state of its object in a reply.
"""

import functools
import hashlib
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

from cfetch.errors import UsageError
from cfetch.manifest.entry import Digest

HEX_DIGITS = {
    "sha512": 128, "sha256": 64, "blake3": 64, "sha1": 40, "git_sha1": 40, "md5": 32, "crc32c": 8,
}  # fmt: skip
"""Algorithm -> hexadecimal digits, the most trusted first.

What Python itself computes stands before blake3, so that it is asked for only where nothing else will do.
sha1 and md5 can be forged, and crc32c sees accidents only. git_sha1 is the name that git gives to a file's
content: the SHA-1 of ``blob SIZE``, a zero byte and the bytes.
"""

_RANK = {algorithm: rank for rank, algorithm in enumerate(HEX_DIGITS)}
_LIBRARIES = {
    "blake3": ("blake3", "blake3", "hashes"),
    "crc32c": ("google_crc32c", "google-crc32c", "hashes"),
    "crc64nvme": ("awscrt", "awscrt", "cloud"),
}


class Hash(Protocol):
    """A running hash."""

    def update(self, data: bytes, /) -> object:
        """Go on with ``data``."""

    def hexdigest(self) -> str:
        """The hash of all data so far, in lower case."""

    def copy(self) -> "Hash":
        """The same so far; each goes on by itself."""


def new_hash(algorithm: str, size_bytes: int | None = None) -> Hash:
    """A running hash of nothing yet, of a file of this size, which git_sha1 needs.

    Raises:
        UsageError: its library is not installed; the message says how to get it.
    """
    missing = needs_library(algorithm)
    if missing is not None:
        raise UsageError(missing)
    match algorithm:
        case "crc32":
            return _Crc(zlib.crc32, 8)
        case "crc32c":
            from google_crc32c import extend

            return _Crc(lambda data, value: extend(value, data), 8)
        case "crc64nvme":
            from awscrt.checksums import crc64nvme

            return _Crc(crc64nvme, 16)
        case "blake3":
            from blake3 import blake3

            return blake3()
        case "git_sha1":
            assert size_bytes is not None  # a manifest has to state it
            return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
    return hashlib.new(algorithm, usedforsecurity=False)


@functools.cache  # asked for every entry, and a look at the disk each time
def needs_library(algorithm: str) -> str | None:
    """What to install before ``algorithm`` can be computed; None when it can."""
    module, package, extra = _LIBRARIES.get(algorithm, ("", "", ""))
    if not module or find_spec(module) is not None:
        return None
    return missing_library(algorithm, package, extra)


def missing_library(what: str, package: str, extra: str) -> str:
    """The sentence for a library that is not there."""
    return f"{what} needs the library {package}, which is not installed: pip install 'cfetch[{extra}]'"


def choose_stronger(digest: Digest | None, other: Digest) -> Digest:
    """The hash to go by where a file has several."""
    if digest is None or _RANK[digest.algorithm] >= _RANK[other.algorithm]:
        return other
    return digest


class _Crc:
    """A checksum that goes on with its last value: most significant byte first, as stores write it.

    CRC-32 (zlib's), CRC-32C (RFC 9260, appendix A) and CRC-64/NVME.
    """

    __slots__ = ("_digits", "_extend", "_value")

    def __init__(self, extend: Callable[[bytes, int], int], digits: int, value: int = 0) -> None:
        self._extend = extend
        self._digits = digits
        self._value = value

    def update(self, data: bytes, /) -> None:
        self._value = self._extend(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._digits}x}"

    def copy(self) -> "_Crc":
        return _Crc(self._extend, self._digits, self._value)
