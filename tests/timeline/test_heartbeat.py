"""Heartbeats: rows H1 to H8 of the conformance table, on real files and a clock that the test sets."""

import asyncio
import itertools
import os
import signal
import threading
from typing import Any

import msgspec
import pytest

from cfetch.base.errors import ConfigError, Held
from cfetch.timeline import owner as owner_module
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import HEARTBEATS, BeatThread, Heartbeats, Observer, Pulse
from cfetch.timeline.owner import Owner, is_of_this_boot, this_owner
from cfetch.timeline.records import Beat, beat_head, encode_beat, read_beat
from tests.timeline.real import look, nobody, start

INSTANT = "20270115T080000000Z-0201"


def an_owner(**how):
    fixed: dict[str, Any] = {
        "host": "h",
        "machine": "m",
        "boot_id": "b",
        "pid_space": 1,
        "pid": 7,
        "started": 1,
        "token": "t",
    }
    return Owner(**fixed | how)


class Clock:
    """Seconds, as the test says."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def files(tmp_path):
    made = LocalFiles(tmp_path / ".cfetch")
    yield made
    made.close()


@pytest.fixture
def clock():
    return Clock()


def a_pulse(files, clock, *, epoch=1, expiry_s=180.0, **owner):
    return Pulse(files, INSTANT, epoch, an_owner(**owner), expiry_s=expiry_s, monotonic=clock)


def an_observer(clock, *, gone=(), restarted=()):
    return Observer(
        monotonic=clock,
        is_gone=lambda owner: owner.token in gone,
        has_restarted=lambda owner: owner.token in restarted,
    )


def path_of(files):
    return files.root / HEARTBEATS / f"{INSTANT}.json"


@pytest.mark.parametrize("misses", [1, 2])
@pytest.mark.parametrize(("beyond_ms", "is_live"), [(-1, True), (0, True), (1, False)])
def test_H1_expiry_is_strict(files, clock, misses, beyond_ms, is_live):  # noqa: N802
    """One miss of 60 s: 119,999 and 120,000 ms are alive, 120,001 is not; by default, two: 180 s."""
    settings = Heartbeats(misses=misses)
    assert settings.expiry_s == {1: 120.0, 2: 180.0}[misses]
    a_pulse(files, clock, expiry_s=settings.expiry_s).first()
    observer = an_observer(clock)
    clock.now_s = 1000.0
    assert observer.judge(INSTANT, 1, *look(files, INSTANT, 0.0)).is_live
    clock.now_s += settings.expiry_s + beyond_ms / 1000
    assert observer.judge(INSTANT, 1, *look(files, INSTANT, 0.0)).is_live is is_live


def test_H2_no_beat_is_expired(files, clock):  # noqa: N802
    """So is one of an earlier epoch."""
    observer = an_observer(clock)
    assert look(files, INSTANT, 0.0) == (None, None)
    assert not observer.judge(INSTANT, 0, None, None).is_live
    a_pulse(files, clock, epoch=1).first()
    assert not observer.judge(INSTANT, 2, *look(files, INSTANT, 0.0)).is_live


@pytest.mark.parametrize("data", [b"", b"{torn", b"\0" * 300, b'{"schema": "cfetch.beat/9"}', b"\xff"])
def test_a_beat_that_cannot_be_read_is_watched(files, clock, data):
    """It may be a newer version's: its owner is dead when it has stood still for the usual time."""
    a_pulse(files, clock).first()
    observer = an_observer(clock)
    path_of(files).write_bytes(data)
    verdict = observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12))
    assert (verdict.is_live, verdict.is_gone, verdict.is_certain) == (True, False, False)
    assert verdict.beat.owner.shown == "an unknown process on a machine whose heartbeat cannot be read"
    clock.now_s += 180.0
    path_of(files).write_bytes(data + b" ")
    verdict = observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12))
    assert (verdict.is_live, verdict.is_certain) == (True, True)
    clock.now_s += 180.001
    assert not observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12)).is_live


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"interval_s": 0.999}, "heartbeat_interval"), ({"interval_s": 3601.0}, "heartbeat_interval"),
     ({"interval_s": float("nan")}, "heartbeat_interval"), ({"misses": -1}, "heartbeat_misses")],
)  # fmt: skip
def test_H3_settings_out_of_range_are_refused(settings, key):  # noqa: N802
    """The error names key, value and range; 1 s and no miss are allowed."""
    with pytest.raises(ConfigError, match=f"{key} is .* it must be from"):
        Heartbeats(**settings)
    assert Heartbeats(interval_s=1.0, misses=0).expiry_s == 1.0


