"""The timeline's files in a bucket: as atomic as a directory's, and by the store's clock."""

import asyncio
import threading
import time

import pytest

from cfetch.base.errors import ConfigError, NewerRecord, VolumeFault
from cfetch.storage.buckets import object_versions as versions
from cfetch.storage.buckets.object_versions import VersionedObjects, _Objects
from cfetch.timeline import bucket_index as index_room
from cfetch.timeline.bucket_files import DATA, BucketFiles
from cfetch.timeline.bucket_index import INDEX
from cfetch.timeline.clean import clean
from cfetch.timeline.execution import Execution, schedule, start
from cfetch.timeline.frozen_plans import remove_frozen
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import sign
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Action, InstantFile, Kind, State
from cfetch.timeline.table import open_table, this_node
from cfetch.timeline.tidying import tidy_up
from tests.timeline.files_contract import check_operations


@pytest.fixture
def files(bucket):
    return BucketFiles(bucket.url)


def test_what_the_operations_promise(files):
    """The same as in a directory, as far as the timeline needs it."""
    check_operations(files)
    files.make_directory("a/b")
    files.create("a/b/f", b"")
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory("a/b")
    files.rename("a/g", "a/b/f")
    assert files.read("a/b/f") == b"123xx"
    for gone in ("a/g", "a/h"):
        with pytest.raises(FileNotFoundError):
            files.rename(gone, "a/b/f")
        with pytest.raises(FileNotFoundError):
            files.unlink(gone)
        with pytest.raises(FileNotFoundError):
            files.modified_s(gone)


def test_large_files_are_objects_of_their_own(files, bucket, tmp_path):
    """They go with their names; a copy on another machine is whole."""
    large = bytes(range(256)) * 200
    files.create("large", large)
    assert len(bucket.get(INDEX)) < len(large)
    assert files.read("large") == large
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    (here / "entries").write_bytes(large)
    files.put_directory("plans/i", here)
    (here / "entries").write_bytes(b"newer")
    files.put_directory("plans/i", here)
    files.get_directory("plans/i", there)
    assert (there / "entries").read_bytes() == b"newer"
    files.unlink("plans/i/entries")
    files.unlink("large")
    assert [key for key in bucket.keys() if key.startswith(DATA)] == []  # noqa: SIM118 - no mapping
    with pytest.raises(FileNotFoundError):
        files.get_directory("plans/i", there)


def test_of_many_writers_each_is_heard(bucket):
    """No write is lost, and of those who want one name one gets it."""
    won, threads = [], []

    def work(number):
        files = BucketFiles(bucket.url)
        for turn in range(4):
            files.create(f"{number}-{turn}", b"")
            try:
                files.create(f"turn {turn}", b"")
                won.append(turn)
            except FileExistsError:
                pass

    for number in range(4):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [0, 1, 2, 3]
    assert len(BucketFiles(bucket.url).names(".")) == 16 + 4


@pytest.mark.parametrize("answer", ["lost", "error"])
def test_a_write_whose_answer_was_lost_counts_once(files, monkeypatch, answer):
    """The writer finds its own name in the index, also if another has written since."""
    other = BucketFiles(files.url)
    swap = VersionedObjects.swap
    times: list[int] = []

    def forgetful(self, key, data, tag):
        kept = swap(self, key, data, tag)
        if self is files._objects and kept and not times:
            times.append(1)
            other.create("another", b"")
            if answer == "error":
                raise VolumeFault("no answer")
            return False
        return kept

    monkeypatch.setattr(VersionedObjects, "swap", forgetful)
    files.create("f", b"1")
    files.rename("f", "g")
    assert sorted(files.names(".")) == ["another", "g"]


def test_a_connection_that_is_lost_now_and_then_ends_nothing(files, monkeypatch):
    """A run that looks every second, and beats for days, meets one."""
    swap, read = _Objects.swap, _Objects.read_version
    asked = []

    async def swap_badly(self, key, data, tag):
        asked.append(key)
        if len(asked) % 3:
            raise VolumeFault("the connection was reset")
        return await swap(self, key, data, tag)

    async def read_badly(self, key, known=None):
        asked.append(key)
        if len(asked) % 2:
            raise VolumeFault("the body was cut")
        return await read(self, key, known)

    monkeypatch.setattr(_Objects, "read_version", read_badly)
    files.create("f", b"1")
    assert files.read("f") == b"1"
    monkeypatch.setattr(_Objects, "read_version", read)
    asked.clear()
    monkeypatch.setattr(_Objects, "swap", swap_badly)
    files.rename("f", "g")
    assert (files.names("."), len(asked)) == (["g"], 3)


def test_a_store_whose_answer_was_lost_keeps_to_conditions(files, monkeypatch):
    """The library makes such a write again, and that one is refused; the object is there."""
    swap = _Objects.swap

    async def forget(self, key, data, tag):
        return await swap(self, key, data, tag) and data not in (b"1", b"3")

    monkeypatch.setattr(_Objects, "swap", forget)
    files.prove()


def test_an_index_that_is_as_it_was_is_not_sent_again(files, monkeypatch):
    """A run looks at it once a second; another's change, of the same length too, is seen at once."""
    other = BucketFiles(files.url)
    files.create("f", b"1")
    read = VersionedObjects.read
    sent: list[bool] = []

    def note(self, key, known=None):
        version = read(self, key, known)
        sent.append(version is not known)
        return version

    monkeypatch.setattr(VersionedObjects, "read", note)
    assert [files.read("f"), files.read("f"), files.read("f")] == [b"1"] * 3
    assert sent == [True, False, False]
    monkeypatch.setattr(VersionedObjects, "read", read)
    other.rewrite("f", b"1", b"2")
    assert (files.read("f"), files.modified_s("f")) == (b"2", other.modified_s("f"))


