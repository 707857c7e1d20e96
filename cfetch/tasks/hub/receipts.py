"""Receipts: reports that tasks leave in a directory which the driver sees; nothing else passes between them.

A report tells what a task has done since its last one: a line with sums, events and failures, then the lines
of the metrics about the files that it brought. These lines are made once, by the task, and nobody needs to
decode them on their way to the metrics file. So that a disk that returns other bytes is noticed all the same,
the line and the lines behind it have check sums (CRC-32); the first stands in front of the line.

``share-<epoch>-<share>`` is left once, by the first copy of a task that brings all of its share to its end:
it is made under a temporary name and linked into place, so the first copy wins. It has all reports of its
task. ``part-…`` has one report, early; it is useful if the task dies, and is removed when the receipt of the
share is there. ``fault-…`` says why an executor cannot work. The driver leaves ``stop``: all tasks then end
in good order. Jobs and data frames read the same receipts.
"""

import errno
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, NamedTuple

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.events import (
    BatchCommitted,
    BatchPlaced,
    FallbackTriggered,
    HostPaused,
    RetryScheduled,
    RunNoted,
    StragglerCancelled,
    UrlRefreshed,
)
from cfetch.base.records import NOT_DECODED, Digest, FileRecord, RecordBlock
from cfetch.manifest.entry import SafePath
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault, on_disk, publish_once

