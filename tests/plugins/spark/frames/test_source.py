"""A manifest as a data frame: real sessions, a real server that counts, and what is on disk in between."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cfetch.base.errors import ConfigError, LocalFault, ManifestError
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark import register
from cfetch.plugins.spark.frames import once
from cfetch.plugins.spark.frames.frame import load_frame
from cfetch.plugins.spark.frames.once import bring_share_once
from cfetch.plugins.spark.frames.options import NOT_HERE, read_options
from cfetch.plugins.spark.frames.rows import COLUMNS
from cfetch.plugins.spark.frames.source import FilesSource
from cfetch.run.manifest_reader import ManifestReader
from tests.plugins.spark.serving import asked, manifest, serving

PROJECT = Path(__file__).parents[4]
FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(24)}


@pytest.fixture(scope="module")
def origin():
    """Has ``FILES``, and forgets between tests what it was asked for."""
    with serving(FILES) as one:
        yield one


@pytest.fixture
def frame(spark, tmp_path):
    """A frame over a manifest, with options."""
    register(spark)

    def load(path, **options):
        reader = spark.read.format("cfetch").option("manifest", str(path)).option("to", str(tmp_path / "to"))
        return reader.options(**options).load()

    return load


@pytest.fixture
def once_each(origin):
    """Asserts that since the test's beginning each file was asked for exactly once."""
    origin.requests.clear()

    def check(*names):
        assert asked(origin) == dict.fromkeys(names, 1)

    return check


