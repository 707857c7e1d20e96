"""The one way to write a file: stopped at each step, cut off from power, with others at it and in its way."""

import errno
import os
import random
import secrets
import stat
import threading
from pathlib import Path

import pytest

from cfetch.base.errors import LocalFault, UsageError
from cfetch.storage import lacking
from cfetch.storage.files import (
    input_fault,
    make_private,
    open_replacement,
    publish_once,
    remove_temporaries,
    replace_file,
)
from cfetch.timeline.files import LocalFiles
from tests.faults.disk import Disk

OLD, NEW = b"old", b"new, and longer than the old one"


class FlushingDisk(Disk):
    """It also knows the flush of one file, that of a directory, and second names."""

    def fsync(self, descriptor):
        self._change("flush", "")
        if not self._follows:
            return
        node = self._descriptors.get(descriptor)
        if node is not None:
            node.durable, node.dirty = bytes(node.data), False
            return
        for kind, old, node, new in self._since:
            if kind in ("rename", "unlink"):
                self._durable_names.pop(old, None)
            if kind in ("rename", "link"):
                self._durable_names[new or old] = node
        self._since.clear()

    def link(self, source, target, *, follow_symlinks=True):
        old, new = self._shown(source, None), self._shown(target, None)
        self._change("link", f"{old} -> {new}")
        os.link(source, target, follow_symlinks=follow_symlinks)
        if self._follows:
            self._names[new] = self._names[old]
            self._since.append(("link", new, self._names[new], ""))


def made_disk(folder, seed, before):
    """A disk on which a file ``f`` stands, or none."""
    (folder / "tree0").mkdir(parents=True)
    if before is not None:
        (folder / "tree0" / "f").write_bytes(before)
    disk = FlushingDisk(folder, random.Random(seed), models_power=True, on_change=lambda *_: None)
    disk.load()
    return disk


def content_of(root):
    return (root / "f").read_bytes() if (root / "f").exists() else None


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("before", [None, OLD], ids=["no file before", "an old file"])
@pytest.mark.parametrize("write", [replace_file, publish_once])
def test_a_crash_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, write, before, power):
    """Never half of one, never none where one was; and one temporary file at most."""
    seen, step, goes_on = set(), 0, True
    while goes_on:
        step += 1
        for seed in range(3):
            disk = made_disk(tmp_path / f"{step}-{seed}", seed, before)
            disk.begin(die_at=step, power=power)
            with disk.installed():
                write(disk.root / "f", NEW)
            goes_on = disk.dead
            after = content_of(disk.root)
            if goes_on:
                seen.add(after)
                assert after in (before, NEW)
                assert len([path for path in disk.root.iterdir() if path.name != "f"]) <= 1
    assert step > 4
    assert seen == ({before} if write is publish_once and before else {before, NEW})


@pytest.mark.parametrize("write", [replace_file, publish_once])
def test_what_was_written_durably_outlives_a_power_cut(tmp_path, write):
    """When the function returns bytes and name are on disk."""
    for seed in range(30):
        disk = made_disk(tmp_path / str(seed), seed, None)
        with disk.installed():
            write(disk.root / "f", NEW)
        disk.cut_power()
        assert content_of(disk.root) == NEW


def test_what_was_written_without_a_flush_may_be_lost(tmp_path):
    """The model tells the two apart: without ``durable`` a power cut takes some of it, or all."""
    after = set()
    for seed in range(30):
        disk = made_disk(tmp_path / str(seed), seed, OLD)
        with disk.installed():
            replace_file(disk.root / "f", NEW, durable=False)
        assert content_of(disk.root) == NEW
        disk.cut_power()
        after.add(content_of(disk.root))
    assert OLD in after
    assert after - {OLD, NEW}


