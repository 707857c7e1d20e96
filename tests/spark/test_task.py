"""Tasks without Spark: real files, a real origin, real receipts."""

import threading
from dataclasses import replace

import msgspec
import pytest

from cfetch.bench.content import Fixed, Synthetic
from cfetch.bench.faults import Fault
from cfetch.config.settings import Settings
from cfetch.errors import LocalFault
from cfetch.events import EntryFinished
from cfetch.hub.receipts import STOP_NAME, Living, Receipt, Receipts, leave_receipt
from cfetch.manifest.plan import freeze
from cfetch.run.fresh_links import ManifestRef
from cfetch.spark.shares import Pace, sharers, shares
from cfetch.spark.task import Copy, Done, Work, attempts_of, do_batch, own_settings
from cfetch.spark.work_file import Batch, read_batch, write_work
from tests.engine.drive import tree
from tests.spark.scene import asked, files_of, served, whole, write_manifest

FILES = files_of(12)


@pytest.fixture
def work(tmp_path):
    """A run's directories, as the driver makes them."""
    (tmp_path / "receipts").mkdir()
    attempts_of(tmp_path / "to", "i", 1).mkdir(parents=True)
    return Work(
        settings=Settings(to=(str(tmp_path / "to"),), concurrency=2, mitigation=False),
        headers=(),
        env={},
        origin=ManifestRef("m.json", None, None),
        instant="i",
        epoch=1,
        root=str(tmp_path / "to"),
        receipts=str(tmp_path / "receipts"),
        work_file=str(tmp_path / "work.parquet"),
        wall_start_s=0.0,
        part_s=0.0,
        at_a_time=2,
    )


def frozen(tmp_path, origin, files=FILES):
    directory = tmp_path / "plan"
    directory.mkdir(exist_ok=True)
    with write_manifest(tmp_path / "m.json", origin, files).open("rb") as source:
        return freeze(source, name="m.json", directory=directory)


def batch_of(tmp_path, origin, files=FILES):
    with frozen(tmp_path, origin, files) as plan:
        return Batch([plan.entry(index) for index in range(len(plan))], 1)


def receipts_in(tmp_path):
    return list(Receipts(tmp_path / "receipts").new(lambda _: True))


def statuses(receipts):
    events = [event for one in receipts for event in one.events if isinstance(event, EntryFinished)]
    return sorted((event.record.path, event.record.status) for event in events)


def one_at_a_time(work):
    return msgspec.structs.replace(work, settings=replace(work.settings, concurrency=1))


def test_a_batch_is_brought_to_its_end(tmp_path, work):
    """Every file in place and once in the receipts, the failed one too; no directory of its own stays."""
    lost = next(iter(FILES))
    with served(FILES, {lost: Fault(kind="status", status=404, first=0)}) as origin:
        done = do_batch(work, batch_of(tmp_path, origin), Copy(3, 7, 0))
    assert done == Done(batch=3, files=12, failed=1)
    assert tree(tmp_path / "to") == {name: data for name, data in whole(FILES).items() if name != lost}
    receipts = receipts_in(tmp_path)
    assert [(one.batch, one.task) for one in receipts if one.number is None] == [(3, 7)]
    assert statuses(receipts) == [(name, "failed" if name == lost else "done") for name in FILES]
    assert list(attempts_of(tmp_path / "to", "i", 1).iterdir()) == []


def test_a_batch_that_is_over_is_not_begun_again(tmp_path, work):
    """The executor died after the receipt and before Spark knew."""
    with served(FILES) as origin:
        batch = batch_of(tmp_path, origin)
        do_batch(work, batch, Copy(0, 1, 0))
        before = len(origin.requests)
        assert do_batch(work, batch, Copy(0, 2, 1)) == Done(batch=0, files=0, failed=0)
        assert len(origin.requests) == before
    assert len([one for one in receipts_in(tmp_path) if one.number is None]) == 1


@pytest.mark.parametrize("sizes", ["equal", "different", "one unknown"])
def test_a_second_copy_begins_at_the_other_end(tmp_path, work, sizes):
    """Whatever the order of the first is; so they meet in the middle."""
    files = (
        FILES
        if sizes == "equal"
        else {n: c for k in range(12) for n, c in files_of(1, 9 * k, str(k)).items()}
    )
    with served(files) as origin:
        batch = batch_of(tmp_path, origin, files)
        if sizes == "one unknown":
            batch.entries[5] = msgspec.structs.replace(batch.entries[5], size_bytes=None)
        do_batch(one_at_a_time(work), batch, Copy(0, 1, 0))
        first = [request.path for request in origin.requests]
        for path in tree(tmp_path / "to"):
            (tmp_path / "to" / path).unlink()
        do_batch(one_at_a_time(work), batch, Copy(1, 2, 1))
        second = [request.path for request in origin.requests[len(first) :]]
    assert second == first[::-1]