def run_beats(pulse, clock, ticks, *, on_lost=lambda why: None):
    """A beat thread for which ``ticks`` intervals pass at once; and what is set when they have."""
    left, done, stopped = [ticks], threading.Event(), []

    def pause(event, seconds):
        stopped.append(event)
        is_between_beats = event is stopped[0]
        if not is_between_beats:
            return event.wait(60)
        if left[0] == 0:
            done.set()
            return event.wait(60)
        left[0] -= 1
        clock.now_s += seconds
        return False

    return BeatThread(pulse, 60.0, on_lost, pause=pause), done


def test_H4_one_stream_of_beats(files, clock):  # noqa: N802
    """The first is there at once; then one each interval, in place, of one length and one inode."""
    pulse = a_pulse(files, clock)
    pulse.first()
    inode, size = path_of(files).stat().st_ino, path_of(files).stat().st_size
    device = path_of(files).stat().st_dev
    assert look(files, INSTANT, 0.0)[0] == Beat(
        instant=INSTANT,
        epoch=1,
        owner=an_owner(),
        expiry_s=180.0,
        is_released=False,
        counter=0,
        lock_device=device,
    )
    thread, done = run_beats(pulse, clock, 3)
    assert done.wait(60)
    thread.stop()
    assert look(files, INSTANT, 0.0)[0].counter == 3
    assert (path_of(files).stat().st_ino, path_of(files).stat().st_size) == (inode, size)
    assert clock.now_s == 180.0


def test_H5_a_late_beat_brings_nothing_back(files, clock):  # noqa: N802
    """After the end the file is gone; neither a beat that was under way nor a new one makes it again."""
    pulse = a_pulse(files, clock)
    pulse.first()
    pulse.remove()
    assert not path_of(files).exists()
    late = encode_beat(beat_head(INSTANT, 1, an_owner(), 180.0), 9)
    with pytest.raises(FileNotFoundError):
        files.rewrite(f"{HEARTBEATS}/{INSTANT}.json", late[:40], late)
    pulse.beat()
    assert not path_of(files).exists()


def test_H5_a_late_beat_does_not_disturb_a_successor(files, clock):  # noqa: N802
    """The old owner sees that the file is another's: it is lost at once, and the successor's count stands."""
    old, new = a_pulse(files, clock), a_pulse(files, clock, epoch=2, token="u")
    old.first()
    new.first()
    new.beat()
    old.beat()
    assert old.lost == "another run has taken it over"
    assert new.lost is None
    beat, _ = look(files, INSTANT, 0.0)
    assert (beat.epoch, beat.counter) == (2, 1)
    old.remove()
    old.end(released=True)
    assert look(files, INSTANT, 0.0)[0] == beat


class Hanging(LocalFiles):
    """A disk on which beats hang until the test lets them go."""

    def __init__(self, root):
        super().__init__(root)
        self.hang = threading.Event()
        self.free = threading.Event()
        self.hanging = threading.Semaphore(0)

    def rewrite(self, path, head, data):
        if self.hang.is_set():
            self.hanging.release()
            self.free.wait(60)
        super().rewrite(path, head, data)


