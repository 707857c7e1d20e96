"""Heartbeats: an owner shows with them that it lives, and others judge them.

There is one file per instant, ``heartbeats/<instant>.json``. The first beat makes it before the work begins;
every further beat is written over it in place, and only while the file is still the owner's own. So a late
beat can neither bring back a removed file nor disturb a successor's. Beats are not flushed: a power cut that
loses a beat has ended its owner too, and a flush could hang for a minute behind the bytes that are being
downloaded.

Owner and observers never compare clocks. The owner counts; an observer remembers a count and its own
monotonic time, and takes the owner for dead when the count has not changed for the time that the beat states.
The owner measures the same time from before its last write, so it knows first, and then never beats again.
"""

import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.base.threads import start_thread
from cfetch.timeline.files import Locked, TimelineFiles
from cfetch.timeline.owner import Owner
from cfetch.timeline.records import Beat, beat_head, encode_beat, read_beat

HEARTBEATS = "heartbeats"
STOP_S = 1.0  # a beat that is being written gets so long to end; a hanging one is abandoned

Pause = Callable[[threading.Event, float], bool]
"""Waits for the event, at most so many seconds; whether it came."""


class Heartbeats(msgspec.Struct, frozen=True, kw_only=True):
    """``interval_s`` between beats, and the number of beats that may be missed. Raises ConfigError."""

    interval_s: float = 60.0
    misses: int = 2

    def __post_init__(self) -> None:
        if not 1.0 <= self.interval_s <= 3600.0:  # shorter is useless load, longer guards nothing
            raise ConfigError(f"heartbeat_interval is {self.interval_s} s; it must be from 1 s to 1 h")
        if not 0 <= self.misses <= 100:
            raise ConfigError(f"heartbeat_misses is {self.misses}; it must be from 0 to 100")

    @property
    def expiry_s(self) -> float:
        """The silence after which an owner counts as dead: one interval more than may be missed."""
        return self.interval_s * (self.misses + 1)

    @property
    def pause_s(self) -> float:
        """Seconds between two beats; if none may be missed, the next must come well before the expiry."""
        return min(self.interval_s, self.expiry_s / 2)


def find_beat(files: TimelineFiles, instant: str, now_s: float) -> tuple[Beat | None, float | None]:
    """The beat of an instant and its age in seconds; ``now_s`` is by the file system's clock.

    A file that cannot be read may belong to a newer version, or a power cut has torn it. Nobody knows whether
    its owner lives. So it counts as a beat of an unknown owner, and is watched like any other. The watch
    cannot be shorter: neither the owner's process, whose end would be a proof, nor its own interval is
    known, and a lock that is free proves nothing about a machine that shares the disk.
    """
    path = f"{HEARTBEATS}/{instant}.json"
    try:
        data = files.read(path)
        return read_beat(data) or make_unknown_beat(instant, data), now_s - files.modified_s(path)
    except FileNotFoundError:
        return None, None


def make_unknown_beat(instant: str, data: bytes) -> Beat:
    """Make a beat for bytes that cannot be read: its owner lives until they have stood still for long."""
    owner = Owner(
        host="a machine whose heartbeat cannot be read",
        machine="",
        boot_id="",
        pid_space=0,
        pid=0,
        started=0,
        token="",
    )
    return Beat(
        instant=instant,
        epoch=sys.maxsize,
        owner=owner,
        expiry_s=Heartbeats().expiry_s,
        is_released=False,
        counter=zlib.crc32(data),
    )


