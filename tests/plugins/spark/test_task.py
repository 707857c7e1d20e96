"""Tasks without Spark: real files, a real origin, real receipts."""

import gc
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.engine.pool import Pool
from cfetch.plugins.lab.bench.content import Fixed, Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark import share_files
from cfetch.plugins.spark.share_files import ShareFiles, write_shares
from cfetch.run.collector import OBJECTS
from cfetch.run.fresh_links import ManifestRef
from cfetch.tasks.hub.receipts import STOP_NAME, TaskReport, encode_report, leave_receipt, share_receipt_name
from cfetch.tasks.shares import task
from cfetch.tasks.shares.cut import ExpectedPace, count_sharers, cut_shares
from cfetch.tasks.shares.dealing import CutShares
from cfetch.tasks.shares.task import bring_share, divide_limits
from cfetch.tasks.shares.task_destination import directory_destination
from cfetch.tasks.shares.work import ShareOutcome, Turn
from cfetch.wire.loop import make_loop
from tests.api.slow_site import BODY, SlowSite
from tests.engine.drive import tree
from tests.manifest.frozen import freeze
from tests.tasks.scene import (
    asked,
    files_of,
    read_receipts,
    served,
    share_of,
    spec_of,
    whole,
    write_manifest,
)

FILES = files_of(12)


@pytest.fixture
def spec(tmp_path):
    """A run's directories, as the driver makes them."""
    return spec_of(tmp_path, Settings(to=(str(tmp_path / "to"),), concurrency=2, mitigation=False))


def share_at(tmp_path, origin, files=FILES):
    return share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, files))


def statuses(receipts):
    return sorted((record.path, record.status) for one in receipts for record in one.records)


def shares(receipts):
    """The share and the task of each receipt that says that its share is over."""
    return [(one.report.share, one.report.task) for one in receipts if one.is_over]


def one_at_a_time(spec):
    return msgspec.structs.replace(spec, settings=replace(spec.settings, concurrency=1))


def test_a_share_is_brought_to_its_end(tmp_path, spec):
    """Every file in place and once in the receipts, the failed one too; no directory of its own stays."""
    lost = next(iter(FILES))
    with served(FILES, {lost: Fault(kind="status", status=404, first=0)}) as origin:
        done = bring_share(spec, share_at(tmp_path, origin), Turn(3, 7, 0, "executor 7 on b"))
    assert done == ShareOutcome(files=12, failed=1)
    assert tree(tmp_path / "to") == {name: data for name, data in whole(FILES).items() if name != lost}
    receipts = read_receipts(tmp_path)
    assert shares(receipts) == [(3, 7)]
    assert statuses(receipts) == [(name, "failed" if name == lost else "done") for name in FILES]
    assert {(record.executor, record.task) for one in receipts for record in one.records} == {
        ("executor 7 on b", 7)
    }
    assert list(Path(directory_destination(tmp_path / "to", "i", 1).fence).iterdir()) == []


def test_garbage_is_looked_for_seldom_in_a_task(tmp_path, spec, monkeypatch):
    """Spark's process has hundreds of thousands of objects, which each collection would look at."""
    seen = []

    def look():
        seen.append((gc.get_threshold()[0], gc.get_freeze_count() > 0))
        return make_loop()

    monkeypatch.setattr(task, "make_loop", look)
    with served(FILES) as origin:
        bring_share(spec, share_at(tmp_path, origin), Turn(0, 1, 0))
    assert seen == [(OBJECTS, True)]


def test_a_share_that_is_over_is_not_begun_again(tmp_path, spec):
    """The executor died after the receipt and before Spark knew."""
    with served(FILES) as origin:
        share = share_at(tmp_path, origin)
        bring_share(spec, share, Turn(0, 1, 0))
        before = len(origin.requests)
        assert bring_share(spec, share, Turn(0, 2, 1)) == ShareOutcome(files=0, failed=0)
        assert len(origin.requests) == before
    assert shares(read_receipts(tmp_path)) == [(0, 1)]


@pytest.mark.parametrize("sizes", ["equal", "different", "one unknown"])
def test_a_second_copy_begins_at_the_other_end(tmp_path, spec, sizes):
    """Whatever the order of the first is; so they meet in the middle."""
    files = (
        FILES
        if sizes == "equal"
        else {n: c for k in range(12) for n, c in files_of(1, 9 * k, str(k)).items()}
    )
    with served(files) as origin:
        share = share_at(tmp_path, origin, files)
        if sizes == "one unknown":
            share.entries[5] = msgspec.structs.replace(share.entries[5], size_bytes=None)
        bring_share(one_at_a_time(spec), share, Turn(0, 1, 0))
        first = [request.path for request in origin.requests]
        for path in tree(tmp_path / "to"):
            (tmp_path / "to" / path).unlink()
        bring_share(one_at_a_time(spec), share, Turn(1, 2, 1))
        second = [request.path for request in origin.requests[len(first) :]]
    assert second == first[::-1]


def test_a_second_copy_passes_over_what_the_first_has_published(tmp_path, spec):
    """Two on one share, one of them held up: each file is asked for once, but for the one in hand."""
    held = "0.big"
    files = {held: Synthetic(held, 4 << 20)} | FILES  # so large that a part of it would be kept
    with served(files, {held: Fault(kind="stall", after_bytes=3 << 20, first=1)}) as origin:
        share = share_at(tmp_path, origin, files)
        first = threading.Thread(target=bring_share, args=(one_at_a_time(spec), share, Turn(0, 1, 0)))
        first.start()
        own = Path(directory_destination(tmp_path / "to", "i", 1).fence) / "t1"
        while not any(sizes_in(own)):
            assert first.is_alive()
        bring_share(one_at_a_time(spec), share, Turn(0, 2, 1))
        first.join(60)
        assert not first.is_alive()  # the receipt of the other one has ended it
        assert asked(origin) == {name: 2 if name == held else 1 for name in files}
    assert tree(tmp_path / "to") == whole(files)
    assert shares(read_receipts(tmp_path)) == [(0, 2)]
    assert list(Path(directory_destination(tmp_path / "to", "i", 1).fence).iterdir()) == []


def test_a_share_that_is_over_leaves_one_receipt(tmp_path, spec):
    """It has everything that its parts have told, which are no more."""
    files = {name: Fixed(BODY) for name in ("a", "b", "slow")}
    with closing(SlowSite()) as site:
        share = share_at(tmp_path, SimpleNamespace(url=site.url("")), files)
        task = threading.Thread(target=bring_share, args=(spec, share, Turn(0, 1, 0)))
        task.start()
        wait_for(tmp_path, "part-", task)
        site.let_go()
        task.join(60)
    assert [one.name for one in (tmp_path / "receipts").iterdir()] == ["share-1-000000"]
    (found,) = read_receipts(tmp_path)
    assert found.report.number == 1
    assert statuses([found]) == [(name, "done") for name in files]


def test_a_task_goes_on_with_what_a_dead_run_has_left(tmp_path, spec):
    """Its part is taken over, and only the rest of the file is asked for."""
    files = {"0.big": Synthetic("0.big", 4 << 20)} | FILES
    with served(files, {"0.big": Fault(kind="stall", after_bytes=3 << 20, first=1)}) as origin:
        share = share_at(tmp_path, origin, files)
        task = threading.Thread(target=bring_share, args=(spec, share, Turn(0, 1, 0)))
        task.start()
        left = Path(directory_destination(tmp_path / "to", "i", 1).fence) / "t1"
        while not any(size_bytes == 3 << 20 for size_bytes in sizes_in(left)):
            assert task.is_alive()
        (tmp_path / "receipts" / STOP_NAME).touch()
        task.join(60)
        (tmp_path / "receipts" / STOP_NAME).unlink()
        left.rename(left.parent.with_name("2-1"))  # as the rollback of the first run does
        Path(directory_destination(tmp_path / "to", "i", 2).fence).mkdir()
        bring_share(msgspec.structs.replace(spec, epoch=2), share, Turn(0, 1, 0))
        again = [request for request in origin.requests if request.path == "0.big"][1]
        assert again.range == f"bytes={3 << 20}-"
    assert tree(tmp_path / "to") == whole(files)


