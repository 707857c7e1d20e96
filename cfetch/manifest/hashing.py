"""Computes the hashes of ``digests.py``. Loaded with the first file that has one."""

import hashlib
import zlib
from collections.abc import Callable
from typing import Protocol

from cfetch.base.errors import UsageError
from cfetch.manifest.digests import Bytes, needs_library


class Hash(Protocol):
    """A running hash."""

    def update(self, data: Bytes, /) -> object:
        """Add ``data`` to the hash."""

    def hexdigest(self) -> str:
        """The hash of all data so far, in lower case."""

    def copy(self) -> "Hash":
        """A copy of the state so far; both go on independently."""


def new_hash(algorithm: str, size_bytes: int | None = None) -> Hash:
    """A new hash for a file; only git_sha1 needs its size.

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


class _Crc:
    """A checksum that is updated from its last value; most significant byte first, as stores write it.

    CRC-32 (zlib's), CRC-32C (RFC 9260, appendix A) and CRC-64/NVME.
    """

    __slots__ = ("_digits", "_extend", "_value")

    def __init__(self, extend: Callable[[bytes, int], int], digits: int, value: int = 0) -> None:
        self._extend = extend
        self._digits = digits
        self._value = value

    def update(self, data: Bytes, /) -> None:
        self._value = self._extend(bytes(data), self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._digits}x}"

    def copy(self) -> "_Crc":
        return _Crc(self._extend, self._digits, self._value)