@pytest.mark.parametrize("write", [replace_file, publish_once])
@pytest.mark.parametrize("point", ["open", "fsync", "rename", "link"])
def test_a_step_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch, write, point):
    """It is a LocalFault that names the file; nothing else stays in the directory."""
    (tmp_path / "f").write_bytes(OLD)

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, point, fail)
    used = {replace_file: "rename", publish_once: "link"}[write]
    if point in ("open", "fsync", used):
        with pytest.raises(LocalFault, match=rf"cannot write {tmp_path}/f: No space left on device \(free"):
            write(tmp_path / "f", NEW)
    else:
        write(tmp_path / "f", NEW)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert content_of(tmp_path) == (NEW if write is replace_file and point == "link" else OLD)


def test_an_error_of_the_one_who_writes_leaves_the_old_file(tmp_path):
    """The error is passed on as it is; what was written so far goes away."""
    (tmp_path / "f").write_bytes(OLD)

    def write_half():
        with open_replacement(tmp_path / "f") as file:
            file.write(NEW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert content_of(tmp_path) == OLD


@pytest.mark.parametrize("write", [replace_file, publish_once])
def test_a_symlink_under_the_temporary_name_leads_nowhere(tmp_path, monkeypatch, write):
    """Somebody who guessed the name cannot make cfetch write elsewhere."""
    (tmp_path / "precious").write_bytes(OLD)
    (tmp_path / f".f.{'0' * 16}").symlink_to(tmp_path / "precious")
    monkeypatch.setattr(secrets, "token_hex", lambda length: "00" * length)
    with pytest.raises(LocalFault, match="File exists"):
        write(tmp_path / "f", NEW)
    assert (tmp_path / "precious").read_bytes() == OLD
    assert content_of(tmp_path) is None


def test_a_symlink_under_the_final_name_is_replaced_or_refused(tmp_path):
    """It is never followed."""
    (tmp_path / "precious").write_bytes(OLD)
    (tmp_path / "f").symlink_to(tmp_path / "precious")
    assert not publish_once(tmp_path / "f", NEW)
    replace_file(tmp_path / "f", NEW)
    assert (tmp_path / "precious").read_bytes() == OLD
    assert not (tmp_path / "f").is_symlink()
    assert content_of(tmp_path) == NEW


@pytest.mark.parametrize("write", [replace_file, publish_once])
def test_only_the_owner_may_read_it(tmp_path, write):
    """Whatever the umask allows."""
    before = os.umask(0)
    try:
        write(tmp_path / "f", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_of_many_writers_at_once_one_wins_whole(tmp_path):
    """Each has a temporary file of its own, so the bytes of two are never mixed; only one publishes."""
    start = threading.Barrier(8)
    won = []

    def write(number):
        data = str(number).encode() * 100_000
        start.wait()
        replace_file(tmp_path / "f", data, durable=False)
        if publish_once(tmp_path / "once", data, durable=False):
            won.append(data)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = (tmp_path / "f").read_bytes()
    assert len(data) == 100_000
    assert len(set(data)) == 1
    assert [(tmp_path / "once").read_bytes()] == won
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "once"]


def test_a_name_as_long_as_may_be_can_be_written(tmp_path):
    """Its temporary name is another one then."""
    replace_file(tmp_path / ("n" * 255), NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_temporary_files_of_the_dead_are_removed_and_nothing_else(tmp_path):
    """Those of one name only; a directory that is not there has none."""
    for name in ("f", ".f", f".f.{'a' * 16}", f".f.{'b' * 16}", f".g.{'a' * 16}", ".f.note"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path / "f")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".f", ".f.note", f".g.{'a' * 16}", "f"]
    remove_temporaries(tmp_path / "gone" / "f")


@pytest.mark.parametrize("link", ["state", "state/plans", "state/plans/i"])
def test_c69_no_directory_of_the_state_is_reached_through_a_symlink(tmp_path, link):
    """Whoever may write in the state cannot make cfetch write elsewhere; nothing is made behind the link."""
    (tmp_path / "elsewhere/plans/i").mkdir(parents=True)
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    for directory in ("state/plans/i", "state/plans/i/new"):
        with pytest.raises(OSError, match="symbolic links"):
            make_private(tmp_path / directory, state=tmp_path / "state")
    assert sorted(path.name for path in (tmp_path / "elsewhere").rglob("*")) == ["i", "plans"]


def test_c110_a_state_that_others_may_write_is_taken_from_them(tmp_path):
    """All of it but the directory that the user has named: that may be a scratch disk for everybody."""
    for root, directory in (("to", "to/.cfetch/plans"), ("named", "named/plans")):
        (tmp_path / directory).mkdir(parents=True)
        for path in (tmp_path / directory, (tmp_path / directory).parent, tmp_path / root):
            path.chmod(0o777)
    make_private(tmp_path / "to/.cfetch/plans")
    make_private(tmp_path / "named/plans", state=tmp_path / "named")
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")
    }
    private, shared = 0o755, 0o777
    assert modes == {"to": shared, "to/.cfetch": private, "to/.cfetch/plans": private,
                     "named": shared, "named/plans": private}  # fmt: skip


