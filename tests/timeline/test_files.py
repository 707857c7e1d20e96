"""The edges: file operations on a real disk, attempt directories, owners, and the whole put together."""

import errno
import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import msgspec
import pytest

from cfetch.base.errors import Held, LocalFault
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.execution import Execution, schedule
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import has_restarted, is_gone, this_owner
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Kind
from cfetch.timeline.table import open_table, this_node
from tests.timeline.disk import Disk, DiskFiles
from tests.timeline.files_contract import check_operations
from tests.timeline.real import nobody, start
from tests.timeline.test_heartbeat import an_owner

INSTANT = "20270115T080000000Z-0201"


@pytest.fixture
def real(tmp_path):
    made = LocalFiles(tmp_path / "state")
    yield made
    made.close()


@pytest.fixture(params=["real", "fake"])
def files(request):
    """The simulation's disk obeys the same contract as the real one."""
    if request.param == "real":
        return request.getfixturevalue("real")
    return DiskFiles(Disk(lambda: 0.0), lambda what: None)


def test_what_the_operations_promise(files):
    """One suite for the real disk and the fake one; a link is one file of two names, and there are copies."""
    check_operations(files)
    files.make_directory("a/b")
    files.link("a/g", "a/b/f")
    files.rewrite("a/g", b"123", b"123yy")
    assert files.read("a/b/f") == b"123yy"
    files.copy("a/g", "a/copy")
    with pytest.raises(FileExistsError):
        files.copy("a/g", "a/copy")
    files.rename("a/copy", "a/g")
    files.rewrite("a/g", b"", b"other")
    assert files.read("a/b/f") == b"123yy"
    files.flush_names("a/b")


