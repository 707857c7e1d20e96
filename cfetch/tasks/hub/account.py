"""The account of a run: which of its entries have ended, by the receipts of its tasks. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cfetch.base.events import EntriesFinished, EntryFinished, Event
from cfetch.base.records import FileRecord, RecordBlock
from cfetch.tasks.hub.receipts import Receipt, TaskReport, check_block


class Account:
    """Lets each entry end once, even if several copies of a task report it. Pure.

    One copy may bring an entry that another copy could not: a failure is held back until the share is over.
    """

    def __init__(self) -> None:
        self._ended = bytearray()  # a bit for each entry
        self._count = 0
        self._held: dict[int, dict[int, FileRecord]] = {}  # by share and entry
        self._known: dict[int, int] = {}  # reports by task, without a gap
        self._early: set[tuple[int, int]] = set()  # reports by task and number, behind a gap
        # by task: files in place, and bytes that came for them
        self._reported: dict[int, tuple[int, int]] = {}
        self.done_bytes = Counter[str]()  # of the files that tasks have brought, by volume

    def __contains__(self, number: int) -> bool:
        return number >> 3 < len(self._ended) and bool(self._ended[number >> 3] >> (number & 7) & 1)

    def __len__(self) -> int:
        return self._count

    def add(self, number: int) -> None:
        """Note that the entry has ended."""
        self._add_all([number])

    def _add_all(self, numbers: Sequence[int]) -> bool:
        """Note that all these entries have ended, unless one of them had before; then return False."""
        if not numbers:
            return True
        ended, place = self._ended, max(numbers) >> 3
        if place >= len(ended):
            ended.extend(bytes(place + 1 + len(ended) // 4))
        if any(ended[number >> 3] >> (number & 7) & 1 for number in numbers):
            return False
        for number in numbers:
            ended[number >> 3] |= 1 << (number & 7)
        self._count += len(numbers)
        return True

    def count_unreported(self, brought: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
        """Count the files and bytes that tasks have ``brought`` and not reported yet."""
        left = [
            (files - reported[0], size_bytes - reported[1])
            for task, (files, size_bytes) in brought.items()
            for reported in (self._reported.get(task, (0, 0)),)
        ]
        return sum(max(0, files) for files, _ in left), sum(max(0, size_bytes) for _, size_bytes in left)

    def take_in(self, receipt: Receipt) -> Iterator[Event]:
        """Take in a receipt. Yields the events that were not known.

        Raises OSError, or one of ``NOT_DECODED``: the report is damaged, and nothing of it was taken in.
        """
        for report, block in zip(receipt.reports, receipt.blocks, strict=True):
            if self._knows(report):
                continue
            check_block(report, block)
            self._note(report)
            yield from report.events
            yield from self._take_block(report, block)
            for record in report.unfinished:
                if record.id not in self:
                    self._held.setdefault(report.share, {})[record.id] = record
        if receipt.is_over:
            yield from self._release(receipt.reports[-1].share)

    def close(self) -> Iterator[Event]:
        """Yield the ends of the entries that no task has brought; called at the end of the run."""
        for share in list(self._held):
            yield from self._release(share)

    def _knows(self, report: TaskReport) -> bool:
        return report.number < self._known.get(report.task, 0) or (report.task, report.number) in self._early

    def _note(self, report: TaskReport) -> None:
        """Note that a report is known: if an earlier one is missing, the share's receipt repeats both."""
        files, size_bytes = self._reported.get(report.task, (0, 0))
        size_bytes += 0 if report.digest is None else report.digest.sums.done_bytes
        self._reported[report.task] = files + len(report.ids), size_bytes
        self._early.add((report.task, report.number))
        known = self._known.get(report.task, 0)
        while (report.task, known) in self._early:
            self._early.remove((report.task, known))
            known += 1
        self._known[report.task] = known

    def _take_block(self, report: TaskReport, block: RecordBlock) -> Iterator[Event]:
        """Take in the entries in place: as a whole, unless another copy of the task has brought some."""
        if report.digest is not None and self._add_all(report.ids):
            if report.ids:
                self.done_bytes[report.volume] += report.digest.sums.done_bytes
                yield EntriesFinished(
                    t_s=report.digest.sums.end_s,
                    ids=report.ids,
                    digest=report.digest,
                    block=block,
                    volume=report.volume,
                )
            return
        for record in block.read_records():
            if record.id not in self:
                self.add(record.id)
                self.done_bytes[report.volume] += record.bytes if record.status == "done" else 0
                yield EntryFinished(t_s=record.end_s, record=record)

    def _release(self, share: int) -> Iterator[Event]:
        for record in self._held.pop(share, {}).values():
            if record.id not in self:
                self.add(record.id)
                yield EntryFinished(t_s=record.end_s, record=record)
