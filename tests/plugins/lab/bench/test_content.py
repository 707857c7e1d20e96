"""Synthetic and real content: deterministic, seekable, hashed."""

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.plugins.lab.bench.content import (
    BLOCK_BYTES,
    Fixed,
    Group,
    RealFile,
    Synthetic,
    SyntheticSet,
    pieces,
)


@given(st.integers(1, BLOCK_BYTES + 5000), st.integers(0, 3), st.integers(70_000, 1 << 20))
def test_pieces_make_the_same_file_as_one_read_of_the_repeating_block(size, seed, piece):
    """Reading in pieces of any size gives the bytes whose hash sha256() states."""
    content = Synthetic("a", size, seed)
    assert hashlib.sha256(b"".join(pieces(content, piece))).hexdigest() == content.sha256()


@given(st.integers(0, 3 * BLOCK_BYTES - 1), st.integers(1, 100))
def test_any_offset_reads_what_stands_there(offset, length):
    """A read in the middle equals the same place of the whole file, across the block's end too."""
    content = Synthetic("file", 3 * BLOCK_BYTES)
    first = bytes(content.read(offset, length))
    assert first[0] == content.read(offset % BLOCK_BYTES, 1)[0]
    assert first == b"".join(bytes(content.read(offset + i, 1)) for i in range(len(first)))


def test_name_and_seed_decide_the_bytes_and_the_etag():
    """Two names, two seeds or two sizes never share content or validator; the same three always do."""
    variants = [
        Synthetic("a", 1000, 1),
        Synthetic("b", 1000, 1),
        Synthetic("a", 1000, 2),
        Synthetic("a", 999, 1),
    ]
    assert len({v.sha256() for v in variants}) == 4
    assert len({v.etag for v in variants}) == 4
    assert Synthetic("a", 1000, 1).sha256() == variants[0].sha256()


def test_chunk_sized_misplacement_shows():
    """Bytes from a wrong multiple of 4 MiB, 1 MiB or 64 KiB differ, so a bench notices misplaced ranges."""
    content = Synthetic("a", 16 << 20)
    for step in (64 << 10, 1 << 20, 4 << 20, 8 << 20):
        assert bytes(content.read(0, 32)) != bytes(content.read(step, 32))


def test_a_group_knows_its_names_and_no_others():
    """Every listed name is found with its size; near misses are not."""
    files = SyntheticSet((Group("a/", 3, 10), Group("b/", 2, 20)), seed=1)
    assert list(files) == [
        "a/0000000.bin",
        "a/0000001.bin",
        "a/0000002.bin",
        "b/0000000.bin",
        "b/0000001.bin",
    ]
    assert [files[name].size_bytes for name in files] == [10, 10, 10, 20, 20]
    assert len(files) == 5
    for miss in ("a/0000003.bin", "a/3.bin", "a/00000001.bin", "a/.bin", "a/²000000.bin", "0000001.bin", ""):
        assert files.get(miss) is None


def test_a_real_file_is_served_as_it_was_and_notices_that_it_shrank(tmp_path):
    """Bytes, hash and validator are the file's; a changed file has another validator, a cut one fails."""
    path = tmp_path / "f"
    path.write_bytes(os.urandom(100_000))
    content = RealFile.at(path)
    assert b"".join(pieces(content, 7000)) == path.read_bytes()
    assert content.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"short")
    assert RealFile.at(path).etag != content.etag
    with pytest.raises(OSError, match="shrank"):
        content.read(50_000, 10)


def test_fixed_bytes_hash_and_slice():
    """Fixed content is exactly its bytes."""
    content = Fixed(b"hello world")
    assert bytes(content.read(6, 100)) == b"world"
    assert content.sha256() == hashlib.sha256(b"hello world").hexdigest()
    assert content.etag != Fixed(b"hello worle").etag