def sizes_in(directory):
    """The sizes of the files there; a task may be giving one its name, or not have made the directory."""
    with suppress(FileNotFoundError):
        return [path.stat().st_size for path in directory.iterdir()]
    return []


def wait_for(tmp_path, prefix, task):
    while not any(one.name.startswith(prefix) for one in (tmp_path / "receipts").iterdir()):
        assert task.is_alive()


def test_what_has_ended_is_told_before_the_share_is_over(tmp_path, spec):
    """A task that dies has told what it did; a stop leaves the rest, and no receipt of the share."""
    held = next(iter(FILES))
    with served(FILES, {held: Fault(kind="stall", after_bytes=10, first=0)}) as origin:
        share = share_at(tmp_path, origin)
        task = threading.Thread(target=bring_share, args=(spec, share, Turn(0, 1, 0)))
        task.start()
        while len(statuses(read_receipts(tmp_path))) < len(FILES) - 1:  # all but the one that is held
            assert task.is_alive()
        (tmp_path / "receipts" / STOP_NAME).touch()
        task.join(60)
        assert not task.is_alive()
    (tmp_path / "receipts" / STOP_NAME).unlink()
    receipts = read_receipts(tmp_path)
    assert shares(receipts) == []
    assert statuses(receipts) == [(name, "cancelled" if name == held else "done") for name in FILES]


@pytest.mark.parametrize("trouble", ["not shared", "taken over", "unwritable"])
def test_an_executor_that_cannot_work_says_why(tmp_path, spec, trouble):
    """A LocalFault, with a receipt that counts for nothing; no directory is made where none was."""
    epoch = Path(directory_destination(tmp_path / "to", "i", 1).fence)
    if trouble == "not shared":
        spec = msgspec.structs.replace(spec, destination=directory_destination(tmp_path / "nowhere", "i", 1))
    elif trouble == "taken over":
        epoch.rmdir()
    else:
        epoch.rmdir()
        epoch.write_bytes(b"")
    with served(FILES) as origin, pytest.raises(LocalFault) as caught:
        bring_share(spec, share_at(tmp_path, origin), Turn(0, 1, 0))
    assert ("must see the directory" in str(caught.value)) == (trouble != "unwritable")
    (found,) = read_receipts(tmp_path)
    assert found.report.fault == str(caught.value)
    assert found.records == []
    assert not (tmp_path / "nowhere").exists()


def test_a_fault_of_a_copy_whose_share_is_over_is_none(tmp_path, spec):
    """Another has done the spec: Spark need not count a failure."""
    with served(FILES) as origin:
        share = share_at(tmp_path, origin)
    told = encode_report(TaskReport(instant="i", epoch=1, share=0, task=1))
    assert leave_receipt(tmp_path / "receipts", share_receipt_name(1, 0), told)
    Path(directory_destination(tmp_path / "to", "i", 1).fence).rmdir()
    assert bring_share(spec, share, Turn(0, 2, 1)).files == 0


def test_links_that_have_expired_are_renewed_in_the_task(tmp_path, spec):
    """From the manifest's own URL, as on one machine; the driver has no part in it."""
    expired = next(iter(FILES))
    with served(dict(FILES), {expired: Fault(kind="status", status=403, first=1)}) as origin:
        share = share_at(tmp_path, origin)
        row = {"url": f"{expired}?new", "path": expired, "size": 1000, "sha256": FILES[expired].sha256()}
        fresh = {"version": 1, "base_url": origin.url, "files": [row]}
        origin.files["m.json"] = Fixed(msgspec.json.encode(fresh))
        spec = msgspec.structs.replace(spec, origin=ManifestRef(f"{origin.url}m.json", None, None))
        assert bring_share(spec, share, Turn(0, 1, 0)).failed == 0
        assert [request.query for request in origin.requests if request.path == expired] == ["", "new"]
    assert tree(tmp_path / "to") == whole(FILES)


