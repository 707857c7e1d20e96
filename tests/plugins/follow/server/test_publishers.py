"""A directory and a growing list as feeds: what is found, when it is taken, and what changes meanwhile."""

import errno
import hashlib
import json
import os
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import UsageError
from cfetch.plugins.follow.ranges import ALL_KEYS
from cfetch.plugins.follow.server import stream_publisher, tree_publisher
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.server.store import FeedStore
from cfetch.plugins.follow.server.stream_publisher import StreamPublisher
from cfetch.plugins.follow.server.tree_publisher import TreePublisher
from cfetch.storage.tree import ReadOnlyTree


@pytest.fixture
def store(tmp_path):
    store = FeedStore(tmp_path / "state")
    yield store
    store.close()


def told(store, next_lsn=0):
    """Path and size (None: a delete) of what was published into a feed of one range."""
    window = store.read_window("0", "0", next_lsn, ALL_KEYS, 10_000)
    return [(row.path, row.size_bytes) for row in window.rows]


class Tree:
    """A directory, and its publisher."""

    def __init__(self, root, store, **how):
        self.root = root
        root.mkdir(exist_ok=True)
        self.store = store
        self.said: list[str] = []
        self.stop = threading.Event()
        self.publisher = TreePublisher(
            root, store, clock=SystemClock(), emit_line=self.said.append, **({"settle_s": 0} | how)
        )

    def write(self, path, text="x"):
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)

    def scan(self):
        """What it has published."""
        before = len(told(self.store))
        found = self.publisher.scan(self.stop)
        changes = told(self.store)[before:]
        assert len(changes) == found
        return changes


@pytest.fixture
def tree(tmp_path, store):
    return Tree(tmp_path / "tree", store)


# --- a directory


def test_files_come_change_and_go(tree):
    tree.write("a", "one")
    tree.write("b/c", "three")
    assert sorted(tree.scan()) == [("a", 3), ("b/c", 5)]
    assert tree.scan() == []
    tree.write("a", "another")
    (tree.root / "b/c").unlink()
    assert tree.scan() == [("a", 7), ("b/c", None)]
    tree.write("b/c", "three")
    assert tree.scan() == [("b/c", 5)]


def test_what_is_published_is_its_hash(tree):
    tree.write("a", "one")
    tree.scan()
    (row,) = tree.store.read_window("0", "0", 0, ALL_KEYS, 1).rows
    assert row.sha256 == hashlib.sha256(b"one").digest()


def test_only_what_has_changed_is_hashed(tree, monkeypatch):
    """Size, time and inode tell; the same bytes under a new time are no new version."""
    for name in "abc":
        tree.write(name)
    tree.scan()
    hashed = []
    open_file = ReadOnlyTree.open_file

    def opened(self, path):
        if not path.startswith(STATE_DIRECTORY):
            hashed.append(path)
        return open_file(self, path)

    monkeypatch.setattr(ReadOnlyTree, "open_file", opened)
    os.utime(tree.root / "b", (1, 1))
    assert tree.scan() == []
    assert hashed == ["b"]
    assert tree.scan() == []
    assert hashed == ["b"]
    (tree.root / "new").write_text("y")
    os.utime(tree.root / "new", ns=(0, (tree.root / "c").stat().st_mtime_ns))
    (tree.root / "new").rename(tree.root / "c")
    assert tree.scan() == [("c", 1)]