def tree(root):
    """Every file but cfetch's own."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".cfetch" not in path.parts
    }


def parts(root):
    """What lies where attempts write."""
    return [path for path in (root / ".cfetch" / "attempts").rglob("*") if path.is_file()]


def test_a_row_tells_what_became_of_a_file(frame, origin, once_each, tmp_path):
    """Done with its hash and size, failed with the reason: a failed file is a row and no exception."""
    before = datetime.now(UTC)
    found = frame(manifest(tmp_path / "m.json", origin, FILES, "gone.bin")).toArrow().to_pylist()
    rows = {row["path"]: row for row in found}
    assert len(found) == len(rows) == len(FILES) + 1
    row, content = rows["d/7.bin"], FILES["d/7.bin"]
    assert row["started"] <= row["ended"]
    assert before <= row["started"].replace(tzinfo=UTC) <= datetime.now(UTC)
    assert row["elapsed_s"] > 0
    assert row["rate_bps"] > 0
    constant = {name: row[name] for name in row if name not in ("started", "ended", "elapsed_s", "rate_bps")}
    assert constant == {
        "id": 7,
        "path": "d/7.bin",
        "size_bytes": len(content),
        "hash": {"algorithm": "sha256", "hex": hashlib.sha256(content).hexdigest()},
        "status": "done",
        "verified": "sha256",
        "volume": str(tmp_path / "to"),
        "stragglers": 0,
        "attempts": 1,
        "error_kind": None,
        "error": None,
    }
    gone = rows["gone.bin"]
    assert (gone["id"], gone["status"], gone["size_bytes"], gone["hash"]) == (
        len(FILES),
        "failed",
        None,
        None,
    )
    assert (gone["error_kind"], gone["error"]) == ("refused", "HTTP 404")
    assert tree(tmp_path / "to") == FILES
    assert parts(tmp_path / "to") == []
    once_each(*FILES, "gone.bin")


def test_each_file_is_asked_for_once_however_the_frame_is_used(frame, origin, once_each, tmp_path):
    """Counted twice, filtered, joined to itself, whose two sides are read at the same time."""
    found = frame(manifest(tmp_path / "m.json", origin, FILES, "gone.bin"))
    assert found.alias("a").join(found.alias("b"), "id").count() == len(FILES) + 1
    assert found.count() == found.count() == len(FILES) + 1
    assert [row.path for row in found.where("status = 'failed'").collect()] == ["gone.bin"]
    once_each(*FILES, "gone.bin")


def test_who_stops_reading_leaves_whole_shares(frame, origin, once_each, tmp_path):
    """A limit reads as many shares as it needs: these are whole, and the rest was not begun."""
    found = frame(manifest(tmp_path / "m.json", origin, FILES))
    assert found.rdd.getNumPartitions() == 2
    assert len(found.limit(3).collect()) == 3
    there = tree(tmp_path / "to")
    assert {"d/0.bin", "d/2.bin"} <= set(there) < set(FILES)
    assert parts(tmp_path / "to") == []
    receipts = list((tmp_path / "to" / ".cfetch").glob("frames/*/receipts/share-*"))
    assert len(receipts) == 1
    once_each(*there)
    assert found.where("status = 'done'").count() == len(FILES)
    once_each(*FILES)


def test_two_frames_over_one_directory_are_one(frame, origin, once_each, tmp_path):
    """Loaded by two threads and read at the same time: each file is asked for once, by whoever came first."""
    path = unproved(tmp_path / "m.json", origin, *FILES)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(frame(path).count())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [len(FILES)] * 2
    assert tree(tmp_path / "to") == FILES
    once_each(*FILES)


def test_two_manifests_over_one_directory(frame, origin, tmp_path):
    """Frames that share files and know nothing of each other: the tree is whole, and who is late skips."""
    all_of_them = frame(manifest(tmp_path / "m.json", origin, FILES))
    some = dict(list(FILES.items())[:10])
    assert frame(manifest(tmp_path / "some.json", origin, some)).count() == 10
    origin.requests.clear()
    told = {row.path: row.status for row in all_of_them.collect()}
    assert told == {name: "skipped" if name in some else "done" for name in FILES}
    assert set(asked(origin)) == set(FILES) - set(some)
    assert tree(tmp_path / "to") == FILES


def unproved(path, origin, *names):
    """A manifest with neither sizes nor hashes."""
    return manifest(path, origin, {}, *names)


def test_what_failed_is_tried_by_the_next_load(frame, origin, once_each, tmp_path):
    """And not by the next action; what is there is not asked for, also where only the receipt proves it."""
    path = unproved(tmp_path / "m.json", origin, *FILES, "late.bin")
    first = frame(path)
    assert first.where("status = 'failed'").count() == first.where("status = 'failed'").count() == 1
    once_each(*FILES, "late.bin")
    origin.files = FILES | {"late.bin": b"here"}
    origin.requests.clear()
    assert first.where("status = 'failed'").count() == 1
    once_each()
    found = frame(path)
    assert found.where("status = 'failed'").count() == 0
    once_each("late.bin")
    assert found.count() == len(FILES) + 1
    assert (tmp_path / "to" / "late.bin").read_bytes() == b"here"


def test_only_some_files_are_asked_for(frame, origin, once_each, tmp_path):
    """By a pattern of their paths. Frames of one manifest share a receipt, which grows by what it lacks."""
    path = unproved(tmp_path / "m.json", origin, *FILES, "gone.bin")
    ones, gone, whole = frame(path, only="d/1*"), frame(path, only="gone.*"), frame(path)
    assert frame(path, only="nothing").count() == 0
    once_each()
    assert [row.status for row in gone.collect()] == ["failed"]
    assert ones.where("status = 'done'").count() == 11
    assert [row.status for row in gone.collect()] == ["failed"]
    once_each(*(name for name in FILES if name.startswith("d/1")), "gone.bin")
    assert ones.join(whole, "id").count() == 11
    assert whole.count() == len(FILES) + 1
    once_each(*FILES, "gone.bin")


def test_conditions_of_one_query_take_no_rows_from_others(frame, spark, origin, tmp_path):
    """PySpark 4.1 to 4.3 gives the filters that a reader takes to all queries: so ours takes none."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = frame(manifest(tmp_path / "m.json", origin, FILES))
        one, two = found.where("path = 'd/1.bin'"), found.where("path = 'd/2.bin'")
        assert (one.count(), one.union(two).count(), found.count()) == (1, 2, len(FILES))
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_next_load_tries_a_failed_file_when_it_is_asked_for(frame, origin, tmp_path):
    """A frame that does not ask for it leaves that to the others."""
    path = unproved(tmp_path / "m.json", origin, *FILES, "gone.bin")
    frame(path).count()
    one, whole = frame(path, only="d/1.bin"), frame(path)
    origin.requests.clear()
    assert [row.status for row in one.collect()] == ["done"]
    assert asked(origin) == {}
    assert whole.where("status = 'failed'").count() == whole.where("status = 'failed'").count() == 1
    assert asked(origin) == {"gone.bin": 1}


def test_a_file_that_is_gone_is_brought_again(frame, origin, once_each, tmp_path):
    """A receipt vouches only for what stands."""
    found = frame(unproved(tmp_path / "m.json", origin, *FILES))
    found.count()
    (tmp_path / "to" / "d" / "3.bin").unlink()
    (tmp_path / "to" / "d" / "4.bin").write_bytes(b"of another size")
    origin.requests.clear()
    assert found.where("status = 'done'").count() == len(FILES)
    once_each("d/3.bin", "d/4.bin")
    assert tree(tmp_path / "to") == FILES