def test_limits_of_the_run_are_shared_by_its_tasks():
    """Rates by all that run at a time, or ask the host; connections are the hub's matter."""
    settings = Settings(per_host=6, limit_rate=1 << 20, limit_rate_per_host=1 << 20)
    found = divide_limits(settings, 4, 8)
    assert (found.per_host, found.limit_rate, found.limit_rate_per_host) == (6, 1 << 17, 1 << 18)
    assert divide_limits(Settings(), 4, 8) == Settings(max_concurrency=Settings().concurrency)


@pytest.mark.parametrize(("sharers", "begun"), [(1, []), (2, [8]), (8, [2]), (100, [2])])
def test_tasks_begin_at_a_host_with_the_slots_of_one(tmp_path, monkeypatch, sharers, begun):
    """All together, but each with two at least: a host that bears little refuses few requests then."""
    seen: list[int] = []
    monkeypatch.setattr(Pool, "begin_with", lambda _, slots: seen.append(slots))
    with served(FILES) as origin:
        share = share_at(tmp_path, origin)._replace(sharers=sharers)
        spec = spec_of(tmp_path, Settings(to=(str(tmp_path / "to"),), concurrency=16))
        assert bring_share(spec, share, Turn(0, 1, 0)).failed == 0
    assert seen == begun


def test_a_task_does_not_search_for_more_slots():
    """Tasks would measure one another, so each keeps the slots that it has at the start."""
    for settings in (Settings(), Settings(max_concurrency=48)):
        assert settings.most_at_once > settings.concurrency
        assert divide_limits(settings, 4, 8).most_at_once == settings.concurrency


def test_shares_on_disk_have_a_row_group_each(tmp_path, monkeypatch):
    """Each entry in one of them, as the plan has it, in private files: the links may be signed."""
    monkeypatch.setattr(share_files, "MOST_SHARES_PER_FILE", 1)
    directory = tmp_path / "shares"
    with (
        served(FILES) as origin,
        write_manifest(tmp_path / "m.json", origin, FILES).open("rb") as source,
        freeze(source, name="m.json", directory=tmp_path) as plan,
    ):
        left = range(2, len(plan))
        hosts = [n % 2 for n in left]
        cut = cut_shares([50 << 20 for _ in left], hosts, pace=ExpectedPace(), slots=3)
        files = write_shares(
            directory, CutShares(plan, cut.list_members(left), count_sharers(cut, hosts, slots=3))
        )
        assert files.count == len(cut.cost_s) > 1
        shares = [files.read_share(number) for number in range(files.count)]
        found = {entry.id: number for number, share in enumerate(shares) for entry in share.entries}
        assert found == {plan.entry(index).id: cut.share_of[at] for at, index in enumerate(left)}
        assert list(files.read_ids()) == [[entry.id for entry in share.entries] for share in shares]
        assert [share.sharers for share in shares] == count_sharers(cut, hosts, slots=3)
        assert sorted(
            entry for share in shares for entry in map(msgspec.json.encode, share.entries)
        ) == sorted(msgspec.json.encode(plan.entry(index)) for index in left)
    paths = list(directory.iterdir())
    assert len(paths) == files.count
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}


def test_shares_that_are_not_there(tmp_path):
    """The executor does not see the state directory, or the run is over."""
    files = ShareFiles(directory=str(tmp_path), count=1, per_file=1)
    with pytest.raises(LocalFault, match="cannot use"):
        files.read_share(0)
    (tmp_path / share_files.file_name(0)).write_bytes(b"PAR")
    with pytest.raises(LocalFault, match="cannot be read"):
        files.read_share(0)
