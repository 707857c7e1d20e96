"""A follower replaces and deletes only what it has put in place, also after a kill at any step."""

import os

import pytest

from cfetch.base.errors import LocalFault
from cfetch.plugins.follow.journal import Journal, locate_journal
from cfetch.plugins.follow.use_cases.feed_plans import FeedPlans
from cfetch.plugins.follow.use_cases.own_files import OwnFiles, locate_own_files
from cfetch.storage.directory import Directory
from tests.plugins.follow.follow_world import open_world


class Killed(BaseException):
    """As by kill -9: nothing that was not written is written any more."""


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def own_files(world):
    return locate_own_files(locate_journal(world.to / ".cfetch", world.served.url, [world.to]))


def put(world, files):
    for name, text in files.items():
        path = world.to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def publish_unhashed(world, path, text, name):
    """Publish a version without a hash; its bytes are at a link of their own."""
    (world.served.root / name).write_text(text)
    world.served.write({})
    row = f'{{"url": "{world.served.url}files/{name}", "size": {len(text)}}}'
    world.served.publish_row(path, row)


def test_a_feed_that_deletes_files_of_others_deletes_none(world):
    """A file that was here before, one that equals the feed's, one changed meanwhile, and a symlink stay."""
    put(world, {"mine": "thesis", "equal": "1"})
    world.served.write({"mine": "1", "equal": "1", "edited": "1", "link": "1", "d/own": "1"})
    assert world.follow(delete=True).exit_code == 1
    put(world, {"edited": "2"})
    (world.to / "link").unlink()
    (world.to / "link").symlink_to("mine")
    world.served.write(dict.fromkeys(("mine", "equal", "edited", "link", "d/own")) | {"last": "1"})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == {"mine": b"thesis", "equal": b"1", "edited": b"2", "link": b"thesis", "last": b"1"}
    assert not (world.to / "d").exists()
    named = {line.rpartition(": ")[2] for line in world.lines if "kept, as this follower did not" in line}
    assert named == {"mine", "equal", "edited", "link"}


@pytest.mark.parametrize("delete", [False, True])
def test_a_file_of_others_is_not_replaced(world, delete):
    """Its version waits and is named with exit code 1; it comes when the file is gone, or is adopted."""
    put(world, {"a": "mine", "b": "mine"})
    world.served.write({"a": "1", "b": "1", "c": "1"})
    for _ in range(2):
        found = world.follow(delete=delete)
        assert (found.exit_code, sorted(one.path for one in found.failures)) == (1, ["a", "b"])
        assert "cfetch has not put there, or that was changed since" in found.failures[0].message
        assert world.tree() == {"a": b"mine", "b": b"mine", "c": b"1"}
    (world.to / "a").unlink()
    assert world.follow(delete=delete).exit_code == 1
    assert world.follow(delete=delete, adopt=True).exit_code == 0
    assert world.tree() == world.served.tree()


def test_a_renamed_path_does_not_move_a_file_of_others(world):
    """Though its bytes are those that the feed has under the new name."""
    put(world, {"a": "1"})
    world.served.write({"a": "1"})
    world.follow()
    world.served.write({"a": None, "b": "1"})
    assert world.follow(delete=True).files.done == 1
    assert world.tree() == {"a": b"1", "b": b"1"}


def test_a_file_of_others_without_a_hash_in_the_feed_is_not_taken_for_the_version(world):
    """The same size proves nothing about it, and it gets no mark of cfetch."""
    put(world, {"a": "mine"})
    publish_unhashed(world, "a", "feed", "x")
    assert world.follow().exit_code == 1
    assert ((world.to / "a").read_text(), os.listxattr(world.to / "a")) == ("mine", [])


def test_a_file_that_comes_while_a_plan_runs_is_not_replaced(world, monkeypatch):
    """The file's name is looked at again when the part gets it."""
    publish, others = Directory.publish, []

    def publish_late(self, name, path):
        publish(self, name, path)
        others.append("b" if path == "a" else "a")
        put(world, {others[0]: "mine"})

    world.served.write({"a": "1", "b": "1"})
    monkeypatch.setattr(Directory, "publish", publish_late)
    assert world.follow().files.failed == 1
    assert (len(others), world.tree()[others[0]]) == (1, b"mine")


def test_what_only_changes_permissions_or_links_is_still_own(world, tmp_path):
    """A hard link, another mode, and a copy from a backup leave the bytes that the follower has brought."""
    world.served.write({"a": "1", "b": "1", "c": "1", "d": "1"})
    world.follow()
    os.link(world.to / "a", tmp_path / "backup")
    (world.to / "b").chmod(0o400)
    (world.to / "c").unlink()
    put(world, {"c": "1"})
    world.served.write({"a": None, "b": None, "c": None, "d": "2"})
    world.follow(delete=True)
    assert world.tree() == {"d": b"2"}


def test_versions_without_hashes_replace_each_other(world):
    """The mark of an older version changes a time of the file, which stays own; also if the run dies then."""
    publish_unhashed(world, "a", "1", "x")
    world.follow()
    publish_unhashed(world, "a", "2", "y")

    def die(*_):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeedPlans, "_run", die)
        with pytest.raises(Killed):
            world.follow()
    assert world.follow().exit_code == 0
    assert (world.to / "a").read_text() == "2"


