"""What dead runs have left, and what becomes of it."""

import fcntl
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


HASHED, SIZED = "h" + "0" * 32, "s" + "0" * 32


@pytest.mark.parametrize(
    ("name", "data", "same_boot", "kept"),
    [
        (HASHED, b"x", True, True),
        (HASHED, b"x", False, True),
        (SIZED, b"x", True, True),
        (SIZED, b"x", False, False),
        (HASHED, b"", True, False),
        ("x" + "0" * 32, b"x", True, False),
        (HASHED + "0", b"x", True, False),
        (HASHED.upper(), b"x", True, False),
    ],
)
def test_c92_a_part_is_known_by_its_name(tmp_path, volume, name, data, same_boot, kept):
    """Without a note: by hash always, by size only on the boot that wrote it; never an empty one."""
    owner = ME if same_boot else msgspec.structs.replace(ME, boot_id="an earlier one")
    directory = left(tmp_path, "then", owner, {name: data})
    found = volume().leftovers()
    assert [(one.run, one.name, one.size_bytes, one.note) for one in found] == (
        [("then/0", name, 1, b"")] if kept else []
    )
    assert (directory / name).exists() is kept


def test_c92_a_part_without_a_note_can_be_taken_over_and_dropped(tmp_path, volume):
    """One rename, or one removal."""
    directory = left(tmp_path, "then", ME, {HASHED: b"part", SIZED: b"other"})
    now = volume()
    by_name = {one.name: one for one in now.leftovers()}
    descriptor = now.adopt_part(by_name[HASHED], HASHED)
    assert descriptor is not None
    assert os.read(descriptor, 9) == b"part"
    os.close(descriptor)
    now.drop_leftover(by_name[SIZED])
    now.drop_leftover(by_name[SIZED])
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("stop", ["open", "rename", "unlink"])
def test_c92_killed_while_it_takes_a_part_over(tmp_path, volume, monkeypatch, stop):
    """Before any step the part is somewhere with a note: nothing of it is lost."""
    left(tmp_path, "then", ME, {"000000000001": b"part", "000000000001.note": b"note"})
    now = volume()
    leftover = now.leftovers()[0]

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, stop, killed)
    with pytest.raises(KeyboardInterrupt):
        now.adopt_part(leftover, "00000000000a")
    monkeypatch.undo()
    whole = [
        path for path in tmp_path.rglob("0000*") if path.suffix == "" and path.with_suffix(".note").exists()
    ]
    assert [path.read_bytes() for path in whole] == [b"part"]


@pytest.mark.parametrize("owner", [b"", None])
def test_c92_a_run_that_died_before_it_had_a_name_is_gone(tmp_path, owner):
    """Between making its directory and writing its name into it."""
    left(tmp_path, "then", owner, {})
    LocalVolume(tmp_path, "attempts/now/0").close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", [msgspec.structs.replace(ME, host="elsewhere"), b"{torn"])
def test_c92_an_empty_run_of_another_machine_is_left_alone(tmp_path, owner):
    """It may live, and be about to write."""
    directory = left(tmp_path, "then", owner, {})
    LocalVolume(tmp_path, "attempts/now/0").close()
    assert directory.exists()


def test_c95_a_live_run_is_not_buried(tmp_path, volume):
    """However empty it is."""
    living = volume()
    LocalVolume(tmp_path, "attempts/later/0").close()
    os.close(living.create_part(HASHED))


@pytest.mark.parametrize(
    "moment", ["before the name", "after the name", "while it is looked at", "while it is named"]
)
def test_c95_a_run_that_was_buried_while_it_started_makes_its_place_anew(tmp_path, monkeypatch, moment):
    """Another run that ends at this moment sees a directory without a name."""
    from cfetch.placement import leftovers, local

    real = leftovers.write_owner
    calls: list[str] = []
    held: list[int] = []
    mine = tmp_path / ".cfetch/attempts/now"

    def write(attempts, instant):
        calls.append(moment)
        if len(calls) > 1:
            for lock in held:
                os.close(lock)
            return real(attempts, instant)
        if moment == "while it is looked at":
            held.append(os.open(mine / "owner.json", os.O_RDWR | os.O_CREAT))
            fcntl.flock(held[0], fcntl.LOCK_EX)
            return real(attempts, instant)
        if moment == "while it is named":
            flock = fcntl.flock

            def flock_late(descriptor, how):
                (mine / "owner.json").replace(tmp_path / "gone")
                (tmp_path / "gone").unlink()
                flock(descriptor, how)

            with monkeypatch.context() as patch:
                patch.setattr(fcntl, "flock", flock_late)
                return real(attempts, instant)
        if moment == "before the name":
            leftovers.bury(attempts, "mine")
            return real(attempts, instant)
        owner = real(attempts, instant)
        (mine / "0").rmdir()
        return owner

    monkeypatch.setattr(local, "write_owner", write)
    now = LocalVolume(tmp_path, "attempts/now/0")
    os.close(now.create_part(HASHED))
    assert len(calls) == 2
    assert sorted(path.name for path in mine.rglob("*")) == ["0", HASHED, "owner.json"]
    now.discard_part(HASHED)
    now.close()
    assert list(tmp_path.iterdir()) == []


def test_c93_what_a_dead_run_named_is_flushed_before_it_is_relied_on(tmp_path, volume, monkeypatch):
    """It may have died between a name and its flush; without a dead run there is nothing to flush."""
    flushed: list[int] = []
    monkeypatch.setattr("cfetch.placement.local.flush_file_system", flushed.append)
    volume().leftovers()
    assert flushed == []
    left(tmp_path, "then", ME, {})
    LocalVolume(tmp_path, "attempts/later/0").leftovers()
    assert len(flushed) == 1
