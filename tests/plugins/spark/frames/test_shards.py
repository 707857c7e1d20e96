"""A frame of URLs written as shards: tar files as WebDataset reads them, Parquet, and jobs that die."""

import asyncio
import hashlib
import json
import os
import pickle
import re
import shutil
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import pytest

from cfetch.base.errors import ConfigError, LocalFault, UsageError
from cfetch.base.secret import SecretUrl
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.stream_window import StreamWindow
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark.frames import shards
from cfetch.plugins.spark.frames.shard_sink import ParquetSink, WebdatasetSink
from cfetch.plugins.spark.frames.shard_spool import LARGE_BYTES, Spool, SpoolRoom, SpoolVolume
from cfetch.plugins.spark.frames.shard_store import ShardStore
from cfetch.plugins.spark.frames.shard_stream import ShardCommitment, ShardStream, StreamedShard
from cfetch.plugins.spark.frames.shards import publish_shards, stage_shards
from cfetch.show.format import size
from cfetch.tasks.shares.task import EntryList
from cfetch.tasks.shares.work import Turn
from tests.plugins.spark.serving import asked, serving

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
types = pytest.importorskip("pyspark.sql.types")

PROJECT = Path(__file__).parents[4]
FILES = {f"d/{n}.jpg": b"%d " % n * 100 for n in range(6)} | {
    "d/0.txt": b"the first",
    "d/0.TXT": b"the same to readers",
    "d/0-a.jpg": b"between",
    "d/3.json": b"{}",
    "d/plain": b"no ending",
    "d/plain-a.jpg": b"between",
    "d/plain.txt": b"of the same sample",
}
NAMES = ["url", "path", "digest", "label"]
OPTIONS = {"path_column": "path", "hash_column": "sha256=digest", "files_per_shard": "4"}


@pytest.fixture(scope="module")
def server():
    """Has ``FILES``."""
    with serving(FILES) as one:
        yield one


@pytest.fixture
def origin(server):
    """The same, asked for nothing yet."""
    server.requests.clear()
    return server


def rows_of(origin, names=tuple(FILES)):
    """A row for each file."""
    rows = []
    for number, name in enumerate(names):
        digest = hashlib.sha256(FILES[name]).hexdigest() if name in FILES else None
        rows.append({"url": origin.url + name, "path": name, "digest": digest, "label": number})
    return rows


def writer_of(tmp_path, sink=WebdatasetSink, *, names=NAMES, overwrite=False, **options):
    """The writer that Spark would ask for."""
    schema = types.StructType([types.StructField(name, types.StringType()) for name in names])
    given = {"path": str(tmp_path / "set") if isinstance(tmp_path, Path) else tmp_path, **OPTIONS, **options}
    given = {name: value for name, value in given.items() if value is not None}
    return sink(given).writer(schema, overwrite)


def stage(writer, rows, place="00000-00000"):
    """What a task does with the rows of one shard."""
    return stage_table(writer, pa.Table.from_pylist(rows), place)


def stage_table(writer, table, place="00000-00000"):
    """The same with the rows as a table."""
    return stage_shards(writer._job, [(place, table)], turn=Turn(0, 7, 0, "an executor"))[0]


def publish(writer, *names):
    """What the driver does at the end."""
    return publish_shards(writer._job, names, overwrite=writer._overwrite)


def shown(path):
    """The files of a directory, without cfetch's own."""
    return sorted(file.name for file in path.iterdir() if file.is_file())


def read_tar(path):
    """The samples by key, as WebDataset groups them: by the name up to the first dot of its last segment."""
    samples: dict[str, dict[str, bytes]] = {}
    last = None
    with tarfile.open(path) as tar:
        for member in tar:
            match = re.match(r"((?:.*/|)[^.]+)[.]([^/]*)$", member.name)
            assert match is not None
            key, ending = match.groups()
            assert key == last or key not in samples, "the files of a sample stand together"
            last = key
            assert ending not in samples.setdefault(key, {}), "no name twice"
            file = tar.extractfile(member)
            assert file is not None
            samples[key][ending] = file.read()
    return samples


class Context:
    """Stands in for Spark's, in a process that is no task."""

    def __init__(self, partition):
        self._partition = partition

    def partitionId(self):  # noqa: N802
        return self._partition

    def taskAttemptId(self):  # noqa: N802
        return 100 + self._partition

    def attemptNumber(self):  # noqa: N802
        return 0