def test_an_edit_that_sets_the_time_back_is_found(tree):
    """Size, modification time and inode are as before: the time of the last status change tells."""
    tree.write("a", "one")
    tree.scan()
    before = (tree.root / "a").stat()
    with (tree.root / "a").open("r+") as file:
        file.write("two")
    os.utime(tree.root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    while (tree.root / "a").stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock ticks in ms
        os.utime(tree.root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree.scan() == [("a", 3)]


def test_a_file_that_is_being_written_waits(tmp_path, store):
    """Until it has stood still; one from the future does not wait for ever."""
    tree = Tree(tmp_path / "tree", store, settle_s=3600)
    for name, age_s in {"now": 5, "hour": 3700, "future": -10_000}.items():
        tree.write(name)
        os.utime(tree.root / name, (time.time() - age_s,) * 2)
    assert sorted(tree.scan()) == [("future", 1), ("hour", 1)]
    os.utime(tree.root / "now", (1, 1))
    assert tree.scan() == [("now", 1)]


def test_a_file_that_changes_while_it_is_hashed_waits(tree, monkeypatch):
    """Its hash would be of bytes that never stood together."""
    tree.write("a", "before")
    open_file = ReadOnlyTree.open_file

    def opened(self, path):
        descriptor = open_file(self, path)
        with (tree.root / "a").open("a") as file:
            file.write("more")
        return descriptor

    monkeypatch.setattr(ReadOnlyTree, "open_file", opened)
    assert tree.scan() == []
    monkeypatch.undo()
    assert tree.scan() == [("a", 10)]


def test_a_file_that_goes_while_it_is_looked_at(tree, monkeypatch):
    tree.write("a")
    tree.write("b")
    open_file = ReadOnlyTree.open_file

    def opened(self, path):
        (tree.root / "b").unlink(missing_ok=True)
        return open_file(self, path)

    monkeypatch.setattr(ReadOnlyTree, "open_file", opened)
    assert tree.scan() == [("a", 1)]
    monkeypatch.undo()
    assert tree.scan() == []


def test_what_cannot_be_published_is_left_out_and_told_once(tree):
    """Symlinks, special files, names that are no paths; the rest is published."""
    tree.write("good")
    (tree.root / "link").symlink_to("good")
    (tree.root / "up").symlink_to("..")
    os.mkfifo(tree.root / "fifo")
    (tree.root / ".cfetch").mkdir()
    tree.write(".cfetch/lock")
    tree.write(".cfetch-feed/feed.sqlite")
    tree.write("new\nline")
    with open(os.fsencode(tree.root) + b"/\xff", "w"):
        pass
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree.root / "socket"))
    assert tree.scan() == [("good", 1)]
    assert len(tree.said) == 6
    assert sum("symlink or a special file" in line for line in tree.said) == 4
    assert sum("no feed can name it" in line for line in tree.said) == 2
    assert tree.scan() == []
    assert len(tree.said) == 6


def test_not_every_file_that_is_left_out_is_told(tree, monkeypatch):
    monkeypatch.setattr(tree_publisher, "MAX_TOLD", 3)
    for number in range(20):
        (tree.root / f"link{number}").symlink_to("x")
    tree.scan()
    assert len(tree.said) == 4
    assert "not named" in tree.said[-1]


def test_a_directory_in_a_files_place_and_back(tree):
    """What stood in the way has gone before what comes."""
    tree.write("a")
    tree.write("b/c/d")
    tree.scan()
    (tree.root / "a").unlink()
    tree.write("a/x/y", "12")
    (tree.root / "b/c/d").unlink()
    (tree.root / "b/c").rmdir()
    (tree.root / "b").rmdir()
    tree.write("b", "34")
    changes = tree.scan()
    assert sorted(changes, key=str) == [("a", None), ("a/x/y", 2), ("b", 2), ("b/c/d", None)]
    assert changes.index(("a", None)) < changes.index(("a/x/y", 2))
    assert changes.index(("b/c/d", None)) < changes.index(("b", 2))
    assert tree.scan() == []


def test_a_file_that_became_a_symlink_has_gone(tree):
    """And so has what lies beneath a directory that became one."""
    tree.write("a")
    tree.write("d/e")
    tree.scan()
    (tree.root / "a").unlink()
    (tree.root / "a").symlink_to("d/e")
    (tree.root / "d").rename(tree.root.parent / "elsewhere")
    (tree.root / "d").symlink_to(tree.root.parent / "elsewhere")
    assert sorted(tree.scan()) == [("a", None), ("d/e", None)]


def test_what_cannot_be_looked_at_has_not_gone(tree, monkeypatch):
    """A disk that fails deletes nothing."""
    tree.write("a")
    tree.write("d/e")
    tree.scan()
    (tree.root / "d/e").unlink()
    (tree.root / "a").unlink()
    size_of = ReadOnlyTree.size_of

    def failing(self, path):
        if path == "a":
            raise OSError(errno.EIO, "broken")
        return size_of(self, path)

    monkeypatch.setattr(ReadOnlyTree, "size_of", failing)
    assert tree.scan() == [("d/e", None)]


