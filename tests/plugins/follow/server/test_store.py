"""The store of the reference server: LSNs, splits, retention, and what a crash in the middle leaves."""

import os
import sqlite3
from pathlib import Path
from unittest.mock import ANY

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Span, key_of
from cfetch.plugins.follow.server import range_table
from cfetch.plugins.follow.server import store as module
from cfetch.plugins.follow.server.store import FeedStore, File, NewChange, Window

NAMES = [f"f{number}" for number in range(40)]


@pytest.fixture
def store(tmp_path):
    store = FeedStore(tmp_path / "state")
    yield store
    store.close()


def add(store, names, at_s=0, **how):
    store.publish([NewChange(name, 1, bytes(32)) for name in names], at_s=at_s, **how)


def live(store):
    return [one.id for one in store.list_ranges()[1]]


def rows(store, of, via=None, next_lsn=0):
    window = store.read_window(of, via or of, next_lsn, ALL_KEYS, 1000)
    return [(row.lsn, row.path) for row in window.rows]


def test_lsns_are_dense_and_outlive_the_process(store, tmp_path):
    add(store, ["a", "b"])
    store.close()
    again = FeedStore(tmp_path / "state")
    assert again.feed == store.feed
    add(again, ["c"])
    assert rows(again, "0") == [(0, "a"), (1, "b"), (2, "c")]
    again.close()


def test_a_change_is_flushed_before_it_is_told(store):
    """As far as SQLite can be asked: FULL, with a write-ahead log. Power cuts are not tried."""
    assert store._database._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._database._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_deleted_database_is_another_feed(store, tmp_path):
    add(store, ["a"])
    store.close()
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    again = FeedStore(tmp_path / "state")
    assert again.feed != store.feed
    assert rows(again, "0") == []
    again.close()


def test_two_servers_cannot_publish_from_one_state(store, tmp_path):
    with pytest.raises(Held, match="another server"):
        FeedStore(tmp_path / "state")


def test_nobody_else_can_read_the_state(store, tmp_path):
    """It may hold signed links."""
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("before", [0o644, None])
def test_nobody_else_can_read_the_files(tmp_path, before):
    """Whatever the directory's mode is, and whatever a dead server of other ways has left."""
    mask = os.umask(0o022)
    try:
        (tmp_path / "state").mkdir(0o755)
        if before is not None:
            dead = FeedStore(tmp_path / "dead")
            add(dead, ["a"])
            for path in (tmp_path / "dead").iterdir():
                (tmp_path / "state" / path.name).write_bytes(path.read_bytes())
                (tmp_path / "state" / path.name).chmod(before)
            dead.close()
        store = FeedStore(tmp_path / "state")
        add(store, ["a"])
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
        store.close()
    finally:
        os.umask(mask)
    assert modes == dict.fromkeys(("feed.sqlite", "feed.sqlite-wal", "feed.sqlite-shm", "lock"), 0o600)


@pytest.mark.parametrize("text", [b"no database at all, but a text " * 100, b""])
def test_a_database_that_is_none(tmp_path, text):
    """Is named; an empty file is as none."""
    (tmp_path / "feed.sqlite").write_bytes(text)
    if text:
        with pytest.raises(LocalFault, match=r"feed\.sqlite.*NOTADB"):
            FeedStore(tmp_path)
        text = b""
        (tmp_path / "feed.sqlite").write_bytes(text)
    FeedStore(tmp_path).close()


def test_a_database_of_another_version(store, tmp_path):
    store.close()
    with sqlite3.connect(tmp_path / "state/feed.sqlite") as found:
        found.execute("PRAGMA user_version=99")
    found.close()
    with pytest.raises(UsageError, match="another version"):
        FeedStore(tmp_path / "state")


def test_a_state_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalFault, match="--state names another"):
        FeedStore(tmp_path / "file/state")


def test_a_change_that_fails_leaves_nothing(store):
    """Neither entries, nor files, nor LSNs, nor a split in memory only."""
    add(store, ["a"])
    before = store.list_ranges(), rows(store, "0"), store.count_files()

    def files():
        yield File("b", 1, 2, 3, 4, bytes(32))
        raise OSError

    with pytest.raises(OSError):
        add(store, ["b"], files=files(), split_entries=1)
    with pytest.raises(OverflowError):
        store.publish([NewChange("b"), NewChange("c", key=1 << 128)], at_s=0, split_entries=1)
    with pytest.raises(ZeroDivisionError):
        split_and_fail(store)
    assert (store.list_ranges(), rows(store, "0"), store.count_files()) == before
    add(store, ["c"])
    assert rows(store, "0") == [(0, "a"), (1, "c")]


def split_and_fail(store):
    with store._transaction() as cursor:
        store._ranges.split(cursor, "0")
        assert len(store._ranges._live) == 2
        raise ZeroDivisionError