def test_c110_a_state_of_another_user_is_refused_but_not_by_root_nor_from_root(tmp_path, monkeypatch):
    """Its owner could change a plan's links; root uses all, as in containers, and all use root's."""
    make_private(tmp_path / ".cfetch/plans")
    real, owners = Path.lstat, {"uid": 0}

    def owned(path):
        return os.stat_result((*real(path)[:4], owners["uid"], *real(path)[5:]))

    monkeypatch.setattr(Path, "lstat", owned)
    for user, owners["uid"] in ((0, 1000), (1000, 1000), (1000, 0)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        LocalFiles(tmp_path / ".cfetch").close()
    owners["uid"] = 1001
    with pytest.raises(LocalFault, match=r"belongs to another user \(uid 1001\).* --state"):
        LocalFiles(tmp_path / ".cfetch")
    assert [path.name for path in (tmp_path / ".cfetch").iterdir()] == ["plans"]


def test_c110_a_file_system_that_tells_no_users_apart_may_hold_the_state(tmp_path, monkeypatch):
    """As sshfs and CIFS do: all is one user's, also what we have just made."""
    make_private(tmp_path / ".cfetch/plans")
    for place, name in ((Path, "lstat"), (os, "fstat")):
        real = getattr(place, name)
        monkeypatch.setattr(
            place, name, lambda of, real=real: os.stat_result((*real(of)[:4], 1001, *real(of)[5:]))
        )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    LocalFiles(tmp_path / ".cfetch").close()
    assert [path.name for path in (tmp_path / ".cfetch").iterdir()] == ["plans"]


def test_c69_a_symlink_in_the_state_is_refused_when_the_timeline_is_opened(tmp_path):
    """Before anything of a run is written."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/attempts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocalFault, match="a symlink is where a directory should be"):
        LocalFiles(tmp_path / "state")


@pytest.mark.parametrize(
    ("code", "whose"),
    [("ENOENT", UsageError), ("EACCES", UsageError), ("EIO", LocalFault), ("EMFILE", LocalFault)],
)
def test_a_file_that_cannot_be_read_is_the_fault_of_its_name_or_of_the_disk(code, whose):
    """Scripts do not try again after exit code 2, and may after 3."""
    number = getattr(errno, code)
    fault = input_fault(OSError(number, os.strerror(number)), "cannot read urls.txt")
    assert isinstance(fault, whose)
    assert str(fault).startswith(f"cannot read urls.txt: {os.strerror(number)}")


def test_a_file_system_that_flushes_no_directories_is_no_fault(tmp_path, monkeypatch):
    """Some network file systems refuse it; others' refusals are told."""
    monkeypatch.setattr(lacking, "_lacking", {})  # else the next run in this process would tell of it
    real = os.fsync

    def refuse(number):
        def fsync(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))
            real(descriptor)

        return fsync

    monkeypatch.setattr(os, "fsync", refuse(22))
    replace_file(tmp_path / "f", NEW)
    assert content_of(tmp_path) == NEW
    monkeypatch.setattr(os, "fsync", refuse(5))
    with pytest.raises(LocalFault, match="the disk reports an error"):
        replace_file(tmp_path / "f", OLD)
