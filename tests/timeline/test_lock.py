"""The table lock on real files."""

import threading
import time
from unittest.mock import Mock

import msgspec
import pytest

from cfetch.base.errors import LocalFault
from cfetch.timeline import lock as room
from cfetch.timeline import tidying as sweep
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.lock import EXPIRY_S, TableLock
from cfetch.timeline.table import open_table
from cfetch.timeline.tidying import tidy_up
from tests.timeline.test_heartbeat import an_owner


class Waiting:
    """Time that passes by sleeping only; what else happens meanwhile is the test's."""

    def __init__(self, meanwhile=lambda: None):
        self.now_s = 0.0
        self.meanwhile = meanwhile

    def __call__(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        self.meanwhile()


@pytest.fixture
def files(tmp_path):
    made = LocalFiles(tmp_path)
    yield made
    made.close()


def a_lock(files, token, waiting=None, *, gone=(), note=lambda _: None):
    waiting = waiting or Waiting()
    return TableLock(
        files,
        an_owner(token=token),
        monotonic=waiting,
        sleep=waiting.sleep,
        is_gone=lambda one: one.token in gone,
        note=note,
    )


def left(files):
    return sorted(path.name for path in files.root.iterdir())


def test_one_at_a_time(files):
    """Threads that count under the lock lose no count; nothing is left afterwards."""
    path = files.root / "count"
    path.write_text("0")

    def count(token):
        lock = TableLock(
            files, an_owner(token=token), monotonic=time.monotonic, sleep=time.sleep, is_gone=lambda _: False
        )
        for _ in range(20):
            with lock.hold():
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "80"
    assert left(files) == ["count"]


def test_it_tells_the_file_systems_time(files):
    """The date of the lock's own file."""
    with a_lock(files, "a").hold() as now_s:
        assert now_s == (files.root / "lock").stat().st_mtime


def test_a_dead_holders_lock_is_broken_at_once(files):
    """Its process is proved gone: nobody waits."""
    dead = a_lock(files, "dead").hold()
    dead.__enter__()
    waiting = Waiting()
    with a_lock(files, "b", waiting, gone={"dead"}).hold():
        assert waiting.now_s == 0.0
    assert left(files) == []


@pytest.mark.parametrize("content", [None, b"", b"{torn"])
def test_a_silent_holders_lock_is_broken_after_its_time(files, content):
    """The very same lock for 30 s of the observer's clock; one that names nobody is said to be so at once."""
    held = a_lock(files, "silent").hold()
    held.__enter__()
    if content is not None:
        (files.root / "lock").write_bytes(content)
    waiting, notes = Waiting(), []
    with a_lock(files, "b", waiting, note=lambda text: notes.append((waiting.now_s, text))).hold():
        assert EXPIRY_S < waiting.now_s < EXPIRY_S + 1
    assert [at_s < 1 and "does not say which run made it" in text for at_s, text in notes] == (
        [] if content is None else [True]
    )
    held.__exit__(None, None, None)
    assert left(files) == []


def test_locks_that_change_hands_are_never_broken(files, monkeypatch):
    """A busy lock is not a dead one: whoever waits in vain is told who has it."""
    monkeypatch.setattr(room, "MAX_WAIT_S", EXPIRY_S + 1)
    numbers = iter(range(10**6))

    def next_holder():
        (files.root / "lock").write_bytes(
            msgspec.json.encode({"owner": an_owner(token="busy", pid=42), "nonce": str(next(numbers))})
        )

    next_holder()
    waiting = Waiting(next_holder)
    with pytest.raises(LocalFault, match="process 42 on h has it now"), a_lock(files, "b", waiting).hold():
        pass
    assert EXPIRY_S + 1 < waiting.now_s < EXPIRY_S + 2


def test_another_ones_lock_is_put_back(files):
    """One that is broken by mistake, since it changed hands just then, goes back to its holder."""
    held = a_lock(files, "live").hold()
    held.__enter__()
    before = (files.root / "lock").read_bytes()
    a_lock(files, "b")._take_away(b"the lock that was there a moment ago", "lock.b")
    assert (files.root / "lock").read_bytes() == before
    held.__exit__(None, None, None)
    assert left(files) == []


def test_a_holder_whose_lock_was_broken_does_not_remove_the_next_ones(files):
    """It wakes up, ends its transaction, and leaves what is not its own."""
    slow = a_lock(files, "slow").hold()
    slow.__enter__()
    with a_lock(files, "b", gone={"slow"}).hold():
        before = (files.root / "lock").read_bytes()
        slow.__exit__(None, None, None)
        assert (files.root / "lock").read_bytes() == before
    assert left(files) == []


def test_an_error_under_the_lock_gives_it_back(files):
    """And comes out."""
    with pytest.raises(ZeroDivisionError), a_lock(files, "a").hold():
        raise ZeroDivisionError
    assert left(files) == []


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_a_lock_that_a_killed_process_was_removing_is_swept(tmp_path, request, monkeypatch, place):
    """It stood between the two steps; a sweep a day later takes what is left, and no younger one."""
    url = request.getfixturevalue("bucket").url if place == "bucket" else None
    with open_table(tmp_path, [tmp_path], Heartbeats(), bucket=url) as table:
        files = table.files
        lock = TableLock(
            files, an_owner(token="a"), monotonic=Waiting(), sleep=Waiting().sleep, is_gone=lambda _: False
        )
        with monkeypatch.context() as patch:
            patch.setattr(files, "unlink", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt), lock.hold():
                pass
        assert [name for name in files.names(".") if name.startswith("lock")] == ["lock.a-1"]
        tidy_up(table, 1e9)
        assert "lock.a-1" in files.names(".")
        monkeypatch.setattr(sweep, "ORPHAN_AGE_S", -1.0)
        tidy_up(table, 1e9)
        assert [name for name in files.names(".") if name.startswith("lock")] == []


def test_a_directory_that_has_gone_is_not_waited_for(tmp_path, monkeypatch):
    """The state directory was removed under a run: it says so, in the end, and does not hang."""
    monkeypatch.setattr(room, "MAX_WAIT_S", 10.0)
    files = LocalFiles(tmp_path / "state")
    (tmp_path / "state").rmdir()
    waiting = Waiting()
    with pytest.raises(LocalFault, match="nobody has it now"), a_lock(files, "a", waiting).hold():
        pass
    files.close()
