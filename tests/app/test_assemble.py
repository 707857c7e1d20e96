"""Files that are assembled of pieces, each with a URL of its own."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from cfetch.app import free_space
from cfetch.app.free_space import DISK_RESERVE_BYTES
from cfetch.app.verify import open_verification
from cfetch.base.errors import LocalFault
from cfetch.run.volumes import Volumes
from cfetch.storage.directory import Directory
from tests.app.site import Runner

PIECES = {"p/0": b"a" * 70_000, "p/1": b"b" * 1000, "p/2": b"a" * 70_000, "p/3": b""}
WHOLE = b"".join(PIECES.values())


@pytest.fixture
def fetch(site, tmp_path):
    """Downloads a list with an assembled file and another one; the statuses, by URL."""
    site.files |= PIECES
    rows = [
        {"url": name, "path": "d/whole", "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        for name, body in PIECES.items()
    ]
    other = {"url": "d/0.bin", "path": "other", "assemble": False}
    document = {"base_url": site.url, "assemble": True, "files": [*rows, other]}
    runner = Runner(site, tmp_path)
    runner.urls.write_text(json.dumps(document))
    return runner


def differences(fetch):
    """What ``cfetch verify`` says."""
    with open_verification(str(fetch.urls), [fetch.to]) as comparison:
        return [one.message for one in comparison.differences(lambda *_: None)], comparison.good


def test_it_is_published_as_a_whole_and_left_alone_then(site, fetch):
    """Each piece is verified by its own hash; a second run asks for nothing, and verify reads the pieces."""
    fetch()
    assert ((fetch.to / "d/whole").read_bytes(), fetch.exit_code) == (WHOLE, 0)
    assert site.take_asked() == dict.fromkeys([*PIECES, "d/0.bin"], 200)
    fetch()
    assert (fetch.in_place, site.take_asked()) == (5, {})
    assert differences(fetch) == ([], {"sha256": 4, "none": 1})
    with (fetch.to / "d/whole").open("r+b") as file:
        file.seek(70_001)
        file.write(b"x")
    [message], _ = differences(fetch)
    assert message.startswith("of its 1,000 bytes from byte 70,000 on, the sha256 is ")
    fetch(existing="check")
    assert (fetch.to / "d/whole").read_bytes() == WHOLE


def test_another_piece_makes_another_file(site, fetch):
    """Though its size is the same."""
    fetch()
    body = b"c" * 1000
    site.files["p/1"] = body
    document = json.loads(fetch.urls.read_text())
    document["files"][1]["sha256"] = hashlib.sha256(body).hexdigest()
    fetch.urls.write_text(json.dumps(document))
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE.replace(b"b", b"c")


def test_a_piece_that_fails_holds_the_file_back(site, fetch):
    """The older file stays, and the other pieces are kept for the next run."""
    (fetch.to / "d").mkdir(parents=True)
    (fetch.to / "d/whole").write_bytes(b"older")
    del site.files["p/1"]
    ended = fetch(max_attempts=1)
    assert (ended["d/whole"], ended["other"], fetch.exit_code) == ("failed", "done", 1)
    assert (fetch.to / "d/whole").read_bytes() == b"older"
    site.files |= PIECES
    site.take_asked()
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE
    assert "p/0" not in site.take_asked()


def test_a_kept_piece_without_a_hash_is_no_part_of_a_newer_version(site, fetch):
    """It may have changed at the server while the others were missing, and no hash would tell."""
    document = json.loads(fetch.urls.read_text())
    for row in document["files"]:
        row.pop("sha256", None)
    fetch.urls.write_text(json.dumps(document))
    del site.files["p/1"]
    fetch(max_attempts=1)
    site.files |= {"p/0": b"A" * 70_000, "p/1": b"B" * 1000}
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == b"A" * 70_000 + b"B" * 1000 + PIECES["p/2"]


@pytest.mark.parametrize("hashed", [True, False])
def test_empty_pieces_at_one_place(fetch, hashed):
    """Also of one URL."""
    document = json.loads(fetch.urls.read_text())
    empty = document["files"][3] if hashed else {"url": "p/3", "path": "d/whole", "size": 0}
    document["files"][3:4] = [empty, empty]
    fetch.urls.write_text(json.dumps(document))
    fetch()
    assert ((fetch.to / "d/whole").read_bytes(), fetch.exit_code) == (WHOLE, 0)


def test_the_manifest_of_failures_has_all_pieces(site, fetch, tmp_path):
    """Also those that had come, with their places: it is a manifest by itself."""
    del site.files["p/1"]
    fetch(max_attempts=1, failures=str(tmp_path / "failed.jsonl"))
    site.files |= PIECES
    fetch.urls = tmp_path / "failed.jsonl"
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE


def test_a_disk_without_room_for_the_copy_keeps_the_pieces(site, fetch, monkeypatch):
    """The fault names the file, and the next run only joins them."""

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", refuse)
        fetch()
    assert fetch.exit_code == 3
    assert not (fetch.to / "d/whole").exists()
    site.take_asked()
    monkeypatch.setattr(Directory, "free_bytes", lambda _: DISK_RESERVE_BYTES + len(WHOLE))
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE
    assert "p/0" not in site.take_asked()


def test_a_single_disk_that_cannot_hold_the_copy_is_told_of_before_the_first_byte(site, fetch, monkeypatch):
    """The bytes of the file need their room twice while it is joined."""
    monkeypatch.setattr(Directory, "free_bytes", lambda _: DISK_RESERVE_BYTES + 2 * len(WHOLE) - 1)
    with pytest.raises(LocalFault, match=r"141,000 more bytes, and 141,000 more while the pieces of a file"):
        fetch()
    assert site.asked == []
    monkeypatch.setattr(Directory, "free_bytes", lambda _: DISK_RESERVE_BYTES + 2 * len(WHOLE))
    assert set(fetch().values()) == {"done"}
    monkeypatch.setattr(Directory, "free_bytes", lambda _: 0)
    assert set(fetch().values()) == {"skipped"}


def test_volumes_that_cannot_hold_the_copy_are_not_begun_with(site, fetch, tmp_path, monkeypatch):
    """Its batch is refused with the reason, and no piece is asked for; the other file is had."""
    monkeypatch.setattr(free_space, "DISK_RESERVE_BYTES", 0)
    monkeypatch.setattr(Directory, "free_bytes", lambda _: 2 * len(WHOLE))  # one percent is kept free
    monkeypatch.setattr(Volumes, "free_bytes", lambda _: 4 * len(WHOLE))  # as of two file systems
    ended = fetch(to=(str(tmp_path / "v0"), str(tmp_path / "v1")))
    assert (ended["d/whole"], ended["other"], fetch.exit_code) == ("failed", "done", 3)
    assert site.take_asked() == {"d/0.bin": 200}
    assert "141,000 bytes, and 141,000 more while its pieces are joined" in fetch.errors["d/whole"]


def test_volumes_without_room_for_the_copy_are_each_tried_once(site, fetch, tmp_path, monkeypatch):
    """Their disks state more room than there is, as with a quota: the pieces do not come again and again."""
    tried = []

    def refuse(*_):
        tried.append(1)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(shutil, "copyfileobj", refuse)
    ended = fetch(to=(str(tmp_path / "v0"), str(tmp_path / "v1")))
    assert (ended["d/whole"], ended["other"], fetch.exit_code) == ("failed", "done", 3)
    assert len(tried) == 2
    assert [name for _, name, _ in site.asked].count("p/0") == 1  # the second volume copied it
    assert "no destination had room for all of it" in fetch.errors["d/whole"]


def test_on_several_volumes_it_is_on_one(site, fetch, tmp_path):
    """Its pieces are one batch; a second run finds it there."""
    volumes = (str(tmp_path / "v0"), str(tmp_path / "v1"))
    fetch(to=volumes)
    found = [path for volume in volumes for path in (tmp_path / volume).glob("d/whole")]
    assert [path.read_bytes() for path in found] == [WHOLE]
    site.take_asked()
    assert set(fetch(to=volumes).values()) == {"skipped"}
    assert site.take_asked() == {}


def test_a_disk_that_is_behind_is_waited_for(site, fetch, tmp_path, monkeypatch):
    """Small pieces of a batch are written by its volume's thread, and joined after that."""
    real = os.write

    def write_late(descriptor, data):
        if any(piece == data for piece in PIECES.values()):
            time.sleep(0.1)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write_late)
    volumes = (str(tmp_path / "v0"), str(tmp_path / "v1"))
    assert set(fetch(to=volumes, durability="crash").values()) == {"done"}
    found = [path for volume in volumes for path in (tmp_path / volume).glob("d/whole")]
    assert [path.read_bytes() for path in found] == [WHOLE]


