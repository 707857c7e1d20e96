"""Brings a share once, however often and by how many tasks at a time it is requested.

The first task that asks takes the lock of the share, brings it as a task of a job does, and leaves the same
receipt; the others wait for the lock and find the receipt. The kernel releases the lock of a dead task. One
that stands still, as its machine is frozen, keeps the lock but renews nothing: then another goes on beside it
as a copy. Both put the same verified bytes under the same names, and the first receipt counts.

A receipt answers for as long as its files stand; an entry that failed stays failed until ``forget_failures``.
A task may ask for some entries of a share only: then the receipt grows by those that it lacks.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from cfetch.base.errors import Held, LocalFault
from cfetch.base.records import FileRecord
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault, make_private, on_disk, replace_file
from cfetch.storage.locks import need_lock
from cfetch.tasks.hub.receipts import (
    ShareResult,
    TaskReport,
    encode_report,
    is_in_place,
    read_result,
    share_receipt_name,
)
from cfetch.tasks.shares.task import NOTHING_BESIDE, Beside, bring_share
from cfetch.tasks.shares.work import RunSpec, Share, Turn

EPOCH = 1  # always the same, as no task takes over a share: its lock is held or free
_FAILED = "failed-"  # before the number of a share: some of its files have failed
_AGAIN = "again-"  # the same, and these files have to be tried again
_LOCKS = "the data source needs a shared file system with file locks"
SILENT_S = 10.0  # who has renewed nothing for so long stands still; network file systems show times late
RENEW_S = 2.0
LOOK_S = 0.25  # of those who wait


class HeldLock:
    """The right to bring something, by the lock of a file. ``number``: how many have stood still before.

    Without a file nobody else brings it.
    """

    def __init__(self, number: int = 0, file: IO[bytes] | None = None) -> None:
        self.number = number
        self._file = file
        self._next_s = 0.0

    def renew(self) -> None:
        """Tell those who wait for the lock that the work moves."""
        if self._file is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + RENEW_S
            with suppress(OSError):  # others would bring the same beside this task
                os.utime(self._file.fileno())


def bring_share_once(spec: RunSpec, share: Share, number: int) -> list[FileRecord]:
    """The record of each entry, in the order of their ids; see ``find_or_bring``."""
    receipt = find_or_bring(spec, share, Turn(number, number))
    return sorted(_select_wanted(receipt, share), key=lambda record: record.id)


def find_or_bring(spec: RunSpec, share: Share, turn: Turn, beside: Beside = NOTHING_BESIDE) -> ShareResult:
    """The receipt of the share, with a record of each entry; brings the entries that no receipt has.

    It may also have records of other entries of the share. ``turn.share``: the share's number in
    ``spec.receipts``; ``turn.task``: a unique number within ``spec.instant``. ``beside`` is
    for ``bring_share``.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    receipt = _find_receipt(spec, share, turn.share)
    if receipt is None:
        with hold_renewed_lock(Path(spec.receipts, f"lock-{turn.share:06d}")) as lock:
            receipt = _find_receipt(spec, share, turn.share)
            if receipt is None:
                receipt = _bring_rest(spec, share, _name_turn(turn, lock), beside, lock.renew)
    return receipt


def _find_receipt(spec: RunSpec, share: Share, number: int) -> ShareResult | None:
    """The share's receipt; None: there is none, it lacks entries, or a file of it is gone."""
    receipts = Path(spec.receipts)
    receipt = read_result(receipts / share_receipt_name(EPOCH, number))
    if receipt is None or (receipts / f"{_AGAIN}{number:06d}").exists():
        return None
    wanted = _select_wanted(receipt, share)
    brought = [record for record in wanted if record.is_in_place]
    is_whole = len(wanted) == len(share.entries)
    return receipt if is_whole and len(_select_in_place(wanted, spec)) == len(brought) else None


def _select_wanted(receipt: ShareResult, share: Share) -> list[FileRecord]:
    wanted = {entry.id for entry in share.entries}
    return [record for record in receipt.records if record.id in wanted]


def _name_turn(turn: Turn, lock: HeldLock) -> Turn:
    """The turn with a number of its own, as another one that stands still may wake up."""
    if not lock.number:
        return turn
    digest = hashlib.sha256(f"{turn.task} {lock.number}".encode()).hexdigest()
    return turn._replace(task=int(digest[:14], 16), attempt=lock.number)