def test_contents_up_to_a_limit(frame, origin, tmp_path):
    """As a column of their own, and null for what is larger or is not there."""
    files = {"d/0.bin": FILES["d/0.bin"], "d/20.bin": FILES["d/20.bin"]}  # 200 and 300 bytes
    path = manifest(tmp_path / "m.json", origin, files, "gone.bin")
    found = frame(path, content="true", content_limit="200").collect()
    assert {row.path: row.content and bytes(row.content) for row in found} == {
        "d/0.bin": FILES["d/0.bin"],
        "d/20.bin": None,
        "gone.bin": None,
    }
    assert "content" not in frame(path).columns


def test_settings_are_options(frame, origin, tmp_path):
    """One that the engine heeds."""
    with serving({"a": b"x"}, {"a": Fault(kind="status", status=503, first=0)}) as busy:
        found = frame(manifest(tmp_path / "m.json", busy, {}, "a"), max_attempts="1").collect()
    assert [(row.status, row.attempts, row.error_kind) for row in found] == [("failed", 1, "throttled")]


def test_a_manifest_without_files_is_an_empty_frame(frame, origin, tmp_path):
    """Spark makes one partition of none."""
    assert frame(manifest(tmp_path / "m.json", origin, {})).count() == 0


def test_faults_of_a_manifest_are_told_by_load(frame, tmp_path):
    """All of them, before anything is made."""
    (tmp_path / "m.jsonl").write_text('{"url": "http://h/a"}\n{"url": 3}\n{"url": "http://h/b", "sise": 1}\n')
    with pytest.raises(Exception, match=r"m.jsonl has 2 faults; nothing was downloaded") as caught:
        frame(tmp_path / "m.jsonl")
    assert "unknown key 'sise'; is it 'size'?" in str(caught.value)
    assert not (tmp_path / "to").exists()


def test_a_broken_machine_is_an_error_with_its_cause(frame, origin, tmp_path):
    """No rows are made up."""
    found = frame(manifest(tmp_path / "m.json", origin, FILES))
    for path in (tmp_path / "to" / ".cfetch").glob("frames/*/receipts"):
        path.rmdir()
        path.write_text("in the way")
    with pytest.raises(Exception, match=r"LocalFault: cannot use .*receipts.*where a directory should be"):
        found.count()


def test_columns_are_not_the_users(frame, spark, origin, tmp_path):
    """A schema that somebody gives would not be that of the rows."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    reader = spark.read.format("cfetch").options(manifest=str(path), to=str(tmp_path / "to"))
    with pytest.raises(Exception, match=r"leave .schema\(...\) out"):
        reader.schema("id long").load().count()
    with pytest.raises(Exception, match=r"leave .schema\(...\) out"):  # the names alone are right
        reader.schema(", ".join(f"{name} string" for name in COLUMNS)).load().count()


def options_of(path, to, **more):
    return read_options({"manifest": str(path), "to": str(to), **more}, needed="manifest")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"manifest": "m"}, "option to is missing"),
        ({"to": "/x"}, "option manifest is missing"),
        ({"manifest": "-", "to": "/x"}, "no standard input"),
        ({"manifest": "m", "to": "x"}, "absolute path"),
        ({"manifest": "m", "to": "s3://b/p"}, "cfetch.spark.download for a store"),
        ({"manifest": "m", "to": "/x,/y"}, "one directory"),
        ({"manifest": "m", "to": "s3://bucket/x"}, "one directory"),
        (
            {"manifest": "m", "to": "/x", "max_atempts": "3"},
            "no option 'max_atempts'; did you mean 'max_attempts'",
        ),
        ({"manifest": "m", "to": "/x", "max_attempts": "0"}, "max_attempts is '0' but must be from 1 to 100"),
        ({"manifest": "m", "to": "/x", "content": "ja"}, "content must be true or false"),
        ({"manifest": "m", "to": "/x", "content_limit": "much"}, "content_limit: not a size"),
        ({"manifest": "m", "to": "/x", "content_limit": "2GiB"}, "at most 1GiB"),
        ({"manifest": "m", "to": "/x", "bearer_env": "T"}, "say in header_host which hosts may have it"),
        *(({"manifest": "m", "to": "/x", name: "1"}, f"{name} means nothing") for name in sorted(NOT_HERE)),
    ],
)
def test_wrong_options(given, told):
    """Each is named with what would be right."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_options(given, needed="manifest")