def test_no_symlink_is_followed(real, tmp_path):
    """Neither as a directory nor as a file: the timeline writes nowhere else."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"precious")
    (real.root / "timeline").symlink_to(tmp_path / "outside")
    (real.root / "link").symlink_to(tmp_path / "outside/file")
    for attempt in (
        lambda: real.create("timeline/x", b""),
        lambda: real.read("link"),
        lambda: real.rewrite("link", b"", b"PRECIOUS"),
        lambda: real.make_directory("timeline/x"),
        lambda: real.names("timeline"),
        lambda: real.copy("link", "copy"),
    ):
        with pytest.raises(OSError):
            attempt()
    assert os.listdir(tmp_path / "outside") == ["file"]
    assert (tmp_path / "outside/file").read_bytes() == b"precious"


def test_a_disk_that_says_no_is_a_local_fault(tmp_path):
    """It names what was being done; no foreign exception comes out."""
    (tmp_path / "state").write_bytes(b"")
    with (
        pytest.raises(LocalFault, match="for the timeline"),
        open_table(tmp_path / "state", [], Heartbeats()),
    ):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other/timeline").write_bytes(b"")
    with (
        pytest.raises(LocalFault, match=r"cannot schedule|cannot read|cannot write"),
        open_table(tmp_path / "other", [], Heartbeats()) as table,
    ):
        schedule(table, table.new_instant(), a_record())


def a_record():
    return PlanRecord(
        kind=Kind.IMMUTABLE, fingerprint="f", manifest="m", destinations=("d",), files=1, bytes=1
    )


def test_several_volumes(tmp_path):
    """Attempt directories on each; a dead attempt is rolled back on all, and its parts kept on each."""
    roots = [tmp_path / name for name in ("a", "b")]
    volumes = [LocalFiles(root) for root in roots]
    attempts = Attempts(volumes)
    attempts.make(INSTANT, 1)
    for root in roots:
        (root / "attempts" / INSTANT / "1" / "keep").write_bytes(b"k")
        (root / "attempts" / INSTANT / "1" / "drop").write_bytes(b"d")
    seen = []

    def salvage(dead):
        seen.append((dead.volume, dead.path, sorted(dead.names), dead.read("keep")))
        return {"keep"}

    assert attempts.exist(INSTANT, 2)
    attempts.roll_back(INSTANT, 2, salvage=salvage, gone_epoch=1)
    assert seen == [(n, f"attempts/{INSTANT}/1", ["drop", "keep"], b"k") for n in (0, 1)]
    attempts.make(INSTANT, 3)
    (roots[0] / "attempts" / INSTANT / "2-1" / "more").write_bytes(b"m")
    attempts.roll_back(INSTANT, 3, salvage=lambda dead: dead.names)
    for root in roots:
        kept = root / "attempts" / INSTANT
        assert sorted(path.name for path in kept.iterdir()) == ["3", "3-1"]
        assert (kept / "3-1" / "keep").read_bytes() == b"k"
    attempts.roll_back(INSTANT, 10**18)
    assert not any(root.joinpath("attempts", INSTANT).exists() for root in roots)
    for files in volumes:
        files.close()


def test_a_part_of_a_task_is_copied_even_if_the_owner_is_gone(real):
    """The task is another process, may still be at work, and must not write into what the next run has."""
    attempts = Attempts([real])
    attempts.make("i", 1)
    real.make_directory("attempts/i/1/t7")
    real.create("attempts/i/1/t7/part", b"from the task")
    real.create("attempts/i/1/own", b"from the owner")
    paths = [real.root / "attempts/i/1" / name for name in ("t7/part", "own")]
    numbers = [path.stat().st_ino for path in paths]
    with paths[0].open("ab") as held_by_task:
        attempts.roll_back("i", 2, salvage=lambda dead: set(dead.names) - {"t7"}, gone_epoch=1)
        held_by_task.write(b", which lives on")
    assert real.read("attempts/i/2-1/part") == b"from the task"
    kept = [(real.root / "attempts/i/2-1" / name).stat().st_ino for name in ("part", "own")]
    assert [number == before for number, before in zip(kept, numbers, strict=True)] == [False, True]


@pytest.mark.parametrize("move", [True, False])
def test_the_parts_of_a_dead_task_are_kept_for_its_successor(real, move):
    """In the same epoch, which goes on; a task that has left nothing, or is not there, is nothing.

    A task that may wake up writes into its own file, and not into that of its successor.
    """
    attempts = Attempts([real])
    attempts.make("i", 2)
    for task in ("t7", "t8", "t9"):
        real.make_directory(f"attempts/i/2/{task}")
    for path in ("t7/part", "t7/debris", "t8/part"):
        real.create(f"attempts/i/2/{path}", path.encode())
    before = (real.root / "attempts/i/2/t7/part").stat().st_ino
    for number in (7, 9, 11):
        attempts.keep_task("i", 2, number, lambda dead: {"part"} & set(dead.names), move=move)
    assert ((real.root / "attempts/i/2-2/part").stat().st_ino == before) == move
    assert sorted(real.names("attempts/i")) == ["2", "2-2"]
    assert (real.names("attempts/i/2"), real.names("attempts/i/2-2")) == (["t8"], ["part"])
    assert real.read("attempts/i/2-2/part") == b"t7/part"


def test_a_copied_part_keeps_its_mode(real):
    """It becomes the user's file, who may have let others read such files."""
    real.create("part", b"1")
    os.chmod(real.root / "part", 0o664)
    real.copy("part", "kept")
    assert (real.root / "kept").stat().st_mode & 0o777 == 0o664


def test_a_copy_has_the_holes_of_its_part(real):
    """Else it could take far more room than the part, of which the disk may have as much only once."""
    real.create("part", b"first")
    with (real.root / "part").open("r+b") as part:
        part.seek(5 << 20)
        part.write(b"last")
        part.truncate(9 << 20)
    real.copy("part", "copy")
    part, copy = (real.root / name for name in ("part", "copy"))
    assert copy.read_bytes() == part.read_bytes()
    assert copy.stat().st_blocks * 512 < 4 << 20


