"""Following a feed: the directory is as the source, whatever came between."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from cfetch.app.plans import list_plans
from cfetch.base.config.settings import Settings
from cfetch.base.errors import FeedReplaced, Held, Refused, SourceError
from cfetch.base.events import EntryFinished
from cfetch.manifest.folding import Folding
from cfetch.plugins.follow.journal import Journal, locate_journal
from cfetch.plugins.follow.use_cases.follow_text import end_text, idle_text, mirror_text
from cfetch.run.volumes import Volumes
from cfetch.storage.directory import Directory
from cfetch.storage.occupancy import occupy
from tests.plugins.follow.follow_world import FollowWorld, open_world


class Told(list[str]):
    """Lines of a follower; with the first one ``at_first`` is called."""

    def __init__(self, at_first):
        super().__init__()
        self._at_first = at_first

    def append(self, line):
        if self._at_first is not None:
            at_first, self._at_first = self._at_first, None
            at_first(line)
        super().append(line)


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def journal(world):
    return locate_journal(world.to / ".cfetch", world.served.url, [world.to])


def brought(world):
    return [
        one.record.path
        for one in world.events
        if isinstance(one, EntryFinished) and one.record.status == "done"
    ]


def test_a_follower_may_begin_now(world):
    """What is there already is left alone, whatever has split and merged; what comes then is brought."""
    world.served.write({"a": "1", "b": "1"})
    world.served.split()
    world.served.write({"c": "1"})
    world.served.merge()
    begun = world.follow(from_now=True)
    assert (begun.feed.entries, world.tree()) == (0, {})
    assert any("leaves 3 earlier changes alone" in line for line in world.lines)
    world.served.split()
    world.served.write({"b": "2", "d": "1"})
    world.follow(from_now=True)  # the same command goes on from its position
    assert world.tree() == {"b": b"2", "d": b"1"}


def test_a_position_that_no_feed_can_state_is_refused(tmp_path):
    """A time, where the feed states none; one to come; and options that are for all files of the feed."""

    def refuse(*options):
        command = [sys.executable, "-m", "cfetch", "follow", "http://127.0.0.1:1/", "--to", "m", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
        return " ".join(done.stderr.split())

    assert "http://127.0.0.1:1 states no times of its changes" in refuse("--from", "2026-01-01")
    assert "--from is 'yesterday' but must be now, or a time" in refuse("--from", "yesterday")
    assert "which is still to come" in refuse("--from", "9999-01-01T00:00+01:00")
    assert "--resync and --consistent are for all of them" in refuse("--from", "now", "--resync")


def test_a_mirror_is_made_and_kept(world):
    """What is there, what is new, what is another version; and nothing is asked for twice."""
    world.served.write({"a": "1", "d/b": "2", "d/e/c": "3"})
    first = world.follow()
    assert (first.status, first.exit_code, first.files.done, first.feed.entries) == ("completed", 0, 3, 3)
    assert world.tree() == world.served.tree()
    world.served.write({"a": "one", "new": "4"})
    second = world.follow()
    assert (sorted(brought(world)), second.files.total, second.feed.entries) == (["a", "new"], 2, 2)
    assert world.tree() == world.served.tree()
    third = world.follow()
    assert (third.files.total, third.feed.entries, third.feed.pages, third.exit_code) == (0, 0, 0, 0)
    assert "goes on from its checkpoint" in world.lines[0]


def test_it_says_what_it_does(world):
    """Each step with its new files and deletes, whether deletes are applied, and the end."""
    world.served.write({"a": "1", "b": "2", "c": "3"})
    world.follow()
    assert world.lines[1:] == [
        "feed: 3 new or changed files",
        "feed: at its end, after 3 new or changed files and 0 deleted files in this run",
        "feed: 3 files are here; nothing of the feed is left to read",
    ]
    for delete, deleted in ((False, "1 deleted file kept (see --delete)"), (True, "1 deleted file")):
        world.lines.clear()
        world.served.write({"b" if delete else "a": None, "c": f"{delete}"})
        world.follow(delete=delete)
        assert world.lines[1] == f"feed: 1 new or changed file, {deleted}"


def test_the_last_line_is_about_all_runs(world):
    """A follower that starts again says what the mirror has, not only what it has brought itself."""
    world.served.write({"a": "1", "b": "2", "c": "3"})
    world.follow()
    world.served.write({"c": "4"})
    world.follow()
    assert world.lines[-2:] == [
        "feed: at its end, after 1 new or changed file and 0 deleted files in this run",
        "feed: 3 files are here; nothing of the feed is left to read",
    ]
    assert mirror_text(1, 9, None, is_stopped=True) == (
        "feed: 1 file is here; the end of the feed was never reached (see --status)"
    )
    assert mirror_text(10, 9, 0.0, is_stopped=True) == (
        "feed: more than 9 files are here; "
        "last at the end of the feed: 1970-01-01T00:00:00+00:00 (see --status)"
    )
    assert mirror_text(None, 9, None, is_stopped=False) == "feed: nothing of the feed is left to read"


def test_it_says_once_that_nothing_is_new():
    """A follower that waits is not taken for one that hangs; its log does not grow meanwhile."""
    assert idle_text(5.0, 0) == "feed: nothing new, asking every 5 s (Ctrl-C stops)"
    assert idle_text(5.0, 2).endswith("; 2 files cannot be had now and will be tried again")
    assert end_text(2, 1, 1, is_stopped=True) == (
        "feed: stopped, after 2 new or changed files and 1 deleted file in this run, 1 file missing; "
        "the same command goes on from here"
    )


def test_the_state_is_for_its_owner_only(world):
    """Every directory of it, whatever the umask."""
    world.served.write({"a": "1"})
    before = os.umask(0)
    try:
        world.follow()
    finally:
        os.umask(before)
    state = world.to / ".cfetch"
    modes = {oct(path.stat().st_mode & 0o777) for path in (state, *state.rglob("*")) if path.is_dir()}
    assert modes == {"0o700"}


def test_splits_and_merges_while_the_laptop_was_off(world):
    """It goes on from its checkpoint and misses nothing."""
    world.served.write({f"f{n}": "old" for n in range(40)})
    world.follow()
    for round_number in range(3):
        world.served.split()
        world.served.write({f"f{n}": f"new {round_number}" for n in range(round_number, 40, 3)})
    world.served.merge()
    world.served.write({f"g{n}": "x" for n in range(10)})
    found = world.follow(delete=True)
    assert world.tree() == world.served.tree()
    assert (found.feed.entries, found.files.done) == (50, 50)
    assert found.feed.info_requests_saved > 0
    assert found.feed.gone > 0
    again = world.follow(delete=True)
    assert (again.feed.entries, again.files.total) == (0, 0)


@pytest.mark.parametrize("route_cache", [True, False])
def test_without_the_cache_the_same(tmp_path, route_cache):
    """More requests for information, the same files."""
    with open_world(tmp_path) as world:
        world.served.write({f"f{n}": "1" for n in range(20)})
        world.served.split()
        world.served.write({f"f{n}": "2" for n in range(20)})
        world.served.split()
        found = world.follow(route_cache=route_cache)
        assert world.tree() == world.served.tree()
        assert bool(found.feed.info_requests_saved) is route_cache
        assert found.feed.info_requests >= 3


def test_deletes_are_for_those_who_ask(world):
    """Without --delete they are recorded; with it files go, and directories that are empty then."""
    world.served.write({"d/a": "1", "d/e/b": "2", "c": "3"})
    world.follow()
    world.served.write({"d/a": None, "d/e/b": None})
    found = world.follow()
    assert (found.feed.deletes, found.exit_code) == (2, 0)
    assert set(world.tree()) == {"c", "d/a", "d/e/b"}
    world.served.write({"c": None, "f": "4"})
    assert world.follow(delete=True).feed.deletes == 1
    assert set(world.tree()) == {"d/a", "d/e/b", "f"}
    stones = [json.loads(line) for line in (journal(world) / "tombstones.jsonl").read_text().splitlines()]
    assert sorted(one["path"] for one in stones) == ["c", "d/a", "d/e/b"]


def test_many_deletes_at_once_are_refused(world):
    """None is carried out, and the same command says so again, until a person allows them."""
    world.served.world.publisher.max_delete = 1000
    world.served.write({f"f{n}": "1" for n in range(200)})
    world.follow()
    world.served.write({f"f{n}": None for n in range(21)} | {"new": "2"})
    for _ in range(2):
        with pytest.raises(Refused, match=r"21 files .* --max-delete allows 20; .* give --max-delete 21"):
            world.follow(delete=True)
        assert len(world.tree()) == 200
    assert world.follow(delete=True, max_delete=21).exit_code == 0
    assert world.lines[:2] == [
        "feed: finishes first what an earlier run has begun",
        "feed: 1 new or changed file, 21 deleted files",
    ]
    assert world.tree() == world.served.tree()


def test_deletes_of_files_that_are_not_here_do_not_count(world):
    """Somebody has removed them, or an earlier run has."""
    world.served.world.publisher.max_delete = 1000
    world.served.write({f"f{n}": "1" for n in range(50)})
    world.follow()
    for n in range(40):
        (world.to / f"f{n}").unlink()
    world.served.write({f"f{n}": None for n in range(50)} | {"new": "2"})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == {"new": b"2"}


def test_a_file_becomes_a_directory_and_back(world):
    """In one step: deletes come first."""
    world.served.write({"a": "1", "b/c": "2"})
    world.follow()
    world.served.write({"a": None, "b/c": None})
    world.served.write({"a/x": "3", "b": "4"})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == world.served.tree() == {"a/x": b"3", "b": b"4"}
    assert not (world.to / "b").is_dir()


def test_what_cannot_be_had_waits(world):
    """Exit 1 names it; it comes with a later run, and no plan is left behind."""
    world.served.write({"a": "1", "b": "2"})
    (world.served.root / "b").write_text("x")  # and not published yet: another hash
    found = world.follow(settings={"max_attempts": 1})
    assert (found.exit_code, found.status, found.files.done, found.files.failed) == (1, "partial", 1, 1)
    assert [one.path for one in found.failures] == ["b"]
    assert list_plans(Settings(to=(str(world.to),))).plans == []
    assert world.served.write({"b": "2"}) == 0
    again = world.follow()
    assert (again.exit_code, again.files.done, again.feed.entries) == (0, 1, 0)
    assert world.tree() == {"a": b"1", "b": b"2"}


def test_a_name_that_the_destination_takes_for_another_waits(world, monkeypatch):
    """It fails alone, and is tried again by itself: then what stands there decides."""
    monkeypatch.setattr(Volumes, "find_folding", lambda _: Folding(ends="."))
    world.served.write({"a": "1", "a.": "2", "b": "3"})
    assert world.follow().exit_code == 0
    records = [each.record for each in world.events if isinstance(each, EntryFinished)]
    ended = [(record.path.rstrip("."), record.error_kind) for record in records]
    assert sorted(ended[:3], key=str) == [("a", "clash"), ("a", None), ("b", None)]
    assert ended[3:] == [("a", None)]  # the disk of this test keeps both names


def test_what_cannot_be_had_is_overtaken(world):
    """A later version, or a delete, makes it idle."""
    world.served.write({"a": "1", "b": "2"})
    for name in "ab":
        (world.served.root / name).write_text("x")
    assert world.follow(settings={"max_attempts": 1}).files.failed == 2
    world.served.write({"a": "new", "b": None})
    found = world.follow()
    assert (found.exit_code, found.files.failed) == (0, 0)
    assert world.tree() == {"a": b"new"}


def test_another_feed_under_the_same_name(world):
    """Is not read on from a checkpoint of the old one; what is in place stays."""
    world.served.write({"a": "1"})
    world.follow()
    world.served.do(world.served.world.recreate())
    world.served.write({"b": "1"})
    with pytest.raises(FeedReplaced):
        world.follow()
    assert world.tree() == {"a": b"1"}


def test_a_server_that_was_restored_from_a_backup(world):
    """It gives the same LSNs to other changes. The follower stops, and a new checkpoint brings the rest."""
    world.served.write({"a": "1"})
    world.follow()
    state, backup = world.served.root / ".cfetch-feed", world.to.with_name("backup")
    world.served.do(world.served.world._stop())
    shutil.copytree(state, backup)
    world.served.do(world.served.world._serve())
    world.served.write({"b": "2"})
    world.follow()
    world.served.do(world.served.world._stop())
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    (world.served.root / "c").write_text("3")
    (world.served.root / "b").unlink()
    world.served.do(world.served.world._serve())
    world.served.do(world.served.world.scan())
    for _ in range(2):
        with pytest.raises(FeedReplaced, match="another history"):
            world.follow(delete=True)
    assert set(world.tree()) == {"a", "b"}
    (journal(world) / "checkpoint.json").unlink()
    assert world.follow().files.done == 1
    assert set(world.tree()) == {"a", "b", "c"}


def test_one_follower_at_a_time(world):
    """The second names the first and leaves."""
    world.served.write({"a": "1"})
    with Journal(journal(world)), pytest.raises(Held):
        world.follow()
    assert world.follow().files.done == 1


def test_followers_whose_volumes_overlap_are_kept_apart(world, tmp_path):
    """Each has a state of its own; the older one would delete what the newer one has brought."""
    world.served.write({"a": "1", "b": "2"})
    volumes = [str(tmp_path / f"v{n}") for n in range(3)]
    own_state = str(tmp_path / "own")
    refused: list[str] = []

    def follow_too(line):
        for settings in ({"to": tuple(volumes[1:])}, {"to": tuple(volumes), "state": own_state}):
            with pytest.raises(Held, match=r"another process brings .*v[01] in step with the same source"):
                other.follow(settings=settings, delete=True)
            refused.append(line)

    other = FollowWorld(world.served, tmp_path)
    world.lines = Told(follow_too)
    world.follow(settings={"to": tuple(volumes)}, delete=True)
    assert refused
    assert other.follow(settings={"to": tuple(volumes[1:])}, delete=True).exit_code == 0


def test_nothing_is_deleted_while_batches_are_moved(world):
    """A batch might lose files between its copy and its record."""
    world.served.write({"a": "1", "b": "2"})
    world.follow()
    world.served.write({"a": None})
    with closing(Directory(world.to)) as directory:
        occupy(directory)
        with pytest.raises(Held, match="cfetch volume is moving batches"):
            world.follow(delete=True)
    assert set(world.tree()) == {"a", "b"}
    world.follow(delete=True)
    assert set(world.tree()) == {"b"}


def test_a_source_that_cannot_be_had(world, tmp_path):
    """Once: an error. For ever: a line, and again."""
    world.served.do(world.served.world.runner.cleanup())
    with pytest.raises(SourceError):
        world.follow()


def test_a_step_that_was_begun_is_brought_to_its_end(world, monkeypatch):
    """With the changes that it had, though the source has gone on."""
    world.served.write({"a": "1", "b": "2"})

    class Stopped(Exception):
        pass

    def stopped(*_):
        raise Stopped

    monkeypatch.setattr(Journal, "finish_round", stopped)
    with pytest.raises(Stopped):
        world.follow()
    assert world.tree() == {"a": b"1", "b": b"2"}
    monkeypatch.undo()
    world.served.write({"c": "3"})
    found = world.follow()
    assert (found.files.skipped, found.files.done, found.exit_code) == (2, 1, 0)
    assert world.tree() == world.served.tree()


def test_two_destinations_with_one_state(world, tmp_path):
    """Each is as far as it is."""
    world.served.write({"a": "1"})
    state = {"state": str(tmp_path / "st")}
    assert world.follow(settings=state).files.done == 1
    world.to = tmp_path / "other"
    assert world.follow(settings=state).files.done == 1
    assert world.tree() == {"a": b"1"}


def test_deletes_behind_files_that_have_gone(world, monkeypatch):
    """More upserts in vain than a step has, and then their deletes: the end is reached."""
    monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STEP_CHANGES", 10)
    world.served.write({f"f{n}": "1" for n in range(45)})
    world.served.world.publisher.max_delete = 45
    world.served.write({f"f{n}": None for n in range(45)} | {"last": "1"})
    found = world.follow(delete=True, settings={"max_attempts": 1})
    assert (found.exit_code, found.files.failed, found.feed.deletes) == (0, 0, 45)
    assert world.tree() == {"last": b"1"}


def test_an_empty_directory_is_in_the_way(world):
    """As after a death between a file's removal and its directory's."""
    world.served.write({"f/x": "1"})
    world.follow()
    (world.to / "f/x").unlink()
    world.served.write({"f/x": None, "f": "2"})
    assert world.follow(delete=True).exit_code == 0
    assert world.tree() == {"f": b"2"}


def test_a_split_without_changes_is_kept(world):
    """A checkpoint that knew less would not be understood once the parents are forgotten."""
    world.served.write({"a": "1"})
    world.follow()
    before = (journal(world) / "checkpoint.json").read_bytes()
    world.served.split()
    world.follow()
    after = json.loads((journal(world) / "checkpoint.json").read_bytes())
    assert json.loads(before)["closed"] == []
    assert [one["id"] for one in after["closed"]] == ["0"]
    assert len(after["tokens"]) == 2


def test_its_plans_leave_the_timeline(world):
    """Else it would fill up; what they did is in the metrics and in the archive."""
    for n in range(3):
        world.served.write({"a": str(n)})
        world.follow()
    settings = Settings(to=(str(world.to),))
    assert list_plans(settings).plans == []
    assert len(list_plans(settings, also_archived=True).plans) == 3


def test_large_rows_end_a_step(world, monkeypatch):
    """Memory is bounded by what rows hold, not by their number alone."""
    monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STEP_ROW_BYTES", 1)
    world.served.write({f"f{n}": "1" for n in range(5)})
    world.served.split()
    world.served.write({f"g{n}": "1" for n in range(5)})
    assert world.follow().files.done == 10
    assert len(list_plans(Settings(to=(str(world.to),)), also_archived=True).plans) > 1


def test_a_renamed_file_is_not_fetched_again(world):
    """Its bytes are here: only files that are new, or of which the old ones stay, come from the server."""
    world.served.world.publisher.max_delete = 100
    files = {f"old/f{n}": f"{n}" * (n + 1) for n in range(20)}
    world.served.write(files | {"same": "s"})
    world.follow()
    (world.to / "old/f3").write_text("3333")  # right again, as another file
    (world.to / "old/f4").write_text("x4444")  # changed, so it stays
    for path in files:
        (world.served.root / path).unlink()
    (world.served.root / "old").rmdir()
    world.served.write({path.replace("old/", "new/d/"): text for path, text in files.items()} | {"g": "g"})
    found = world.follow(delete=True, max_delete=5)
    assert "feed: 19 files were renamed and are not fetched again" in world.lines
    assert (sorted(brought(world)), found.exit_code) == (["g", "new/d/f4"], 0)
    assert world.tree() == world.served.tree() | {"old/f4": b"x4444"}
    assert any(line.endswith("(see --adopt): old/f4") for line in world.lines)


def test_a_renamed_file_is_fetched_if_the_old_one_stays(world):
    """Without --delete the file is at both places."""
    world.served.write({"a": "1"})
    world.follow()
    world.served.write({"a": None, "b": "1"})
    world.follow()
    assert world.tree() == {"a": b"1", "b": b"1"}
    assert brought(world) == ["b"]


def test_a_file_takes_no_name_that_is_in_use(world):
    """A file in the place of the new name is replaced by the download as always."""
    world.served.write({"a": "1", "b": "2"})
    world.follow()
    world.served.write({"a": None, "b": "1"})
    world.follow(delete=True)
    assert world.tree() == {"b": b"1"}
    assert brought(world) == ["b"]


def test_slow_pages_end_a_step(world, monkeypatch):
    """The first files come before the last page has been read."""
    monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STEP_S", 0.0)
    monkeypatch.setattr("cfetch.plugins.follow.server.handler.MAX_LIMIT", 2)
    world.served.write({f"f{n}": "1" for n in range(6)})
    assert world.follow().files.done == 6
    assert len(list_plans(Settings(to=(str(world.to),)), also_archived=True).plans) == 3


def command(world, *words):
    return [
        sys.executable,
        "-m",
        "cfetch",
        "follow",
        world.served.url,
        "--to",
        str(world.to),
        "--json",
        *words,
    ]


def test_the_command(world):
    """One document on stdout; --once ends by itself."""
    world.served.write({"a": "1"})
    done = subprocess.run(command(world, "--once"), capture_output=True, text=True, check=False, timeout=60)
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
    world.served.do(world.served.world.recreate())
    done = subprocess.run(command(world, "--once"), capture_output=True, text=True, check=False, timeout=60)
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["files"]["total"]) == (2, 2, 0)
    assert done.stderr.splitlines()[-1].startswith("cfetch: the checkpoint is of another feed")
    words = command(world, "--once", "--quiet")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.startswith("cfetch: the checkpoint is of another feed")


def read_until_idle(child):
    """What it says until it has found nothing new; a file stands in its place before it is told of."""
    said = ""
    while "feed: nothing new" not in said and (line := child.stderr.readline()):
        said += line
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(world, number):
    """While it waits: exit code and summary, and another run goes on."""
    world.served.write({"a": "1"})
    child = subprocess.Popen(
        command(world, "--poll", "100ms"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = read_until_idle(child)
    world.served.write({"b": "2"})
    second = read_until_idle(child)
    child.send_signal(number)
    out, last = child.communicate(timeout=60)
    said = first + second + last
    told = json.loads(out)
    assert (child.returncode, told["status"], told["files"]["done"]) == (128 + number, "interrupted", 2), said
    this_run, mirror = said.splitlines()[-2:]
    assert this_run.startswith("feed: stopped, after 2 new or changed files")
    assert mirror.startswith("feed: 2 files are here; last at the end of the feed: 20")
    assert said.count("feed: nothing new") == 2  # one after each change, and none for each look
    assert world.follow().exit_code == 0


def test_a_follower_is_killed_again_and_again(world):
    """Kill -9 at any moment: in the end all is there, and nothing is left."""
    world.served.write({f"d{n % 7}/f{n}": "x" * (1 + 997 * n) for n in range(120)})
    for wait_s in (0.3, 0.45, 0.6, 0.75, 0.9):
        child = subprocess.Popen(
            command(world, "--once"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with_time_out = threading.Event()
        with_time_out.wait(wait_s)
        child.kill()
        child.wait()
        world.served.write({f"d{n % 7}/f{n}": f"{wait_s}" for n in range(0, 120, 11)})
        world.served.split() if wait_s == 0.6 else None
    found = world.follow(delete=True)
    assert found.exit_code == 0
    assert world.tree() == world.served.tree()
    assert sorted(os.listdir(journal(world))) == ["checkpoint.json", "lock", "status.json"]