def test_tasks_stage_and_the_driver_publishes(origin, tmp_path, monkeypatch, capfd):
    """Shards of four files, numbered in the order of partitions; a table of results beside each; one line."""
    names = [*list(FILES)[:12], "gone.jpg"]
    rows = rows_of(origin, names)
    writer = writer_of(tmp_path)
    staged = []
    for partition, part in ((1, rows[5:]), (0, rows[:5])):
        monkeypatch.setattr("pyspark.TaskContext.get", lambda partition=partition: Context(partition))
        staged.append(writer.write(iter(pa.Table.from_pylist(part).to_batches(max_chunksize=3))))
    assert shown(tmp_path / "set") == []
    capfd.readouterr()
    writer.commit(pickle.loads(pickle.dumps(staged)))
    brought = sum(len(FILES[name]) for name in names[:-1])
    assert capfd.readouterr().err == (
        f"cfetch: 4 new shards in {tmp_path / 'set'}; this job's files: 12 files in place ({size(brought)} "
        f"fetched), 1 failed, from 1 host\n"
    )
    tables = [pq.read_table(tmp_path / "set" / f"{n:05d}.parquet").to_pylist() for n in range(4)]
    assert [len(table) for table in tables] == [4, 1, 4, 4]
    assert [row["path"] for table in tables for row in table] == [row["path"] for row in rows]
    assert {row["path"] for table in tables for row in table if row["status"] != "done"} == {"gone.jpg"}
    assert list((tmp_path / "set/.cfetch/shards").iterdir()) == []
    assert shown(tmp_path / "set")[-1] == "_SUCCESS"
    samples: dict[str, dict[str, bytes]] = {}
    for n in range(4):
        samples |= read_tar(tmp_path / "set" / f"{n:05d}.tar")
    assert samples["d/1"]["jpg"] == FILES["d/1.jpg"]
    assert json.loads(samples["d/1"]["json"]) == rows[1]
    assert asked(origin) == dict.fromkeys(names, 1)


def test_shards_in_an_object_store(origin, bucket, tmp_path):
    """Numbered after those that are there; a shard that a dead job has staged is not fetched again."""
    objects = bucket.keys
    names = [*list(FILES)[:6], "gone.jpg"]
    rows = rows_of(origin, names)
    writer = pickle.loads(pickle.dumps(writer_of(f"{bucket.url.replace('s3://', 's3a://')}/set")))
    bucket.server.take_asked()
    staged = [stage(writer, rows[:4], "00000-00000")]
    assert bucket.server.take_asked() == {"HEAD": 1, "PUT": 2}  # a shard that waits is lost with its task
    staged.append(stage(writer, rows[4:], "00000-00001"))
    assert not [key for key in objects() if not key.startswith("set/.cfetch/")]
    origin.requests.clear()
    again = writer_of(f"{bucket.url}/set")
    assert [stage(again, rows[:4], "00000-00000"), stage(again, rows[4:], "00000-00001")] == staged
    assert asked(origin) == dict.fromkeys(names[4:], 1)  # one of them had failed
    publish(again, *staged)
    with pytest.raises(LocalFault, match="another job has published 2 of the 2 shards"):
        publish(writer, *staged)
    publish(writer, stage(writer, rows[:1]))
    published = [f"set/{n:05d}.{ending}" for n in range(3) for ending in ("parquet", "tar")]
    assert [key for key in objects() if "/.cfetch/" not in key] == [*published, "set/_SUCCESS"]
    assert not [key for key in objects() if "/.cfetch/shards/" in key]
    (tmp_path / "0.tar").write_bytes(bucket.get("set/00000.tar"))
    assert read_tar(tmp_path / "0.tar")["d/1"]["jpg"] == FILES["d/1.jpg"]
    (tmp_path / "1.parquet").write_bytes(bucket.get("set/00001.parquet"))
    assert pq.read_table(tmp_path / "1.parquet")["status"].to_pylist() == ["done", "done", "failed"]
    over = writer_of(f"{bucket.url}/set", overwrite=True)
    publish(over, stage(over, rows[:2]))
    assert sorted(key for key in objects() if "/.cfetch/" not in key) == [
        *("set/00003.parquet", "set/00003.tar", "set/_SUCCESS"),
    ]


def test_a_store_without_a_login(bucket, monkeypatch):
    """Spark plans a write in another process: the message says how a login of the program comes there."""
    monkeypatch.setattr(
        "cfetch.storage.buckets.object_store.find_login", Mock(side_effect=UsageError("none"))
    )
    with pytest.raises(
        UsageError, match=r"none; if os.environ has changed since register\(spark\), call that"
    ):
        writer_of(f"{bucket.url}/set")


