"""Receipts: what the tasks of a run leave in a directory that the driver sees, and nothing else between them.

``batch-<epoch>-<batch>`` is left once, by the first copy of a task that brings all of its batch to its end:
made under a name of its own and linked into place, so that the first wins. ``part-…`` tells early what has
ended since the last one; it goes when the batch's receipt, which has all of it, is there, and is of use when
the task dies. ``fault-…`` says why an executor cannot work. ``live-…`` is what a task has under way, renewed
every moment while the hub does not hear it. ``stop`` is the driver's: all tasks end in good order.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.errors import LocalFault
from cfetch.events import (
    ActiveAttempt,
    EntryFinished,
    FallbackTriggered,
    HostPaused,
    RetryScheduled,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.storage.files import local_fault, on_disk, publish_once

__all__ = [
    "STOP_NAME",
    "TOLD",
    "Account",
    "Live",
    "Living",
    "Receipt",
    "Receipts",
    "Told",
    "batch_name",
    "leave_receipt",
    "live_name",
]

STOP_NAME = "stop"
Told = EntryFinished | FallbackTriggered | HostPaused | RetryScheduled | StragglerCancelled | UrlRefreshed
TOLD = (EntryFinished, FallbackTriggered, HostPaused, RetryScheduled, StragglerCancelled, UrlRefreshed)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a batch, in order (``cfetch.receipt/1``).

    ``number``: of this task's parts, from 0; None: the batch is over. ``first``: how many events of this
    task came before these. ``fault``: what ended it early.
    """

    schema: str = "cfetch.receipt/1"
    instant: str
    epoch: int
    batch: int
    task: int
    attempt: int
    number: int | None
    first: int = 0
    events: list[Told]
    fault: str | None = None

    @property
    def name(self) -> str:
        """The file's."""
        if self.fault is not None:
            return f"fault-{self.epoch}-{self.batch:06d}-{self.task}"
        if self.number is None:
            return batch_name(self.epoch, self.batch)
        return f"part-{self.epoch}-{self.batch:06d}-{self.task}-{self.number}"


def batch_name(epoch: int, batch: int) -> str:
    """The file that says that the batch is over."""
    return f"batch-{epoch}-{batch:06d}"


def leave_receipt(directory: Path, receipt: Receipt) -> bool:
    """Put it there in one step; False if another copy of the task was faster. Raises LocalFault."""
    is_relied_on = receipt.number is None  # a part that a power cut has torn is passed over
    try:
        return publish_once(directory / receipt.name, msgspec.json.encode(receipt), durable=is_relied_on)
    except LocalFault as fault:
        raise LocalFault(f"cannot leave a receipt in {directory}: {fault}") from None


class Receipts:
    """A directory of receipts, read as they come; each is told once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()

    def new(self, wanted: Callable[[str], bool]) -> Iterator[Receipt]:
        """Those that were not read before and whose names are wanted. Raises LocalFault."""
        with on_disk(self._directory):
            found = [path.name for path in self._directory.iterdir()]
        names = [name for name in found if name not in self._seen and wanted(name)]
        for name in sorted(names, key=_turn):
            self._seen.add(name)
            try:
                data = (self._directory / name).read_bytes()
            except FileNotFoundError:  # a part whose batch is over by now
                continue
            except OSError as error:
                raise local_fault(error, f"cannot read {self._directory / name}") from None
            with suppress(msgspec.MsgspecError):
                yield msgspec.json.decode(data, type=Receipt)
                continue
            if name.startswith("batch-"):
                raise LocalFault(
                    f"{self._directory / name} is damaged; remove it and run the same command again"
                )


def _turn(name: str) -> tuple[bool, int, str]:
    """Parts before the receipts of their batches, and a task's own in their order."""
    number = name.rpartition("-")[2]
    return not name.startswith("part-"), int(number) if number.isdigit() else 0, name


class Account:
    """Each entry ends once, whatever several copies of a task and several attempts say of it. Pure.

    What one copy could not bring another may: that is held back until the batch is over.
    """

    def __init__(self) -> None:
        self._ended = bytearray()  # a bit an entry
        self._count = 0
        self._held: dict[int, dict[int, EntryFinished]] = {}  # by batch and entry
        self._told: dict[int, int] = {}  # events by task

    def __contains__(self, number: int) -> bool:
        return number >> 3 < len(self._ended) and bool(self._ended[number >> 3] >> (number & 7) & 1)

    def __len__(self) -> int:
        return self._count

    def add(self, number: int) -> None:
        """The entry has come to its end."""
        if number in self:
            return
        place = number >> 3
        if place >= len(self._ended):
            self._ended.extend(bytes(place + 1 + len(self._ended) // 4))
        self._ended[place] |= 1 << (number & 7)
        self._count += 1

    def news(self, receipt: Receipt) -> Iterator[Told]:
        """What the receipt says that was not known."""
        held = self._held.setdefault(receipt.batch, {})
        told = self._told.get(receipt.task, 0)
        if receipt.first <= told:  # else an earlier part is missing: the batch's receipt will tell it
            self._told[receipt.task] = max(told, receipt.first + len(receipt.events))
        for event in receipt.events[max(0, told - receipt.first) :]:
            if not isinstance(event, EntryFinished):
                yield event
            elif event.record.id not in self:
                if event.record.is_in_place:
                    held.pop(event.record.id, None)
                    self.add(event.record.id)
                    yield event
                else:
                    held[event.record.id] = event
        if receipt.number is None and receipt.fault is None:
            yield from self._over(receipt.batch)

    def left(self) -> Iterator[Told]:
        """At the end of the run: the entries that nobody has brought."""
        for batch in list(self._held):
            yield from self._over(batch)

    def _over(self, batch: int) -> Iterator[Told]:
        for number, event in self._held.pop(batch, {}).items():
            if number not in self:
                self.add(number)
                yield event


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What a task has under way; ``beat`` counts on for as long as it lives."""

    batch: int
    task: int
    beat: int
    active: list[ActiveAttempt]


def live_name(epoch: int, batch: int, task: int) -> str:
    """The file's."""
    return f"live-{epoch}-{batch:06d}-{task}"


class Living:
    """What all tasks have under way, as far as the driver can see. ``now_s`` is its own clock."""

    def __init__(self, directory: Path, epoch: int, now_s: Callable[[], float], *, silent_s: float) -> None:
        self._directory = directory
        self._prefix = f"live-{epoch}-"
        self._now_s = now_s
        self._silent_s = silent_s
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self) -> list[Live]:
        """Of those tasks that have been heard within ``silent_s`` seconds."""
        found: list[Live] = []
        seen: dict[str, tuple[int, float]] = {}
        now_s = self._now_s()
        with suppress(OSError):
            for path in self._directory.iterdir():
                if not path.name.startswith(self._prefix):
                    continue
                with suppress(OSError, msgspec.MsgspecError):
                    live = msgspec.json.decode(path.read_bytes(), type=Live)
                    beat, since_s = self._seen.get(path.name, (-1, now_s))
                    seen[path.name] = (live.beat, since_s if live.beat == beat else now_s)
                    if now_s - seen[path.name][1] <= self._silent_s:
                        found.append(live)
        self._seen = seen
        return found
