"""The journal of a follower's work: its present step, its progress in it, and the deleted files.

A step is written down as a whole before it begins: its changes in rounds, and the checkpoint that is valid
when all of them are applied. So after a follower has died, the next one continues with the same round, and
applies no change after a later one. The order of writing is files, deletes, number of the round, checkpoint;
each in one step and on disk. Only the owner can read the files, as a change may hold a signed link.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from cfetch.base.config.path_filter import PathFilter
from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.plugins.follow.checkpoint import (
    ChangeRow,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    make_row,
    read_checkpoint,
    restore_change,
    write_checkpoint,
)
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.steps import Round
from cfetch.storage.files import make_private, on_disk, remove_temporaries, replace_file
from cfetch.storage.group_rights import create_file, make_file
from cfetch.storage.lacking import flush_file
from cfetch.storage.locks import need_lock
from cfetch.timeline.owner import this_owner

LOCK = "lock"
CHECKPOINT = "checkpoint.json"
STEP = "step"
NEXT = "next.json"
TOMBSTONES = "tombstones.jsonl"
STATUS = "status.json"
FILTER = "filter.json"
BEGIN = "begin.json"
IN_STEP_S = 60.0  # a follower with nothing to do does not write to the disk more often
SNAPSHOT = "resync.sqlite"  # while it is there, the follower compares its files with the feed
HELD = (
    "another run follows this feed into this destination ({holder}); wait until it has ended, or end it, and "
    "run the same command again; --status shows how far it is"
)


class _Round(msgspec.Struct, frozen=True, array_like=True):
    deletes: list[ChangeRow]
    upserts: list[ChangeRow]


class _Next(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``done`` rounds of the step are applied; ``checkpoint`` becomes valid when all are."""

    done: int
    checkpoint: msgspec.Raw


class JournalStep(NamedTuple):
    """``rounds`` are left to do, after ``done`` ones; ``checkpoint`` becomes valid at the end."""

    rounds: Sequence[Round]
    checkpoint: Checkpoint
    done: int = 0