def test_of_two_copies_of_a_shard_in_a_store_the_whole_one_counts(bucket, tmp_path):
    """A copy of the task that misses files may end last, and changes nothing; nothing stays in the stage."""
    store = ShardStore(f"{bucket.url}/set", os.environ, 30.0)
    for text in ("whole", "with gaps"):
        files = [tmp_path / f"shard{ending}" for ending in (".parquet", ".tar")]
        for path in files:
            path.write_text(text)
        store.stage("a", files, has_all=text == "whole")
    assert store.find_complete(["a", "b"]) == {"a"}
    store.publish(["a"], overwrite=False, key="k")
    assert [bucket.get(f"set/00000{ending}") for ending in (".tar", ".parquet")] == [b"whole"] * 2
    objects = bucket.keys
    assert not [key for key in objects() if "/.cfetch/shards/" in key]
    assert store.finish("k")
    assert bucket.get("set/00000.tar") == b"whole"


@pytest.mark.parametrize("place", ["directory", "store"])
def test_a_key_makes_a_repeated_job_write_nothing(place, origin, bucket, tmp_path, monkeypatch, capfd):
    """A job that died while it gave names is finished by the next one with its key, which fetches nothing."""
    to = tmp_path if place == "directory" else f"{bucket.url}/set"
    rows = rows_of(origin, list(FILES)[:4])
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: Context(0))

    def write(key):
        writer = writer_of(to, key=key)
        message = writer.write(iter(pa.Table.from_pylist(rows).to_batches()))
        origin.requests.clear()
        writer.commit([message])
        return message.names

    def tars():
        names = bucket.keys() if place == "store" else shown(tmp_path / "set")
        return [name.rpartition("/")[2] for name in names if name.endswith(".tar") and "cfetch/" not in name]

    with monkeypatch.context() as patch:
        patch.setattr(shards, "_rename_all", lambda *_: 1 / 0)
        patch.setattr("cfetch.plugins.spark.frames.shard_store._copy_all", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write("night 7")
    assert tars() == []
    capfd.readouterr()
    assert (write("night 7"), tars()) == ([], ["00000.tar"])
    assert not origin.requests
    shards_at = to if place == "store" else tmp_path / "set"
    assert capfd.readouterr().err == (
        f"cfetch: no new shard in {shards_at}: a job with the key 'night 7' has written there before, "
        "so no row was looked at and no file asked for; other rows need another key\n"
    )
    assert (len(write("night 8")), tars()) == (1, ["00000.tar", "00001.tar"])


def test_names_in_a_tar_file(origin, tmp_path):
    """Files of one key stand together, with one JSON; a name without an ending gets one."""
    writer = writer_of(tmp_path)
    publish(writer, stage(writer, rows_of(origin)))
    samples = read_tar(tmp_path / "set/00000.tar")
    assert {key: sorted(sample) for key, sample in samples.items()} == {
        "d/0": ["2.txt", "TXT", "jpg", "json"],
        "d/0-a": ["jpg", "json"],
        **{f"d/{n}": ["jpg", "json"] for n in (1, 2, 4, 5)},
        "d/3": ["jpg", "json", "row.json"],
        "d/plain": ["bin", "json", "txt"],
        "d/plain-a": ["jpg", "json"],
    }
    assert samples["d/3"]["json"] == FILES["d/3.json"]


def test_each_row_is_a_sample_also_of_one_file(origin, tmp_path):
    """Two captions of one picture are two samples under two keys; the picture is asked for once."""
    rows = [
        row | {"label": n} for n, row in enumerate(rows_of(origin, ["d/1.jpg", "d/0.txt"] + ["d/1.jpg"] * 2))
    ]
    rows[1]["path"] = "d/1_1.txt"
    writer = writer_of(tmp_path, files_per_shard="9")
    publish(writer, stage(writer, rows))
    samples = read_tar(tmp_path / "set/00000.tar")
    assert {key: json.loads(sample["json"])["label"] for key, sample in samples.items()} == {
        "d/1": 0,
        "d/1_1": 1,
        "d/1_2": 2,
        "d/1_3": 3,
    }
    assert [samples[key]["jpg"] for key in ("d/1", "d/1_2", "d/1_3")] == [FILES["d/1.jpg"]] * 3
    table = pq.read_table(tmp_path / "set/00000.parquet").to_pylist()
    assert [(row["label"], row["status"]) for row in table] == [(n, "done") for n in range(4)]
    assert asked(origin)["d/1.jpg"] == 1


@pytest.mark.parametrize("signed", ["?AWSAccessKeyId=k&Expires=1&Signature=secret", "?id=7&token=secret"])
def test_no_link_is_in_a_shard(origin, tmp_path, signed):
    """Neither its query, whatever it means, nor a header."""
    row = {"url": origin.url + "d/1.jpg" + signed, "head": [("X-Token", "secret")]}
    table = pa.Table.from_pylist(
        [row], pa.schema([("url", pa.string()), ("head", pa.map_(pa.string(), pa.string()))])
    )
    writer = WebdatasetSink({"path": str(tmp_path / "set"), "headers_column": "head"}).writer(
        types.StructType([types.StructField(name, types.StringType()) for name in ("url", "head")]), False
    )
    name = stage_table(writer, table)
    publish(writer, name)
    assert origin.requests[0].headers["x-token"] == "secret"
    assert b"secret" not in (tmp_path / "set/00000.tar").read_bytes()
    assert pq.read_table(tmp_path / "set/00000.parquet").column_names[:2] == ["url", "status"]
    assert b"secret" not in (tmp_path / "set/00000.parquet").read_bytes()
    assert pq.read_table(tmp_path / "set/00000.parquet")["url"].to_pylist() == [origin.url + "d/1.jpg"]


def test_a_row_with_a_fault_names_options(origin, tmp_path):
    """A command's flags would lead nowhere; nor does ``download`` that has other arguments."""
    writer = writer_of(tmp_path, names=["url"], path_column=None, hash_column=None)
    publish(writer, stage(writer, [{"url": "not a link"}, {"url": origin.url + "d/1.jpg"}]))
    errors = pq.read_table(tmp_path / "set/00000.parquet")["error"].to_pylist()
    assert errors[0].endswith("make it absolute, or state option base_url=…")


def test_a_link_of_a_shard_that_has_expired(origin, tmp_path, monkeypatch):
    """The way out is an option, and not an argument of ``download``."""
    monkeypatch.setitem(origin.script.faults, "d/5.jpg", Fault(kind="status", status=403, first=0))
    writer = writer_of(tmp_path)
    publish(writer, stage(writer, rows_of(origin, ["d/1.jpg", "d/5.jpg"])))
    error = pq.read_table(tmp_path / "set/00000.parquet")["error"][1].as_py()
    assert "(option refresh_command_url is one)" in error
    assert "renew=" not in error


def test_a_row_with_a_fault_shows_no_secret_either(origin, tmp_path):
    """A link with a login is refused; its row stays in the table without it."""
    rows = [{"url": f"{scheme}u:secret@h/a.jpg?secret"} for scheme in ("http://", "ftp://", "//")]
    writer = writer_of(tmp_path, names=["url"], path_column=None, hash_column=None)
    publish(writer, stage(writer, rows))
    (table,) = (tmp_path / "set").glob("failed-*.parquet")
    assert b"secret" not in table.read_bytes()
    found = pq.read_table(table).to_pylist()
    assert [row["url"] for row in found] == ["http://h/a.jpg", "ftp://h/a.jpg", "//h/a.jpg"]


def test_a_job_that_died_is_continued(origin, tmp_path):
    """A whole shard is found by its rows; one with a failure, or with other rows, is made again."""
    first, *others = ["d/1.jpg", "d/2.jpg"], ["d/3.jpg", "gone.jpg"], ["d/4.jpg"]
    dead = writer_of(tmp_path)
    for number, names in enumerate((first, *others)):
        stage(dead, rows_of(origin, names), f"00000-0000{number}")
    assert shown(tmp_path / "set") == []
    dead.abort([])
    origin.requests.clear()
    writer = writer_of(tmp_path)
    rows = [rows_of(origin, names) for names in (first, *others)]
    rows[2][0]["label"] = 99
    names = [stage(writer, some, f"00000-0000{number}") for number, some in enumerate(rows)]
    assert asked(origin) == dict.fromkeys(["d/3.jpg", "gone.jpg", "d/4.jpg"], 1)
    publish(writer, *names)
    assert json.loads(read_tar(tmp_path / "set/00002.tar")["d/4"]["json"])["label"] == 99
    assert [row["status"] for row in pq.read_table(tmp_path / "set/00001.parquet").to_pylist()] == [
        "done",
        "failed",
    ]


def test_equal_rows_make_equal_bytes(origin, tmp_path):
    """No time and no owner is in a tar file."""
    contents = []
    for place in ("a", "b"):
        writer = writer_of(tmp_path / place)
        publish(writer, stage(writer, rows_of(origin)))
        contents.append((tmp_path / place / "set/00000.tar").read_bytes())
    assert contents[0] == contents[1]


def test_numbers_go_on_or_begin_again(origin, tmp_path):
    """By the mode of the write; files that are no shards stay."""
    for overwrite, there in ((False, 2), (False, 4), (True, 2)):
        writer = writer_of(tmp_path, overwrite=overwrite)
        (tmp_path / "set/readme.txt").touch()
        places = ("00000-00000", "00001-00000")
        publish(writer, *(stage(writer, rows_of(origin, ["d/1.jpg"]), place) for place in places))
        expected = [f"{n:05d}.{ending}" for n in range(there) for ending in ("parquet", "tar")]
        assert shown(tmp_path / "set") == [*expected, "_SUCCESS", "readme.txt"]


def test_a_second_pass_brings_the_rows_that_failed(origin, tmp_path):
    """The tables tell which rows those are; with them the shards have each row once."""
    rows = rows_of(origin)
    rows[1] = {**rows[1], "url": f"{origin.url}gone"}
    first = writer_of(tmp_path, names=NAMES)
    publish(first, stage(first, rows[:3]))
    table = pq.read_table(tmp_path / "set" / "00000.parquet")
    failed = [row["label"] for row in table.to_pylist() if row["status"] == "failed"]
    assert failed == [1]
    again = writer_of(tmp_path, names=NAMES)
    publish(again, stage(again, [row for row in rows_of(origin)[:3] if row["label"] in failed]))
    samples = [read_tar(tmp_path / "set" / f"0000{number}.tar") for number in (0, 1)]
    assert [sorted(found) for found in samples] == [["d/0", "d/2"], ["d/1"]]


@pytest.mark.parametrize("sink", [WebdatasetSink, ParquetSink])
@pytest.mark.parametrize("place", ["directory", "store"])
def test_a_pass_in_which_all_fails_adds_no_shard(place, sink, origin, bucket, tmp_path):
    """Its table is published alone, without a number; that of the same rows that fail again replaces it."""
    to = tmp_path if place == "directory" else f"{bucket.url}/set"

    def run(names, **how):
        writer = writer_of(to, sink, **how)
        new = publish(writer, stage(writer, rows_of(origin, names)))
        found = bucket.keys() if place == "store" else shown(tmp_path / "set")
        shards = {name.rpartition("/")[2] for name in found if "cfetch/" not in name} - {"_SUCCESS"}
        return new, sorted(name.partition("-")[0] for name in shards if name.endswith(".parquet")), shards

    assert run(["d/1.jpg", "gone"])[:2] == (1, ["00000.parquet"])
    new, tables, shards = run(["gone"])
    assert (new, tables) == (0, ["00000.parquet", "failed"])
    assert len(shards) == 3 if sink is WebdatasetSink else 2
    assert run(["gone"]) == (0, tables, shards)
    assert run(["d/2.jpg", "gone"])[:2] == (1, ["00000.parquet", "00001.parquet", "failed"])
    assert run(["gone"], overwrite=True)[:2] == (0, ["failed"])
    new, (table,), _ = run(["d/1.jpg"], overwrite=True)
    assert table.endswith(".parquet")


def test_of_two_copies_of_a_shard_the_one_with_files_counts(origin, tmp_path):
    """The other one has got nothing, and leaves nothing in the stage."""
    writer = writer_of(tmp_path)
    name = stage(writer, rows_of(origin, ["d/1.jpg", "gone"]))
    (writer._job.stage / f"{name}.empty.parquet").touch()
    assert publish(writer, name) == 1
    assert shown(tmp_path / "set") == ["00000.parquet", "00000.tar", "_SUCCESS"]
    assert list(writer._job.stage.iterdir()) == []


def test_what_a_dead_job_has_left_is_counted_by_itself(origin, tmp_path, monkeypatch, capfd):
    """The line of the job that goes on says how many files it did not fetch."""
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: Context(0))
    rows = rows_of(origin, ["d/1.jpg", "d/2.jpg", "d/3.jpg", "gone"])

    def write(count):
        writer = writer_of(tmp_path, files_per_shard="2")
        return writer, writer.write(iter(pa.Table.from_pylist(rows[:count]).to_batches()))

    write(2)
    writer, message = write(4)
    capfd.readouterr()
    writer.commit([message])
    assert capfd.readouterr().err == (
        f"cfetch: 2 new shards in {tmp_path / 'set'}; this job's files: 3 files in place ("
        f"{size(len(FILES['d/3.jpg']))} fetched), 1 failed, from 1 host; "
        "2 of them are from a job or task that died\n"
    )


