"""Receipts: reports that tasks leave in a directory which the driver sees; nothing else passes between them.

``share-<epoch>-<share>`` is left once, by the first copy of a task that brings all of its share to its end:
it is made under a temporary name and linked into place, so the first copy wins. ``part-…`` reports early the
files that have ended since the last part; it is useful if the task dies, and is removed when the receipt of
the share, which repeats it, is there. ``fault-…`` says why an executor cannot work. The driver leaves
``stop``: all tasks then end in good order. Jobs and data frames read the same receipts.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.errors import LocalFault
from cfetch.events import (
    EntryFinished,
    FallbackTriggered,
    HostPaused,
    RetryScheduled,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.manifest.entry import SafePath
from cfetch.records import NOT_DECODED, FileRecord
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault, on_disk, publish_once

STOP_NAME = "stop"
ReportedEvent = (
    EntryFinished | FallbackTriggered | HostPaused | RetryScheduled | StragglerCancelled | UrlRefreshed
)
REPORTED = (EntryFinished, FallbackTriggered, HostPaused, RetryScheduled, StragglerCancelled, UrlRefreshed)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a share, in order (``cfetch.receipt/1``).

    ``number``: counts this task's parts, from 0; None: the share is over. ``first``: how many events of this
    task came before these. ``fault``: the fault that ended it early. ``executor``: its name for people.
    """

    schema: str = "cfetch.receipt/1"
    instant: str
    epoch: int
    share: int
    task: int
    attempt: int
    number: int | None
    first: int = 0
    events: list[ReportedEvent]
    fault: str | None = None
    executor: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        if self.fault is not None:
            return f"fault-{self.epoch}-{self.share:06d}-{self.task}"
        if self.number is None:
            return share_receipt_name(self.epoch, self.share)
        return f"part-{self.epoch}-{self.share:06d}-{self.task}-{self.number}"

    @property
    def records(self) -> list[FileRecord]:
        """The records of the entries that have ended."""
        return [event.record for event in self.events if isinstance(event, EntryFinished)]


def share_receipt_name(epoch: int, share: int) -> str:
    """The name of the file which says that the share is over."""
    return f"share-{epoch}-{share:06d}"


def leave_receipt(directory: Path, receipt: Receipt) -> bool:
    """Write the receipt in one step; False if another copy of the task was faster. Raises LocalFault."""
    is_relied_on = receipt.number is None  # a part that a power cut has torn is ignored
    try:
        return publish_once(directory / receipt.name, msgspec.json.encode(receipt), durable=is_relied_on)
    except LocalFault as fault:
        raise LocalFault(f"cannot leave a receipt in {directory}: {fault}") from None


def read_receipt(path: Path) -> Receipt | None:
    """Read a receipt; None: it is not there, or a power cut has torn it, which counts as not there.

    Raises LocalFault.
    """
    try:
        with on_disk(path):
            return msgspec.json.decode(path.read_bytes(), type=Receipt) if path.exists() else None
    except NOT_DECODED:
        return None


def is_in_place(volume: Directory, record: FileRecord, *, written_ns: int | None = None) -> bool:
    """True if the file of a record stands at the destination, with the size that it had.

    ``written_ns``: when the receipt was written: a file that has changed since then does not count.

    Raises LocalFault.
    """
    if not record.is_in_place:
        return False
    wanted = record.bytes if record.status == "done" else record.size_bytes
    identity = volume.identify(SafePath(record.path))
    if identity is None or (written_ns is not None and identity.status_ns > written_ns):
        return False
    return wanted in (identity.size_bytes, None)


class ReceiptReader:
    """Reads a directory of receipts as they come; each receipt is returned once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()

    def read_new(self, is_wanted: Callable[[str], bool]) -> Iterator[Receipt]:
        """The receipts that were not read before and whose names are wanted. Raises LocalFault."""
        with on_disk(self._directory):
            names = [path.name for path in self._directory.iterdir()]
        new = [name for name in names if name not in self._seen and is_wanted(name)]
        for name in sorted(new, key=_order_of):
            self._seen.add(name)
            try:
                data = (self._directory / name).read_bytes()
            except FileNotFoundError:  # it was a part, and its share is over by now
                continue
            except OSError as error:
                raise local_fault(error, f"cannot read {self._directory / name}") from None
            with suppress(*NOT_DECODED):
                yield msgspec.json.decode(data, type=Receipt)
                continue
            if name.startswith("share-"):
                raise LocalFault(
                    f"{self._directory / name} is damaged; remove it and run the same command again"
                )

    def find_written_ns(self, receipt: Receipt) -> int:
        """When the receipt was written, in nanoseconds since 1970; 0: it has gone."""
        with suppress(OSError):
            return (self._directory / receipt.name).stat().st_mtime_ns
        return 0


def _order_of(name: str) -> tuple[bool, int, str]:
    """The sort key: parts come before receipts of shares, and the parts of a task in their order."""
    number = name.rpartition("-")[2]
    return not name.startswith("part-"), int(number) if number.isdigit() else 0, name


class Account:
    """Lets each entry end once, even if several copies of a task report it. Pure.

    One copy may bring an entry that another copy could not: a failure is held back until the share is over.
    """

    def __init__(self) -> None:
        self._ended = bytearray()  # a bit for each entry
        self._count = 0
        self._held: dict[int, dict[int, EntryFinished]] = {}  # by share and entry
        self._known: dict[int, int] = {}  # events by task

    def __contains__(self, number: int) -> bool:
        return number >> 3 < len(self._ended) and bool(self._ended[number >> 3] >> (number & 7) & 1)

    def __len__(self) -> int:
        return self._count

    def add(self, number: int) -> None:
        """Note that the entry has ended."""
        if number in self:
            return
        place = number >> 3
        if place >= len(self._ended):
            self._ended.extend(bytes(place + 1 + len(self._ended) // 4))
        self._ended[place] |= 1 << (number & 7)
        self._count += 1

    def take_in(self, receipt: Receipt) -> Iterator[ReportedEvent]:
        """Take in a receipt. Yields the events that were not known."""
        held = self._held.setdefault(receipt.share, {})
        known = self._known.get(receipt.task, 0)
        if receipt.first <= known:  # otherwise an earlier part is missing; the share's receipt repeats it
            self._known[receipt.task] = max(known, receipt.first + len(receipt.events))
        for event in receipt.events[max(0, known - receipt.first) :]:
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
            yield from self._release(receipt.share)

    def close(self) -> Iterator[ReportedEvent]:
        """Yield the ends of the entries that no task has brought; called at the end of the run."""
        for share in list(self._held):
            yield from self._release(share)

    def _release(self, share: int) -> Iterator[ReportedEvent]:
        for number, event in self._held.pop(share, {}).items():
            if number not in self:
                self.add(number)
                yield event
