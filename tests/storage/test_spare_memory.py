"""Copies of pieces that wait for a thread."""

from cfetch.storage.spare_memory import BLOCK_BYTES, copy_piece, give_back


def test_a_copy_lasts_until_it_is_given_back_and_its_memory_is_used_again():
    """New memory would have to be cleared first, which takes longer than the copy."""
    memory = bytearray(b"a" * BLOCK_BYTES)
    first, second = copy_piece(memoryview(memory)), copy_piece(memoryview(memory))
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    memory[:] = b"b" * BLOCK_BYTES
    assert bytes(first) == bytes(second) == b"a" * BLOCK_BYTES
    give_back(second)
    third = copy_piece(memoryview(memory))
    assert isinstance(third, memoryview)
    assert third.obj is second.obj
    assert bytes(first) == b"a" * BLOCK_BYTES


def test_bytes_are_not_copied():
    """They cannot change."""
    piece = b"a" * BLOCK_BYTES
    assert copy_piece(piece) is piece
