"""Files that are assembled of pieces, each with a URL of its own."""

import errno
import hashlib
import json
import shutil

import pytest

from cfetch.app.verify import open_verification
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
    fetch()
    assert (fetch.to / "d/whole").read_bytes() == WHOLE
    assert "p/0" not in site.take_asked()