@pytest.mark.parametrize("size_column", [None, "size"])
def test_totals_count_rows_with_a_fault_and_files_above_the_limit(origin, tmp_path, monkeypatch, size_column):
    """As the table does, whether the size was stated before or came with the file; and as ``download``."""
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: Context(0))
    small, *_, large = sorted(FILES, key=lambda name: len(FILES[name]))
    links = ["not a link", *(origin.url + name for name in (small, large))]
    rows = [{"url": link, "size": str(len(FILES.get(link.removeprefix(origin.url), "")))} for link in links]
    names = {"names": ["url", "size"], "path_column": None, "hash_column": None, "size_column": size_column}
    limit = str(len(FILES[large]) - 1)
    writer = writer_of(tmp_path, ParquetSink, content_limit=limit, **names)
    message = writer.write(iter(pa.Table.from_pylist(rows).to_batches()))
    assert (message.tally.files, message.tally.failed) == (1, 2)
    publish(writer, *message.names)
    table = pq.read_table(tmp_path / "set/00000.parquet")
    assert table["status"].to_pylist() == ["failed", "done", "failed"]


def test_two_jobs_with_the_same_rows(origin, tmp_path):
    """A shard that both have made is published once, and the second job says so, before it publishes any."""
    first, second = writer_of(tmp_path), writer_of(tmp_path)
    rows = [rows_of(origin, [name]) for name in ("d/1.jpg", "d/2.jpg")]
    for writer in (first, second):
        names = [stage(writer, some, f"0000{number}-00000") for number, some in enumerate(rows)]
    publish(first, names[1])
    with pytest.raises(LocalFault, match="another job has published 1 of the 2 shards of the same rows to"):
        publish(second, *names)
    assert shown(tmp_path / "set") == ["00000.parquet", "00000.tar", "_SUCCESS"]