def test_ranges_that_grow_split_by_themselves(store):
    """Each when it has more entries than allowed; the children begin to count anew."""
    for name in NAMES:
        add(store, [name], split_entries=4)
    ranges = store.list_ranges()[1]
    assert len(ranges) > 4
    for one in ranges:
        span = store.find_span(one.id, one.id)
        assert len(rows(store, one.id)) <= 4
        for above in one.ancestors:
            closed = store.find_span(above, one.id)
            assert closed.last - closed.first + 1 == 5
            assert closed.last < span.first
    ids = {above for one in ranges for above in one.ancestors} | set(live(store))
    seen = [path for of in ids for _, path in rows(store, of, _holder(ranges, of))]
    assert sorted(seen) == sorted(NAMES)


def _holder(ranges, of):
    return next(one.id for one in ranges if of == one.id or of in one.ancestors)


def test_one_key_cannot_be_split_for_ever(store):
    """Where all entries have one key, ranges split down to it and then grow."""
    for number in range(140):
        store.publish([NewChange(f"f{number}", key=7)], at_s=0, split_entries=1)
        store.publish([NewChange(f"g{number}", key=7)], at_s=0, split_entries=1)
    (narrow,) = (one for one in store.list_ranges()[1] if one.keys.holds(7))
    assert narrow.keys == KeyRange(7, 8)
    with pytest.raises(UsageError, match="single key"):
        store.split(narrow.id)


def test_there_are_only_so_many_live_ranges(store, monkeypatch):
    monkeypatch.setattr(range_table, "MAX_LIVE", 3)
    for name in NAMES:
        add(store, [name], split_entries=2)
    assert len(live(store)) == 3
    with pytest.raises(UsageError, match="as many as it may have"):
        store.split()


def test_a_split_without_a_name_takes_the_longest(store):
    store.split("0")
    low = [name for name in NAMES if key_of(name) < 1 << 127]
    add(store, low)
    assert store.split() == ("1", ("3", "4"))


@pytest.mark.parametrize("of", ["7", "-1", "00", "x", "", "٣", "9" * 400])
def test_a_range_that_is_none(store, of):
    """Of whatever name, in all that asks for one."""
    with pytest.raises(UsageError, match="no live range"):
        store.split(of)
    assert store.find_span("0", of) is None
    assert store.read_window("0", of, 0, ALL_KEYS, 1) is None
    with pytest.raises(UsageError, match="does not archive"):
        store.find_span(of, "0")


def test_a_range_that_has_split_is_asked_no_more(store):
    store.split("0")
    assert store.find_span("0", "0") is None
    with pytest.raises(UsageError, match="no live range"):
        store.split("0")
    with pytest.raises(UsageError, match="does not archive"):
        store.find_span("2", "1")


def test_only_neighbours_merge(store):
    store.split("0")
    store.split("1")
    assert live(store) == ["3", "4", "2"]
    for one, other in (("3", "2"), ("3", "3"), ("3", "0")):
        with pytest.raises(UsageError):
            store.merge(one, other)
    assert store.merge("2", "4") == "5"
    found = {one.id: one for one in store.list_ranges()[1]}
    assert found["5"].ancestors == {"0", "1", "2", "4"}
    assert found["3"].ancestors == {"0", "1"}


@pytest.mark.parametrize("longer", ["1", "2"])
def test_a_merged_range_begins_after_all_its_parents(store, longer):
    """Whichever of them got further."""
    store.split("0")
    names = [name for name in NAMES if (key_of(name) >= 1 << 127) == (longer == "2")]
    add(store, names)
    child = store.merge("1", "2")
    spans = {of: store.find_span(of, child) for of in ("1", "2", child)}
    assert spans.pop(longer) == Span(0, len(names) - 1)
    assert spans.pop(child) == Span(len(names), None)
    assert list(spans.values()) == [Span(0, -1)]


def test_a_page_looks_through_so_much_and_no_more(store, monkeypatch):
    """Keys that nobody has move it on, a segment at a time."""
    monkeypatch.setattr(module, "SCAN_LSNS", 10)
    add(store, NAMES)
    nobodys = max(key_of(name) for name in NAMES) + 1
    found = [store.read_window("0", "0", lsn, KeyRange(nobodys, nobodys + 1), 5) for lsn in (0, 10, 35, 40)]
    assert [(window.rows, window.next_lsn) for window in found] == [((), 10), ((), 20), ((), 40), ((), 40)]
    assert store.read_window("0", "0", 0, ALL_KEYS, 100).next_lsn == 10