class Status(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a follower last found nothing new, and its last error; times are those of the machine's clock."""

    in_step_s: float | None = None
    error: str = ""
    error_s: float | None = None


class _Tombstone(msgspec.Struct, frozen=True, rename={"deleted_at": "at"}):
    path: str
    lsn: str
    deleted_at: str


class Journal:
    """The journal of one feed and destination in ``directory``; ``with`` locks out other followers.

    Raises:
        Held: another follower has it.
        LocalFault: it cannot be written.
    """

    def __init__(self, directory: Path, *, state: Path | None = None) -> None:
        """``state`` is the directory that it is in, which a group may share."""
        self.directory = directory
        self._state = state
        self._lock = -1
        self._kept: Checkpoint | None = None
        self._in_step_s: float | None = None

    def __enter__(self) -> Self:
        with on_disk(self.directory):
            make_private(self.directory, state=self._state)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = create_file(self.directory / LOCK, flags, 0o600)
            try:
                need_lock(self._lock, HELD, name=self.directory / LOCK, remedy="--state names another place")
            except BaseException:
                os.close(self._lock)
                raise
            for name in (CHECKPOINT, STEP, NEXT, STATUS, FILTER, BEGIN):
                remove_temporaries(self.directory / name)
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, msgspec.json.encode(this_owner("")), 0)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, before which all changes are applied; None if there is none. Raises FeedError."""
        self._kept = read_checkpoint(self.directory / CHECKPOINT)
        return self._kept

    def has_checkpoint(self) -> bool:
        """Whether a follower has been at work here. Raises LocalFault."""
        with on_disk(self.directory):
            return (self.directory / CHECKPOINT).exists()

    def version(self) -> str:
        """A text of hex digits and dashes, another one after each change here. Raises LocalFault."""
        with on_disk(self.directory):
            status = (self.directory / CHECKPOINT).stat()
        return f"{status.st_mtime_ns:x}-{status.st_ino:x}"

    # the step

    def keep(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, before which all changes are applied; not again if it is the present one."""
        if checkpoint != self._kept:
            write_checkpoint(self.directory / CHECKPOINT, checkpoint)
            self._kept = checkpoint

    def begin(self, rounds: Sequence[Round], checkpoint: Checkpoint) -> JournalStep:
        """Write a step down. Nothing of it has been applied yet."""
        rows = [
            _Round(list(map(make_row, each.deletes)), list(map(make_row, each.upserts))) for each in rounds
        ]
        replace_file(self.directory / STEP, msgspec.msgpack.encode(rows))
        step = JournalStep(rounds, checkpoint)
        self._write_progress(step)
        return step

    def read_unfinished(self) -> JournalStep | None:
        """The step that a dead follower was at, with the rounds that are left of it. Raises LocalFault."""
        path = self.directory / NEXT
        try:
            with on_disk(self.directory):
                data = path.read_bytes() if path.exists() else None
                step = (self.directory / STEP).read_bytes() if data is not None else b""
            if data is None:
                return None
            known = msgspec.json.decode(data, type=_Next)
            rows = msgspec.msgpack.decode(step, type=list[_Round])
            checkpoint = decode_checkpoint(bytes(known.checkpoint))
            rounds = [
                Round(tuple(map(restore_change, each.deletes)), tuple(map(restore_change, each.upserts)))
                for each in rows[known.done :]
            ]
        except (ValueError, *NOT_DECODED):
            raise LocalFault(
                f"the step in {self.directory} is damaged; remove {NEXT} there and run the same command "
                "again: the step is read anew"
            ) from None
        return JournalStep(rounds, checkpoint, known.done)

    def finish_round(self, step: JournalStep, pending: Iterable[Change]) -> JournalStep:
        """Note that the first open round is applied; ``pending``: changes of all rounds that failed."""
        checkpoint = replace(step.checkpoint, pending=tuple(pending))
        step = JournalStep(step.rounds[1:], checkpoint, step.done + 1)
        self._write_progress(step)
        return step

    def end(self, step: JournalStep) -> None:
        """End a step whose rounds are all applied: write its checkpoint."""
        self.keep(step.checkpoint)
        with on_disk(self.directory):
            (self.directory / NEXT).unlink()
            (self.directory / STEP).unlink(missing_ok=True)

    def _write_progress(self, step: JournalStep) -> None:
        known = _Next(step.done, msgspec.Raw(encode_checkpoint(step.checkpoint)))
        replace_file(self.directory / NEXT, msgspec.json.encode(known))

    # comparing all files with the feed

    def begin_resync(self) -> None:
        """Forget the position in the feed: all of the feed is to be read, and compared with what is here."""
        with on_disk(self.directory):
            for name in (NEXT, STEP, BEGIN, SNAPSHOT, f"{SNAPSHOT}-journal"):  # SQLite's, after a kill
                (self.directory / name).unlink(missing_ok=True)
            make_file(self.snapshot)
            (self.directory / CHECKPOINT).unlink(missing_ok=True)
        self._kept = None

    def is_resyncing(self) -> bool:
        """Whether files are still to be compared with the feed, perhaps since an earlier run."""
        return self.snapshot.exists()

    def end_resync(self, checkpoint: Checkpoint) -> None:
        """Note that all files are as the feed has them at ``checkpoint``."""
        self.keep(checkpoint)
        with on_disk(self.directory):
            self.snapshot.unlink()

    @property
    def snapshot(self) -> Path:
        """The path of what the feed has (``Snapshot``)."""
        return self.directory / SNAPSHOT

    def keep_filter(self, wanted: PathFilter) -> bool:
        """Note which paths are taken. If they were others before, all of the feed is to be read again.

        Return whether it is.
        """
        path = self.directory / FILTER
        with on_disk(path):
            data = path.read_bytes() if path.exists() else msgspec.json.encode(PathFilter())
        if data == msgspec.json.encode(wanted):
            return False
        is_other = (self.directory / CHECKPOINT).exists() or self.is_resyncing()
        if is_other:
            self.begin_resync()
        replace_file(path, msgspec.json.encode(wanted))
        return is_other

    def keep_begin(self, wanted_s: float | None) -> float | None:
        """The time from which the feed is read: ``wanted_s`` where there is no position, else the kept one.

        It is kept, so that ranges of which nothing has been read yet begin at the same time in a later run,
        also if that asks for another. Seconds since 1970; None: the feed is read from its oldest change on.
        """
        path = self.directory / BEGIN
        with on_disk(path):
            if path.exists():
                return msgspec.json.decode(path.read_bytes(), type=float)
        if wanted_s is None or (self.directory / CHECKPOINT).exists() or self.is_resyncing():
            return None
        replace_file(path, msgspec.json.encode(wanted_s))
        return wanted_s

    # for people

    def note_in_step(self, now_s: float) -> None:
        """Note that the follower is at the end of the feed."""
        self._in_step_s = now_s
        status = read_status(self.directory)
        if status.in_step_s is None or not 0 <= now_s - status.in_step_s < IN_STEP_S:
            self._write_status(msgspec.structs.replace(status, in_step_s=now_s))

    def in_step_s(self) -> float | None:
        """Return when this follower, or one before it, was last at the end of the feed. Raises LocalFault."""
        return self._in_step_s if self._in_step_s is not None else read_status(self.directory).in_step_s

    def note_error(self, error: str, now_s: float) -> None:
        """Note an error of the follower or of the feed."""
        self._write_status(msgspec.structs.replace(read_status(self.directory), error=error, error_s=now_s))

    def _write_status(self, status: Status) -> None:
        replace_file(self.directory / STATUS, msgspec.json.encode(status))

    # deletes

    def record_deletes(self, deletes: Iterable[Change], deleted_at: str) -> None:
        """Record deletes, a line each: the file deleted at the source, and when this follower met it."""
        stones = [
            msgspec.json.encode(_Tombstone(change.path, str(change.lsn), deleted_at)) + b"\n"
            for change in deletes
        ]
        if not stones:
            return
        path = self.directory / TOMBSTONES
        with on_disk(path):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(create_file(path, flags, 0o600), "ab") as file:
                file.write(b"".join(stones))
                file.flush()
                flush_file(file.fileno())


def read_status(directory: Path) -> Status:
    """Read what a follower has noted for people; nothing if the file is not there, or damaged."""
    with on_disk(directory):
        try:
            return msgspec.json.decode((directory / STATUS).read_bytes(), type=Status)
        except (FileNotFoundError, *NOT_DECODED):
            return Status()


def name_feed(feed: str) -> str:
    """The same name for a feed, however a person spells it."""
    return feed.rstrip("/") if "://" in feed else str(Path(feed).resolve())


def locate_journal(state: Path, feed: str, roots: Iterable[str | Path]) -> Path:
    """The journal's directory below a state directory, for a feed as a person names it and destinations.

    Several destinations may share a state, each with a position of its own.
    """
    text = "\n".join([name_feed(feed), *sorted(map(str, roots))])
    return state / "feeds" / hashlib.sha256(text.encode()).hexdigest()[:32]


def locate_checkpoint(state: Path, feed: str, roots: Iterable[str | Path]) -> Path:
    """The path of the checkpoint's file."""
    return locate_journal(state, feed, roots) / CHECKPOINT
