"""Parts and the volume below them: short writes, full disks, symlinks, names."""

import asyncio
import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path

import pytest

from cfetch.base.errors import Blocked, Corrupt, LocalFault, VolumeFault
from cfetch.manifest.entry import Digest, safe_path
from cfetch.storage import file_hash
from cfetch.storage.directory import Directory
from cfetch.storage.disk import InlineDisk
from cfetch.storage.file_hash import READ_BYTES, hash_and_close
from cfetch.storage.files import local_fault
from cfetch.storage.part import Part
from cfetch.storage.resume import useful_parts
from tests.engine.drive import entry_of, tree

DATA = bytes(range(256)) * 8


def staged(root):
    return sorted(os.listdir(root / ".cfetch/attempts/i/0"))


def part_of(volume, path="a", number=0, body=DATA, **how):
    return Part(volume, entry_of(number, path, body, **how))


def test_bytes_become_a_file_in_one_step(volume, root):
    """Nothing stands under the final name before publish, nothing in staging after it."""
    part = part_of(volume, "d/e/a", digest=True)
    part.write(DATA[:7])
    part.write(DATA[7:])
    assert not (root / "d").exists()
    assert part.verify(len(DATA), Digest("sha256", hashlib.sha256(DATA).hexdigest())) == "sha256"
    part.publish()
    part.discard()
    assert tree(root) == {"d/e/a": DATA}
    assert staged(root) == []


def test_a_second_part_stands_beside_the_first(volume, root):
    """Each has its own file, and what is published is its own."""
    first = part_of(volume)
    second = first.open_second()
    first.write(b"first")
    second.write(DATA[:7])
    second.write(DATA[7:])
    assert len(staged(root)) == 2
    first.discard()
    assert second.verify(len(DATA), None) == "size"
    second.publish()
    assert tree(root) == {"a": DATA}
    assert staged(root) == []


@pytest.mark.parametrize(("number", "path"), [(0, "a"), (10_000_000, "x" * 250), (2**40, "é" * 120)])
def test_76_part_names_have_one_length(volume, root, number, path):
    """However long the final name and however large the id."""
    part = part_of(volume, path, number)
    part.write(b"x")
    (name,) = staged(root)
    assert len(name) == 33
    part.discard()
    assert staged(root) == []