def test_another_directory_of_the_name_deletes_nothing(tree):
    """As when a disk is not mounted."""
    tree.write("a")
    tree.scan()
    tree.root.rename(tree.root.with_name("old"))
    with pytest.raises(UsageError, match="cannot read the directory"):
        tree.scan()
    tree.root.mkdir()
    with pytest.raises(UsageError, match="another directory"):
        tree.scan()
    assert told(tree.store) == [("a", 1)]


def test_a_directory_without_the_marker_deletes_nothing(tmp_path, store):
    """As when the server starts again before the disk is mounted; new files there are not published."""
    tree = Tree(tmp_path / "tree", store)
    tree.write("a")
    tree.scan()
    tree.root.rename(tmp_path / "disk")
    tree = Tree(tmp_path / "tree", store)
    tree.write("b")
    with pytest.raises(UsageError, match=r"lacks the marker .*--max-delete 100%"):
        tree.scan()
    assert told(store) == [("a", 1)]
    (tree.root / "b").unlink()
    tree.root.rmdir()
    (tmp_path / "disk").rename(tree.root)
    assert Tree(tree.root, store).scan() == []


def test_another_directory_is_taken_if_a_person_says_so(tmp_path, store):
    """And from then on it is the feed's."""
    tree = Tree(tmp_path / "tree", store)
    tree.write("a")
    tree.scan()
    tree.root.rename(tmp_path / "old")
    tree = Tree(tmp_path / "tree", store, max_delete=1.0)
    tree.write("b")
    assert tree.scan() == [("b", 1), ("a", None)]
    tree = Tree(tree.root, store)
    tree.write("c")
    assert tree.scan() == [("c", 1)]


def test_a_state_within_the_directory_needs_no_marker(tmp_path):
    """It goes where the directory goes."""
    store = FeedStore(tmp_path / "tree" / STATE_DIRECTORY)
    tree = Tree(tmp_path / "tree", store)
    tree.write("a")
    tree.scan()
    store.close()
    assert {path.name for path in (tree.root / STATE_DIRECTORY).iterdir()} == {"feed.sqlite", "lock"}


def test_a_directory_that_cannot_be_marked_is_told_once(tmp_path, store):
    """Such as one that is read-only: only the number of deletes guards it."""
    tree = Tree(tmp_path / "tree", store)
    (tree.root / STATE_DIRECTORY).write_text("in the way")
    tree.write("a")
    assert tree.scan() == [("a", 1)]
    tree.write("b")
    assert tree.scan() == [("b", 1)]
    assert ["--max-delete" in line for line in tree.said] == [True]


@pytest.mark.parametrize(("max_delete", "allowed"), [(0.1, 20), (0.01, 10), (0, 0), (50, 50)])
def test_many_files_that_are_missing_at_once_have_not_gone(tmp_path, store, max_delete, allowed):
    """None of them is deleted; other changes are published, and fewer at a time go."""
    tree = Tree(tmp_path / "tree", store, max_delete=max_delete)
    for n in range(200):
        tree.write(f"d/{n}")
    tree.scan()
    for n in range(allowed + 1):
        (tree.root / f"d/{n}").unlink()
    tree.write("new")
    with pytest.raises(UsageError, match=f"{allowed + 1} of 201 files have gone .* allows {allowed};"):
        tree.scan()
    assert told(store, 200) == [("new", 1)]
    tree.write("d/0")
    assert sorted(tree.scan()) == sorted((f"d/{n}", None) for n in range(1, allowed + 1))


