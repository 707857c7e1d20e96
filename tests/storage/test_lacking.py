"""What a file system lacks is done without, and said once; a disk that fails is still a fault."""

import errno
import os
from types import SimpleNamespace

import pytest

from cfetch.storage import lacking
from cfetch.storage.files import publish_once, replace_file


@pytest.fixture(autouse=True)
def _nothing_noted():
    lacking.take_losses()
    yield
    lacking.take_losses()


def refuse(number):
    def call(*_, **__):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("call", "do", "lack", "number"),
    [
        (call, do, lack, number)
        for call, do, lack in [
            ("fsync", lacking.flush_file, lacking.FLUSH_FILE),
            ("fsync", lacking.flush_directory, lacking.FLUSH_DIRECTORY),
            ("fchmod", lambda fd: lacking.set_mode(fd, 0o600), lacking.MODE),
        ]
        for number in sorted(lack.errors)
    ],
)
def test_a_call_that_is_not_here_is_done_without(monkeypatch, tmp_path, call, do, lack, number):
    """However the file system says it; the loss is told once."""
    monkeypatch.setattr(os, call, refuse(number))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    do(descriptor)
    do(descriptor)
    os.close(descriptor)
    assert lacking.take_losses() == [lack.loss]
    assert lacking.take_losses() == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_fails_is_no_file_system_that_lacks_a_call(monkeypatch, tmp_path, number):
    """Its error is raised, and nothing counts as durable."""
    monkeypatch.setattr(os, "fsync", refuse(number))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for do in (lacking.flush_file, lacking.flush_directory):
        with pytest.raises(OSError, match=os.strerror(number)):
            do(descriptor)
    os.close(descriptor)
    assert lacking.take_losses() == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EBADF])
def test_a_state_is_written_where_directories_cannot_be_flushed(monkeypatch, tmp_path, number):
    """As on SMB; only the flush of a directory is refused."""
    fsync = os.fsync

    def refuse_directories(descriptor):
        if not os.path.isfile(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    replace_file(tmp_path / "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("number", sorted(lacking.LINKS.errors))
def test_a_file_is_published_once_without_hard_links(monkeypatch, tmp_path, number):
    """Its name is looked up, then given; the first one stays."""
    monkeypatch.setattr(os, "link", refuse(number))
    assert publish_once(tmp_path / "a", b"1")
    assert not publish_once(tmp_path / "a", b"2")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"1"


def test_no_blocks_mean_that_the_room_is_not_known(monkeypatch, tmp_path):
    """Mounts of stores report 0 blocks, 0 of them free; a full disk has blocks."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for blocks, free in [(0, None), (10, 0)]:
        usage = SimpleNamespace(f_blocks=blocks, f_bavail=0, f_frsize=4096)
        monkeypatch.setattr(os, "fstatvfs", lambda _, usage=usage: usage)
        assert lacking.find_free_bytes(descriptor) == free
    os.close(descriptor)