def test_a_variable_of_the_environment_is_a_setting(tmp_path, monkeypatch):
    """An option outweighs it."""
    monkeypatch.setenv("CFETCH_MAX_ATTEMPTS", "7")
    assert options_of("m", tmp_path).settings.max_attempts == 7
    assert options_of("m", tmp_path, max_attempts="2").settings.max_attempts == 2


def test_a_token_reaches_the_tasks(tmp_path, monkeypatch):
    """By the one variable that is named."""
    monkeypatch.setenv("TOKEN", "x")
    assert options_of("m", tmp_path, bearer_env="TOKEN", header_host="h").env["TOKEN"] == "x"
    assert "TOKEN" not in options_of("m", tmp_path).env


def test_links_that_were_signed_anew_are_the_same_frame(tmp_path):
    """The shares stay, and the tasks get the fresh links."""
    loaded = []
    for signature in ("old", "new"):
        link = f"https://b.s3.amazonaws.com/a?AWSAccessKeyId=k&Expires=1&Signature={signature}"
        (tmp_path / "m.jsonl").write_text(f'{{"url": "{link}"}}\n')
        loaded.append(load_frame(str(tmp_path / "m.jsonl"), options_of("m", tmp_path / "to"), slots=2))
    assert loaded[0] == loaded[1]
    share = loaded[1].shares.read_share(0)
    assert [entry.url.reveal() for entry in share.entries] == [link]


def test_a_manifest_is_frozen_once(tmp_path, monkeypatch):
    """As long as its bytes, and the options by which it is read, stay the same; and as nothing is damaged."""
    frozen = []

    def count_and_freeze(self, *words, **options):
        frozen.append(words)
        return freeze(self, *words, **options)

    freeze = ManifestReader.freeze
    monkeypatch.setattr(ManifestReader, "freeze", count_and_freeze)

    def load(signature="1", **more):
        link = f"https://b.s3.amazonaws.com/a?AWSAccessKeyId=k&Expires=1&Signature={signature}"
        path = tmp_path / "m.json"
        path.write_text(json.dumps({"version": 1, "headers": {"X-A": "b"}, "files": [{"url": link}]}))
        found = load_frame(str(path), options_of(path, tmp_path / "to", **more), slots=2)
        (entry,) = found.read_share(0).entries
        return found, entry.url.reveal()[-1], entry.path

    first, _, _ = load()
    assert load()[0] == first
    assert len(frozen) == 1
    assert load("2") == (first, "2", "a")  # in the place of the old link
    assert load() == (first, "1", "a")
    assert load(name_by="hash")[2] != "a"
    assert len(frozen) == 4
    broken, _, _ = load()
    assert len(frozen) == 4
    for path in Path(broken.shares.directory).iterdir():
        path.write_bytes(b"torn")
    with pytest.raises(LocalFault, match="cannot be read as it was written"):
        broken.read_share(0)
    assert load()[1:] == ("1", "a")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "to").rglob("frozen.json")} == {0o600}


def test_links_are_private(tmp_path):
    """Nobody else may read what holds them."""
    (tmp_path / "m.jsonl").write_text('{"url": "https://h/a?sig=secret"}\n')
    frame = load_frame(str(tmp_path / "m.jsonl"), options_of("m", tmp_path / "to"), slots=2)
    assert {path.stat().st_mode & 0o777 for path in Path(frame.shares.directory).iterdir()} == {0o600}
    assert (tmp_path / "to" / ".cfetch").stat().st_mode & 0o777 == 0o700


def test_the_cut_stays_whatever_cluster_loads_it(origin, tmp_path):
    """Receipts are by share: other shares would make them lie."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    frames = [load_frame(str(path), options_of(path, tmp_path / "to"), slots=slots) for slots in (2, 8)]
    assert [frame.shares.count for frame in frames] == [2, 2]


def test_frames_that_nobody_loads_go_after_a_month(tmp_path):
    """With what their dead tasks have left; younger ones stay, and the one that is loaded just now."""
    directories = []
    for name, days in (("a", 31), ("b", 29), ("c", 31)):
        (tmp_path / "m.jsonl").write_text(f'{{"url": "http://h/{name}"}}\n')
        frame = load_frame(str(tmp_path / "m.jsonl"), options_of("m", tmp_path / "to"), slots=2)
        directories.append(Path(frame.spec.receipts).parent)
        os.utime(directories[-1], (time.time() - days * 86400,) * 2)
        left = tmp_path / "to" / ".cfetch" / "attempts" / frame.spec.instant
        assert left.is_dir()
    load_frame(str(tmp_path / "m.jsonl"), options_of("m", tmp_path / "to"), slots=2)
    assert [path.is_dir() for path in directories] == [False, True, True]
    assert len(list((tmp_path / "to" / ".cfetch" / "attempts").iterdir())) == 2


def test_copies_of_a_task_wait_for_the_first(origin, once_each, tmp_path):
    """As speculation, a second driver and a join make them: all tell the same, one has asked."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=2)
    share = frame.shares.read_share(0)
    told: list[object] = []
    copies = [
        threading.Thread(target=lambda: told.append(bring_share_once(frame.spec, share, 0))) for _ in range(4)
    ]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    assert len(told) == 4
    assert all(one == told[0] for one in told)
    once_each(*(entry.path for entry in share.entries))