DONE, NOT_DONE = True, False
STEPS = {
    "begun": (OwnFiles, "begin", DONE),
    "a file arrived": (OwnFiles, "enter", DONE),
    "all arrived": (OwnFiles, "end", NOT_DONE),
    "a file deleted": (Directory, "delete_exactly", DONE),
    "a file moved": (Directory, "move", DONE),
    "round applied": (Journal, "finish_round", NOT_DONE),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_leaves_nothing_behind_and_takes_nothing(world, step):
    """The next run completes changes and deletes, and a later delete finds all own files."""
    owner, name, is_done = STEPS[step]
    put(world, {"mine": "thesis"})
    world.served.world.publisher.max_delete = 100
    files = {f"d{n % 3}/f{n}": f"{n}" for n in range(9)}
    world.served.write(files | {"mine": "1", "old/name": "renamed"})
    world.follow(delete=True)
    news = {"d0/f0": "new", "d1/f1": None, "d1/f4": None, "d1/f7": None, "old/name": None, "name": "renamed"}
    world.served.write(news | {"more": "1"})
    publish_unhashed(world, "bare", "123", "x")
    world.served.publish_row("range", f'{{"url": "{world.served.url}files/x", "offset": 1, "length": 1}}')
    do = getattr(owner, name)

    def die(self, *given, **how):
        if is_done:
            do(self, *given, **how)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, die)
        patch.setattr(OwnFiles, "__exit__", lambda self, *_: self._database.close())
        with pytest.raises(Killed):
            world.follow(delete=True)
    assert world.follow(delete=True).exit_code == 1
    assert world.tree() == world.served.tree() | {"mine": b"thesis", "bare": b"123", "range": b"2"}
    assert not (world.to / "d1").exists()
    world.served.write(dict.fromkeys(world.served.tree()) | {"last": "1"})
    for path in ("bare", "range"):
        world.served.publish_row(path, None)
    assert world.follow(delete=True, max_delete=100).exit_code == 0
    assert world.tree() == {"mine": b"thesis", "last": b"1"}


def test_a_follower_of_an_earlier_version_says_that_it_has_no_record(world):
    """Its files stay and are named with the remedy; adopted, they are the feed's again."""
    world.served.write({"a": "1", "b": "1", "c": "1"})
    world.follow()
    own_files(world).unlink()
    world.served.write({"a": None, "b": "2", "new": "1"})
    assert world.follow(delete=True).exit_code == 1
    assert any("earlier versions" in line and "give --adopt once" in line for line in world.lines)
    assert world.tree() == {"a": b"1", "b": b"1", "c": b"1", "new": b"1"}
    assert world.follow(delete=True, resync=True, adopt=True).exit_code == 0
    assert world.tree() == world.served.tree()


def test_a_damaged_record_is_named_with_the_remedy(world):
    """Nothing is replaced or deleted by guessing."""
    world.served.write({"a": "1"})
    world.follow()
    own_files(world).write_bytes(b"x" * 5000)
    with pytest.raises(LocalFault, match=r"files that this follower has put in place: .*; remove it"):
        world.follow()


def test_two_feeds_in_one_directory_leave_each_other_alone(world, tmp_path):
    """Neither replaces or deletes what the other has brought."""
    folder = tmp_path / "other"
    folder.mkdir()
    with open_world(folder) as other:
        other.to = world.to
        world.served.write({"a": "1", "both": "1"})
        other.served.write({"b": "2", "both": "2"})
        assert world.follow(delete=True).exit_code == 0
        assert other.follow(delete=True).exit_code == 1
        assert world.tree() == {"a": b"1", "b": b"2", "both": b"1"}
        other.served.write({"both": None})
        assert other.follow(delete=True, resync=True).exit_code == 0
        assert world.tree() == {"a": b"1", "b": b"2", "both": b"1"}


def test_on_several_volumes_files_of_others_stay(world, tmp_path):
    """Whichever volume they are on, and wherever the feed's version would go."""
    volumes = [tmp_path / f"v{n}" for n in range(3)]
    settings = {"to": tuple(map(str, volumes))}
    for volume in volumes:
        volume.mkdir()
        (volume / volume.name).write_text("mine")
    world.served.write({f"v{n}": "feed version" for n in range(3)} | {f"f{n}": "1" for n in range(20)})
    assert world.follow(settings=settings, delete=True).files.failed == 3
    assert [(volume / volume.name).read_text() for volume in volumes] == ["mine"] * 3
    world.served.write({f"f{n}": "two" for n in range(20)})
    assert world.follow(settings=settings, delete=True).files.failed == 3
    standing = [path for volume in volumes for path in volume.glob("f*")]
    assert sorted(path.read_text() for path in standing) == ["two"] * 20
    world.served.world.publisher.max_delete = 100
    world.served.write(dict.fromkeys([*(f"f{n}" for n in range(20)), "v0", "v1", "v2"]) | {"last": "1"})
    assert world.follow(settings=settings, delete=True, max_delete=20).exit_code == 0
    assert [path.name for volume in volumes for path in volume.glob("f*")] == []
    assert [(volume / volume.name).read_text() for volume in volumes] == ["mine"] * 3
