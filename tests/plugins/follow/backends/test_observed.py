"""A source without a log: what it says becomes changes, and what it says no more becomes deletes."""

import sqlite3

import pytest

from cfetch.base.errors import FeedReplaced, HostileFeed, LocalFault
from cfetch.plugins.follow.backends.change_log import LOG_NAME, ChangeLog, News, Seen, interval_below
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.testing.feed import FeedContract, drained, told
from tests.plugins.follow.observed_world import Memory, ObservedWorld, as_whole

ROW = {"url": "http://h.example/x", "size": 1}


@pytest.fixture
async def world(tmp_path):
    world = ObservedWorld(tmp_path)
    yield world
    await world.close()


class TestObserved(FeedContract):
    """All that a feed of one range can, but for a retention: the log forgets only overtaken versions."""

    @pytest.fixture
    async def world(self, world):
        return world


@pytest.fixture
def log(tmp_path):
    log = ChangeLog(tmp_path)
    yield log
    log.close()


def add(log, news, asked_from=None):
    log.add(news, log.read_cursor() if asked_from is None else asked_from, "the source")


def told_from(log, lsn):
    return told(log.read_page(lsn, 100).changes)


def test_only_differences_are_changes(log):
    """Equal rows, also repeated ones, are none; a stamp tells versions of equal rows apart."""
    add(log, as_whole({"a": ROW, "b": (ROW, "1")}))
    add(log, as_whole({"a": ROW, "b": (ROW, "1")}))
    assert told_from(log, 1) == [("a", "upsert"), ("b", "upsert")]
    add(log, as_whole({"a": ROW, "b": (ROW, "2")}))
    assert told_from(log, 3) == [("b", "upsert")]


def test_what_a_whole_does_not_name_has_gone_within_it(log):
    """A file beside the interval stays, whatever its name begins with."""
    add(log, News("1", [Seen(path, ROW) for path in ("a-b/x", "a/x", "a/y", "a0/x", "a")]))
    add(log, News("2", [Seen("a/y", ROW)], [interval_below("a")]))
    assert told_from(log, 6) == [("a/x", "delete")]
    add(log, News("3", [], [("", "a/")]))
    assert told_from(log, 7) == [("a", "delete"), ("a-b/x", "delete")]
    assert log.list_directories() == {"a", "a0"}
    add(log, News("4", [Seen("a/x", None), Seen("never", None)]))
    assert told_from(log, 9) == []  # it had gone already
    add(log, News("5", [Seen("a/x", ROW)]))
    assert told_from(log, 9) == [("a/x", "upsert")]


def test_news_of_an_older_cursor_are_dropped(log):
    """Two processes asked from one cursor, and the other was faster."""
    add(log, News("1", [Seen("a", ROW)]))
    add(log, News("2", [Seen("b", ROW)]), asked_from="")
    assert (told_from(log, 1), log.read_cursor()) == ([("a", "upsert")], "1")


def test_a_file_that_breaks_the_rules_is_left_out(log):
    """What stands at its path stays: nonsense about a file does not mean that it has gone."""
    add(log, News("1", [Seen("d/b", ROW)]))
    bad = [Seen("../b", ROW), Seen("d/b", {"url": "sftp://h/x"}), Seen("d/~x", ROW), Seen("d/a", ROW)]
    reasons = log.add(News("2", bad, [interval_below("d")]), "1", "the source")
    assert told_from(log, 2) == [("d/~x", "upsert"), ("d/a", "upsert")]
    assert [reason.partition(": ")[0] for reason in reasons] == ["../b of the source", "d/b of the source"]


def test_news_in_which_a_file_waits_are_taken_whole_or_not_at_all(log):
    with pytest.raises(HostileFeed, match=r"\.\./b of the source: path"):
        log.add(News("1", [Seen("../b", ROW), Seen("a", ROW, waits=True)]), "", "the source")
    assert (log.last_lsn(), log.read_cursor()) == (0, "")


async def test_files_that_are_left_out_are_told_once(world, monkeypatch):
    monkeypatch.setattr("cfetch.plugins.follow.backends.observed.MAX_TOLD", 1)
    lines: list[str] = []
    world.source._tell = lines.append
    for _ in range(2):
        await world.observe(*(Seen(f"../{name}", ROW) for name in "abc"))
    assert [line[:5] for line in lines] == ["../a ", "../b "]
    assert "further files that are left out are not named" in lines[1]


def test_an_opened_log_forgets_overtaken_versions(log, tmp_path, monkeypatch):
    """It stays as long as its files are many, whatever the number of their versions; now and then."""
    for version in range(5):
        add(log, News(str(version), [Seen("a", ROW, str(version)), Seen("b", ROW)]))
    log.close()
    monkeypatch.setattr("cfetch.plugins.follow.backends.change_log.TIDY_LSNS", 7)
    again = ChangeLog(tmp_path)
    assert len(again.read_page(1, 100).changes) == 6
    again.close()
    monkeypatch.setattr("cfetch.plugins.follow.backends.change_log.TIDY_LSNS", 6)
    again = ChangeLog(tmp_path)
    assert [change.lsn for change in again.read_page(1, 100).changes] == [2, 6]
    assert (again.feed, again.read_cursor()) == (log.feed, "4")
    again.close()


async def test_the_source_is_asked_only_at_the_end_of_the_log(world):
    for name in "abc":
        await world.append(name)
    world.upstream.asked.clear()
    assert len(await drained(world.source, "0", "0", limit=1)) == 3
    assert world.upstream.asked == ["3"]


async def test_news_without_changes_are_passed_until_the_last(world):
    """As in the first listing of a source that is known already."""
    world.upstream.news += [
        News("1", is_last=False),
        News("2", is_last=False),
        News("3", [Seen("a", ROW)], is_last=False),
    ]
    assert told(await drained(world.source, "0", "0")) == [("a", "upsert")]
    assert world.upstream.asked == ["", "1", "2", "3"]


async def test_a_log_that_was_put_back_is_told(world):
    await world.append("a")
    with pytest.raises(FeedReplaced, match="older copy"):
        await world.source.read("0", Position("0", 9), ALL_KEYS, 10)


async def test_a_change_that_waits_says_so(world):
    await world.observe(Seen("a", ROW), Seen("b", ROW, waits=True))
    assert [change.waits for change in await drained(world.source, "0", "0")] == [False, True]


def test_a_file_that_is_no_log(tmp_path):
    (tmp_path / LOG_NAME).write_text("something else")
    with pytest.raises(LocalFault, match="--resync begins a new one"):
        ChangeLog(tmp_path)


def test_a_log_of_a_later_version_is_left_alone(log, tmp_path):
    with sqlite3.connect(tmp_path / LOG_NAME) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(LocalFault, match="is not what cfetch writes"):
        ChangeLog(tmp_path)


async def test_all_is_closed(tmp_path):
    world = ObservedWorld(tmp_path)
    await world.close()
    assert world.upstream.is_closed
    assert Memory().asked == []
