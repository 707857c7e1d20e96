"""What dead attempts at a plan have left, and what becomes of it."""

import os

import pytest

from cfetch.storage.directory import Directory
from cfetch.storage.resume import useful_parts

HASHED, SIZED, RANGES = "h" + "0" * 32, "s" + "0" * 32, "r" + "0" * 32


def kept(root, files, run="i/1-0"):
    """A directory in which the timeline has put what it kept of a dead attempt."""
    directory = root / ".cfetch/attempts" / run
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def volume(tmp_path):
    """The volume of an attempt at the plan ``i`` that starts now."""
    made = Directory(tmp_path, "attempts/i/2")
    yield made
    made.close()


def found_by(volume):
    return [(one.run, one.name, one.size_bytes, one.note) for one in volume.leftovers()]


@pytest.mark.parametrize(
    ("names", "useful"),
    [
        ([HASHED, SIZED], [HASHED, SIZED]),
        ([SIZED, SIZED + ".note"], [SIZED, SIZED + ".note"]),
        ([SIZED + ".note"], []),
        ([RANGES, RANGES + ".note", RANGES + ".note.next"], [RANGES, RANGES + ".note"]),
        (["x" + "0" * 32, HASHED + "0", HASHED.upper(), "owner.json", HASHED[:-1] + "g"], []),
        ([], []),
    ],
)
def test_c92_a_part_is_known_by_its_name(names, useful):
    """A note without a part, and whatever else lies there, is debris."""
    assert useful_parts(names) == useful


def test_c92_what_was_kept_of_this_plan_is_found(tmp_path, volume):
    """With its note where there is one; other plans' and this attempt's own are not looked at."""
    kept(tmp_path, {HASHED: b"part", SIZED: b"other", SIZED + ".note": b"note", "debris": b""})
    kept(tmp_path, {HASHED: b"another plan's"}, "j/1-0")
    kept(tmp_path, {HASHED: b"not kept"}, "i/1")
    assert found_by(volume) == [("i/1-0", HASHED, 4, b""), ("i/1-0", SIZED, 5, b"note")]


def test_links_in_a_dead_run_are_not_parts(tmp_path, volume):
    """Neither a symlink nor a second name of another file is ever written to."""
    (tmp_path / "precious").write_bytes(b"precious")
    directory = kept(tmp_path, {})
    (directory / HASHED).symlink_to(tmp_path / "precious")
    os.link(tmp_path / "precious", directory / SIZED)
    assert found_by(volume) == []
    assert (tmp_path / "precious").read_bytes() == b"precious"


@pytest.mark.parametrize("note", [b"", b"note"])
def test_an_adopted_part_is_this_runs_own(tmp_path, volume, note):
    """It moves with its note, if it has one, and can be read and written."""
    directory = kept(tmp_path, {SIZED: b"part"} | ({SIZED + ".note": note} if note else {}))
    descriptor = volume.staging.adopt_part(volume.leftovers()[0], SIZED)
    assert descriptor is not None
    os.lseek(descriptor, 0, os.SEEK_END)
    os.write(descriptor, b"s")
    os.close(descriptor)
    staging = tmp_path / ".cfetch/attempts/i/2"
    wanted = {SIZED: b"parts"} | ({SIZED + ".note": note} if note else {})
    assert {path.name: path.read_bytes() for path in staging.iterdir()} == wanted
    assert list(directory.iterdir()) == []


def test_a_part_that_another_run_took_is_nobodys_loss(tmp_path, volume):
    """Of two that find it, one goes on with it and the other begins anew, without a note."""
    kept(tmp_path, {SIZED: b"part", SIZED + ".note": b"note"})
    leftover = volume.leftovers()[0]
    descriptor = volume.staging.adopt_part(leftover, HASHED)
    assert descriptor is not None
    os.close(descriptor)
    assert volume.staging.adopt_part(leftover, SIZED) is None
    assert not list(tmp_path.rglob(SIZED + "*"))


@pytest.mark.parametrize("stop", ["open", "rename", "unlink"])
def test_c92_killed_while_it_takes_a_part_over(tmp_path, volume, monkeypatch, stop):
    """Before any step the part is somewhere with a note: nothing of it is lost."""
    kept(tmp_path, {SIZED: b"part", SIZED + ".note": b"note"})
    leftover = volume.leftovers()[0]

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, stop, killed)
    with pytest.raises(KeyboardInterrupt):
        volume.staging.adopt_part(leftover, SIZED)
    monkeypatch.undo()
    whole = [path for path in tmp_path.rglob(SIZED) if path.with_name(SIZED + ".note").exists()]
    assert [path.read_bytes() for path in whole] == [b"part"]


def test_a_part_of_no_use_is_dropped_with_its_note(tmp_path, volume):
    """Again is harmless."""
    directory = kept(tmp_path, {SIZED: b"part", SIZED + ".note": b"note"})
    leftover = volume.leftovers()[0]
    volume.staging.remove_leftover(leftover)
    volume.staging.remove_leftover(leftover)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(("epoch", "flushes"), [(1, 0), (2, 1), (7, 1)])
def test_c93_what_a_dead_attempt_named_is_flushed_before_it_is_relied_on(
    tmp_path, monkeypatch, epoch, flushes
):
    """It may have died between a name and its flush; before a first attempt there was none."""
    flushed: list[int] = []
    monkeypatch.setattr("cfetch.storage.directory.flush_file_system", flushed.append)
    now = Directory(tmp_path, f"attempts/i/{epoch}")
    now.leftovers()
    now.close()
    assert len(flushed) == flushes


def test_an_empty_run_leaves_nothing(tmp_path):
    """Not even a destination that it made."""
    Directory(tmp_path / "new").close()
    assert list(tmp_path.iterdir()) == []