def test_a_disk_that_loses_bytes_of_a_piece_publishes_nothing(fetch, monkeypatch):
    """The copy must have all bytes of the file."""
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: None)
    fetch()
    assert (fetch.exit_code, (fetch.to / "d/whole").exists()) == (3, False)


def test_a_repeated_run_after_a_crash_in_the_copy_joins_what_is_there(site, fetch, monkeypatch):
    """As of kill -9: no step after it is done, and what was copied is of no use."""
    code = (
        "import os, shutil, sys\n"
        "shutil.copyfileobj = lambda source, sink, _: (sink.write(b'half'), sink.flush(), os._exit(9))\n"
        "from cfetch.__main__ import main\n"
        "sys.exit(main())\n"
    )
    words = [sys.executable, "-c", code, "download", str(fetch.urls), "--to", str(fetch.to)]
    assert subprocess.run(words, check=False, capture_output=True, timeout=60).returncode == 9
    assert not (fetch.to / "d/whole").exists()
    site.take_asked()
    fetch(name_by="last")
    assert (fetch.to / "d/whole").read_bytes() == WHOLE
    assert "p/0" not in site.take_asked()
    assert not list(fetch.to.glob(".cfetch/attempts/*/*"))


def test_a_file_system_without_copies_of_its_own_is_copied_through(fetch, monkeypatch):
    """Also where the call breaks off in the middle."""
    real, calls = os.copy_file_range, []

    def refuse(*words):
        calls.append(words)
        if len(calls) == 2:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(*words)

    monkeypatch.setattr(os, "copy_file_range", refuse)
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE
