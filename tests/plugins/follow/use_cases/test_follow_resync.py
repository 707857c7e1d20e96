"""Comparing a mirror with its feed: what differs is fetched, what the feed lacks is deleted."""

import shutil
from contextlib import nullcontext

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import CheckpointExpired, ConfigError, FeedReplaced, Refused
from cfetch.plugins.follow.journal import Journal, locate_journal
from cfetch.plugins.follow.use_cases.follow import follow
from cfetch.plugins.follow.use_cases.follow_options import FollowOptions
from tests.app.command import cfetch
from tests.plugins.follow.follow_world import open_world


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def journal(world):
    return locate_journal(world.to / ".cfetch", world.served.url, [world.to])


def restore(world, backup):
    """Put the server's database back, as from a backup."""
    world.served.do(world.served.world.runner.cleanup())
    world.served.world.store.close()
    state = world.served.root / ".cfetch-feed"
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    world.served.do(world.served.world._serve())


def test_damage_here_is_repaired(world):
    """A removed file comes again; a changed one and one of somebody else stay, unless they are adopted."""
    world.served.write({"a": "1", "d/b": "22", "c": "3", "same": "4"})
    world.follow()
    (world.to / "a").write_text("x")
    (world.to / "d/b").unlink()
    (world.to / "stray").write_text("x")
    inode = (world.to / "same").stat().st_ino
    found = world.follow(resync=True, delete=True)
    assert (found.files.done, found.files.skipped, found.exit_code) == (1, 2, 1)
    assert world.tree() == world.served.tree() | {"a": b"x", "stray": b"x"}
    assert any("1 file that it lacks kept, as others put it here" in line for line in world.lines)
    found = world.follow(resync=True, adopt=True)
    assert (found.files.done, found.files.skipped, found.exit_code) == (1, 3, 0)
    assert (world.to / "same").stat().st_ino == inode
    assert world.tree() == world.served.tree() | {"stray": b"x"}
    assert any("1 file that it lacks kept (see --delete)" in line for line in world.lines)
    assert world.follow(resync=True, delete=True).exit_code == 0
    assert world.tree() == world.served.tree()
    assert world.follow().feed.entries == 0


def test_another_history_is_named_with_its_remedy(world, tmp_path):
    """The server's database comes from a backup: the follower stops, and a resync makes both the same."""
    world.served.write({"old": "1", "both": "1"})
    backup = shutil.copytree(world.served.root / ".cfetch-feed", tmp_path / "backup")
    world.served.write({"lost": "2", "both": "2"})
    world.follow()
    (world.served.root / "lost").unlink()
    restore(world, backup)
    world.served.write({"new": "3", "both": "3"})
    with pytest.raises(FeedReplaced, match="--resync"):
        world.follow(delete=True)
    found = world.follow(delete=True, resync=True)
    assert (found.exit_code, found.files.done) == (0, 2)
    assert world.tree() == world.served.tree()


def test_more_deletes_than_allowed_change_nothing(world):
    """The next run goes on with the comparison, also without being told so."""
    world.served.world.publisher.max_delete = 1000
    world.served.write({f"f{n}": "1" for n in range(30)})
    world.follow()
    world.served.write({f"f{n}": None for n in range(20)} | {"new": "1"})
    world.served.do(world.served.world.retire())
    before = world.tree()
    with pytest.raises(CheckpointExpired, match="--resync"):
        world.follow(delete=True)
    for again in ({"resync": True}, {}):
        with pytest.raises(Refused, match="give --max-delete 20"):
            world.follow(delete=True, **again)
        assert world.tree() == before
    assert world.follow(delete=True, max_delete=20).exit_code == 0
    assert world.tree() == world.served.tree()
    assert sorted(path.name for path in journal(world).iterdir()) == [
        "checkpoint.json",
        "lock",
        "status.json",
        "tombstones.jsonl",
    ]


def test_a_file_is_where_the_feed_has_a_directory(world):
    """It stays if it is somebody else's; if it is of the feed, it is deleted before anything is fetched."""
    world.served.write({"a/x": "1", "b": "2"})
    world.to.mkdir()
    (world.to / "a").write_text("x")
    assert world.follow(delete=True, resync=True).exit_code == 1
    assert world.tree() == {"a": b"x", "b": b"2"}
    assert world.follow(delete=True, resync=True, adopt=True).exit_code == 0
    assert world.tree() == world.served.tree()


@pytest.mark.parametrize("method", ["finish_round", "end", "end_resync"])
def test_a_resync_that_dies_is_finished_by_the_next_run(world, monkeypatch, method):
    """News that came meanwhile are not missed."""
    monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STEP_CHANGES", 2)
    world.served.write({f"f{n}": "1" for n in range(6)})
    world.follow()
    for n in range(6):
        (world.to / f"f{n}").write_text("x")

    class Killed(Exception):
        pass

    def die(*_):
        raise Killed

    monkeypatch.setattr(Journal, method, die)
    with pytest.raises(Killed):
        world.follow(resync=True, delete=True, adopt=True)
    monkeypatch.undo()
    world.served.write({"f0": None, "new": "2"})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == world.served.tree()
    assert world.follow(delete=True).feed.entries == 0


def run(world, *words):
    return cfetch("follow", world.served.url, "--to", world.to, *words)


def test_verify_names_differences_and_changes_nothing(world):
    """Exit code 1 and the remedy, until a resync has repaired them, which spares files of others."""
    world.served.write({"a": "1", "b": "2", "c": "3"})
    world.follow()
    assert run(world, "--verify").returncode == 0
    (world.to / "a").write_text("x")
    (world.to / "b").unlink()
    (world.to / "stray").write_text("x")
    before = world.tree()
    found = run(world, "--verify")
    assert found.returncode == 1
    assert sorted(line.rpartition(": ")[0] for line in found.stdout.splitlines()) == [
        "excess: stray",
        "missing: b",
        "wrong hash: a",
    ]
    assert "--resync instead of --verify repairs this" in found.stderr
    assert world.tree() == before
    assert run(world, "--resync", "--once", "--delete", "--quiet").returncode == 1
    assert world.tree() == before | {"b": b"2"}
    assert run(world, "--resync", "--adopt", "--once", "--delete", "--quiet").returncode == 0
    assert run(world, "--verify").returncode == 0
    assert run(world, "--verify", "--resync").returncode == 2


def test_a_stream_that_forgets_deletes_nothing(tmp_path):
    """Kinesis does not name files whose changes are older than its retention."""
    with pytest.raises(ConfigError, match="--resync without --delete"):
        follow(
            "kinesis://s?region=r",
            Settings(to=(str(tmp_path),)),
            FollowOptions(resync=True, delete=True),
            env={},
            dashboard=lambda: nullcontext(print),
            emit_line=print,
        )