def hanging_beats(tmp_path, clock, hang_for):
    """Beats hang for so many intervals of virtual time; what the owner was told, and its pulse."""
    files = Hanging(tmp_path / ".cfetch")
    pulse = a_pulse(files, clock)
    pulse.first()
    told, ended, passed = [], threading.Event(), itertools.count(1)
    stop_event = []
    files.hang.set()

    def pause(event, seconds):
        stop_event.append(event)
        if event is stop_event[0]:  # between two beats
            if not files.hang.is_set():
                ended.set()
                return event.wait(60)
            clock.now_s += seconds
            return False
        if not files.hang.is_set():
            return event.wait(60)
        assert files.hanging.acquire(timeout=60)
        clock.now_s += seconds
        if next(passed) == hang_for:
            files.hang.clear()
        return False

    def on_lost(why):
        told.append(why)
        ended.set()

    thread = BeatThread(pulse, 60.0, on_lost, pause=pause)
    assert ended.wait(60)
    return files, pulse, thread, told


def test_H6_a_write_that_hangs_does_not_end_the_beats(tmp_path, clock):  # noqa: N802
    """One hangs for an interval: the next comes from a fresh thread, in time, and nothing is lost."""
    files, pulse, thread, told = hanging_beats(tmp_path, clock, 1)
    assert (told, pulse.lost) == ([], None)
    assert look(files, INSTANT, 0.0)[0].counter == 2
    files.free.set()
    thread.stop()
    files.close()


def test_H6_a_beat_that_has_expired_is_never_revived(tmp_path, clock):  # noqa: N802
    """They hang for three intervals: the owner is told at the very end of the time, and beats no more."""
    files, pulse, thread, told = hanging_beats(tmp_path, clock, 3)
    assert told == ["its heartbeat could not be written for 180 s"]
    assert clock.now_s == 180.0
    files.hang.clear()
    files.free.set()
    thread.stop()
    before = path_of(files).read_bytes()
    pulse.beat()
    clock.now_s = 0.0  # not even if its clock went back
    pulse.beat()
    assert pulse.lost is not None
    assert msgspec.json.decode(path_of(files).read_bytes())["counter"] <= 3
    assert len(path_of(files).read_bytes()) == len(before)
    files.close()


def test_H7_wrong_clocks_do_not_matter(processes):  # noqa: N802
    """Ten minutes ahead at the owner, ten behind at the observer, and the other way round: it is alive."""
    for error_s in (600.0, -600.0):
        x = processes.table("x", wall_error_s=error_s)
        instant = processes.schedule(x, fingerprint=str(error_s))
        start(x, instant, on_lost=nobody)
        y = processes.table("y", wall_error_s=-error_s)
        for _ in range(5):
            processes.time_s += 60.0
            processes.pulses["x"].beat()
            with pytest.raises(Held) as caught:
                start(y, instant, on_lost=nobody)
            assert caught.value.age_s is not None
            assert 0 <= caught.value.age_s < 60
        processes.time_s += 180.001
        assert start(y, instant, on_lost=nobody).epoch == 2


def test_H8_a_blocked_event_loop_does_not_stop_the_beats(files, clock):  # noqa: N802
    """They come from a thread of their own: the loop is blocked until two have been written."""
    pulse = a_pulse(files, clock)
    pulse.first()

    async def block():
        thread, done = run_beats(pulse, clock, 2)
        assert done.wait(60)  # blocks the loop, on purpose
        thread.stop()

    asyncio.run(block())
    assert look(files, INSTANT, 0.0)[0].counter == 2
    assert pulse.lost is None


def test_losing_the_beat_is_told_at_once_and_once(files, clock):
    """A successor's file stands there: the next beat notices, and the thread ends."""
    pulse = a_pulse(files, clock)
    pulse.first()
    a_pulse(files, clock, epoch=2, token="u").first()
    told: list[str] = []
    thread, _ = run_beats(pulse, clock, 100, on_lost=told.append)
    thread._thread.join(60)
    assert told == ["another run has taken it over"]
    assert clock.now_s == 60.0
    thread.stop()


