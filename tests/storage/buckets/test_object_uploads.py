"""Uploads that a killed run has left open in a bucket."""

import asyncio
import errno
import os
import signal
import subprocess
import sys

import pytest

from cfetch.base.errors import LocalFault
from cfetch.storage.buckets import object_uploads as module
from cfetch.storage.buckets.object_uploads import ENDING, OpenUploads, abort_dead_uploads
from tests.engine.drive import entry_of
from tests.storage.buckets.test_object_listing import opened
from tests.storage.buckets.test_object_volume import BIG, committed, feed, record_of, staged, tidied

CHILD = """
import asyncio
import sys
from pathlib import Path
from time import monotonic
from cfetch.storage.buckets.object_store import PIECE_BYTES, ObjectStore
from cfetch.storage.buckets.object_volume import ObjectStoreVolume
from tests.engine.drive import entry_of

async def main():
    store = ObjectStore(sys.argv[1], timeout_s=30)
    volume = ObjectStoreVolume(
        store, run_id="r", confirm=lambda: None, monotonic=monotonic, records=Path(sys.argv[2])
    )
    await volume.open()
    for n in range(2):
        part = volume.new_part(entry_of(n, f"d/{n}", bytes(3 * PIECE_BYTES)))
        part.write(bytes(PIECE_BYTES))
        await part.wait_for_room()
        await part._sending._wait_until_sent()
    print("sent", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def killed(bucket, tmp_path):
    """A run that was killed in the middle of two uploads."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, bucket.url, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"sent\n"
        assert bucket.uploads() == ["d/0", "d/1"]
        yield child
    finally:
        child.kill()
        child.communicate()


def kill(child):
    os.kill(child.pid, signal.SIGKILL)
    child.wait()


def noted(directory):
    return sorted(path.name for path in directory.glob(f"*{ENDING}"))


async def test_the_next_run_aborts_what_a_killed_one_has_left(bucket, killed, tmp_path):
    """A run that still lives keeps its uploads; so does another tool."""
    async with opened(bucket, tmp_path):
        assert bucket.uploads() == ["d/0", "d/1"]
    kill(killed)
    other = f"/{bucket.name}/some/prefix/d/00?uploads"
    assert bucket.server.ask("POST", other)[0] == 200
    async with opened(bucket, tmp_path) as volume:
        assert bucket.uploads() == ["d/00"]
        assert noted(tmp_path) == []
        assert await committed(volume, [await staged(volume, "d/0", BIG)]) is None
    assert (bucket.uploads(), bucket.get("d/0"), noted(tmp_path)) == (["d/00"], BIG, [])


@pytest.mark.parametrize("prefix", ["a%20b", "a b", "\u00fc"])
def test_a_prefix_is_read_as_the_store_reads_it(bucket, tmp_path, prefix):
    """In a URL, ``%20`` is a space."""
    bucket.url = f"s3://{bucket.name}/{prefix}"
    child = subprocess.Popen([sys.executable, "-c", CHILD, bucket.url, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"sent\n"
    child.kill()
    child.communicate()
    assert len(bucket.uploads()) == 2
    assert abort_dead_uploads(tmp_path, os.environ) == 2
    assert (noted(tmp_path), bucket.uploads()) == ([], [])


def test_uploads_that_cannot_be_aborted_now_stay_noted(bucket, killed, tmp_path, monkeypatch):
    """Without the library, of another store, or while the store does not answer."""
    kill(killed)
    with monkeypatch.context() as patch:
        patch.setattr(module, "has_botocore", lambda: False)
        assert abort_dead_uploads(tmp_path, os.environ) == 0
    with monkeypatch.context() as patch:
        patch.setattr(module, "connect_s3", lambda _, **how: 1 // 0)
        assert abort_dead_uploads(tmp_path, os.environ) == 0
    assert abort_dead_uploads(tmp_path, os.environ, "s3://other/prefix") == 0
    assert (len(noted(tmp_path)), bucket.uploads()) == (1, ["d/0", "d/1"])
    assert abort_dead_uploads(tmp_path, os.environ) == 2
    assert (noted(tmp_path), bucket.uploads()) == ([], [])


async def test_an_upload_is_noted_until_it_is_over(bucket, tmp_path):
    """Completed or given up; a small object, which is put in one request, is not noted."""
    async with opened(bucket, tmp_path) as volume:
        assert await committed(volume, [await staged(volume, "small", b"1")]) is None
        assert noted(tmp_path) == []
        part = await staged(volume, "a", BIG)
        (name,) = noted(tmp_path)
        assert module._read(iter((tmp_path / name).read_bytes().splitlines())) == (bucket.url, ["a"])
        assert await committed(volume, [part]) is None
        given_up = volume.new_part(entry_of(0, "b", BIG))
        await feed(given_up, BIG)
        given_up.restart()
        await feed(given_up, BIG)
        await asyncio.sleep(0)
        given_up.discard()
        await tidied(volume)
        assert module._read(iter((tmp_path / name).read_bytes().splitlines())) == (bucket.url, [])
    assert (noted(tmp_path), bucket.uploads()) == ([], [])


async def test_an_upload_that_failed_stays_noted(bucket, tmp_path):
    """The store may still have it; the next run looks."""
    async with opened(bucket, tmp_path) as volume:
        part = await staged(volume, "b", BIG)
        await bucket.end_uploads(len(BIG) // (5 << 20))
        assert await committed(volume, [part], record_of()) is not None
        await tidied(volume)
    assert len(noted(tmp_path)) == 1
    async with opened(bucket, tmp_path):
        assert noted(tmp_path) == []


def test_a_torn_line_is_no_key(tmp_path):
    """The lines before it count."""
    uploads = OpenUploads(tmp_path, "s3://b/p")
    for key in ("a", "b", "a"):
        uploads.begin(key)
    uploads.end("a")
    (name,) = noted(tmp_path)
    lines = [*(tmp_path / name).read_bytes().splitlines(), b'["begin","c']
    assert module._read(iter(lines)) == ("s3://b/p", ["a", "b"])
    uploads.close()
    assert noted(tmp_path) == [name]


def test_a_full_disk_hinders_the_begin_of_an_upload_not_its_end(tmp_path, monkeypatch):
    """An upload that is not noted might stay for ever; one that is over is looked for in vain."""
    uploads = OpenUploads(tmp_path, "s3://b/p")
    uploads.begin("a")

    def refuse(*_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(f"{module.__name__}.os.write", refuse)
        with pytest.raises(LocalFault, match=f"cannot note an upload in {tmp_path}: No space left"):
            uploads.begin("b")
        uploads.end("a")
        uploads.end("b")
    uploads.close()
    assert noted(tmp_path) == []