def test_88_short_writes_are_completed(volume, monkeypatch):
    """A system call that takes three bytes at a time loses none."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    part = part_of(volume)
    part.write(DATA)
    assert part.position == len(DATA)
    part.publish()
    assert tree(volume.root) == {"a": DATA}


def test_a_small_file_that_came_whole_is_written_when_it_is_finished(volume, root):
    """Until then it costs no system call, and nothing of it has to be tidied up."""
    part, dropped = part_of(volume, "a"), part_of(volume, "b", 1)
    part.write(DATA)
    dropped.write(DATA)
    assert part.is_in_memory
    assert staged(root) == []
    dropped.discard()
    part.finish()
    assert not part.is_in_memory
    assert len(staged(root)) == 1
    part.publish()
    assert tree(root) == {"a": DATA}
    assert staged(root) == []


def test_a_file_whose_size_only_the_reply_states_stays_in_memory_too(volume, root):
    """A column of URLs states no sizes; then every file was opened, and published by itself."""
    part = part_of(volume, size=False)
    part.total_bytes = len(DATA)
    part.write(DATA)
    assert part.is_in_memory
    assert staged(root) == []
    part.finish()
    part.publish()
    assert tree(root) == {"a": DATA}


def test_bytes_that_follow_a_whole_file_come_after_it(volume, root):
    """A server that sends too much: nothing is lost or put in another order."""
    part = part_of(volume)
    part.write(DATA)
    part.write(b"more")
    (name,) = staged(root)
    assert (root / ".cfetch/attempts/i/0" / name).read_bytes() == DATA + b"more"
    with pytest.raises(Corrupt):
        part.verify(len(DATA), None)
    part.discard()


def test_a_whole_file_that_is_begun_anew_is_forgotten(volume):
    """A body of the right size and the wrong hash is in no file, before its successor or in place of it."""
    digest = Digest("sha256", hashlib.sha256(DATA).hexdigest())
    part = part_of(volume, digest=True)
    part.write(bytes(len(DATA)))
    with pytest.raises(Corrupt):
        part.verify(len(DATA), digest)
    part.write(DATA[:9])
    part.write(DATA[9:])
    assert part.verify(len(DATA), digest) == "sha256"
    part.publish()
    assert tree(volume.root) == {"a": DATA}


def test_87_a_disk_that_is_full_when_a_whole_file_is_written(volume, root, monkeypatch):
    """The fault names the file, and what was written of it is removed."""
    part = part_of(volume, "deep/name")
    part.write(DATA)

    def write(fd, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(LocalFault, match="cannot write deep/name: No space left on device"):
        part.finish()
    monkeypatch.undo()
    part.discard()
    assert tree(root) == {}
    assert staged(root) == []


def test_87_a_full_disk_names_cause_and_remedy(volume, monkeypatch):
    """ENOSPC from the real device, in the middle of a body."""
    part = part_of(volume, "deep/name")
    part.write(b"x")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, part.file.fd)
    os.close(full)
    with pytest.raises(
        LocalFault, match=r"cannot write deep/name: No space left on device \(free some space"
    ):
        part.write(DATA)
    part.discard()


def test_87_a_disk_that_is_full_when_the_file_is_closed(volume, root, monkeypatch):
    """The delayed error of a network file system: no final name, no part."""
    part = part_of(volume)
    part.write(DATA)

    def close(fd, real=os.close):
        real(fd)
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(os, "close", close)
    with pytest.raises(LocalFault, match="cannot write a"):
        part.publish()
    monkeypatch.undo()
    part.discard()
    assert tree(root) == {}
    assert staged(root) == []


def test_a_part_of_a_disk_that_was_given_up_gets_no_name(volume, root):
    """It is whole, and no fault of its own was met: others of its batch have their names already."""
    disk = InlineDisk()
    part = Part(volume, entry_of(0, "a", DATA), disk)
    part.write(DATA)
    disk.line.fault = VolumeFault("it does not answer")
    with pytest.raises(VolumeFault, match="does not answer"):
        part.publish()
    assert tree(root) == {}
    part.discard()


def test_a_name_is_taken_back_where_its_directory_has_gone(volume, root):
    """There is nothing to take back, and the directory is not made again for that."""
    part = part_of(volume, "d/a")
    part.write(DATA)
    part.publish()
    shutil.rmtree(root / "d")
    with pytest.raises(LocalFault, match="cannot remove d/a again"):
        part.unpublish()
    assert not (root / "d").exists()


@pytest.mark.parametrize("digest", [False, True])
def test_whose_part_it_is(volume, root, digest):
    """Under a hash the bytes may come from any link; without one they are those of their own link only."""
    names = []
    for host in ("one.test", "two.test"):
        part = part_of(volume, digest=digest, host=host)
        part.write(b"x")
        names += staged(root)
        part.discard()
    assert (names[0] == names[1]) is digest


@pytest.mark.parametrize("renews", [False, True])
def test_a_note_is_not_written_through_a_symlink(volume, root, tmp_path, renews):
    """Whoever may write into the state directory must not choose which file we overwrite."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"x")
    (root / ".cfetch/attempts/i/0" / ("p.note.next" if renews else "p.note")).symlink_to(precious)
    with pytest.raises(LocalFault, match="cannot note a part file"):
        volume.staging.note_part("p", b"note", renews=renews)
    assert precious.read_bytes() == b"x"


def test_92_a_note_goes_before_the_bytes_it_tells_of(volume, root, monkeypatch):
    """Else the next reply's bytes would be gone on with under an ETag that is not theirs."""
    part = part_of(volume)
    part.validator = '"v1"'
    part.write(bytes(2 << 20))
    (name, note) = staged(root)
    assert note == name + ".note"
    real, seen = os.ftruncate, []

    def truncate(fd, size):
        seen.append(staged(root))
        real(fd, size)

    monkeypatch.setattr(os, "ftruncate", truncate)
    part.restart()
    assert seen == [[name]]
    part.write(b"x")
    assert part.keep_leftover() == 0
    assert staged(root) == []