def _bring_rest(
    spec: RunSpec, share: Share, turn: Turn, beside: Beside, renew: Callable[[], None]
) -> ShareResult:
    number = turn.share
    path = Path(spec.receipts, share_receipt_name(EPOCH, number))
    before = read_result(path)
    again = path.with_name(f"{_AGAIN}{number:06d}")
    is_again = again.exists()
    records = [] if before is None else before.records
    kept = _select_in_place(records, spec)
    if not is_again:  # also those that this task has not asked for
        kept += [record for record in records if not record.is_in_place]
    known = {record.id for record in kept}
    left = [entry for entry in share.entries if entry.id not in known]
    directory = Path(spec.destination.fence)
    with on_disk(directory):
        path.unlink(missing_ok=True)
        make_private(directory)
        if (directory / f"t{turn.task}").exists():
            shutil.rmtree(directory / f"t{turn.task}")  # parts of a killed task, as we have the lock now
    outcome = bring_share(spec, share._replace(entries=left), turn, on_life=renew, beside=beside)
    receipt = read_result(path)
    if receipt is None:
        raise LocalFault(f"the receipt of a share in {spec.receipts} was removed; read the frame again")
    brought = {record.id for record in receipt.records}  # by a copy of this task, it may be all
    kept = [record for record in kept if record.id not in brought]
    if kept:
        report = TaskReport(instant=spec.instant, epoch=EPOCH, share=number, task=turn.task)
        with on_disk(path):
            data = path.read_bytes()
        replace_file(path, data + encode_report(report, kept))
        receipt.records.extend(kept)
    with on_disk(path):
        if outcome.failed:
            path.with_name(f"{_FAILED}{number:06d}").touch(0o600)
        if is_again:  # else a ``load`` may have left it meanwhile
            again.unlink(missing_ok=True)
    return receipt


def _select_in_place(records: list[FileRecord], spec: RunSpec) -> list[FileRecord]:
    with closing(Directory(Path(spec.destination.root))) as volume:
        return [record for record in records if is_in_place(volume, record)]


def forget_failures(receipts: Path) -> None:
    """Let the next read of each share with failed files try them again. Raises LocalFault."""
    with on_disk(receipts):
        for path in list(receipts.glob(f"{_FAILED}*")):
            path.replace(path.with_name(_AGAIN + path.name.removeprefix(_FAILED)))


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Keep all others out of the ``with``, on any machine that sees ``path``. Raises LocalFault."""
    with _open_lock(path) as file:
        _lock(file, path, waits=True)
        yield


@contextmanager
def hold_renewed_lock(path: Path) -> Iterator[HeldLock]:
    """Keep all others out of the ``with`` for as long as its work moves. Raises LocalFault.

    One that waits for somebody who stands still goes on beside it, and others wait for that one then.
    """
    for number in count():
        own = path.with_name(f"{path.name}-{number}") if number else path
        with _open_lock(own) as file:
            if _wait_for_turn(file, own):
                yield HeldLock(number, file)
                return


def _wait_for_turn(file: IO[bytes], path: Path) -> bool:
    """Wait for the lock; False: who has it has renewed nothing for ``SILENT_S``."""
    renewed_ns, since_s = -1, time.monotonic()
    while True:
        with suppress(Held):
            _lock(file, path, waits=False)
            return True
        with on_disk(path):
            now_ns = path.stat().st_mtime_ns
        if now_ns != renewed_ns:
            renewed_ns, since_s = now_ns, time.monotonic()
        elif time.monotonic() - since_s > SILENT_S:
            return False
        time.sleep(LOOK_S)


def _open_lock(path: Path) -> IO[bytes]:
    with on_disk(path):
        return path.open("ab")


def _lock(file: IO[bytes], path: Path, *, waits: bool) -> None:
    """Raises LocalFault; Held: another one has it."""
    try:
        need_lock(file.fileno(), f"{{holder}} has {path}", name=path, remedy=_LOCKS, waits=waits)
    except OSError as error:
        raise local_fault(error, f"cannot lock {path}; {_LOCKS}") from None