KILLED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from cfetch.plugins.spark.frames import once
from cfetch.plugins.spark.frames.frame import load_frame
from cfetch.plugins.spark.frames.once import bring_share_once
from cfetch.plugins.spark.frames.options import read_options
options = read_options({"manifest": sys.argv[1], "to": sys.argv[2]}, needed="manifest")
frame = load_frame(sys.argv[1], options, slots=1)
bring_share_once(frame.spec, frame.shares.read_share(0), 0)
"""


def begun_in_a_process(path, to):
    """A process that brings the share, once it has one file in place and a part of another."""
    child = subprocess.Popen([sys.executable, "-c", KILLED, path, to], cwd=PROJECT)
    while not parts(to) or not (to / "quick").exists():
        assert child.poll() is None
        time.sleep(0.02)
    return child


def test_a_killed_task_leaves_the_lock_and_nothing_that_counts(tmp_path):
    """With kill -9 in the middle: the next one takes over, asks for what lacks, and clears up."""
    files = {"quick": b"quick", "slow": b"s" * 100_000}
    slow = Fault(kind="slow", rate_bps=2_000, first=0)
    with serving(files, {"slow": slow}) as origin:
        path = manifest(tmp_path / "m.json", origin, files)
        child = begun_in_a_process(path, tmp_path / "to")
        child.send_signal(signal.SIGKILL)
        child.wait()
        origin.script.faults = {}
        origin.requests.clear()
        frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
        told = bring_share_once(frame.spec, frame.shares.read_share(0), 0)
        assert {one.path: one.status for one in told} == {"quick": "skipped", "slow": "done"}
        assert asked(origin) == {"slow": 1}
    assert tree(tmp_path / "to") == files
    assert parts(tmp_path / "to") == []


def test_a_task_that_stands_still_holds_nobody_up(tmp_path, monkeypatch):
    """Another one brings what lacks beside it; when it wakes up, it finds all done, and spoils nothing."""
    monkeypatch.setattr(once, "SILENT_S", 0.5)
    files = {"quick": b"quick", "slow": b"s" * 100_000}
    with serving(files, {"slow": Fault(kind="slow", rate_bps=2_000, first=0)}) as origin:
        path = manifest(tmp_path / "m.json", origin, files)
        child = begun_in_a_process(path, tmp_path / "to")
        try:
            child.send_signal(signal.SIGSTOP)
            origin.script.faults = {}
            frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
            share = frame.shares.read_share(0)
            told = bring_share_once(frame.spec, share, 0)
            assert {one.path: one.status for one in told} == {"quick": "skipped", "slow": "done"}
        finally:
            child.send_signal(signal.SIGCONT)
        assert child.wait() == 0
        assert asked(origin)["quick"] == 1
        assert bring_share_once(frame.spec, share, 0) == told
    assert tree(tmp_path / "to") == files


def test_who_waits_for_one_that_moves_goes_on_waiting(tmp_path, monkeypatch):
    """However long that takes: each renewal counts, also in another process."""
    monkeypatch.setattr(once, "SILENT_S", 0.2)
    monkeypatch.setattr(once, "RENEW_S", 0.0)
    looked: list[int] = []
    with once.hold_renewed_lock(tmp_path / "lock") as first:

        def sleep(_):
            looked.append(len(looked))
            time.sleep(0.1)
            if len(looked) < 6:
                first.renew()

        monkeypatch.setattr(once, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        with once.hold_renewed_lock(tmp_path / "lock") as second:
            assert (first.number, second.number, len(looked) >= 6) == (0, 1, True)


def test_a_torn_receipt_is_none(origin, once_each, tmp_path):
    """After a power cut the share is looked at again; its files stand."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
    share = frame.shares.read_share(0)
    bring_share_once(frame.spec, share, 0)
    (receipt,) = Path(frame.spec.receipts).glob("share-*")
    receipt.write_bytes(receipt.read_bytes()[:100])
    assert {one.status for one in bring_share_once(frame.spec, share, 0)} == {"skipped"}
    once_each(*(entry.path for entry in share.entries))