def test_a_second_copy_passes_over_what_the_first_has_published(tmp_path, work):
    """Two on one batch, one of them held up: each file is asked for once, but for the one in hand."""
    held = "0.big"
    files = {held: Synthetic(held, 4 << 20)} | FILES  # so large that a part of it would be kept
    with served(files, {held: Fault(kind="stall", after_bytes=3 << 20, first=1)}) as origin:
        batch = batch_of(tmp_path, origin, files)
        first = threading.Thread(target=do_batch, args=(one_at_a_time(work), batch, Copy(0, 1, 0)))
        first.start()
        own = attempts_of(tmp_path / "to", "i", 1) / "t1"
        while not own.exists() or not any(one.stat().st_size for one in own.iterdir()):
            assert first.is_alive()
        do_batch(one_at_a_time(work), batch, Copy(0, 2, 1))
        first.join(30)
        assert not first.is_alive()  # the receipt of the other one has ended it
        assert asked(origin) == {name: 2 if name == held else 1 for name in files}
    assert tree(tmp_path / "to") == whole(files)
    assert [one.task for one in receipts_in(tmp_path) if one.number is None] == [2]
    assert list(attempts_of(tmp_path / "to", "i", 1).iterdir()) == []


def test_a_batch_that_is_over_leaves_one_receipt(tmp_path, work):
    """It has everything that its parts have told, which are no more."""
    late = next(iter(FILES))
    with served(FILES, {late: Fault(kind="delay", delay_s=1.2, first=0)}) as origin:
        batch = batch_of(tmp_path, origin)
        task = threading.Thread(target=do_batch, args=(work, batch, Copy(0, 1, 0)))
        task.start()
        wait_for(tmp_path, "part-", task)
        task.join(30)
    assert [one.name for one in (tmp_path / "receipts").iterdir()] == ["batch-1-000000"]
    (found,) = receipts_in(tmp_path)
    assert found.first == 0
    assert statuses([found]) == [(name, "done") for name in FILES]


def test_a_task_goes_on_with_what_a_dead_run_has_left(tmp_path, work):
    """Its part is taken over, and only the rest of the file is asked for."""
    files = {"0.big": Synthetic("0.big", 4 << 20)} | FILES
    with served(files, {"0.big": Fault(kind="stall", after_bytes=3 << 20, first=1)}) as origin:
        batch = batch_of(tmp_path, origin, files)
        task = threading.Thread(target=do_batch, args=(work, batch, Copy(0, 1, 0)))
        task.start()
        wait_for(tmp_path, "part-", task)
        (tmp_path / "receipts" / STOP_NAME).touch()
        task.join(30)
        (tmp_path / "receipts" / STOP_NAME).unlink()
        left = attempts_of(tmp_path / "to", "i", 1) / "t1"
        left.rename(left.parent.with_name("2-1"))  # as the rollback of the first run does
        attempts_of(tmp_path / "to", "i", 2).mkdir()
        do_batch(msgspec.structs.replace(work, epoch=2), batch, Copy(0, 1, 0))
        again = [request for request in origin.requests if request.path == "0.big"][1]
        assert again.range == f"bytes={3 << 20}-"
    assert tree(tmp_path / "to") == whole(files)


def test_what_is_under_way_is_shown(tmp_path, work):
    """While it is, and no longer."""
    held = next(iter(FILES))
    living = Living(tmp_path / "receipts", 1, lambda: 0.0, silent_s=10.0)
    with served(FILES, {held: Fault(kind="stall", after_bytes=10, first=0)}) as origin:
        batch = batch_of(tmp_path, origin)
        task = threading.Thread(target=do_batch, args=(work, batch, Copy(0, 1, 0)))
        task.start()
        while not any(one.bytes == 10 for live in living.look() for one in live.active):
            assert task.is_alive()
        (tmp_path / "receipts" / STOP_NAME).touch()
        task.join(30)
    assert living.look() == []


def wait_for(tmp_path, prefix, task):
    while not any(one.name.startswith(prefix) for one in (tmp_path / "receipts").iterdir()):
        assert task.is_alive()


def test_what_has_ended_is_told_before_the_batch_is_over(tmp_path, work):
    """A task that dies has told what it did; a stop leaves the rest, and no receipt of the batch."""
    held = next(iter(FILES))
    with served(FILES, {held: Fault(kind="stall", after_bytes=10, first=0)}) as origin:
        batch = batch_of(tmp_path, origin)
        task = threading.Thread(target=do_batch, args=(work, batch, Copy(0, 1, 0)))
        task.start()
        wait_for(tmp_path, "part-", task)
        (tmp_path / "receipts" / STOP_NAME).touch()
        task.join(30)
        assert not task.is_alive()
    (tmp_path / "receipts" / STOP_NAME).unlink()
    receipts = receipts_in(tmp_path)
    assert None not in [one.number for one in receipts]
    assert statuses(receipts) == [(name, "cancelled" if name == held else "done") for name in FILES]


