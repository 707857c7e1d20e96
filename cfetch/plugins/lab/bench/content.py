"""The files that the origin serves: synthetic ones that take no memory, fixed bytes, and files from disk.

A synthetic file is a window on one seeded block that repeats: byte ``p`` is
``block[(start + p) % len(block)]`` with ``start`` drawn from seed and name. A million of them take no memory,
and each still has its own hash.
"""

import functools
import hashlib
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

BLOCK_BYTES = 4_194_319  # a prime above 4 MiB: bytes put at the wrong multiple of any chunk size never match
PIECE_BYTES = 1 << 20  # large enough that hashing dominates the loop around it


class Content(Protocol):
    """A file that can be served."""

    @property
    def size_bytes(self) -> int:
        """The file's length."""

    @property
    def etag(self) -> str:
        """Its strong validator, quotes included."""

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Read at least one and at most ``length`` bytes at ``offset``, which lies inside the file."""

    def sha256(self) -> str:
        """The whole content's hash, 64 lower-case hex digits."""


@functools.lru_cache(maxsize=8)
def _block(seed: int) -> memoryview:
    return memoryview(random.Random(seed).randbytes(BLOCK_BYTES))  # noqa: S311 - reproducible, not secret


class Synthetic(msgspec.Struct, frozen=True, gc=False):
    """``size_bytes`` bytes that follow from ``seed`` and ``name``; another seed or name gives other bytes."""

    name: str
    size_bytes: int
    seed: int = 0

    @property
    def start(self) -> int:
        """The place in the block where the file begins."""
        digest = hashlib.blake2b(f"{self.seed}:{self.name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % BLOCK_BYTES

    @property
    def etag(self) -> str:
        """A validator made of seed, name and size."""
        return f'"{self.seed:x}-{self.start:x}-{self.size_bytes:x}"'

    def read(self, offset: int, length: int) -> memoryview:
        """Implements ``Content.read``."""
        begin = (self.start + offset) % BLOCK_BYTES
        return _block(self.seed)[begin : begin + min(length, self.size_bytes - offset)]

    def sha256(self) -> str:
        """Read through once."""
        digest = hashlib.sha256()
        for piece in pieces(self):
            digest.update(piece)
        return digest.hexdigest()


class Fixed(msgspec.Struct, frozen=True, gc=False):
    """Exactly these bytes."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return len(self.data)

    @property
    def etag(self) -> str:
        """A validator made of the bytes."""
        return f'"{hashlib.blake2b(self.data, digest_size=8).hexdigest()}"'

    def read(self, offset: int, length: int) -> memoryview:
        """Implements ``Content.read``."""
        return memoryview(self.data)[offset : offset + length]

    def sha256(self) -> str:
        """Read through once."""
        return hashlib.sha256(self.data).hexdigest()


class RealFile(msgspec.Struct, frozen=True):
    """A file on disk, with the size that it had when this object was made."""

    path: Path
    size_bytes: int
    etag: str

    @classmethod
    def at(cls, path: Path) -> "RealFile":
        """The file at ``path``. Raises OSError when there is none."""
        stat = path.stat()
        return cls(path, stat.st_size, f'"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"')

    def read(self, offset: int, length: int) -> bytes:
        """Implements ``Content.read``."""
        with self.path.open("rb", buffering=0) as file:
            piece = os.pread(file.fileno(), min(length, self.size_bytes - offset), offset)
        if not piece:
            raise OSError(f"{self.path} shrank while it was being served")
        return piece

    def sha256(self) -> str:
        """Read through once."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``count`` synthetic files of one size, named ``<prefix>0000000.bin`` and on."""

    prefix: str
    count: int
    size_bytes: int

    def name(self, index: int) -> str:
        """The ``index``-th file, from 0."""
        return f"{self.prefix}{index:07d}.bin"

    def has(self, name: str) -> bool:
        """Whether ``name`` belongs to this group."""
        digits = name.removeprefix(self.prefix).removesuffix(".bin")
        return (
            digits.isascii()
            and digits.isdigit()
            and int(digits) < self.count
            and self.name(int(digits)) == name
        )


class SyntheticSet(Mapping[str, Content]):
    """The files of several groups, made on demand."""

    def __init__(self, groups: tuple[Group, ...], seed: int = 0) -> None:
        self.groups = groups
        self.seed = seed

    def __getitem__(self, name: str) -> Content:
        for group in self.groups:
            if group.has(name):
                return Synthetic(name, group.size_bytes, self.seed)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for group in self.groups:
            yield from map(group.name, range(group.count))

    def __len__(self) -> int:
        return sum(group.count for group in self.groups)


def pieces(content: Content, at_most: int = PIECE_BYTES) -> Iterator[bytes | memoryview]:
    """The whole content in order, up to ``at_most`` bytes at a time."""
    offset = 0
    while offset < content.size_bytes:
        piece = content.read(offset, at_most)
        yield piece
        offset += len(piece)


def count_right(folder: Path, names: Iterable[str], files: Mapping[str, Content]) -> int:
    """Count the files of ``names`` in ``folder`` that equal the served ones, byte for byte.

    A comparison with the content itself is stricter than a hash and costs less.
    """
    return sum(_is_same(folder / name, files[name]) for name in names)


def _is_same(path: Path, content: Content) -> bool:
    try:
        with path.open("rb") as file:
            return all(file.read(len(piece)) == piece for piece in pieces(content)) and not file.read(1)
    except OSError:
        return False