class Pulse:
    """An owner's own heartbeat for one epoch of one instant. Thread-safe."""

    def __init__(
        self,
        files: TimelineFiles,
        instant: str,
        epoch: int,
        owner: Owner,
        *,
        expiry_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._files = files
        self._path = f"{HEARTBEATS}/{instant}.json"
        self._make_head = partial(beat_head, instant, epoch, owner, expiry_s)
        self._head = self._make_head()
        self._locked: Locked | None = None
        self._temporary = f"{HEARTBEATS}/.{instant}.{owner.token}.tmp"
        self._expiry_s = expiry_s
        self._monotonic = monotonic
        self._guard = threading.Lock()  # never held while a file is touched
        self._counter = 0
        self._good_s = 0.0  # the time before the last successful write of a beat
        self._lost: str | None = None
        self._ended = False

    def first(self) -> None:
        """Write the first beat in one step, in place of a dead owner's. Raises OSError.

        It is locked before it has its name. The system drops the lock when this process ends, however it
        ends, so a process in another container of the same machine need not wait for the silence.
        """
        self._files.make_directory(HEARTBEATS)
        self._good_s = self._monotonic()
        with suppress(FileNotFoundError):
            self._files.unlink(self._temporary)
        self._files.create(self._temporary, encode_beat(self._head, 0))
        self._locked = self._files.lock(self._temporary)
        if self._locked is not None:
            unlocked, self._head = self._head, self._make_head(lock_device=self._locked.device)
            self._files.rewrite(self._temporary, unlocked, encode_beat(self._head, 0))
        self._files.rename(self._temporary, self._path)

    def beat(self) -> None:
        """Write the next count. A beat that cannot be written is missed; ``lost`` shows a lost pulse."""
        began_s = self._monotonic()
        with self._guard:
            if self._ended or self._is_lost():
                return
            self._counter += 1
            data = encode_beat(self._head, self._counter)
        try:
            self._files.rewrite(self._path, self._head, data)
        except FileNotFoundError:
            with self._guard:
                self._lost = self._lost or "another run has taken it over"
            return
        except OSError:
            return
        with self._guard:
            if not self._is_lost():  # otherwise this write hung for too long: others may take us for dead
                self._good_s = max(self._good_s, began_s)

    @property
    def lost(self) -> str | None:
        """The reason why this is no longer a sign of life; None while it is. A lost pulse stays lost."""
        with self._guard:
            return self._lost if self._is_lost() else None

    def left_s(self) -> float:
        """Seconds until it is lost, if no beat is written until then."""
        with self._guard:
            return 0.0 if self._lost else max(0.0, self._good_s + self._expiry_s - self._monotonic())

    def end(self, *, released: bool = False) -> None:
        """End the beats. ``released``: nothing of the owner writes any more; others may begin at once."""
        with self._guard:
            self._ended = True
            counter = self._counter + 1
        if released:
            with suppress(OSError):
                self._files.rewrite(
                    self._path, self._head, encode_beat(self._head, counter, is_released=True)
                )
            self._unlock()

    def remove(self) -> None:
        """Remove the beat, as the instant is over; another owner's beat stays. Never raises OSError."""
        self.end()
        with suppress(OSError):
            if self._files.read(self._path).startswith(self._head):
                self._files.unlink(self._path)
        self._unlock()

    def _unlock(self) -> None:
        """Give the lock back. A lost pulse keeps it: its process may still be writing."""
        locked, self._locked = self._locked, None
        if locked is not None:
            os.close(locked.descriptor)

    def _is_lost(self) -> bool:
        if self._lost is None and self._monotonic() - self._good_s >= self._expiry_s:
            self._lost = f"its heartbeat could not be written for {self._expiry_s:.0f} s"
        return self._lost is not None


class BeatThread:
    """Beats every ``interval_s`` from a thread of its own, so a busy event loop does not look dead.

    Each beat is written by a fresh thread, so that a thread that hangs in a sick file system does not stop
    the timer. ``on_lost`` is called once, from this thread, as soon as the pulse is lost.
    """

    def __init__(
        self,
        pulse: Pulse,
        interval_s: float,
        on_lost: Callable[[str], None],
        *,
        pause: Pause = threading.Event.wait,
    ) -> None:
        self._pulse = pulse
        self._interval_s = interval_s
        self._on_lost = on_lost
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = start_thread(self._run, "heartbeat")

    def stop(self) -> None:
        """Begin no further beats."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals must wake the main thread
        hangs = False
        while hangs or not self._pause(self._stopped, min(self._interval_s, self._pulse.left_s())):
            if self._stopped.is_set():
                return
            written = threading.Event()
            try:
                start_thread(self._beat, "beat", written)
            except LocalFault:  # for now this one has to do it, and would hang with its disk
                self._beat(written)
            hangs = not self._pause(written, min(self._interval_s, self._pulse.left_s()))
            lost = self._pulse.lost
            if lost is not None:
                if not self._stopped.is_set():
                    self._on_lost(lost)
                return

    def _beat(self, written: threading.Event) -> None:
        self._pulse.beat()
        written.set()


class OwnerVerdict(NamedTuple):
    """Knowledge of an owner. ``age_s``: the age of its beat by the file system's clock, for people."""

    is_live: bool
    is_gone: bool  # it is proved that nothing of the owner can write any more
    is_certain: bool  # False: the owner may be dead, and only more time will show it
    beat: Beat | None
    age_s: float | None


class Observer:
    """Judges beats of others; remembers the counts that it saw, to measure silence on its own clock."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        is_gone: Callable[[Owner], bool],
        has_restarted: Callable[[Owner], bool],
    ) -> None:
        self._monotonic = monotonic
        self._is_gone = is_gone
        self._has_restarted = has_restarted
        self._seen: dict[str, tuple[tuple[object, ...], float, bool]] = {}

    def judge(
        self, instant: str, epoch: int, beat: Beat | None, age_s: float | None, *, has_died: bool = False
    ) -> OwnerVerdict:
        """Whether the owner of ``epoch`` lives. Without a beat of this epoch it does not.

        ``has_died``: a lock that ends with its process proves that it does not.

        A young file is a sign of life that costs no waiting. An old file proves no death, since another clock
        dated it; only a count that stands still proves it. If the owner's machine has restarted, an old file
        is proof enough; a young file then belongs to a copy of the machine, which looks alike and is alive.
        """
        if beat is None or beat.epoch < epoch:
            return OwnerVerdict(False, False, True, None, None)
        if beat.is_released or has_died or self._is_gone(beat.owner):
            return OwnerVerdict(False, True, True, beat, age_s)
        is_old = age_s is not None and age_s > beat.expiry_s
        if is_old and self._has_restarted(beat.owner):
            return OwnerVerdict(False, False, True, beat, age_s)
        now_s = self._monotonic()
        count = (beat.epoch, beat.owner.token, beat.counter)
        before, since_s, changed = self._seen.get(instant, (count, now_s, False))
        if before != count:
            since_s, changed = now_s, True
        self._seen[instant] = count, since_s, changed
        if now_s - since_s > beat.expiry_s:
            return OwnerVerdict(False, False, True, beat, age_s)
        is_known = bool(beat.owner.token)  # a torn file may be young though its owner is dead
        is_young = is_known and age_s is not None and 0 <= age_s <= beat.expiry_s
        return OwnerVerdict(True, False, changed or is_young, beat, age_s)