def test_a_part_of_which_the_disk_has_no_room_for_two_is_given_up(real, monkeypatch):
    """The next run fetches it again; else it could never begin, though its files would fit."""

    def copy(old, new):
        real.create(new, b"torn")
        raise OSError(errno.ENOSPC, "No space left on device")

    attempts = Attempts([real])
    attempts.make("i", 1)
    real.create("attempts/i/1/part", b"whole")
    monkeypatch.setattr(real, "copy", copy)
    attempts.roll_back("i", 2, salvage=lambda dead: dead.names)
    assert real.names("attempts/i") == ["2-1"]
    assert real.names("attempts/i/2-1") == []


def test_a_torn_copy_does_not_replace_what_was_copied_whole(real):
    """Its maker is gone and could be moved, but the one from the directory where it was written was first."""
    for path, data in (("attempts/i/3", b"whole"), ("attempts/i/5-3", b"wh")):
        real.make_directory(path)
        real.create(f"{path}/part", data)
    Attempts([real]).roll_back("i", 6, salvage=lambda dead: dead.names, gone_epoch=5)
    assert real.read("attempts/i/6-3/part") == b"whole"
    assert real.names("attempts/i") == ["6-3"]


def test_a_torn_copy_does_not_win(real):
    """A rollback that died while copying is done again, from the original."""
    attempts = Attempts([real])
    attempts.make(INSTANT, 1)
    real.create(f"attempts/{INSTANT}/1/part", b"all of it")
    real.make_directory(f"attempts/{INSTANT}/2-1")
    real.create(f"attempts/{INSTANT}/2-1/part", b"all")
    attempts.roll_back(INSTANT, 3, salvage=lambda dead: dead.names)
    assert real.read(f"attempts/{INSTANT}/3-1/part") == b"all of it"


def test_what_is_no_file_is_not_removed(real):
    """A directory where parts should be is not ours: it is said, and nothing below it is touched."""
    attempts = Attempts([real])
    real.make_directory(f"attempts/{INSTANT}/1/strange")
    real.create(f"attempts/{INSTANT}/1/strange/file", b"precious")
    with pytest.raises(OSError):
        attempts.roll_back(INSTANT, 2)
    assert real.read(f"attempts/{INSTANT}/1/strange/file") == b"precious"


def test_this_process_lives():
    """And is told apart from everything that only looks like it."""
    me = this_owner("t")
    assert not is_gone(me)
    assert not has_restarted(me)
    for how in ({"boot_id": "another"}, {"pid_space": 2}, {"pid_space": 0}):
        assert not is_gone(
            an_owner(**{"pid": 2**22 + 1, "boot_id": me.boot_id, "pid_space": me.pid_space} | how)
        )


