"""Memory for copies of pieces whose own memory will be used again; the copies wait for another thread.

New memory of this size would have to be cleared by the system, page by page, which takes longer than the
copy. So memory that was given back is used again.
"""

from typing import Any

from cfetch.manifest.digests import Bytes

BLOCK_BYTES = 256 << 10
LARGE_PIECE_BYTES = BLOCK_BYTES // 2  # smaller pieces come from memory that Python has already
MOST_SPARE = 32  # 8 MiB
_spare: list[Any] = []  # lists are safe to use from several threads


def copy_piece(data: Bytes) -> Bytes:
    """Copy a piece, unless it cannot change."""
    if isinstance(data, bytes):
        return data
    if not LARGE_PIECE_BYTES <= len(data) <= BLOCK_BYTES:
        return bytes(data)
    try:
        block = _spare.pop()
    except IndexError:  # a look beforehand would not do: several runs of a process may copy at once
        block = bytearray(BLOCK_BYTES)
    piece = memoryview(block)[: len(data)]
    piece[:] = data
    return piece


def give_back(piece: Bytes) -> None:
    """Note that a copy is not used any more."""
    if isinstance(piece, memoryview) and len(_spare) < MOST_SPARE:
        _spare.append(piece.obj)