def test_a_job_that_another_one_has_overtaken(origin, tmp_path):
    """It has brought the same rows, and publishes nothing, as it began before the other one had ended."""
    first, second = writer_of(tmp_path), writer_of(tmp_path)
    rows = rows_of(origin, ["d/1.jpg"])
    publish(first, stage(first, rows))
    with pytest.raises(LocalFault, match="another job has published 1 of the 1 shards"):
        publish(second, stage(second, rows))
    third = writer_of(tmp_path)
    publish(third, stage(third, rows))
    assert [name for name in shown(tmp_path / "set") if ".tar" in name] == ["00000.tar", "00001.tar"]


def test_cells_that_python_cannot_hold(origin, tmp_path):
    """A far year or text that is not UTF-8 stays in the table; a URL of such bytes is a row's fault."""
    rows = pa.Table.from_pylist(rows_of(origin, ["d/1.jpg", "d/2.jpg"]))
    links = pa.array([rows["url"][0].as_py().encode(), b"\xff"], pa.binary()).view(pa.string())
    days = pa.array([4_000_000, 1], pa.int32()).view(pa.date32())
    table = rows.set_column(0, "url", links).append_column("day", days)
    writer = writer_of(tmp_path)
    publish(writer, stage_table(writer, table))
    (sample,) = read_tar(tmp_path / "set/00000.tar").values()
    assert json.loads(sample["json"])["day"] == "a value that JSON cannot hold"
    found = pq.read_table(tmp_path / "set/00000.parquet")
    assert found["day"].combine_chunks() == days
    assert found["error"].to_pylist() == [None, "url: it must be a string, not bytes that are not UTF-8"]


