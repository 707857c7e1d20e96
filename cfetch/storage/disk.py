"""Carries out the steps of a volume: the port, and the way of a single volume.

With a single volume a run has to wait for it anyway, so ``InlineDisk`` calls the system at once. With several
volumes, each has a thread of its own (``guarded_disk.py``).
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from cfetch.base.errors import VolumeFault

T = TypeVar("T")


class DiskState:
    """The state of a disk for its parts; ``fault`` is set when their bytes will no longer be written."""

    __slots__ = ("fault", "lock")

    def __init__(self) -> None:
        self.fault: VolumeFault | None = None
        self.lock = threading.Lock()


class Disk(Protocol):
    """Carries out steps in order. A step raises CfetchError."""

    line: DiskState
    is_prompt: bool  # ``do`` is carried out at once

    def do(self, step: Callable[..., None], *args: Any, size_bytes: int = 0) -> None:  # noqa: ANN401
        """Carry out the step now or soon; a step that runs later keeps its own error."""

    def tidy(self, step: Callable[[], None]) -> None:
        """Carry out the step now or soon, even if the disk is abandoned. The step raises nothing."""

    async def call(self, step: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Return the step's answer. ``undo`` gets an answer that comes when nobody waits for it any more."""

    async def long(self, step: Callable[[], T]) -> T:
        """Like ``call``, for a step that takes milliseconds."""

    async def beside(self, step: Callable[[], T]) -> T:
        """Like ``call``, for a step that takes seconds, while later steps go on."""

    async def call_reading(self, step: Callable[[], T]) -> T:
        """Like ``call``, for a step that only reads, and does not wait for steps that write."""

    async def glance(self, step: Callable[[], T]) -> T:
        """Like ``call_reading``, but a cancellation is raised at once; the step must bear to end later."""

    @property
    def must_wait(self) -> bool:
        """Whether so much is unwritten that callers with more bytes have to await ``wait_for_room``."""

    async def wait_for_room(self) -> None:
        """Wait until less is unwritten. Raises VolumeFault."""

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest call that has not returned."""


class InlineDisk:
    """Calls the system in the event loop, and waits."""

    is_prompt = True
    must_wait = False
    written_bytes = None

    def __init__(self) -> None:
        self.line = DiskState()

    def do(self, step: Callable[..., None], *args: Any, size_bytes: int = 0) -> None:  # noqa: ANN401, ARG002
        """Carry out the step at once. Raises what the step raises."""
        step(*args)

    def tidy(self, step: Callable[[], None]) -> None:
        """Carry out the step at once."""
        step()

    async def call(self, step: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:  # noqa: ARG002
        """Carry out the step at once."""
        return step()

    async def long(self, step: Callable[[], T]) -> T:
        """Carry out the step in a thread."""
        return await asyncio.to_thread(step)

    beside = long
    call_reading = glance = call

    async def wait_for_room(self) -> None:
        """Return at once: there is always room."""

    def oldest_s(self, now_s: float) -> float:  # noqa: ARG002
        """Always 0: the caller has the event loop, so no call is under way."""
        return 0.0


INLINE = InlineDisk()