STOP_NAME = "stop"
ReportedEvent = (
    BatchCommitted
    | BatchPlaced
    | FallbackTriggered
    | HostPaused
    | RetryScheduled
    | RunNoted
    | StragglerCancelled
    | UrlRefreshed
)
REPORTED = ReportedEvent.__args__
Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
EntryNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]  # the driver has a bit for each


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a report (``cfetch.receipt/2``).

    ``number``: counts the reports of this task, from 0. ``ids``: the entries in place, whose records take up
    the next ``block_bytes``, with the check sum ``block_sum``; ``digest`` sums them up. ``unfinished``:
    records of the others that have ended. ``volume``: where they are, if the run has several. ``fault``: the
    fault that ended the task early. ``executor``: its name for people.
    """

    schema: Literal["cfetch.receipt/2"] = "cfetch.receipt/2"
    instant: str
    epoch: int
    share: int
    task: int
    number: Number = 0
    executor: str = ""
    volume: str = ""
    events: list[ReportedEvent] = []
    unfinished: list[FileRecord] = []
    ids: list[EntryNumber] = []
    digest: Digest | None = None
    block_bytes: Number = 0
    block_sum: Number = 0
    fault: str | None = None

    @property
    def part_name(self) -> str:
        """The name of the part that has this report alone."""
        return f"part-{self.epoch}-{self.share:06d}-{self.task}-{self.number}"

    @property
    def fault_name(self) -> str:
        """The name of the file in which the task tells of its fault."""
        return f"fault-{self.epoch}-{self.share:06d}-{self.task}"

    def belongs_to(self, instant: str, name: str) -> bool:
        """Whether it is a report of the plan, and in the file of this name."""
        names = (self.part_name, share_receipt_name(self.epoch, self.share), self.fault_name)
        return self.instant == instant and name in names


class Receipt(NamedTuple):
    """A file with reports, each with its records; ``blocks`` can be read while the file is open."""

    name: str
    reports: list[TaskReport]
    blocks: list[RecordBlock]

    @property
    def is_over(self) -> bool:
        """Whether the share is over."""
        return self.name.startswith("share-")

    def read_records(self) -> list[FileRecord]:
        """The records of the entries that have ended. Raises one of ``NOT_DECODED``."""
        records = []
        for report, block in zip(self.reports, self.blocks, strict=True):
            check_block(report, block)
            records += [*block.read_records(), *report.unfinished]
        return records


class ShareResult(NamedTuple):
    """The records of a share that is over, in memory; ``executor`` brought it."""

    executor: str
    records: list[FileRecord]


def share_receipt_name(epoch: int, share: int) -> str:
    """The name of the file which says that the share is over."""
    return f"share-{epoch}-{share:06d}"


def encode_report(report: TaskReport, records: Sequence[FileRecord] = ()) -> bytes:
    """The report with these records, of which those in place become its block."""
    brought = [record for record in records if record.is_in_place]
    block = _ENCODER.encode_lines(brought)
    report = msgspec.structs.replace(
        report,
        ids=[record.id for record in brought],
        unfinished=[record for record in records if not record.is_in_place],
        block_bytes=len(block),
        block_sum=zlib.crc32(block),
    )
    head = _ENCODER.encode(report)
    return b"%08x %b\n%b" % (zlib.crc32(head), head, block)


def check_block(report: TaskReport, block: RecordBlock) -> None:
    """Compare the lines of a report with their check sum. Raises OSError, DecodeError."""
    read_sum = 0
    for text in block.read_lines():
        read_sum = zlib.crc32(text, read_sum)
    if read_sum != report.block_sum:
        raise msgspec.DecodeError("its records are not those that were written")


def leave_receipt(directory: Path, name: str, *reports: bytes) -> bool:
    """Write reports in one step; False if another copy of the task was faster. Raises LocalFault."""
    is_relied_on = not name.startswith("part-")  # a part that a power cut has torn is ignored
    try:
        return publish_once(directory / name, b"".join(reports), durable=is_relied_on)
    except LocalFault as fault:
        raise LocalFault(f"cannot leave a receipt in {directory}: {fault}") from None


def read_result(path: Path) -> ShareResult | None:
    """Read a receipt; None: it is not there, or a power cut has torn it, which counts as not there.

    Raises LocalFault.
    """
    try:
        with on_disk(path):
            if not path.exists():
                return None
            if path.is_dir():
                raise _explain_damage(path, "a directory")
            with path.open("rb") as file:
                receipt = _decode(path.name, file)
                return ShareResult(receipt.reports[0].executor, receipt.read_records())
    except NOT_DECODED:
        return None


_GONE = {errno.ENOENT, errno.ESTALE}  # the second is NFS's word for it
_ENCODER = msgspec.json.Encoder()
_REPORT = msgspec.json.Decoder(TaskReport)


def _decode(name: str, file: BinaryIO) -> Receipt:
    """The reports of a file, whose records are not read yet. Raises one of ``NOT_DECODED``."""
    size_bytes = file.seek(0, io.SEEK_END)
    receipt = Receipt(name, [], [])
    end = file.seek(0)
    while end < size_bytes or not receipt.reports:
        report = _decode_head(file.readline())
        begin = file.tell()
        end = begin + report.block_bytes
        if end > size_bytes:
            raise msgspec.DecodeError("its last report is cut off")
        file.seek(end)
        receipt.reports.append(report)
        receipt.blocks.append(RecordBlock(file, begin, report.block_bytes))
    return receipt


def _decode_head(line: bytes) -> TaskReport:
    stated, _, head = line.rstrip(b"\n").partition(b" ")
    if stated != b"%08x" % zlib.crc32(head):
        raise msgspec.DecodeError("its first line is not the one that was written")
    return _REPORT.decode(head)


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
    """Reads a directory of receipts as they come; each receipt is returned once.

    ``instant``: of their plan. A receipt of another plan or share speaks of other files under the same
    numbers, and counts as damaged.
    """

    def __init__(self, directory: Path, instant: str) -> None:
        self._directory = directory
        self._instant = instant
        self._seen: set[str] = set()

    def read_new(self, is_wanted: Callable[[str], bool], *, needs_all: bool = True) -> Iterator[Receipt]:
        """The receipts that were not read before and whose names are wanted, each while it is open.

        ``needs_all``: the receipt of a share has to be readable; else one that is not, as it is damaged or of
        another version, counts as not there.

        Raises LocalFault.
        """
        with on_disk(self._directory):
            names = [path.name for path in self._directory.iterdir()]
        new = [name for name in names if name not in self._seen and is_wanted(name)]
        for name in sorted(new, key=_order_of):
            self._seen.add(name)
            try:
                with (self._directory / name).open("rb") as file:
                    is_lasting = name.startswith("share-")  # its task may remove a part at any time
                    receipt = _decode(name, file if is_lasting else io.BytesIO(file.read()))
                    if not all(report.belongs_to(self._instant, name) for report in receipt.reports):
                        raise msgspec.DecodeError("it is of another plan or share")
                    yield receipt
            except IsADirectoryError:
                raise _explain_damage(self._directory / name, "a directory") from None
            except OSError as error:
                if error.errno in _GONE:  # it was a part, and its share is over by now
                    continue
                raise local_fault(error, f"cannot read {self._directory / name}") from None
            except NOT_DECODED:
                if needs_all and name.startswith("share-"):
                    raise _explain_damage(self._directory / name, "damaged") from None

    def find_written_ns(self, receipt: Receipt) -> int:
        """When the receipt was written, in nanoseconds since 1970; 0: it has gone."""
        with suppress(OSError):
            return (self._directory / receipt.name).stat().st_mtime_ns
        return 0


def _explain_damage(path: Path, what: str) -> LocalFault:
    return LocalFault(f"{path} is {what}; remove it and run the same command again")


def _order_of(name: str) -> tuple[bool, int, str]:
    """The sort key: parts come before receipts of shares, and the parts of a task in their order."""
    number = name.rpartition("-")[2]
    return not name.startswith("part-"), int(number) if number.isdecimal() else 0, name