def test_a_process_that_has_ended_is_gone():
    """Killed, also while nobody has asked for its exit code; and one whose number was given to another."""
    code = (
        "from cfetch.timeline.owner import this_owner; import msgspec, sys; "
        "print(msgspec.json.encode(this_owner('t')).decode(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        owner = msgspec.json.decode(child.stdout.readline(), type=type(this_owner("x")))
        assert owner.pid == child.pid
        assert not is_gone(owner)
        assert is_gone(msgspec.structs.replace(owner, started=owner.started + 1))
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        assert is_gone(owner)
    assert is_gone(owner)


@pytest.mark.parametrize("fault", [FileNotFoundError, PermissionError, OSError(errno.EMFILE, "too many")])
@pytest.mark.parametrize("answer", [None, PermissionError])
def test_a_process_that_cannot_be_seen_is_not_proved_dead(monkeypatch, fault, answer):
    """/proc may hide processes of others (hidepid), or no descriptor is left; kill(2) sees the process."""
    owner = msgspec.structs.replace(this_owner("t"), pid=os.getppid())
    monkeypatch.setattr(os, "kill", Mock(side_effect=answer))
    monkeypatch.setattr("cfetch.timeline.owner.start_ticks", Mock(side_effect=fault))
    assert not is_gone(owner)
    monkeypatch.setattr(os, "kill", Mock(side_effect=ProcessLookupError))
    assert is_gone(owner)


def test_an_owner_whose_start_is_unknown_is_dead_only_without_its_process():
    """It could not read its own entry of /proc when it signed."""
    me = msgspec.structs.replace(this_owner("t"), started=0)
    assert not is_gone(me)
    assert not is_gone(msgspec.structs.replace(me, pid=0))


def test_a_restart_of_the_machine_is_a_sign_of_death():
    """Same name, same machine id, another boot; an unknown machine id is no sign."""
    me = this_owner("t")
    other = an_owner(host=me.host, machine=me.machine, boot_id="an earlier one")
    assert has_restarted(other) is bool(me.machine)
    assert not has_restarted(an_owner(host=me.host, machine="", boot_id="an earlier one"))
    assert not has_restarted(an_owner(host="another", machine=me.machine, boot_id="an earlier one"))


EXECUTOR = """
import sys
from pathlib import Path
from cfetch.timeline.execution import start
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.table import open_table

state, instant = Path(sys.argv[1]), sys.argv[2]
with open_table(state, [state], Heartbeats(interval_s=1.0, misses=1)) as table:
    execution = start(table, instant, on_lost=lambda why: print("lost", flush=True))
    print(execution.staging, flush=True)
    for line in sys.stdin:
        try:
            execution.commit(files=1, size_bytes=1)
        except Exception as error:
            print(type(error).__name__, flush=True)
        else:
            print("committed", flush=True)
"""


@pytest.fixture
def executor(tmp_path):
    """Starts a real process that executes a plan until it is told to commit."""
    children = []

    def begin(instant):
        child = subprocess.Popen(
            [sys.executable, "-c", EXECUTOR, str(tmp_path), instant],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == f"attempts/{instant}/1\n"
        return child

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def test_a_killed_process_is_followed_at_once(tmp_path, executor):
    """SIGKILL: the next run on the same machine does not wait for any heartbeat."""
    with open_table(tmp_path, [tmp_path], Heartbeats()) as table:
        instant = schedule(table, table.new_instant(), a_record())
        child = executor(instant)
        with pytest.raises(Held) as caught:
            start(table, instant, on_lost=nobody)
        assert caught.value.pid == child.pid
        child.kill()
        child.wait()
        execution = start(table, instant, on_lost=nobody)
        assert isinstance(execution, Execution)
        assert execution.epoch == 2
        execution.commit(files=1, size_bytes=1)


def test_a_stopped_process_is_overtaken_and_fenced(tmp_path, executor):
    """SIGSTOP for longer than its heartbeat lasts, then SIGCONT: it has lost, learns so, harms nothing."""
    with open_table(tmp_path, [tmp_path], Heartbeats(interval_s=1.0, misses=1)) as table:
        instant = schedule(table, table.new_instant(), a_record())
        child = executor(instant)
        child.send_signal(signal.SIGSTOP)
        while True:
            try:
                execution = start(table, instant, on_lost=nobody)
                break
            except Held:
                time.sleep(0.2)  # its beat was young: until it is not
        assert isinstance(execution, Execution)
        assert execution.epoch == 2
        child.send_signal(signal.SIGCONT)
        assert child.stdout.readline() == "lost\n"
        child.stdin.write("commit\n")
        child.stdin.flush()
        assert child.stdout.readline() == "Held\n"
        execution.commit(files=1, size_bytes=1)


def test_the_machine_itself():
    """What a table is given by default: real clocks, and owners and tails that differ."""
    one, other = this_node(), this_node()
    assert one.owner.token != other.owner.token
    assert abs(one.wall() - time.time()) < 60
    assert len(one.tail()) == 4
