"""Memory for the pieces of large bodies, which threads may still use when the next pieces come.

New memory of this size would have to be cleared by the system, page by page, which takes longer than to copy
a piece. So a block is used again, but only when nobody holds a view of it any more: not the event loop, and
no thread that writes or hashes its bytes. Python itself tells that: it refuses to resize such memory.
"""

from cfetch.manifest.digests import Bytes

BLOCK_BYTES = 256 << 10
MOST_SPARE = 128  # 32 MiB; each reply has one block, and each volume or hash that is behind has some
LOOKED_AT = (-1, *range(8))  # of a volume that hangs, these may be held for long


class Block(bytearray):
    """Memory whose views stay as they are for as long as anybody holds them."""

    __slots__ = ()

    def is_free(self) -> bool:
        """Whether nobody holds a view of it. One byte less and one more cost no copy."""
        try:
            self.pop()
        except BufferError:
            return False
        self.append(0)
        return True


class Blocks:
    """Blocks of one size that can be used again."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._spare: list[Block] = []

    def take(self) -> Block:
        """Take a block that nobody holds: the last one is in the processor's cache."""
        for position in LOOKED_AT[: len(self._spare)]:
            if self._spare[position].is_free():
                return self._spare.pop(position)
        return Block(self.size_bytes)

    def give_back(self, block: Block) -> None:
        """Note that a block may be used again as soon as nobody holds a view of it."""
        if len(self._spare) < MOST_SPARE:
            self._spare.append(block)


def keep_piece(data: Bytes) -> Bytes:
    """Keep a piece until it is used: copied if its memory may be used again, or is much larger."""
    if isinstance(data, bytes):
        return data
    block = data.obj
    return data if isinstance(block, Block) and 2 * len(data) >= len(block) else bytes(data)