def test_parquet_has_the_bytes(origin, tmp_path):
    """In a column, up to the limit; there is no tar file."""
    writer = writer_of(tmp_path, ParquetSink, content_limit="200")
    publish(writer, stage(writer, rows_of(origin, ["d/1.jpg", "d/0.txt", "gone.jpg"])))
    assert shown(tmp_path / "set") == ["00000.parquet", "_SUCCESS"]
    rows = pq.read_table(tmp_path / "set/00000.parquet").to_pylist()
    assert [row["content"] for row in rows] == [FILES["d/1.jpg"], FILES["d/0.txt"], None]
    assert [row["label"] for row in rows] == [0, 1, 2]


def test_shards_of_dead_jobs_go_after_a_month(origin, tmp_path):
    """Younger ones stay."""
    writer = writer_of(tmp_path)
    old, young = (stage(writer, rows_of(origin, [name])) for name in ("d/1.jpg", "d/2.jpg"))
    for path in writer._job.stage.glob(f"{old}*"):
        os.utime(path, (time.time() - 31 * 86400,) * 2)
    names = {path.name.partition(".")[0] for path in writer_of(tmp_path)._job.stage.iterdir()}
    assert names == {young}


def test_a_directory_that_executors_do_not_see(origin, tmp_path):
    """The message says what is asked of it."""
    writer = writer_of(tmp_path)
    writer._job.stage.rmdir()
    with pytest.raises(LocalFault, match="driver and all executors must see the directory"):
        stage(writer, rows_of(origin))