def test_a_page_has_so_many_bytes_and_at_least_a_change(store, monkeypatch):
    monkeypatch.setattr(module, "PAGE_BYTES", 500)
    add(store, ["a" * 1000, "b" * 50, "c" * 50, "d"])
    lengths, lsn = [], 0
    while (window := store.read_window("0", "0", lsn, ALL_KEYS, 100)).rows:
        lengths.append(len(window.rows))
        lsn = window.next_lsn
    assert lengths == [1, 2, 1]


def test_a_reader_that_is_ahead_of_a_live_range(store):
    """As after the database was replaced by an old copy; an archive just has been read."""
    add(store, ["a"])
    assert store.read_window("0", "0", 2, ALL_KEYS, 1).ahead == 1
    store.split("0")
    assert store.read_window("0", "1", 2, ALL_KEYS, 1) == Window((), 2)


def test_an_lsn_that_is_given_again_has_another_mark(store):
    """As after the database was replaced by an old copy. A reader without a mark is not asked for one."""
    add(store, ["a"])
    add(store, ["b", "c"])
    first, second = (store.read_window("0", "0", lsn, ALL_KEYS, 1).mark for lsn in (0, 1))
    assert first != second == store.read_window("0", "0", 2, ALL_KEYS, 1).mark
    assert store.read_window("0", "0", 2, ALL_KEYS, 9, second).other is None
    assert store.read_window("0", "0", 1, ALL_KEYS, 9, second).other == first
    assert store.read_window("0", "0", 3, ALL_KEYS, 9, first).other == second
    assert store.read_window("0", "0", 3, ALL_KEYS, 9).other is None


def test_a_database_of_before_marks_is_read_on(tmp_path):
    """Its changes have none; new ones do."""
    store = FeedStore(tmp_path)
    add(store, ["a"])
    store.close()
    old = sqlite3.connect(tmp_path / "feed.sqlite")
    old.execute("ALTER TABLE changes DROP COLUMN mark")
    old.execute("ALTER TABLE files DROP COLUMN ctime_ns")
    old.execute("PRAGMA user_version=1")
    old.close()
    store = FeedStore(tmp_path)
    assert store.read_window("0", "0", 0, ALL_KEYS, 1) == Window(ANY, 1, None)
    assert store.read_window("0", "0", 1, ALL_KEYS, 9, "x") == Window((), 1)
    add(store, ["b"], files=[File("b", 1, 2, 3, 4, bytes(32))])
    assert store.find_files(["b"])["b"].ctime_ns == 4
    window = store.read_window("0", "0", 1, ALL_KEYS, 9)
    assert window is not None
    assert window.mark
    store.close()


def test_what_is_older_than_it_is_kept_is_dropped(store):
    """Of closed ranges too; what LSNs they have stays known. LSN 0 is the oldest that is kept."""
    add(store, ["a", "b"], at_s=100)
    add(store, ["c"], at_s=200)
    store.split("0")
    store.forget(150, now_s=150)
    assert store.read_window("0", "1", 1, ALL_KEYS, 10).expired == 2
    assert rows(store, "0", "1") == [(2, "c")]
    assert rows(store, "0", "1", 2) == [(2, "c")]
    store.forget(300, now_s=300)
    assert rows(store, "0", "1") == []
    assert store.read_window("0", "1", 2, ALL_KEYS, 10).expired == 3
    assert store.find_span("0", "1") == Span(0, 2)
    store.forget(300, now_s=300)


def test_a_reader_from_the_start_begins_with_what_is_kept(store, monkeypatch):
    """However much was dropped before it: it is never told that it is too late."""
    monkeypatch.setattr(module, "SCAN_LSNS", 5)
    add(store, NAMES[:20], at_s=100)
    add(store, NAMES[20:22], at_s=200)
    store.forget(150, now_s=150)
    assert rows(store, "0") == [(20, NAMES[20]), (21, NAMES[21])]


def seen(number, sha256=bytes(32)):
    return File(f"f{number}", 1, number, number, number, sha256)


def test_files_that_are_there_are_told_to_whoever_begins_anew(store, monkeypatch):
    """Each as it is now, under a new LSN, however long ago it was published; what has gone is not."""
    monkeypatch.setattr(module, "DROP_LSNS", 3)
    add(store, ["f0", "f1", "f2", "f3"], at_s=100, files=map(seen, range(4)))
    again = [NewChange("f1", 1, b"1" * 32), NewChange("f3")]
    store.publish(again, at_s=110, files=[seen(1, b"1" * 32)], removed=["f3"])
    store.publish([NewChange("f2")], at_s=120, removed=["f2"])
    store.forget(200, now_s=300)
    assert rows(store, "0") == [(7, "f0"), (8, "f1")]
    assert [row.sha256 for row in store.read_window("0", "0", 0, ALL_KEYS, 9).rows] == [bytes(32), b"1" * 32]
    assert store.read_window("0", "0", 6, ALL_KEYS, 9).expired == 7
    assert store.read_window("0", "0", 7, ALL_KEYS, 9).expired is None