@pytest.mark.parametrize("call", ["write", "close"])
@pytest.mark.parametrize(("number", "kept"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_91_a_part_on_a_broken_disk_is_not_kept(volume, root, monkeypatch, call, number, kept):
    """A full disk has taken what it said it took; of a broken one nobody knows."""
    part = part_of(volume, digest=True)
    part.write(bytes(2 << 20))
    real = getattr(os, call)

    def fails(fd, *data):
        if call == "close":
            real(fd)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(LocalFault, match=os.strerror(number)):
        part.write(DATA) if call == "write" else part.close()
    monkeypatch.undo()
    assert (part.keep_leftover() > 0) is kept
    assert (staged(root) != []) is kept


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_what_a_killed_run_would_leave_is_left_by_a_stopped_one_too(volume, root, digest, whole):
    """A few bytes that the manifest's hash will prove; and those that are only in memory so far."""
    part = part_of(volume, digest=digest)
    part.write(DATA if whole else DATA[:7])
    assert part.keep_leftover(even_small=True) == (part.position if digest else 0)
    held = [path.read_bytes() for path in (root / ".cfetch/attempts/i/0").iterdir()]
    assert held == ([DATA if whole else DATA[:7]] if digest else [])
    assert useful_parts(staged(root)) == staged(root)


def test_a_few_bytes_of_a_file_that_failed_are_not_kept(volume, root):
    """There may be many such files, and the next run may want none of them."""
    part = part_of(volume, digest=True)
    part.write(DATA[:7])
    assert (part.keep_leftover(), staged(root)) == (0, [])


def test_restart_forgets_bytes_hash_and_validator(volume):
    """What follows is a new file of exactly the new bytes."""
    part = part_of(volume, digest=True)
    part.write(b"wrong" * 999)
    part.validator = '"v"'
    part.restart()
    assert (part.position, part.validator) == (0, None)
    part.write(DATA)
    assert part.verify(len(DATA), Digest("sha256", hashlib.sha256(DATA).hexdigest())) == "sha256"
    part.publish()
    assert tree(volume.root) == {"a": DATA}


@pytest.mark.parametrize(("size", "digest", "verified"), [
    (len(DATA), None, "size"), (None, None, "none"), (None, "md5", "md5"), (len(DATA), "sha512", "sha512"),
])  # fmt: skip
def test_what_vouches_for_a_file(volume, size, digest, verified):
    """The strongest of what the manifest states."""
    stated = Digest(digest, hashlib.new(digest, DATA).hexdigest()) if digest else None
    entry = entry_of(0, "a", DATA)
    part = Part(volume, type(entry)(id=0, url=entry.url, path=entry.path, size_bytes=size, digest=stated))
    part.write(DATA)
    assert part.verify(size, stated) == verified
    part.discard()


@pytest.mark.parametrize("size", [len(DATA) + 1, len(DATA) - 1])
def test_24_a_wrong_part_is_emptied(volume, size):
    """Wrong by size or by hash: the bytes are not built upon."""
    part = part_of(volume, digest=True)
    part.write(DATA)
    with pytest.raises(Corrupt, match=f"{len(DATA)} bytes came"):
        part.verify(size, None)
    assert part.position == 0
    part.write(DATA)
    with pytest.raises(Corrupt, match="sha256"):
        part.verify(None, Digest("sha256", "0" * 64))
    assert part.position == 0
    part.discard()


def test_an_empty_file_is_published(volume, root):
    """Although no byte ever came."""
    part = part_of(volume)
    part.publish()
    assert tree(root) == {"a": b""}


def test_69_a_symlink_at_the_name_is_replaced_not_followed(volume, root, tmp_path):
    """What it points to stays as it was."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    (root / "a").symlink_to(outside)
    assert volume.existing(safe_path("a")) is None
    part = part_of(volume)
    part.write(DATA)
    part.publish()
    assert outside.read_bytes() == b"mine"
    assert not (root / "a").is_symlink()
    assert (root / "a").read_bytes() == DATA


@pytest.mark.parametrize("path", ["link/a", "link/deeper/a", "d/link/a"])
def test_69_a_symlink_on_the_way_is_refused(volume, root, tmp_path, path):
    """Looking, reading and publishing: nothing appears behind it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "d").mkdir()
    (root / "link").symlink_to(outside)
    (root / "d/link").symlink_to(outside)
    part = part_of(volume, path)
    part.write(DATA)
    for act in (volume.existing, volume.open_existing, lambda _: part.publish()):
        with pytest.raises(Blocked, match="a symlink stands where one of its directories should be"):
            act(safe_path(path))
    part.discard()
    assert list(outside.iterdir()) == []
    assert staged(root) == []


def test_69_a_symlink_put_there_between_two_files_of_a_directory(volume, root, tmp_path):
    """The held descriptor leads to a directory that stands elsewhere now, and the symlink is not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    part_of(volume, "d/a").publish()
    (root / "d").rename(root / "moved")
    (root / "d").symlink_to(outside)
    part = part_of(volume, "d/b", 1)
    with pytest.raises(Blocked, match="a symlink stands where one of its directories should be"):
        part.publish()
    part.discard()
    assert list(outside.iterdir()) == []
    assert os.listdir(root / "moved") == ["a"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_70_what_is_no_file_is_not_replaced(volume, root, make):
    """A directory or a FIFO at the name is named and left alone."""
    make(root / "a")
    before = (root / "a").lstat().st_mode
    with pytest.raises(Blocked, match="stands in its place"):
        volume.existing(safe_path("a"))
    assert (root / "a").lstat().st_mode == before


def test_70_a_hard_link_is_a_new_file_afterwards(volume, root, tmp_path):
    """The other name keeps the old bytes."""
    (tmp_path / "other").write_bytes(b"old")
    os.link(tmp_path / "other", root / "a")
    part = part_of(volume)
    part.write(DATA)
    part.publish()
    assert (tmp_path / "other").read_bytes() == b"old"


def test_78_the_mode_is_plain(volume, root):
    """Readable as the umask says, never executable."""
    part = part_of(volume)
    part.write(DATA)
    part.publish()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o666 & ~umask


def test_the_state_directory_must_not_be_a_symlink(tmp_path):
    """Parts would be written elsewhere."""
    (tmp_path / "to").mkdir()
    (tmp_path / "to/.cfetch").symlink_to(tmp_path)
    with pytest.raises(LocalFault, match="cannot write to"):
        Directory(tmp_path / "to", "attempts/i/0")
    assert not (tmp_path / "attempts").exists()


def test_a_part_of_another_owner_is_not_written_to(volume, root):
    """A name that exists in staging is never opened, whoever made it."""
    part_of(volume).write(b"other")
    part = part_of(volume)
    part.write(DATA)
    with pytest.raises(LocalFault, match="File exists"):
        part.finish()
    (name,) = staged(root)
    assert (root / ".cfetch/attempts/i/0" / name).read_bytes() == b"other"
    volume.staging.discard_part(name)


def test_more_directories_than_descriptors_are_held(volume, root):
    """A wide tree does not use up the process's open files."""
    for number in range(200):
        part = part_of(volume, f"d{number}/a", number)
        part.publish()
    opened = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]  # other tests' ones too
    assert 1 < sum(name.startswith(f"{root}/d") for name in opened) <= 65
    assert len(tree(root)) == 200