@pytest.mark.parametrize("trouble", ["not shared", "taken over", "unwritable"])
def test_an_executor_that_cannot_work_says_why(tmp_path, work, trouble):
    """A LocalFault, with a receipt that counts for nothing; no directory is made where none was."""
    epoch = attempts_of(tmp_path / "to", "i", 1)
    if trouble == "not shared":
        work = msgspec.structs.replace(work, root=str(tmp_path / "nowhere"))
    elif trouble == "taken over":
        epoch.rmdir()
    else:
        epoch.rmdir()
        epoch.write_bytes(b"")
    with served(FILES) as origin, pytest.raises(LocalFault) as caught:
        do_batch(work, batch_of(tmp_path, origin), Copy(0, 1, 0))
    assert ("must see the directory" in str(caught.value)) == (trouble != "unwritable")
    (found,) = receipts_in(tmp_path)
    assert found.fault == str(caught.value)
    assert found.events == []
    assert not (tmp_path / "nowhere").exists()


def test_a_fault_of_a_copy_whose_batch_is_over_is_none(tmp_path, work):
    """Another has done the work: Spark need not count a failure."""
    with served(FILES) as origin:
        batch = batch_of(tmp_path, origin)
    told = Receipt(instant="i", epoch=1, batch=0, task=1, attempt=0, number=None, events=[])
    assert leave_receipt(tmp_path / "receipts", told)
    attempts_of(tmp_path / "to", "i", 1).rmdir()
    assert do_batch(work, batch, Copy(0, 2, 1)).files == 0


def test_links_that_have_expired_are_renewed_in_the_task(tmp_path, work):
    """From the manifest's own URL, as on one machine; the driver has no part in it."""
    expired = next(iter(FILES))
    with served(dict(FILES), {expired: Fault(kind="status", status=403, first=1)}) as origin:
        batch = batch_of(tmp_path, origin)
        row = {"url": f"{expired}?new", "path": expired, "size": 1000, "sha256": FILES[expired].sha256()}
        fresh = {"version": 1, "base_url": origin.url, "files": [row]}
        origin.files["m.json"] = Fixed(msgspec.json.encode(fresh))
        work = msgspec.structs.replace(work, origin=ManifestRef(f"{origin.url}m.json", None, None))
        assert do_batch(work, batch, Copy(0, 1, 0)).failed == 0
        assert [request.query for request in origin.requests if request.path == expired] == ["", "new"]
    assert tree(tmp_path / "to") == whole(FILES)


def test_limits_of_the_run_are_shared_by_its_tasks():
    """Rates by all that run at a time, or ask the host; connections are the hub's matter."""
    settings = Settings(per_host=6, limit_rate=1 << 20, limit_rate_per_host=1 << 20)
    found = own_settings(settings, 4, 8)
    assert (found.per_host, found.limit_rate, found.limit_rate_per_host) == (6, 1 << 17, 1 << 18)
    assert own_settings(Settings(), 4, 8) == Settings()


def test_the_work_file_has_a_row_group_for_each_batch(tmp_path):
    """Each entry in one of them, and private: the links may be signed."""
    path = tmp_path / "work.parquet"
    with served(FILES) as origin, frozen(tmp_path, origin) as plan:
        left = range(2, len(plan))
        hosts = [n % 2 for n in left]
        cut = shares([50 << 20 for _ in left], hosts, pace=Pace(), slots=3)
        write_work(path, plan, left, cut, sharers(cut, hosts, slots=3))
        batches = [read_batch(path, number) for number in range(len(cut.cost_s))]
        found = {entry.id: number for number, batch in enumerate(batches) for entry in batch.entries}
        assert found == {plan.entry(index).id: cut.batch_of[at] for at, index in enumerate(left)}
        assert [batch.sharers for batch in batches] == sharers(cut, hosts, slots=3)
        assert sorted(
            entry for batch in batches for entry in map(msgspec.json.encode, batch.entries)
        ) == sorted(msgspec.json.encode(plan.entry(index)) for index in left)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_work_file_that_is_not_there(tmp_path):
    """The executor does not see the state directory, or the run is over."""
    with pytest.raises(LocalFault, match="cannot use"):
        read_batch(tmp_path / "work.parquet", 0)
    (tmp_path / "work.parquet").write_bytes(b"PAR")
    with pytest.raises(LocalFault, match="cannot be read"):
        read_batch(tmp_path / "work.parquet", 0)
