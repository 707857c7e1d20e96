"""Memory for the bodies of large replies: the next bytes come into one half while the last ones are used.

Without it each piece of a body would be copied into new memory. The system has to clear new memory page by
page, which takes as much time as the request for the bytes and their write together. So halves are used
again, first by the same reply and then by later replies.
"""

MIN_AHEAD_BYTES = 32 << 10  # read ahead under a limit; a smaller value would make a window of a few packets


class BodyBuffer:
    """Two halves of the same size. ``take`` gives bytes of one half, while the other one is filled.

    The bytes that ``take`` has returned are valid until the next ``take``.
    """

    __slots__ = ("_filled", "_filling", "_other", "_taken")

    def __init__(self, half_bytes: int) -> None:
        self._filling = memoryview(bytearray(half_bytes))
        self._other = memoryview(bytearray(half_bytes))
        self._filled = self._taken = 0  # bytes of the half that is being filled

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait to be taken."""
        return self._filled - self._taken

    @property
    def is_full(self) -> bool:
        """Whether no more bytes fit before some are taken."""
        return self._filled == len(self._filling)

    def room(self) -> memoryview:
        """The memory for the next bytes; ``add`` says how many have come."""
        return self._filling[self._filled :]

    def add(self, size_bytes: int) -> None:
        """Note that the next bytes are in ``room``."""
        self._filled += size_bytes

    def take(self, most: int = -1) -> memoryview:
        """Take the bytes that wait, or ``most`` of them if that is not negative."""
        end = self._filled if most < 0 else min(self._filled, self._taken + most)
        taken = self._filling[self._taken : end]
        self._taken = end
        if end == self._filled:
            self._filling, self._other = self._other, self._filling
            self._filled = self._taken = 0
        return taken

    def clear(self) -> None:
        """Forget the bytes that wait."""
        self._filled = self._taken = 0


class Buffers:
    """The memory into which the connections of one transport read.

    ``shared``: for all bytes that are parsed, which happens before any other read. ``ahead_bytes``: how many
    bytes of one body may wait for their reader; a body buffer has two halves of ``shared``'s size.
    """

    def __init__(self, shared_bytes: int, ahead_bytes: int) -> None:
        self.shared = memoryview(bytearray(shared_bytes))
        self.ahead_bytes = ahead_bytes
        self._spare: list[BodyBuffer] = []

    def borrow(self) -> BodyBuffer:
        """Get an empty buffer for one body."""
        return self._spare.pop() if self._spare else BodyBuffer(len(self.shared))

    def give_back(self, buffer: BodyBuffer) -> None:
        """Let later bodies use the buffer. Nobody may hold bytes of it any more."""
        buffer.clear()
        self._spare.append(buffer)