@pytest.mark.parametrize("age_s", [0.0, 180.0, None, -5.0])
def test_the_owner_on_a_copied_machine_lives(files, clock, age_s):
    """It has the same name and machine id, and another boot; only such an owner with an old beat is dead."""
    a_pulse(files, clock).first()
    beat, _ = look(files, INSTANT, 0.0)
    assert an_observer(clock, restarted={"t"}).judge(INSTANT, 1, beat, age_s).is_live


def test_who_is_dead_at_once(files, clock):
    """A process that is proved gone, one that has released its plan, and one from before a restart."""
    pulse = a_pulse(files, clock)
    pulse.first()
    beat = look(files, INSTANT, 0.0)
    gone = an_observer(clock, gone={"t"}).judge(INSTANT, 1, *beat)
    assert (gone.is_live, gone.is_gone, gone.is_certain) == (False, True, True)
    restarted = an_observer(clock, restarted={"t"}).judge(INSTANT, 1, beat[0], 180.1)
    assert (restarted.is_live, restarted.is_gone) == (False, False)
    pulse.end(released=True)
    released = an_observer(clock).judge(INSTANT, 1, *look(files, INSTANT, 0.0))
    assert (released.is_live, released.is_gone) == (False, True)


@pytest.mark.parametrize("proof", ["same kernel", "another kernel", "another mount"])
def test_a_lock_that_has_ended_proves_the_end_of_its_process(processes, proof):
    """In another container of the same machine too: there its number says nothing."""
    one, two = processes.table("one"), processes.table("two")
    two.node = two.node._replace(is_of_this_boot=lambda owner: proof != "another kernel")
    instant = processes.schedule(one)
    start(one, instant, on_lost=nobody)
    with pytest.raises(Held, match=r"--wait does.* its hold ends within \d+ s"):
        start(two, instant, on_lost=nobody)
    pulse = processes.pulses["one"]
    os.close(pulse._locked.descriptor)  # as the system does when the process ends
    if proof == "another mount":
        (beat,) = (processes.state / HEARTBEATS).iterdir()
        device = f'"lock_device":{pulse._locked.device:>20}'.encode()
        beat.write_bytes(beat.read_bytes().replace(device, f'"lock_device":{7:>20}'.encode()))
    if proof == "same kernel":
        start(two, instant, on_lost=nobody)
        assert processes.slept_s == 0
        return
    with pytest.raises(Held):
        start(two, instant, on_lost=nobody)


def test_without_proc_no_process_is_of_this_boot(monkeypatch):
    """The first processes of two machines would look alike."""
    assert is_of_this_boot(this_owner("t"))
    monkeypatch.setattr(owner_module, "boot_id", lambda: "unknown 1")
    assert not is_of_this_boot(this_owner("t"))


def test_a_count_that_moves_starts_the_watch_anew(files, clock):
    """Whatever it was dated: only silence on the observer's own clock ends it, and any change is life."""
    pulse = a_pulse(files, clock)
    pulse.first()
    observer = an_observer(clock)
    for _ in range(4):
        clock.now_s += 179.0
        verdict = observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12))
        assert verdict.is_live
        pulse.beat()
    assert verdict.is_certain
    clock.now_s += 180.0
    assert observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12)).is_live
    clock.now_s += 180.001
    assert not observer.judge(INSTANT, 1, *look(files, INSTANT, 1e12)).is_live


@pytest.mark.parametrize(("age_s", "certain"), [(0.0, True), (180.0, True), (180.5, False), (-1.0, False)])
def test_a_young_file_is_a_sign_of_life_and_an_old_one_is_nothing(files, clock, age_s, certain):
    """Refusing at once is always safe; a date from the future, or an old one, has to be watched."""
    a_pulse(files, clock).first()
    beat, _ = look(files, INSTANT, 0.0)
    verdict = an_observer(clock).judge(INSTANT, 1, beat, age_s)
    assert (verdict.is_live, verdict.is_certain) == (True, certain)


