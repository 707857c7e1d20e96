"""Following a feed: the directory is as the source, whatever came between."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from cfetch.app.plans import list_plans
from cfetch.config.settings import Settings
from cfetch.errors import FeedReplaced, Held, SourceError
from cfetch.events import EntryFinished
from cfetch.feed.journal import Journal, locate_journal
from tests.feed.follow_scene import scene_of


@pytest.fixture
def scene(tmp_path):
    with scene_of(tmp_path) as found:
        yield found


def journal(scene):
    return locate_journal(scene.to / ".cfetch", scene.served.url, [scene.to])


def brought(scene):
    return [
        one.record.path
        for one in scene.events
        if isinstance(one, EntryFinished) and one.record.status == "done"
    ]


def test_a_mirror_is_made_and_kept(scene):
    """What is there, what is new, what is another version; and nothing is asked for twice."""
    scene.served.write({"a": "1", "d/b": "2", "d/e/c": "3"})
    first = scene.follow()
    assert (first.status, first.exit_code, first.files.done, first.feed.entries) == ("completed", 0, 3, 3)
    assert scene.tree() == scene.served.tree()
    scene.served.write({"a": "one", "new": "4"})
    second = scene.follow()
    assert (sorted(brought(scene)), second.files.total, second.feed.entries) == (["a", "new"], 2, 2)
    assert scene.tree() == scene.served.tree()
    third = scene.follow()
    assert (third.files.total, third.feed.entries, third.feed.pages, third.exit_code) == (0, 0, 0, 0)
    assert "goes on from its checkpoint" in scene.lines[0]


def test_splits_and_merges_while_the_laptop_was_off(scene):
    """It goes on from its checkpoint and misses nothing."""
    scene.served.write({f"f{n}": "old" for n in range(40)})
    scene.follow()
    for round_number in range(3):
        scene.served.split()
        scene.served.write({f"f{n}": f"new {round_number}" for n in range(round_number, 40, 3)})
    scene.served.merge()
    scene.served.write({f"g{n}": "x" for n in range(10)})
    found = scene.follow(delete=True)
    assert scene.tree() == scene.served.tree()
    assert (found.feed.entries, found.files.done) == (50, 50)
    assert found.feed.info_requests_saved > 0
    assert found.feed.gone > 0
    again = scene.follow(delete=True)
    assert (again.feed.entries, again.files.total) == (0, 0)


@pytest.mark.parametrize("route_cache", [True, False])
def test_without_the_cache_the_same(tmp_path, route_cache):
    """More requests for information, the same files."""
    with scene_of(tmp_path) as scene:
        scene.served.write({f"f{n}": "1" for n in range(20)})
        scene.served.split()
        scene.served.write({f"f{n}": "2" for n in range(20)})
        scene.served.split()
        found = scene.follow(route_cache=route_cache)
        assert scene.tree() == scene.served.tree()
        assert bool(found.feed.info_requests_saved) is route_cache
        assert found.feed.info_requests >= 3


def test_deletes_are_for_those_who_ask(scene):
    """Without --delete they are recorded; with it files go, and directories that are empty then."""
    scene.served.write({"d/a": "1", "d/e/b": "2", "c": "3"})
    scene.follow()
    scene.served.write({"d/a": None, "d/e/b": None})
    found = scene.follow()
    assert (found.feed.deletes, found.exit_code) == (2, 0)
    assert set(scene.tree()) == {"c", "d/a", "d/e/b"}
    scene.served.write({"c": None, "f": "4"})
    assert scene.follow(delete=True).feed.deletes == 1
    assert set(scene.tree()) == {"d/a", "d/e/b", "f"}
    stones = [json.loads(line) for line in (journal(scene) / "tombstones.jsonl").read_text().splitlines()]
    assert sorted(one["path"] for one in stones) == ["c", "d/a", "d/e/b"]


def test_a_file_becomes_a_directory_and_back(scene):
    """In one step: deletes come first."""
    scene.served.write({"a": "1", "b/c": "2"})
    scene.follow()
    scene.served.write({"a": None, "b/c": None})
    scene.served.write({"a/x": "3", "b": "4"})
    assert scene.follow(delete=True).exit_code == 0
    assert scene.tree() == scene.served.tree() == {"a/x": b"3", "b": b"4"}
    assert not (scene.to / "b").is_dir()


def test_what_cannot_be_had_waits(scene):
    """Exit 1 names it; it comes with a later run, and no plan is left behind."""
    scene.served.write({"a": "1", "b": "2"})
    (scene.served.root / "b").write_text("x")  # and not published yet: another hash
    found = scene.follow(settings={"max_attempts": 1})
    assert (found.exit_code, found.status, found.files.done, found.files.failed) == (1, "partial", 1, 1)
    assert [one.path for one in found.failures] == ["b"]
    assert list_plans(Settings(to=(str(scene.to),))).plans == []
    assert scene.served.write({"b": "2"}) == 0
    again = scene.follow()
    assert (again.exit_code, again.files.done, again.feed.entries) == (0, 1, 0)
    assert scene.tree() == {"a": b"1", "b": b"2"}


def test_what_cannot_be_had_is_overtaken(scene):
    """A later version, or a delete, makes it idle."""
    scene.served.write({"a": "1", "b": "2"})
    for name in "ab":
        (scene.served.root / name).write_text("x")
    assert scene.follow(settings={"max_attempts": 1}).files.failed == 2
    scene.served.write({"a": "new", "b": None})
    found = scene.follow()
    assert (found.exit_code, found.files.failed) == (0, 0)
    assert scene.tree() == {"a": b"new"}


def test_another_feed_under_the_same_name(scene):
    """Is not read on from a checkpoint of the old one; what is in place stays."""
    scene.served.write({"a": "1"})
    scene.follow()
    scene.served.do(scene.served.world.recreate())
    scene.served.write({"b": "1"})
    with pytest.raises(FeedReplaced):
        scene.follow()
    assert scene.tree() == {"a": b"1"}


def test_one_follower_at_a_time(scene):
    """The second names the first and leaves."""
    scene.served.write({"a": "1"})
    with Journal(journal(scene)), pytest.raises(Held):
        scene.follow()
    assert scene.follow().files.done == 1


def test_a_source_that_cannot_be_had(scene, tmp_path):
    """Once: an error. For ever: a line, and again."""
    scene.served.do(scene.served.world.runner.cleanup())
    with pytest.raises(SourceError):
        scene.follow()


def test_a_step_that_was_begun_is_brought_to_its_end(scene, monkeypatch):
    """With the changes that it had, though the source has gone on."""
    scene.served.write({"a": "1", "b": "2"})

    class Stopped(Exception):
        pass

    def stopped(*_):
        raise Stopped

    monkeypatch.setattr(Journal, "did", stopped)
    with pytest.raises(Stopped):
        scene.follow()
    assert scene.tree() == {"a": b"1", "b": b"2"}
    monkeypatch.undo()
    scene.served.write({"c": "3"})
    found = scene.follow()
    assert (found.files.skipped, found.files.done, found.exit_code) == (2, 1, 0)
    assert scene.tree() == scene.served.tree()


def test_two_destinations_with_one_state(scene, tmp_path):
    """Each is as far as it is."""
    scene.served.write({"a": "1"})
    state = {"state": str(tmp_path / "st")}
    assert scene.follow(settings=state).files.done == 1
    scene.to = tmp_path / "other"
    assert scene.follow(settings=state).files.done == 1
    assert scene.tree() == {"a": b"1"}


def test_deletes_behind_files_that_have_gone(scene, monkeypatch):
    """More upserts in vain than a step has, and then their deletes: the end is reached."""
    monkeypatch.setattr("cfetch.app.follow.STEP_CHANGES", 10)
    scene.served.write({f"f{n}": "1" for n in range(45)})
    scene.served.write({f"f{n}": None for n in range(45)} | {"last": "1"})
    found = scene.follow(delete=True, settings={"max_attempts": 1})
    assert (found.exit_code, found.files.failed, found.feed.deletes) == (0, 0, 45)
    assert scene.tree() == {"last": b"1"}


def test_an_empty_directory_is_in_the_way(scene):
    """As after a death between a file's removal and its directory's."""
    scene.served.write({"f/x": "1"})
    scene.follow()
    (scene.to / "f/x").unlink()
    scene.served.write({"f/x": None, "f": "2"})
    assert scene.follow(delete=True).exit_code == 0
    assert scene.tree() == {"f": b"2"}


def test_a_split_without_changes_is_kept(scene):
    """A checkpoint that knew less would not be understood once the parents are forgotten."""
    scene.served.write({"a": "1"})
    scene.follow()
    before = (journal(scene) / "checkpoint.json").read_bytes()
    scene.served.split()
    scene.follow()
    after = json.loads((journal(scene) / "checkpoint.json").read_bytes())
    assert json.loads(before)["closed"] == []
    assert [one["id"] for one in after["closed"]] == ["0"]
    assert len(after["tokens"]) == 2


def test_its_plans_leave_the_timeline(scene):
    """Else it would fill up; what they did is in the metrics and in the archive."""
    for n in range(3):
        scene.served.write({"a": str(n)})
        scene.follow()
    settings = Settings(to=(str(scene.to),))
    assert list_plans(settings).plans == []
    assert len(list_plans(settings, also_archived=True).plans) == 3


def test_large_rows_end_a_step(scene, monkeypatch):
    """Memory is bounded by what rows hold, not by their number alone."""
    monkeypatch.setattr("cfetch.app.follow.STEP_ROW_BYTES", 1)
    scene.served.write({f"f{n}": "1" for n in range(5)})
    scene.served.split()
    scene.served.write({f"g{n}": "1" for n in range(5)})
    assert scene.follow().files.done == 10
    assert len(list_plans(Settings(to=(str(scene.to),)), also_archived=True).plans) > 1


def command(scene, *words):
    return [
        sys.executable,
        "-m",
        "cfetch",
        "follow",
        scene.served.url,
        "--to",
        str(scene.to),
        "--json",
        *words,
    ]


def test_the_command(scene):
    """One document on stdout; --once ends by itself."""
    scene.served.write({"a": "1"})
    done = subprocess.run(command(scene, "--once"), capture_output=True, text=True, check=False, timeout=60)
    told = json.loads(done.stdout)
    assert (done.returncode, told["schema"], told["files"]["done"]) == (0, "cfetch.summary/1", 1)
    assert set(told["feed"]) == {
        "entries",
        "deletes",
        "pages",
        "gone",
        "info_requests",
        "info_requests_saved",
    }
    scene.served.do(scene.served.world.recreate())
    done = subprocess.run(command(scene, "--once"), capture_output=True, text=True, check=False, timeout=60)
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["files"]["total"]) == (2, 2, 0)
    assert done.stderr.splitlines()[-1].startswith("cfetch: the checkpoint is of another feed")
    words = command(scene, "--once", "--quiet")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.startswith("cfetch: the checkpoint is of another feed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(scene, number):
    """While it waits: exit code and summary, and another run goes on."""
    scene.served.write({"a": "1"})
    child = subprocess.Popen(
        command(scene, "--poll", "100ms"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen = threading.Event()
    while not seen.wait(0.05) and child.poll() is None:
        if (journal(scene) / "checkpoint.json").exists():
            seen.set()
    scene.served.write({"b": "2"})
    while "b" not in scene.tree() and child.poll() is None:
        seen.wait(0.05)
    child.send_signal(number)
    out, said = child.communicate(timeout=60)
    told = json.loads(out)
    assert (child.returncode, told["status"], told["files"]["done"]) == (128 + number, "interrupted", 2), said
    assert scene.follow().exit_code == 0


def test_a_follower_is_killed_again_and_again(scene):
    """Kill -9 at any moment: in the end all is there, and nothing is left."""
    scene.served.write({f"d{n % 7}/f{n}": "x" * (1 + 997 * n) for n in range(120)})
    for wait_s in (0.3, 0.45, 0.6, 0.75, 0.9):
        child = subprocess.Popen(
            command(scene, "--once"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with_time_out = threading.Event()
        with_time_out.wait(wait_s)
        child.kill()
        child.wait()
        scene.served.write({f"d{n % 7}/f{n}": f"{wait_s}" for n in range(0, 120, 11)})
        scene.served.split() if wait_s == 0.6 else None
    found = scene.follow(delete=True)
    assert found.exit_code == 0
    assert scene.tree() == scene.served.tree()
    assert sorted(os.listdir(journal(scene))) == ["checkpoint.json", "lock"]
