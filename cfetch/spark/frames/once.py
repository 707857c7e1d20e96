"""A batch that is brought once, however often and by how many tasks at a time it is asked for.

The first to ask takes the batch's lock, downloads and leaves a receipt; the others wait for the lock and
find the receipt. The kernel lets go of a dead task's lock. A receipt answers as long as the files that it
tells of stand; what failed stays failed until ``forget_failures``.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cfetch.errors import Blocked, LocalFault
from cfetch.events import EntryFinished
from cfetch.hub.receipts import Receipt, batch_name
from cfetch.manifest.entry import SafePath
from cfetch.records import FileRecord
from cfetch.spark.task import Copy, Work, attempts_of, do_batch
from cfetch.spark.work_file import Batch
from cfetch.storage.directory import Directory
from cfetch.storage.files import local_fault, on_disk, replace_file

__all__ = ["EPOCH", "bring_once", "forget_failures", "locked"]

EPOCH = 1  # nobody takes a batch over from another: a lock is held or it is not
_FAILED = "failed-"  # before the number of a batch: some of its files could not be had
_AGAIN = "again-"  # the same, and they are to be tried again


def bring_once(work: Work, batch: Batch, number: int, *, task: int) -> list[FileRecord]:
    """What became of each entry, in the order of their ids; downloads what no receipt tells.

    ``number``: the batch's among those of ``work.receipts``; ``task``: its own among all of ``work.instant``.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    records = _answer(work, batch, number)
    if records is None:
        with locked(Path(work.receipts, f"lock-{number:06d}")):
            records = _answer(work, batch, number)
            if records is None:
                records = _brought(work, batch, number, task)
    return sorted(records, key=lambda record: record.id)


def _answer(work: Work, batch: Batch, number: int) -> list[FileRecord] | None:
    """What the receipt says; None: there is none, it is not whole, or a file of it stands no more."""
    receipts = Path(work.receipts)
    receipt = _read(receipts / batch_name(EPOCH, number))
    if receipt is None or (receipts / f"{_AGAIN}{number:06d}").exists():
        return None
    records = _records(receipt)
    there = [record for record in records if record.status in ("done", "skipped")]
    is_whole = len(records) == len(batch.entries) and len(_standing(there, work.root)) == len(there)
    return records if is_whole else None


def _brought(work: Work, batch: Batch, number: int, task: int) -> list[FileRecord]:
    path = Path(work.receipts, batch_name(EPOCH, number))
    before = _read(path)
    good = [] if before is None else _standing(_records(before), work.root)
    known = {record.id for record in good}
    left = [entry for entry in batch.entries if entry.id not in known]
    directory = attempts_of(Path(work.root), work.instant, EPOCH)
    with on_disk(directory):
        path.unlink(missing_ok=True)
        directory.mkdir(0o700, parents=True, exist_ok=True)
        if (directory / f"t{task}").exists():
            shutil.rmtree(directory / f"t{task}")  # parts of a task that was killed: the lock is ours
    done = do_batch(work, batch._replace(entries=left), Copy(number, task, 0))
    receipt = _read(path)
    if receipt is None:
        raise LocalFault(f"the receipt of a batch in {work.receipts} was removed; read the frame again")
    if good:
        events = [EntryFinished(t_s=record.end_s, record=record) for record in good]
        receipt = msgspec.structs.replace(receipt, events=[*receipt.events, *events])
        replace_file(path, msgspec.json.encode(receipt))
    with on_disk(path):
        if done.failed:
            path.with_name(f"{_FAILED}{number:06d}").touch(0o600)
        path.with_name(f"{_AGAIN}{number:06d}").unlink(missing_ok=True)
    return _records(receipt)


def _read(path: Path) -> Receipt | None:
    """None: it is not there, or a power cut has torn it, which is as if the batch had not been brought."""
    try:
        with on_disk(path):
            return msgspec.json.decode(path.read_bytes(), type=Receipt) if path.exists() else None
    except msgspec.MsgspecError:
        return None


def _records(receipt: Receipt) -> list[FileRecord]:
    return [event.record for event in receipt.events if isinstance(event, EntryFinished)]


def _standing(records: list[FileRecord], root: str) -> list[FileRecord]:
    """Those whose files are in place, with the size that they had."""
    volume = Directory(Path(root))
    try:
        return [record for record in records if _stands(volume, record)]
    finally:
        volume.close()


def _stands(volume: Directory, record: FileRecord) -> bool:
    if record.status not in ("done", "skipped"):
        return False
    wanted = record.bytes if record.status == "done" else record.size_bytes
    try:
        size_bytes = volume.existing(SafePath(record.path))
    except Blocked:
        return False
    return size_bytes is not None and wanted in (size_bytes, None)


def forget_failures(receipts: Path) -> None:
    """Whoever asks next for a batch with failed files has them tried again. Raises LocalFault."""
    with on_disk(receipts):
        for path in list(receipts.glob(f"{_FAILED}*")):
            path.replace(path.with_name(_AGAIN + path.name.removeprefix(_FAILED)))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else is in here, on any machine that sees ``path``. Raises LocalFault."""
    with on_disk(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            what = f"cannot lock {path}; the data source needs a shared file system with file locks"
            raise local_fault(error, what) from None
        yield
    finally:
        with suppress(OSError):
            os.close(descriptor)
