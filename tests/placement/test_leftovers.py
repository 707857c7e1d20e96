"""What dead runs have left, and what becomes of it."""

import os

import msgspec
import pytest

from cfetch.placement.leftovers import this_owner
from cfetch.placement.local import LocalVolume

ME = this_owner()


def left(root, instant, owner, files):
    """A staging directory as a run of ``owner`` left it."""
    directory = root / ".cfetch/attempts" / instant / "0"
    directory.mkdir(parents=True)
    if owner is not None:
        raw = owner if isinstance(owner, bytes) else msgspec.json.encode(owner)
        (directory.parent / "owner.json").write_bytes(raw)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def volume(tmp_path):
    """The volume of a run that starts now."""
    made = []

    def start():
        made.append(LocalVolume(tmp_path, "attempts/now/0"))
        return made[0]

    yield start
    for one in made:
        one.close()


FILES = {
    "000000000001": b"part",
    "000000000001.note": b"note",
    "000000000002": b"no note",
    "x.note": b"no part",
}


@pytest.mark.parametrize(
    ("owner", "is_dead"),
    [
        (ME, True),
        (msgspec.structs.replace(ME, boot_id="an earlier one"), True),
        (msgspec.structs.replace(ME, host="elsewhere"), False),
        (b"{torn", False),
        (b"", False),
        (None, False),
    ],
)
def test_only_the_dead_are_touched(tmp_path, volume, owner, is_dead):
    """Another machine's run, and whatever cannot be read, stay as they are."""
    directory = left(tmp_path, "then", owner, FILES)
    now = volume()
    found = now.leftovers()
    assert [(one.run, one.name, one.size_bytes, one.note) for one in found] == (
        [("then/0", "000000000001", 4, b"note")] if is_dead else []
    )
    kept = ["000000000001", "000000000001.note"] if is_dead else list(FILES)
    assert sorted(path.name for path in directory.iterdir()) == sorted(kept)
    assert now.dead_instants == ({"then"} if is_dead else set())


def test_a_live_run_is_not_touched(tmp_path, volume):
    """Whatever its process number looks like from here: it holds its lock."""
    living = LocalVolume(tmp_path, "attempts/then/0")
    os.close(living.create_part("000000000001"))
    living.note_part("000000000001", b"note")
    assert volume().leftovers() == []
    living.close()
    assert len(LocalVolume(tmp_path, "attempts/later/0").leftovers()) == 1


def test_a_part_that_another_run_took_is_nobodys_loss(tmp_path, volume):
    """Of two runs that find it, one goes on with it and the other begins anew."""
    left(tmp_path, "then", ME, FILES)
    now = volume()
    leftover = now.leftovers()[0]
    assert now.adopt_part(leftover, "00000000000a") is not None
    assert now.adopt_part(leftover, "00000000000b") is None


def test_a_dead_run_without_parts_is_gone_afterwards(tmp_path, volume):
    """Nothing of it stays, not even its name."""
    left(tmp_path, "then", ME, {"000000000002": b"no note"})
    now = LocalVolume(tmp_path, "attempts/now/0")
    assert now.leftovers() == []
    now.close()
    assert list(tmp_path.iterdir()) == []


def test_links_in_a_dead_run_are_not_parts(tmp_path, volume):
    """Neither a symlink nor a second name of another file is ever written to."""
    (tmp_path / "precious").write_bytes(b"precious")
    directory = left(tmp_path, "then", ME, {"a.note": b"", "b.note": b""})
    (directory / "a").symlink_to(tmp_path / "precious")
    os.link(tmp_path / "precious", directory / "b")
    assert volume().leftovers() == []
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_an_adopted_part_is_this_runs_own(tmp_path, volume):
    """It moves with its note, and can be read and written."""
    left(tmp_path, "then", ME, FILES)
    now = volume()
    descriptor = now.adopt_part(now.leftovers()[0], "00000000000a")
    assert descriptor is not None
    os.lseek(descriptor, 0, os.SEEK_END)
    os.write(descriptor, b"s")
    os.close(descriptor)
    staging = tmp_path / ".cfetch/attempts/now/0"
    assert {path.name: path.read_bytes() for path in staging.iterdir()} == {
        "00000000000a": b"parts",
        "00000000000a.note": b"note",
    }


def test_an_empty_run_leaves_nothing(tmp_path):
    """Not even a destination that it made."""
    LocalVolume(tmp_path / "new", "attempts/now/0").close()
    assert list(tmp_path.iterdir()) == []


def test_parts_that_stay_keep_their_owners_name(tmp_path):
    """Or nobody could tell later that the run is dead."""
    now = LocalVolume(tmp_path, "attempts/now/0")
    os.close(now.create_part("000000000001"))
    now.note_part("000000000001", b"note")
    now.close()
    assert (tmp_path / ".cfetch/attempts/now/owner.json").exists()