def test_the_destination_that_cannot_be(tmp_path):
    """A file where the directory should be."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LocalFault, match=r"cannot use .*file as a destination"):
        Directory(tmp_path / "file", "attempts/i/0")


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EROFS,
        errno.EMFILE,
        errno.EIO,
        errno.EFBIG,
        errno.EDOM,
    ],
)
def test_every_local_fault_names_its_cause(number):
    """In the system's words, with a remedy where there is one."""
    text = str(local_fault(OSError(number, os.strerror(number)), "cannot write a"))
    assert text.startswith(f"cannot write a: {os.strerror(number)}")
    assert ("(" in text) == (number != errno.EDOM)


@pytest.mark.parametrize("size", [0, 1, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, 20 * READ_BYTES])
async def test_the_hash_of_a_file_in_place(tmp_path, size):
    """At the edges of one read, one turn and several; the descriptor is given back."""
    data = os.urandom(1024) * (size // 1024 + 1)
    (tmp_path / "a").write_bytes(data[:size])
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    assert await hash_and_close(fd, "sha256", size, safe_path("a")) == hashlib.sha256(data[:size]).hexdigest()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_a_hash_under_way_can_be_stopped(tmp_path, monkeypatch):
    """Between two turns, with the descriptor given back: a stop need not wait for a huge file."""
    monkeypatch.setattr(file_hash, "READS_PER_TURN", 1)
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 34)
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    task = asyncio.create_task(hash_and_close(fd, "sha256", 0, safe_path("a")))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_91_a_disk_that_cannot_read_back(tmp_path):
    """A descriptor that refuses to be read: a local fault, not a bug."""
    fd = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(LocalFault, match="cannot read a"):
        await hash_and_close(fd, "md5", 0, safe_path("a"))
