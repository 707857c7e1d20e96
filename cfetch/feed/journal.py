"""What a follower keeps of its work: whose turn it is, the step that it is at, and what was deleted.

A step is written down as a whole before it begins: its changes in rounds, and the checkpoint that holds when
all of them are applied. So a follower that died goes on with the very round that it was at, and applies
nothing twice that has been overtaken. The order of writing is files, deletes, number of the round,
checkpoint; each in one step and on disk. All files are their owner's alone: a change may hold a signed link.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from cfetch.errors import Held, LocalFault
from cfetch.feed.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from cfetch.feed.source import Change
from cfetch.feed.steps import Round
from cfetch.manifest.entry import Entry, SafePath
from cfetch.placement.private_file import on_disk, replace_private
from cfetch.timeline.owner import Owner, this_owner

__all__ = ["Journal", "Step", "checkpoint_of", "journal_of"]

LOCK = "lock"
CHECKPOINT = "checkpoint.json"
STEP = "step"
NEXT = "next.json"
TOMBSTONES = "tombstones.jsonl"
HELD = "follows this feed into this destination already; wait for it, or stop it"


class _Change(msgspec.Struct, frozen=True, array_like=True):
    """``Change`` with numbers as text: LSNs of some sources have 186 bits."""

    lsn: str
    key: str
    path: SafePath
    entry: Entry | None


class Step(NamedTuple):
    """``rounds`` are what is left to do of it, behind ``done``; then ``checkpoint`` is in force."""

    rounds: Sequence[Round]
    checkpoint: Checkpoint
    done: int = 0


class _Tombstone(msgspec.Struct, frozen=True):
    path: str
    lsn: str
    at: str


class Journal:
    """``directory`` is one feed's into one destination. A ``with`` block holds it against other followers.

    Raises:
        Held: another follower has it.
        LocalFault: it cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = -1

    def __enter__(self) -> Self:
        with on_disk(self.directory):
            self.directory.mkdir(0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(self.directory / LOCK, flags, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = self._held()
                os.close(self._lock)
                raise held from None
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, msgspec.json.encode(this_owner("")), 0)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def _held(self) -> Held:
        with suppress(msgspec.MsgspecError):
            owner = msgspec.json.decode(os.pread(self._lock, 4096, 0), type=Owner)
            return Held(f"{owner.shown} {HELD}", host=owner.host, pid=owner.pid)
        return Held(f"another process {HELD}")

    def checkpoint(self) -> Checkpoint | None:
        """All that lies before it is applied; None if nothing is. Raises FeedError."""
        return read_checkpoint(self.directory / CHECKPOINT)

    # the step

    def begin(self, rounds: Sequence[Round], checkpoint: Checkpoint) -> Step:
        """Write a step down. Nothing of it has been applied yet."""
        data = [(list(map(_plain, each.deletes)), list(map(_plain, each.upserts))) for each in rounds]
        write_checkpoint(self.directory / NEXT, checkpoint)
        replace_private(self._step(0), msgspec.msgpack.encode(data))
        return Step(rounds, checkpoint)

    def unfinished(self) -> Step | None:
        """The step that a dead follower was at, with the rounds that are left of it. Raises FeedError."""
        with on_disk(self.directory):
            found = [path for path in self.directory.iterdir() if path.name.startswith(f"{STEP}-")]
        for path in found:
            checkpoint = read_checkpoint(self.directory / NEXT)
            if checkpoint is None:  # it is in force already
                with on_disk(path):
                    path.unlink()
                continue
            done = int(path.name.removeprefix(f"{STEP}-"))
            return Step(_rounds(path)[done:], checkpoint, done)
        return None

    def did(self, step: Step, pending: Iterable[Change]) -> Step:
        """The first round that was left is applied; ``pending`` is what could not be had, of all rounds."""
        checkpoint = replace(step.checkpoint, pending=tuple(pending))
        write_checkpoint(self.directory / NEXT, checkpoint)
        with on_disk(self._step(step.done)):
            self._step(step.done).rename(self._step(step.done + 1))
        return Step(step.rounds[1:], checkpoint, step.done + 1)

    def end(self, step: Step) -> None:
        """All of its rounds are applied: its checkpoint is in force."""
        with on_disk(self.directory):
            (self.directory / NEXT).replace(self.directory / CHECKPOINT)
            self._step(step.done).unlink()

    def _step(self, done: int) -> Path:
        return self.directory / f"{STEP}-{done}"

    # deletes

    def bury(self, deletes: Iterable[Change], at: str) -> None:
        """Record them, a line each: what was deleted at the source, and when this follower met it."""
        stones = [msgspec.json.encode(_Tombstone(one.path, str(one.lsn), at)) + b"\n" for one in deletes]
        if not stones:
            return
        path = self.directory / TOMBSTONES
        with on_disk(path):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                file.write(b"".join(stones))
                file.flush()
                os.fsync(file.fileno())


def journal_of(state: Path, feed: str) -> Path:
    """Its directory, for a feed as a person names it, below a state directory."""
    name = feed if "://" in feed else str(Path(feed).resolve())
    return state / "feeds" / hashlib.sha256(name.encode()).hexdigest()[:32]


def checkpoint_of(state: Path, feed: str) -> Path:
    """The file."""
    return journal_of(state, feed) / CHECKPOINT


def _rounds(path: Path) -> list[Round]:
    try:
        with on_disk(path):
            found = msgspec.msgpack.decode(path.read_bytes(), type=list[tuple[list[_Change], list[_Change]]])
    except msgspec.MsgspecError:
        raise LocalFault(
            f"{path} is damaged; remove it and run the same command again: the step is read anew"
        ) from None
    return [Round(tuple(map(_change, deletes)), tuple(map(_change, upserts))) for deletes, upserts in found]


def _plain(change: Change) -> _Change:
    return _Change(str(change.lsn), str(change.key), change.path, change.entry)


def _change(plain: _Change) -> Change:
    return Change(int(plain.lsn), int(plain.key), plain.path, plain.entry)