def test_a_disk_that_says_no_is_a_miss(files, clock, tmp_path):
    """Not a loss: the next beat may get through."""
    pulse = a_pulse(files, clock)
    pulse.first()
    path_of(files).chmod(0)
    path_of(files).rename(tmp_path / "away")
    path_of(files).mkdir()
    pulse.beat()
    assert pulse.lost is None
    path_of(files).rmdir()
    (tmp_path / "away").rename(path_of(files))
    path_of(files).chmod(0o600)
    clock.now_s = 179.0
    pulse.beat()
    clock.now_s = 200.0
    assert pulse.lost is None
    assert pulse.left_s() == 159.0


def test_beats_of_one_owner_have_one_length():
    """Whatever the count, and however they end."""
    head = beat_head(INSTANT, 3, an_owner(host="höst"), 180.0)
    texts = [encode_beat(head, n, is_released=released) for n in (0, 9, 10**17) for released in (False, True)]
    assert len({len(text) for text in texts}) == 1
    beats = [read_beat(text) for text in texts]
    assert [(one.counter, one.is_released) for one in beats if one] == [
        (n, released) for n in (0, 9, 10**17) for released in (False, True)
    ]


def test_the_beat_says_how_long_its_silence_may_be(processes):
    """An observer with hastier settings of its own does not call a slower owner dead."""
    x = processes.table("x", heartbeats=Heartbeats(interval_s=60.0))
    instant = processes.schedule(x)
    start(x, instant, on_lost=nobody)
    y = processes.table("y", heartbeats=Heartbeats(interval_s=1.0, misses=0))
    for seconds in (0.0, 100.0, 80.0):
        processes.time_s += seconds
        with pytest.raises(Held):
            start(y, instant, on_lost=nobody)
    processes.time_s += 0.001
    assert start(y, instant, on_lost=nobody).epoch == 2


def test_H6_a_late_write_does_not_revive(tmp_path, clock):  # noqa: N802
    """It began in time and ended after the expiry, which nobody had looked at yet: the beat is over."""

    class Slow(LocalFiles):
        def rewrite(self, path, head, data):
            super().rewrite(path, head, data)
            clock.now_s = 185.0

    files = Slow(tmp_path / ".cfetch")
    pulse = a_pulse(files, clock)
    pulse.first()
    clock.now_s = 60.0
    pulse.beat()
    assert pulse.lost is not None
    files.close()


def test_a_beat_counts_from_before_its_write(tmp_path, clock):
    """Observers may have seen it as soon as the write began, so the owner's time runs from then."""

    class Slow(LocalFiles):
        def create(self, path, data, *, flush=False):
            super().create(path, data, flush=flush)
            clock.now_s += 50.0

        def rewrite(self, path, head, data):
            super().rewrite(path, head, data)
            clock.now_s += 40.0

    files = Slow(tmp_path / ".cfetch")
    pulse = a_pulse(files, clock)
    pulse.first()
    assert pulse.left_s() == 180.0 - 50.0 - 40.0  # written, locked, and written again with the lock
    pulse.beat()
    assert pulse.left_s() == 180.0 - 40.0
    files.close()


def test_a_beat_that_hangs_holds_up_no_exit(files, clock):
    """It is written by a thread that the interpreter does not wait for at its end."""
    daemons = []

    class Looking(Pulse):
        def beat(self):
            daemons.append(threading.current_thread().daemon)
            super().beat()

    pulse = Looking(files, INSTANT, 1, an_owner(), expiry_s=180.0, monotonic=clock)
    pulse.first()
    thread, done = run_beats(pulse, clock, 1)
    assert done.wait(60)
    thread.stop()
    assert daemons[0]


def test_signals_are_left_to_the_main_thread(files, clock):
    """A beat thread takes none: one that it took would not wake the loop that has to answer it."""
    masks = []

    class Looking(Pulse):
        def beat(self):
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            super().beat()

    pulse = Looking(files, INSTANT, 1, an_owner(), expiry_s=180.0, monotonic=clock)
    pulse.first()
    thread, done = run_beats(pulse, clock, 1)
    assert done.wait(60)
    thread.stop()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= masks[0]
