"""Blocks whose bytes wait for a thread, and when their memory is used again."""

import pytest

from cfetch.storage.spare_memory import Block, Blocks, keep_piece

SIZE_BYTES = 1000


@pytest.mark.parametrize("hold", [
    lambda view: view,
    lambda view: view[10:20],
    lambda view: view[10:][:5],
])  # fmt: skip
def test_a_block_is_used_again_when_nobody_holds_a_view_of_it(hold):
    """A part of a view holds the whole block, as a thread may still write it."""
    blocks = Blocks(SIZE_BYTES)
    block = blocks.take()
    known, held = id(block), hold(memoryview(block)[: SIZE_BYTES - 1])
    blocks.give_back(block)
    del block
    other = blocks.take()
    assert id(other) != known
    del held
    assert id(blocks.take()) == known


def test_what_is_kept_stays_as_it_is():
    """Only a large piece of a block is kept itself: other memory is used again, or is larger than it."""
    block, other = Block(b"a" * SIZE_BYTES), bytearray(b"a" * SIZE_BYTES)
    large, small, foreign = memoryview(block)[:600], memoryview(block)[:400], memoryview(other)
    assert keep_piece(large) is large
    kept = [keep_piece(small), keep_piece(foreign)]
    block[:] = other[:] = b"b" * SIZE_BYTES
    assert kept == [b"a" * 400, b"a" * SIZE_BYTES]


def test_bytes_are_not_copied():
    """They cannot change."""
    piece = b"a" * SIZE_BYTES
    assert keep_piece(piece) is piece