def test_a_disk_below_that_is_not_mounted_deletes_nothing(tmp_path, store, monkeypatch):
    """However few files it has; once it is mounted again, what has gone from it has gone."""
    mounted = {"a/disk"}
    device_of = ReadOnlyTree.device_of

    def devices(self, path):
        real = device_of(self, path)
        is_there = any(path == mount or path.startswith(f"{mount}/") for mount in mounted)
        return real and real + is_there

    regular_files = ReadOnlyTree.regular_files

    def files(self, leave_out):
        for path, status, why in regular_files(self, leave_out):
            shown: Any = status
            if status is not None and any(path.startswith(f"{mount}/") for mount in mounted):
                fields = {
                    name: getattr(status, name)
                    for name in ("st_size", "st_mtime_ns", "st_ino", "st_ctime_ns")
                }
                shown = SimpleNamespace(**fields, st_dev=status.st_dev + 1)
            yield path, shown, why

    monkeypatch.setattr(ReadOnlyTree, "device_of", devices)
    monkeypatch.setattr(ReadOnlyTree, "regular_files", files)
    tree = Tree(tmp_path / "tree", store)
    for path in ("a/disk/d/1", "a/disk/2", "a/3", "4"):
        tree.write(path)
    tree.scan()
    disk = tree.root / "a/disk"
    disk.rename(tmp_path / "unmounted")
    disk.mkdir()
    mounted.clear()
    (tree.root / "a/3").unlink()
    assert Tree(tree.root, store).scan() == [("a/3", None)]
    disk.rmdir()
    tree = Tree(tree.root, store)
    assert (tree.scan(), [line.partition(":")[0] for line in tree.said]) == ([], ["a/disk"])
    (tmp_path / "unmounted").rename(disk)
    (disk / "2").unlink()
    mounted.add("a/disk")
    assert tree.scan() == [("a/disk/2", None)]


def test_a_scan_that_is_broken_off_is_gone_on_with(tree, monkeypatch):
    """What it had found stays; nothing is taken for gone that was not reached."""
    monkeypatch.setattr(tree_publisher, "BATCH", 10)
    for number in range(100):
        tree.write(f"{number}")
    open_file, opens = ReadOnlyTree.open_file, []

    def opened(self, path):
        opens.append(path)
        if len(opens) == 35:
            tree.stop.set()
        return open_file(self, path)

    monkeypatch.setattr(ReadOnlyTree, "open_file", opened)
    first = tree.scan()
    assert 30 <= len(first) < 40
    tree.stop.clear()
    second = tree.scan()
    assert sorted(first + second) == sorted((f"{number}", 1) for number in range(100))
    for number in range(50):
        (tree.root / f"{number}").unlink()
    tree.stop.set()
    assert tree.scan() == []


def test_large_files_are_published_on_the_way(tmp_path, store, monkeypatch):
    """Not only when a thousand of them have been hashed."""
    monkeypatch.setattr(tree_publisher, "FLUSH_S", 0.0)
    tree = Tree(tmp_path / "tree", store)
    for name in "abc":
        tree.write(name)
    seen = []
    open_file = ReadOnlyTree.open_file

    def opened(self, path):
        if not path.startswith(STATE_DIRECTORY):
            seen.append(len(told(store)))
        return open_file(self, path)

    monkeypatch.setattr(ReadOnlyTree, "open_file", opened)
    tree.scan()
    assert seen == [0, 1, 2]


def test_a_tree_that_changes_all_the_time(tmp_path, store, monkeypatch):
    """Files come, change and go while scans run; once it is quiet, one scan makes the feed the tree."""
    tree = Tree(tmp_path / "tree", store, max_delete=1000)
    monkeypatch.setattr(tree_publisher, "BATCH", 7)
    halt = threading.Event()

    def busy():
        number = 0
        while not halt.is_set():
            number += 1
            tree.write(f"d{number % 5}/{number % 37}", "x" * (number % 11))
            victim = tree.root / f"d{number % 5}/{(number * 7) % 37}"
            victim.unlink(missing_ok=True)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(30):
            tree.publisher.scan(tree.stop)
    finally:
        halt.set()
        thread.join()
    tree.publisher.scan(tree.stop)
    mirror: dict[str, int] = {}
    for path, size in told(tree.store):
        if size is None:
            assert mirror.pop(path, None) is not None, "a delete of what was not there"
        else:
            mirror[path] = size
    there = {
        str(path.relative_to(tree.root)): path.stat().st_size
        for path in tree.root.rglob("*")
        if path.is_file() and STATE_DIRECTORY not in path.parts
    }
    assert mirror == there