@pytest.mark.parametrize(
    ("names", "given", "told"),
    [
        (NAMES, {"to": "/x"}, "the shards go to the path of save(path)"),
        (NAMES, {"path": "here"}, "absolute path"),
        (NAMES, {"files_per_shard": "0"}, "files_per_shard must be a whole number"),
        (NAMES, {"url_column": "link"}, "no column 'link' for url; the frame has url, path, digest, label"),
        (NAMES, {"hash_column": "url"}, "option hash_column is ALGORITHM=COLUMN, such as sha256=digest"),
        (NAMES, {"hash_column": "sha256="}, "option hash_column is ALGORITHM=COLUMN"),
        (NAMES, {"hash_column": "md5=x"}, "no column 'x' for md5; the frame has url, path, digest, label: "),
        (NAMES, {"hash_column": "md5=x"}, "digest, label: option hash_column=md5=… names another"),
        (NAMES, {"content_limit": "1MiB"}, "content_limit is of cfetch.parquet"),
        (NAMES, {"max_atempts": "1"}, "did you mean 'max_attempts'"),
        ([*NAMES, "Status"], {}, "the frame has a column 'Status' already"),
        ([*NAMES, "url"], {}, "the frame has 2 columns 'url', and one is wanted for url; drop or rename"),
    ],
)
def test_wrong_options(tmp_path, names, given, told):
    """Each is named with what would be right."""
    with pytest.raises((ConfigError, UsageError), match=re.escape(told)):
        writer_of(tmp_path, names=names, **given)


class Gate(BaseHTTPRequestHandler):
    """Answers with the path; ``hold`` may keep a request waiting; ``seen``: each path, its client's port."""

    protocol_version = "HTTP/1.1"
    hold = staticmethod(lambda _: None)
    seen: ClassVar[list[tuple[str, int]]] = []

    def do_GET(self):
        self.seen.append((self.path, self.client_address[1]))
        self.hold(self.path)
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def gate(monkeypatch):
    """A server whose requests a test holds; with rows for it."""
    monkeypatch.setattr(Gate, "seen", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Gate) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield lambda names: [
            {"url": f"http://127.0.0.1:{http.server_port}/{name}", "path": name} for name in names
        ]
        http.shutdown()
        thread.join()


PLAIN = {"hash_column": None, "mitigation": "false", "files_per_shard": "2"}


def stage_all(writer, rows, each=2):
    """What a task does with the rows of several shards."""
    tables = [pa.Table.from_pylist(rows[n : n + each]) for n in range(0, len(rows), each)]
    group = [(f"00000-{number:05d}", table) for number, table in enumerate(tables)]
    return stage_shards(writer._job, group, turn=Turn(0, 7, 0, "an executor"))


def test_a_shard_begins_while_the_one_before_ends(gate, tmp_path, monkeypatch):
    """A file that waits for one of the next shard gets it, and all shards use the same connections."""
    is_next = threading.Event()

    def hold(path):
        if path == "/5":
            is_next.set()
        elif path == "/0":
            assert is_next.wait(100)

    monkeypatch.setattr(Gate, "hold", staticmethod(hold))
    writer = writer_of(tmp_path, names=["url", "path"], concurrency="2", **PLAIN)
    publish(writer, *stage_all(writer, gate([str(n) for n in range(6)])))
    tars = [read_tar(tmp_path / "set" / f"{n:05d}.tar") for n in range(3)]
    assert [[sample["bin"] for sample in tar.values()] for tar in tars] == [
        [b"/0", b"/1"],
        [b"/2", b"/3"],
        [b"/4", b"/5"],
    ]
    assert sorted(path for path, _ in Gate.seen) == [f"/{n}" for n in range(6)]
    assert len({port for _, port in Gate.seen}) == 2