def test_what_is_told_again_stays_as_long_as_a_change(store):
    """It is as young as any change that is published now."""
    add(store, ["f0", "f1"], at_s=100, files=map(seen, range(2)))
    store.publish([NewChange("f1"), NewChange("f1")], at_s=100, removed=["f1"])
    store.forget(200, now_s=300)
    assert rows(store, "0") == [(4, "f0")]
    store.publish([NewChange("f0")], at_s=300, removed=["f0"])
    store.forget(299, now_s=300)
    assert rows(store, "0") == [(4, "f0"), (5, "f0")]


def test_nothing_is_told_again_for_a_few_that_go(store):
    """Every follower is told: only when as many go for good. Nor while those that will go are still young."""
    names = [f"f{number}" for number in range(4)]
    add(store, names, at_s=100, files=map(seen, range(4)))
    store.publish([NewChange("f0"), NewChange("x"), NewChange("x")], at_s=100, removed=["f0"])
    before = rows(store, "0")
    store.publish([NewChange("x")] * 9, at_s=250)
    store.publish([NewChange("f1")], at_s=250, removed=["f1"])
    store.forget(99, now_s=300)
    assert rows(store, "0")[:7] == before
    store.publish([], at_s=250, files=[seen(0), seen(1)])
    store.forget(200, now_s=300)
    assert rows(store, "0")[:7] == before
    store.forget(260, now_s=300)
    assert [path for _, path in rows(store, "0")] == names


def test_little_that_has_gone_is_kept_beside_many_files(store):
    """Even if all that is old has gone: there is nothing to gain."""
    store.publish([NewChange("x")], at_s=100)
    add(store, ["f0", "f1", "f2"], at_s=300, files=map(seen, range(3)))
    store.forget(200, now_s=300)
    assert rows(store, "0")[0] == (0, "x")


def test_a_change_to_a_file_alone_drops_nothing(store):
    """One of many: all would be told again."""
    add(store, ["f0", "f1", "f2"], at_s=100, files=map(seen, range(3)))
    store.publish([NewChange("f2")], at_s=300, removed=["f2"])
    store.forget(200, now_s=300)
    assert len(rows(store, "0")) == 4


def test_a_range_waits_for_what_it_archives(store):
    """Who has read some of a closed range goes on with the first LSN of its children; clocks may go back."""
    add(store, ["a"], at_s=100)
    add(store, ["b"], at_s=500)
    store.split("0")
    add(store, NAMES, at_s=100)
    store.forget(200, now_s=600)
    first = store.read_window("0", "1", 0, ALL_KEYS, 9)
    assert [(row.lsn, row.path) for row in first.rows] == [(1, "b")]
    assert first.next_lsn == 2
    assert all(store.read_window(of, of, 2, ALL_KEYS, 99).expired is None for of in live(store))
    store.forget(600, now_s=600)
    assert all(rows(store, of) == [] for of in live(store))


def test_what_stands_in_the_way(store):
    """Files above a path, and below it; siblings of like names do not."""
    names = ["a", "b/c/d", "b/cc", "e/f", "e.f", "e0"]
    add(store, names, files=[File(name, 1, 1, 1, 1, bytes(32)) for name in names])
    assert store.find_obstacles(["a/x/y"]) == ["a"]
    assert store.find_obstacles(["b/c"]) == ["b/c/d"]
    assert store.find_obstacles(["b", "e"]) == ["b/c/d", "b/cc", "e/f"]
    assert store.find_obstacles(["b/c/e", "f", "a2"]) == []


def test_many_paths_are_looked_up(store, monkeypatch):
    monkeypatch.setattr(module, "MAX_HOLES", 3)
    add(store, [], files=[File(name, 1, 1, 1, 1, bytes(32)) for name in NAMES])
    assert set(store.find_files([*NAMES, "other"])) == set(NAMES)
    assert store.list_files_after("", 100) == sorted(NAMES)


def test_a_full_disk_is_told_and_the_store_goes_on(store):
    """The transaction that did not fit is undone."""
    add(store, ["a"])
    store._database._writer.execute("PRAGMA max_page_count=16")
    with pytest.raises(LocalFault, match="FULL"):
        add(store, [f"{number}" * 200 for number in range(1000)])
    store._database._writer.execute("PRAGMA max_page_count=1000000")
    add(store, ["b"])
    assert rows(store, "0") == [(0, "a"), (1, "b")]


def list_open(folder):
    """The files below it that this process has open: how many there are elsewhere, is other tests' affair."""
    names = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]
    return [name for name in names if name.startswith(str(folder))]


def test_closing_lets_go(tmp_path):
    store = FeedStore(tmp_path)
    assert list_open(tmp_path)
    store.close()
    assert list_open(tmp_path) == []