def test_a_receipt_of_half_a_share_answers_for_that_half(origin, once_each, tmp_path):
    """As a task leaves it that was to bring what lacked, and was killed before it put both together."""
    path = unproved(tmp_path / "m.json", origin, *FILES)
    frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
    share = frame.shares.read_share(0)
    half = share._replace(entries=share.entries[:10])
    assert len(bring_share_once(frame.spec, half, 0)) == 10
    for _ in range(2):
        assert [one.id for one in bring_share_once(frame.spec, share, 0)] == list(range(len(FILES)))
        once_each(*FILES)


def test_what_stands_in_the_way_of_a_file_is_its_row(origin, tmp_path):
    """Also when it came after the receipt."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
    share = frame.shares.read_share(0)
    bring_share_once(frame.spec, share, 0)
    one = tmp_path / "to" / "d" / "5.bin"
    one.unlink()
    one.mkdir()
    told = {record.path: record.error_kind for record in bring_share_once(frame.spec, share, 0)}
    assert told == {name: "blocked" if name == "d/5.bin" else None for name in FILES}


def test_a_manifest_with_faults_names_them(tmp_path):
    """By the error of the house."""
    (tmp_path / "m.jsonl").write_text('{"url": 3}\n')
    with pytest.raises(ManifestError, match="url"):
        load_frame(str(tmp_path / "m.jsonl"), options_of("m", tmp_path / "to"), slots=1)


def test_a_directory_that_executors_do_not_see(origin, tmp_path):
    """The message says what is asked of it."""
    path = manifest(tmp_path / "m.json", origin, FILES)
    frame = load_frame(str(path), options_of(path, tmp_path / "to"), slots=1)
    share = frame.shares.read_share(0)
    shutil.rmtree(tmp_path / "to")
    with pytest.raises(LocalFault, match="cannot use"):
        bring_share_once(frame.spec, share, 0)


def test_the_example_runs(spark, origin, tmp_path, capsys):
    """docs/data-source.md, word by word but for the place."""
    text = (PROJECT / "docs" / "data-source.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    (tmp_path / "data").mkdir()
    manifest(tmp_path / "data" / "manifest.json", origin, FILES, "gone.bin")
    exec(code.replace("/data", str(tmp_path / "data")), {"spark": spark})
    assert tree(tmp_path / "data" / "files") == FILES
    out = capsys.readouterr().out
    assert "gone.bin" in out
    assert "HTTP 404" in out


def test_the_page_names_every_column_and_what_is_no_option():
    """Docs that lag behind are wrong."""
    text = (PROJECT / "docs" / "data-source.md").read_text()
    assert len(COLUMNS) == 15
    assert [name for name in COLUMNS if f"| `{name}` |" not in text] == []
    assert [name for name in NOT_HERE if f"`{name}`" not in text] == []


HASH = StructType([StructField("algorithm", StringType()), StructField("hex", StringType())])


@pytest.mark.parametrize("name", ["manifest", "manifest_url", "path"])
def test_a_table_of_sql_reads_without_being_asked_for_its_columns(origin, tmp_path, name):
    """Spark has kept them since CREATE TABLE. ``path`` is the argument of ``load``."""
    options = {name: str(manifest(tmp_path / "m.json", origin, FILES)), "to": str(tmp_path / "to")}
    kinds = {
        kind.simpleString(): kind
        for kind in (LongType(), StringType(), TimestampType(), DoubleType(), IntegerType(), HASH)
    }
    columns = StructType([StructField(column, kinds[word]) for column, word in COLUMNS.items()])
    reader = FilesSource(options).reader(columns)
    assert reader.partitions()
    with pytest.raises(ConfigError, match=r"leave .schema\(...\) out"):
        FilesSource(options).reader(StructType([StructField("id", StringType())]))


def test_a_manifest_that_is_named_twice_is_refused(tmp_path):
    """Nobody can say which one is meant."""
    options = {"manifest": "a.json", "path": "b.json", "to": str(tmp_path)}
    with pytest.raises(ConfigError, match="manifest and path name the manifest twice"):
        FilesSource(options).schema()