def test_a_shard_that_a_copy_of_the_task_has_written_is_not_brought(gate, tmp_path, monkeypatch):
    """A task looks for it when its turn comes."""
    rows = gate(["0", "1", "2", "3"])
    writer = writer_of(tmp_path, names=["url", "path"], concurrency="1", **PLAIN)

    def hold(path):
        if path == "/1":
            stage(writer, rows[2:], "00000-00001")

    monkeypatch.setattr(Gate, "hold", staticmethod(hold))
    publish(writer, *stage_all(writer, rows))
    assert sorted(path for path, _ in Gate.seen) == ["/0", "/1", "/2", "/3"]
    assert shown(tmp_path / "set") == [
        *sorted(f"{n:05d}.{end}" for n in (0, 1) for end in ("tar", "parquet")),
        "_SUCCESS",
    ]


def test_a_fault_of_the_stage_ends_the_task(gate, tmp_path, monkeypatch):
    """A shard that cannot be written is the fault of the executor, not of a row."""
    writer = writer_of(tmp_path, names=["url", "path"], **PLAIN)
    monkeypatch.setattr(
        Gate, "hold", staticmethod(lambda _: shutil.rmtree(writer._job.stage, ignore_errors=True))
    )
    with pytest.raises(LocalFault, match="shards"):
        stage_all(writer, gate(["0", "1", "2", "3"]))


def make_entry(path, size_bytes, *, number=0, data=None):
    """An entry of a manifest."""
    digest = None if data is None else Digest("sha256", hashlib.sha256(data).hexdigest())
    url = SecretUrl("http://h.invalid/" + path)
    return Entry(id=number, url=url, path=SafePath(path), size_bytes=size_bytes, digest=digest)


def test_shards_far_ahead_wait_for_the_first(tmp_path):
    """What lies on the disk is bounded: files of later shards count until the first ones are written."""
    size_bytes = LARGE_BYTES - 1
    entries = [make_entry(f"{n}", size_bytes, number=n) for n in range(40)]
    shards = [StreamedShard(entries[n : n + 4], str(tmp_path)) for n in range(0, 40, 4)]
    stream = ShardStream(shards, lambda _: None, lambda _: False, concurrency=16, directory=str(tmp_path))
    switch = Mock(is_stopping=True)  # no shard is written
    commitment = ShardCommitment(
        stream,
        EntryList(entries, ()),
        stream.volume,
        stream.window,
        None,
        switch,
        IdleWorkers(),
        None,
        concurrency=16,
        lose=None,
    )

    def end(*numbers):
        for number in numbers:
            for entry in shards[number].entries:
                stream.note_end(Mock(id=entry.id))
        return sum(map(stream.window.admits, range(40)))

    assert end() == 16
    assert end(1, 2, 3) == 24
    assert end(4, 5) == 24
    commitment._end_shard(shards[0])
    assert end() == 28
    stream.close()


@pytest.mark.parametrize("has_length", [True, False])
def test_a_large_file_is_not_in_memory(tmp_path, has_length):
    """From some size on its bytes are in a file without a name, in whatever order they come."""
    data = os.urandom(3 * LARGE_BYTES + 5)
    entry = make_entry("a.bin", len(data) if has_length else None, data=data)
    room = SpoolRoom(StreamWindow([-1], 1 << 30))
    spool = Spool(str(tmp_path))
    part = SpoolVolume(room, lambda _: spool, str(tmp_path)).open_part(entry, 0)
    part.write(data[:100])
    if has_length:
        part.total_bytes = len(data)
        part.split_into_ranges(len(data))
        part.write(data[100:])
    else:
        for begin in range(100, len(data), 1 << 20):
            part.write(data[begin : begin + (1 << 20)])
    assert part._file is not None
    asyncio.run(part.hash_rest())
    assert part.verify(entry.size_bytes, entry.digest) == "sha256"
    part.move_to(spool)
    part.discard()
    assert b"".join(spool.read_chunks("a.bin")) == data
    assert list(tmp_path.iterdir()) == []
    spool.close()