def test_one_look_answers_all_reads_until_this_process_writes(files, bucket):
    """What others do meanwhile is seen with the next look."""
    other = BucketFiles(bucket.url)
    files.create("f", b"1")
    bucket.server.take_asked()
    with files.index.read_once():
        assert (files.names("."), files.read("f"), files.modified_s("f") > 0) == (["f"], b"1", True)
        assert bucket.server.take_asked() == {"GET": 1}
        other.create("g", b"2")
        assert files.names(".") == ["f"]
        files.create("h", b"3")
        assert sorted(files.names(".")) == ["f", "g", "h"]
        other.unlink("g")
        files.index.forget_look()
        assert sorted(files.names(".")) == ["f", "h"]
        other.unlink("h")
    assert files.names(".") == ["f"]


@pytest.mark.parametrize("how", ["ignored", "refused"])
def test_a_store_without_conditions_is_refused(files, bucket, how):
    """It would let two runs have one plan; nothing is left there."""
    bucket.server.treat_conditions(how)
    try:
        with pytest.raises(ConfigError, match=r"conditional writes.* with --state"):
            files.prove()
    finally:
        bucket.server.treat_conditions("kept")
    assert bucket.keys() == []
    files.prove()
    assert bucket.keys() == []


def test_the_store_dates_the_files(files, bucket, tmp_path):
    """A machine whose clock is two hours ahead does not take a new plan for an old one."""
    files.create("f", b"")
    written_s = files.modified_s("f")
    time.sleep(1.1)
    files.create("g", b"")
    assert (files.modified_s("f"), files.modified_s("g") > written_s) == (written_s, True)
    node = this_node()._replace(wall=lambda: time.time() + 7200)
    beats = Heartbeats()
    with open_table(tmp_path, [tmp_path], beats, node, bucket=bucket.url) as table:
        entry = InstantFile(table.new_instant(), Action.DOWNLOAD, State.REQUESTED)
        record = PlanRecord(
            kind=Kind.REMOVABLE, fingerprint="f", manifest="m", destinations=(), files=1, bytes=1
        )
        table.store.put(entry, record)
        with table.lock.hold() as now_s:
            assert 0 <= table.pending_s(entry, now_s) < 60


@pytest.mark.parametrize("step", ["read_version", "swap"])
def test_a_process_that_stood_still_inside_a_request_asks_again(files, bucket, monkeypatch, step):
    """As a laptop that slept: that the time was over says nothing about the store."""
    files.create("f", b"1")
    monkeypatch.setattr(versions, "STILL_S", 0.2)
    monkeypatch.setattr(versions, "QUICK_S", 0.1)
    monkeypatch.setattr(index_room, "QUICK_S", 0.1)
    objects = files.index._objects._objects
    asks, stops = getattr(objects, step), iter([1.0])

    async def stands_still_once(*arguments):
        for seconds in stops:
            time.sleep(seconds)
            raise VolumeFault("the store did not answer within 30 s")
        return await asks(*arguments)

    monkeypatch.setattr(objects, step, stands_still_once)
    files.rename("f", "g")
    assert files.names(".") == ["g"]


def test_a_store_that_fails_slowly_is_not_asked_again(files, monkeypatch):
    """It is down, and the process has not stood still."""
    monkeypatch.setattr(versions, "QUICK_S", 0.1)
    asked = []

    async def fails(*_):
        asked.append(1)
        await asyncio.sleep(0.2)
        raise VolumeFault("it is down")

    monkeypatch.setattr(files.index._objects._objects, "read_version", fails)
    with pytest.raises(OSError, match="it is down"):
        files.names(".")
    assert len(asked) == 1


def test_a_newer_index_is_left_alone(files, bucket):
    """The error says what helps."""
    bucket.put(INDEX, b'{"schema": "cfetch.bucket-timeline/2"}')
    with pytest.raises(NewerRecord, match="newer version"):
        files.create("f", b"")
    bucket.put(INDEX, b"{")
    with pytest.raises(OSError, match="damaged"):
        files.names(".")


def asked_of(bucket, folder, plans):
    """The requests of all who read the timeline, in a prefix of its own that holds so many plans."""
    folder.mkdir()
    frozen = folder / "frozen"
    frozen.mkdir()
    sign(frozen)
    (frozen / "entries").write_bytes(b"e")
    asked = {}
    with open_table(folder, [folder], Heartbeats(), bucket=f"{bucket.url}/{plans}") as table:
        assert table.bucket is not None
        for number in range(2 * plans):
            record = PlanRecord(
                kind=Kind.IMMUTABLE, fingerprint=str(number), manifest="m", destinations=(), files=1, bytes=1
            )
            instant = schedule(table, table.new_instant(), record)
            table.bucket.put_directory(f"plans/{instant}", frozen)
            if number % 2:
                execution = start(table, instant, on_lost=lambda _: None)
                assert isinstance(execution, Execution)
                execution.commit(files=1, size_bytes=1)
                remove_frozen(table.bucket, instant)
        bucket.server.take_asked()
        steps = {
            "schedule": lambda: schedule(table, instant, record),
            "clean": lambda: clean(table, delay_s=0.0, keep_s=3600.0),
            "archive": lambda: tidy_up(table, 0.0),
        }
        for name, step in steps.items():
            step()
            asked[name] = bucket.server.take_asked()
        assert len(table.store.entries()) == plans + 1
    return asked


def test_no_request_for_each_plan(bucket, tmp_path):
    """A list is one object, and so is the archive; a few requests read and change all of it."""
    assert asked_of(bucket, tmp_path / "few", 1) == asked_of(bucket, tmp_path / "many", 3)
