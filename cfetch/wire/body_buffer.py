"""Memory for the bodies of large replies: the next bytes come into one block while the last ones are used.

Without it each piece of a body would be copied into new memory. The system has to clear new memory page by
page, which takes as much time as the request for the bytes and their write together. So blocks are used
again, by the same reply and by later replies (``storage/spare_memory.py``).
"""

from cfetch.storage.spare_memory import Blocks

MIN_AHEAD_BYTES = 32 << 10  # read ahead under a limit; a smaller value would make a window of a few packets


class BodyBuffer:
    """A block that is filled. ``take`` gives its bytes away; then the next bytes come into another block.

    The bytes that ``take`` has returned stay as they are for as long as anybody holds them.
    """

    __slots__ = ("_block", "_blocks", "_filled", "_taken")

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._block = blocks.take()
        self._filled = self._taken = 0

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait to be taken."""
        return self._filled - self._taken

    @property
    def is_full(self) -> bool:
        """Whether no more bytes fit before some are taken."""
        return self._filled == len(self._block)

    def room(self) -> memoryview:
        """The memory for the next bytes; ``add`` says how many have come."""
        return memoryview(self._block)[self._filled :]

    def add(self, size_bytes: int) -> None:
        """Note that the next bytes are in ``room``."""
        self._filled += size_bytes

    def take(self, most: int = -1) -> memoryview:
        """Take the bytes that wait, or ``most`` of them if that is not negative."""
        end = self._filled if most < 0 else min(self._filled, self._taken + most)
        taken = memoryview(self._block)[self._taken : end]
        self._taken = end
        if end == self._filled:
            full, self._block = self._block, self._blocks.take()
            self._blocks.give_back(full)
            self._filled = self._taken = 0
        return taken

    def clear(self) -> None:
        """Forget the bytes that wait."""
        self._filled = self._taken = 0

    def close(self) -> None:
        """Let later bodies use the block. This buffer cannot be used any more."""
        self._blocks.give_back(self._block)
        del self._block


class Buffers:
    """The memory into which the connections of one transport read.

    ``shared``: for all bytes that are parsed, which happens before any other read. ``ahead_bytes``: how many
    bytes of one body may wait for their reader; the block of a body is as large as ``shared``.
    """

    def __init__(self, shared_bytes: int, ahead_bytes: int) -> None:
        self.shared = memoryview(bytearray(shared_bytes))
        self.ahead_bytes = ahead_bytes
        self.blocks = Blocks(shared_bytes)
