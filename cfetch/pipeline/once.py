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
from cfetch.events import EntryFinished, FileRecord
from cfetch.manifest.entry import SafePath
from cfetch.pipeline.receipts import Receipt, batch_name, on_disk
from cfetch.pipeline.work import Copy, Work, attempts_of, do_batch
from cfetch.pipeline.work_file import Batch
from cfetch.placement.local import LocalVolume, local_fault

__all__ = ["EPOCH", "bring_once", "forget_failures", "locked"]

EPOCH = 1  # nobody takes a batch over from another: a lock is held or it is not
_FAILED = "failed-"  # before the number of a batch: some of its files could not be had


def bring_once(work: Work, batch: Batch, number: int, *, task: int) -> list[FileRecord]:
    """What became of each entry, in the order of their ids; downloads if no receipt tells it.

    ``number``: the batch's among those of ``work.receipts``; ``task``: its own among all of ``work.instant``.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    receipt = Path(work.receipts, batch_name(EPOCH, number))
    records = _told(receipt, work.root)
    if records is not None:
        return records
    with locked(Path(work.receipts, f"lock-{number:06d}")):
        records = _told(receipt, work.root)
        if records is None:
            records = _brought(work, batch, receipt, number, task)
    return records


def _brought(work: Work, batch: Batch, receipt: Path, number: int, task: int) -> list[FileRecord]:
    directory = attempts_of(Path(work.root), work.instant, EPOCH)
    with on_disk(directory):
        receipt.unlink(missing_ok=True)  # of files that are gone
        directory.mkdir(0o700, parents=True, exist_ok=True)
        if (directory / f"t{task}").exists():
            shutil.rmtree(directory / f"t{task}")  # parts of a task that was killed: the lock is ours
    done = do_batch(work, batch, Copy(number, task, 0))
    records = _told(receipt, work.root)
    if records is None:
        raise LocalFault(
            f"{work.root} was changed while the files were being downloaded; read the frame again"
        )
    if done.failed:
        with on_disk(receipt.parent):
            (receipt.parent / f"{_FAILED}{number:06d}").touch(0o600)
    return records


def _told(path: Path, root: str) -> list[FileRecord] | None:
    """What the receipt says; None: there is none, or a file of it does not stand any more."""
    try:
        with on_disk(path):
            text = path.read_bytes() if path.exists() else None
        receipt = None if text is None else msgspec.json.decode(text, type=Receipt)
    except msgspec.MsgspecError:  # a power cut: it is as if the batch had not been brought
        receipt = None
    if receipt is None:
        return None
    records = [event.record for event in receipt.events if isinstance(event, EntryFinished)]
    volume = LocalVolume(Path(root))
    try:
        if not all(_stands(volume, record) for record in records if record.status in ("done", "skipped")):
            return None
    finally:
        volume.close()
    return sorted(records, key=lambda record: record.id)


def _stands(volume: LocalVolume, record: FileRecord) -> bool:
    wanted = record.bytes if record.status == "done" else record.size_bytes
    try:
        size_bytes = volume.existing(SafePath(record.path))
    except Blocked:
        return False
    return size_bytes is not None and wanted in (size_bytes, None)


def forget_failures(receipts: Path) -> None:
    """Whoever asks next for a batch with failed files has it tried again. Raises LocalFault."""
    with on_disk(receipts):
        for path in list(receipts.glob(f"{_FAILED}*")):
            (receipts / batch_name(EPOCH, int(path.name.removeprefix(_FAILED)))).unlink(missing_ok=True)
            path.unlink(missing_ok=True)


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