def test_old_changes_are_dropped_by_age(tmp_path, store):
    tree = Tree(tmp_path / "tree", store, keep_s=3600)
    tree.write("a")
    tree.scan()
    tree.write("b")
    tree.scan()
    (tree.root / "b").unlink()
    tree.scan()
    tree.write("a", "other")
    tree.scan()
    assert told(store) == [("a", 1), ("b", 1), ("b", None), ("a", 5)]
    tree.publisher._keep_s = -10
    tree.publisher.scan(tree.stop)
    assert told(store) == [("a", 5)]


# --- a stream


class Stream:
    """A file, and its publisher."""

    def __init__(self, path, store):
        self.path = path
        path.touch()
        self.store = store
        self.publisher = StreamPublisher(path, store, clock=SystemClock())

    def append(self, *rows, end="\n"):
        with self.path.open("a") as file:
            file.write("\n".join(json.dumps(row) for row in rows) + end)

    def scan(self):
        return self.publisher.scan(threading.Event())


@pytest.fixture
def stream(tmp_path, store):
    return Stream(tmp_path / "changes.jsonl", store)


def row(path, **more):
    return {"path": path, "url": f"https://x.test/{path}", **more}


def test_rows_are_published_once(stream):
    """In order; only whole lines count; blank ones are none."""
    stream.append(row("a", size=1), row("b"))
    assert stream.scan() == 2
    assert stream.scan() == 0
    stream.append(row("c"), {"op": "delete", "path": "a"}, end="")
    assert stream.scan() == 1
    stream.append(end="\n\n \n")
    assert stream.scan() >= 1
    window = stream.store.read_window("0", "0", 0, ALL_KEYS, 100)
    assert [(one.path, one.more is None) for one in window.rows] == [
        ("a", False),
        ("b", False),
        ("c", False),
        ("a", True),
    ]
    assert json.loads(window.rows[0].more) == {"url": "https://x.test/a", "size": 1}
    again = StreamPublisher(stream.path, stream.store, clock=SystemClock())
    assert again.scan(threading.Event()) == 0


def test_a_key_may_be_given(stream):
    stream.append(row("a", key="0" * 31 + "7"))
    stream.scan()
    assert stream.store.read_window("0", "0", 0, ALL_KEYS, 100).rows[0].key == 7


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"url": "https://x.test/a"}, "path: it is missing"),
        (row("../a"), "component"),
        (row("a", op="move"), "upsert"),
        (row("a", lsn=3), "lsn is given by the feed"),
        (row("a", sha256="0"), "sha256"),
        ([], "must be an object"),
        (row("a", batch=7), "batch"),
    ],
)
def test_a_row_that_breaks_the_rules_holds_up_the_rest(stream, bad, words):
    """It is named with its line; what stood before it is published; mended, it goes on."""
    stream.append(row("first"), bad, row("last"))
    for _ in range(2):
        with pytest.raises(UsageError, match=rf"changes\.jsonl:2: .*{words}"):
            stream.scan()
    assert told(stream.store) == [("first", None)]
    first, *_ = stream.path.read_text().splitlines(keepends=True)
    stream.path.write_text(first)
    stream.append(row("mended"), row("last"))
    assert stream.scan() == 2


@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_stream_that_is_another(stream, how):
    """What had been read must stand there still."""
    stream.append(row("a"), row("b"))
    stream.scan()
    text = stream.path.read_text()
    stream.path.write_text(text[:20] if how == "cut" else text.replace("x.test/b", "x.test/c"))
    stream.append(row("c"))
    with pytest.raises(UsageError, match="append to it only"):
        stream.scan()
    assert len(told(stream.store)) == 2


def test_a_long_stream_is_read_in_pieces(stream, monkeypatch):
    monkeypatch.setattr(stream_publisher, "BATCH", 3)
    monkeypatch.setattr(stream_publisher, "MAX_LINE_BYTES", 200)
    names = [f"f{number}" for number in range(50)]
    stream.append(*map(row, names))
    assert stream.scan() == 50
    assert [path for path, _ in told(stream.store)] == names
    stream.append(row("x" * 300))
    with pytest.raises(UsageError, match=r"jsonl:51: the line is longer than 200 bytes"):
        stream.scan()
