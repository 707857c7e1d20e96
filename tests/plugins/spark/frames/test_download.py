"""A data frame with a column of URLs: its results, and how often the server is asked."""

import hashlib
import inspect
import math
import os
import re
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, LocalFault, UsageError
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.spark import download
from cfetch.plugins.spark.frames import pieces
from cfetch.plugins.spark.frames.download import _choose_options, _make_work
from cfetch.plugins.spark.frames.pieces import bring_rows, cut_pieces, make_scratch, open_row_directory
from cfetch.plugins.spark.frames.spread import Spread
from cfetch.plugins.spark.frames.task_log import TaskTally
from cfetch.plugins.spark.frames.url_rows import SAME_PATH
from tests.plugins.spark.serving import asked, serving
from tests.tasks.counting import counting

pa = pytest.importorskip("pyarrow")

PAGE = Path(__file__).parents[4] / "docs/spark-download.md"
FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(12)}
SIGNED = "?AWSAccessKeyId=k&Expires={0}&Signature={0}"


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
    """A row for each file, with its hash, a header and a column of the user's."""
    return [
        {
            "url": origin.url + name,
            "path": name,
            "size": len(FILES[name]),
            "digest": hashlib.sha256(FILES[name]).hexdigest(),
            "more": {"X-Row": str(number)},
            "label": [number],
        }
        for number, name in enumerate(names)
    ]


SCHEMA = "url string, path string, size long, digest string, more map<string,string>, label array<int>"
COLUMNS = {"url": "url", "path": "path", "size": "size", "sha256": "digest"}


def work_of(tmp_path, *, content=False, content_limit="1MiB", columns=COLUMNS, to="to", **settings):
    """The work of a frame's tasks, without Spark."""
    options = _choose_options(
        to and str(tmp_path / to), Settings(**settings), content=content, content_limit=content_limit
    )
    work = _make_work(options, columns, Spread(None, 1, 1), is_scratch=to is None, makes=False)
    if to is not None:
        open_row_directory(work.options, work.spec)
    return work


def bring(work, rows):
    """The rows of a piece with their results."""
    batches = bring_rows(work, pa.Table.from_pylist(rows), task=7)
    return [row for batch in batches for row in batch.to_pylist()]


def standing(root):
    """Every file but cfetch's own."""
    files = (path for path in root.rglob("*") if path.is_file() and ".cfetch" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_errors_of_rows_name_what_the_call_takes(tmp_path):
    """A command's flags would lead nowhere."""
    row = {"url": "not a link", "path": "a", "size": "1", "digest": None}
    found = bring(work_of(tmp_path), [row, {**row, "url": "http://h/a", "path": "b", "size": "x"}])
    assert found[0]["error"].endswith("make it absolute, or state Settings(base_url=…)")
    assert found[1]["error"].endswith("; a null is no size, and without size=… none counts")


def test_all_tasks_of_a_frame_keep_the_limit_of_a_host(spark, tmp_path):
    """Two partitions at a time, which the frame has by itself: one connection, which no fixed part allows."""
    with counting(together=1) as busy:
        rows = [{"url": f"{busy.url}{n}"} for n in range(60)]
        frame = spark.createDataFrame(rows).repartition(2)
        results = download(frame, to=tmp_path, settings=Settings(per_host=1)).select("status").collect()
        assert ({row["status"] for row in results}, busy.requests, busy.most_asking) == ({"done"}, 60, 1)


def test_a_frame_is_downloaded_once(spark, origin, tmp_path):
    """Lazily; counted, joined to itself and filtered, each file is asked for once; all columns stay."""
    bad = {"url": origin.url + "gone.bin", "path": "gone.bin"}
    rows = [*rows_of(origin), bad, {"url": "no url", "path": "x"}, {"url": None, "path": "y"}]
    frame = spark.createDataFrame(rows, SCHEMA)
    found = download(frame, to=tmp_path / "to", path="path", size="size", sha256="digest", headers="more")
    assert found.columns == [*frame.columns, *(name for name in pieces.RESULTS if name != "path")]
    assert not origin.requests
    assert found.alias("a").join(found.alias("b"), "url").count() == len(FILES) + 2  # one url is null
    results = {row["path"]: row for row in found.toArrow().to_pylist()}
    assert asked(origin) == dict.fromkeys([*FILES, "gone.bin"], 1)
    assert standing(tmp_path / "to") == FILES
    row = results["d/7.bin"]
    assert row.pop("executor") == os.uname().nodename.partition(".")[0]
    assert row == rows[7] | {
        "more": [("X-Row", "7")],
        "status": "done",
        "bytes": len(FILES["d/7.bin"]),
        "hash": f"sha256:{rows[7]['digest']}",
        "error": None,
        "attempts": 1,
        "error_kind": None,
        "http_status": 200,
        "content_type": row["content_type"],
    }
    gone = results["gone.bin"]
    assert (gone["status"], gone["error"], gone["error_kind"], gone["http_status"]) == (
        *("failed", "HTTP 404", "refused", 404),
    )
    faulty = results["x"]  # a row with a fault keeps its own path
    assert (faulty["status"], faulty["attempts"], faulty["executor"]) == ("failed", 0, None)
    assert faulty["error_kind"] == "manifest"
    sent = {request.path: request.headers.get("x-row") for request in origin.requests}
    assert sent["d/7.bin"] == "7"


def test_the_page_in_ten_lines(spark, origin, tmp_path, capsys):
    """docs/spark-download.md, word by word but for the place: a table of results is there at the end."""
    code, *_, shards = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len([line for line in code.splitlines() if line]) <= 10
    (tmp_path / "data").mkdir()
    lines = [f"{row['url']},{row['digest']}" for row in rows_of(origin)]
    (tmp_path / "data/urls.csv").write_text("\n".join(["url,digest", *lines, f"{origin.url}gone.bin,"]))
    names: dict[str, object] = {}
    exec(code.replace("/data", str(tmp_path / "data")), names)
    out = capsys.readouterr().out
    assert "HTTP 404" in out
    assert f"|  done|   {len(FILES)}|" in out
    assert sorted(standing(tmp_path / "data/files").values()) == sorted(FILES.values())
    assert asked(origin) == dict.fromkeys([*FILES, "gone.bin"], 1)
    exec(shards.replace("/data", str(tmp_path / "data")), names)
    with tarfile.open(tmp_path / "data/shards/00000.tar") as tar:
        assert len(tar.getnames()) == 2 * len(FILES)
    shown = sorted(path.name for path in (tmp_path / "data/shards").iterdir())
    assert shown == [".cfetch", "00000.parquet", "00000.tar", "_SUCCESS"]
    assert list((tmp_path / "data/shards/.cfetch/shards").iterdir()) == []


def test_results_go_into_a_delta_table(spark, origin, tmp_path):
    """The page's two lines, without Spark's jars for Delta; a second call adds a version of the table."""
    _, code, *_ = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    frame = spark.createDataFrame(rows_of(origin), SCHEMA)
    results = download(frame, to=tmp_path / "to", path="path", size="size", sha256="digest", headers="more")
    for _ in range(2):
        exec(code.replace("/data", str(tmp_path)), {"results": results})
    table = deltalake.DeltaTable(str(tmp_path / "results"))
    rows = pa.table(table.to_pyarrow_table()).to_pylist()
    assert table.version() == 1
    assert Counter((row["path"], row["status"]) for row in rows) == Counter((path, "done") for path in FILES)
    assert asked(origin) == dict.fromkeys(FILES, 1)


def test_an_object_store(spark, origin, bucket):
    """The rows become objects; a second action and a new call find them in place and ask for nothing."""
    bad = {"url": origin.url + "gone.bin", "path": "gone.bin"}
    bare = {"url": origin.url + "d/3.bin", "path": "bare.bin"}  # neither size nor hash
    frame = spark.createDataFrame([*rows_of(origin), bad, bare], SCHEMA).repartition(2)
    found = download(frame, to=f"{bucket.url}/", path="path", size="size", sha256="digest")
    assert not origin.requests
    results = {row["path"]: row for row in found.toArrow().to_pylist()}
    assert asked(origin) == dict.fromkeys([*FILES, "gone.bin"], 1) | {"d/3.bin": 2}
    objects = FILES | {"bare.bin": FILES["d/3.bin"]}
    keys = bucket.keys()
    assert {key: bucket.get(key) for key in keys} == objects
    assert Counter(row["status"] for row in results.values()) == {"done": len(objects), "failed": 1}
    assert {path: row["bytes"] for path, row in results.items() if path != "gone.bin"} == {
        path: len(content) for path, content in objects.items()
    }
    assert results["d/7.bin"]["hash"] == f"sha256:{hashlib.sha256(FILES['d/7.bin']).hexdigest()}"
    origin.requests.clear()
    bucket.put("d/7.bin", b"x" * len(FILES["d/7.bin"]))  # of the right size, but other bytes
    again = {row["path"]: row for row in found.toArrow().to_pylist()}
    assert asked(origin) == {"gone.bin": 1, "d/7.bin": 1}
    assert Counter(row["status"] for row in again.values()) == {"skipped": len(FILES), "done": 1, "failed": 1}
    assert again["d/5.bin"]["hash"] == results["d/5.bin"]["hash"]
    assert (again["bare.bin"]["bytes"], again["d/5.bin"]["bytes"]) == (None, len(FILES["d/5.bin"]))
    assert bucket.get("d/7.bin") == FILES["d/7.bin"]
    assert bucket.uploads() == []


def test_the_settings_of_an_object_store():
    """The driver's login travels; contents and a state are refused, and so is a relative path."""

    def choose(to="s3://b/x", *, content=False, **settings):
        return _choose_options(to, Settings(**settings), content=content, content_limit="1MiB")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_REGION", "eu-north-1")
        assert choose().env["AWS_REGION"] == "eu-north-1"
        assert "AWS_REGION" not in choose("/data").env
    with pytest.raises(ConfigError, match="binaryFile"):
        choose(content=True)
    with pytest.raises(ConfigError, match="setting state means nothing"):
        choose(state="/shared")
    with pytest.raises(ConfigError, match="or the URL of an object store"):
        choose("data")


def test_rows_in_another_order_are_the_same_piece(origin, tmp_path):
    """As after a shuffle, and with links that are signed anew: the receipt answers, also for failures."""
    work = work_of(tmp_path, columns={"url": "url", "path": "path"})
    names = [*FILES, "gone.bin"]
    old, new = (
        [{"url": origin.url + name + SIGNED.format(sign), "path": name} for name in names] for sign in "12"
    )
    first = {row["path"]: row for row in bring(work, old)}
    assert len(origin.requests) == len(names)
    origin.requests.clear()
    again = {row["path"]: row for row in bring(work, new[::-1])}
    assert not origin.requests
    assert [again[name]["status"] for name in names] == [first[name]["status"] for name in names]
    assert again["gone.bin"]["error"] == "HTTP 404"


def test_a_new_call_tries_failed_rows_again(origin, tmp_path):
    """And finds the others in place."""
    rows = rows_of(origin, ["d/1.bin", "d/2.bin"])
    with serving({"d/1.bin": FILES["d/1.bin"]}) as poor:
        rows[1] |= {"url": poor.url + "d/2.bin"}
        assert [row["status"] for row in bring(work_of(tmp_path), rows)] == ["done", "failed"]
        poor.files = FILES
        assert [row["status"] for row in bring(work_of(tmp_path), rows)] == ["skipped", "done"]


def test_rows_of_one_file(origin, tmp_path):
    """Equal rows are one request; the second of two that contradict each other fails."""
    rows = rows_of(origin, ["d/1.bin", "d/1.bin", "d/2.bin"])
    rows[2] |= {"path": "d/1.bin"}
    found = bring(work_of(tmp_path), rows)
    assert [row["status"] for row in found] == ["done", "done", "failed"]
    assert (found[2]["error"], found[2]["error_kind"]) == (f"path: {SAME_PATH}", "clash")
    assert asked(origin) == {"d/1.bin": 1}


def test_files_are_named_by_their_urls(origin, tmp_path):
    """By a hash, as no task sees the rows of the others; or by the whole path of the URL."""
    rows = [{"url": origin.url + "d/1.bin?x=1"}]
    (found,) = bring(work_of(tmp_path, columns={"url": "url"}), rows)
    name = hashlib.sha256(rows[0]["url"].encode()).hexdigest()
    assert (found["path"], found["hash"]) == (f"{name[:2]}/{name[:40]}.bin", None)
    (found,) = bring(work_of(tmp_path, columns={"url": "url"}, name_by="url-path"), rows)
    assert found["path"] == "d/1.bin"


def test_contents_beside_files(origin, tmp_path):
    """Files stay; a larger one has no content."""
    work = work_of(tmp_path, content=True, content_limit="200")
    found = bring(work, rows_of(origin, ["d/1.bin", "d/11.bin"]))
    assert [(row["status"], row["content"]) for row in found] == [("done", FILES["d/1.bin"]), ("done", None)]
    assert len(standing(tmp_path / "to")) == 2


def test_contents_without_files(origin, tmp_path, monkeypatch):
    """Nothing stays. A larger file fails, and is not asked for where its size is stated."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{scratch},/elsewhere")
    monkeypatch.setattr("cfetch.plugins.spark.frames.rows.CONTENT_BYTES", 100)
    rows = rows_of(origin, ["d/1.bin", "d/10.bin", "d/2.bin", "d/11.bin"])
    rows[3]["size"] = None
    totals = TaskTally()
    work = work_of(tmp_path, to=None, content=True, content_limit="200")._replace(totals=totals)
    batches = bring_rows(work, pa.Table.from_pylist(rows), task=7)
    first = next(batches)
    assert len(list(scratch.iterdir())) == 1
    found = [row for batch in (first, *batches) for row in batch.to_pylist()]
    assert list(scratch.iterdir()) == []
    assert [row["content"] for row in found] == [FILES["d/1.bin"], None, FILES["d/2.bin"], None]
    assert [row["status"] for row in found] == ["done", "failed", "done", "failed"]
    assert [row["error_kind"] for row in found] == [None, "refused", None, "refused"]
    assert (totals.files, totals.failed) == (2, 2)  # one came, and one is stated to be too large
    assert found[1]["error"] == found[3]["error"] == "it has more than the 200 bytes of content_limit"
    assert [row["label"] for row in found] == [row["label"] for row in rows]
    assert asked(origin) == dict.fromkeys(["d/1.bin", "d/2.bin", "d/11.bin"], 1)


def test_a_killed_task_leaves_its_files_to_the_next(origin, tmp_path, monkeypatch):
    """Spark kills a task that has given as many rows as ``show()`` wants; what a living task has stays."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    work = work_of(tmp_path, to=None, content=True, content_limit="200")
    rows = pa.Table.from_pylist(rows_of(origin, ["d/1.bin"]))
    living = bring_rows(work, rows, task=7)
    assert next(living)["status"].to_pylist() == ["done"]
    (own,) = tmp_path.iterdir()
    killed = os.fork()
    if not killed:
        with make_scratch() as left:
            (left / "x").touch()
            os._exit(0)
    os.waitpid(killed, 0)
    assert len(list(tmp_path.iterdir())) == 2
    with make_scratch() as third:
        assert set(tmp_path.iterdir()) == {own, third}
    assert list(living) == []
    assert list(tmp_path.iterdir()) == []


def test_cells_as_other_tables_have_them(origin, tmp_path):
    """Sizes as pandas writes them, or CSV files; headers as JSON. Text that is not UTF-8 is a row's fault."""
    rows = rows_of(origin, list(FILES)[:4])
    gap = pa.Table.from_pylist(rows[:1]).set_column(2, "size", pa.array([math.nan]))
    assert next(bring_rows(work_of(tmp_path, to="gap"), gap, task=7))["error"].to_pylist() == [None]
    for row, more in zip(rows, ('{"X-Row": "a"}', '{"X-Row": "b"}', None, "no"), strict=True):
        row["more"] = more
    table = pa.Table.from_pylist(rows)
    work = work_of(tmp_path, columns=COLUMNS | {"headers": "more"})
    for kind in (pa.string(), pa.float64()):
        table = table.set_column(2, "size", table["size"].cast(kind))
        found = [row for batch in bring_rows(work, table, task=7) for row in batch.to_pylist()]
        assert [row["status"] for row in found] == ["done", "done", "done", "failed"]
        assert [row["path"] for row in found] == [row["path"] for row in rows]
        assert (
            found[3]["error"]
            == "headers: it must be an object of names to strings, not a cell that is not JSON"
        )
    assert {request.headers.get("x-row") for request in origin.requests} == {"a", "b", None}
    urls = pa.array([row["url"].encode() for row in rows[:3]] + [b"http://h/\xff"], pa.binary())
    table = table.set_column(0, "url", urls.view(pa.string()))
    found = [
        one for batch in bring_rows(work_of(tmp_path), table, task=7) for one in batch["error"].to_pylist()
    ]
    assert found == [None, None, None, "url: it must be a string, not bytes that are not UTF-8"]


def test_hashes_of_other_algorithms(origin, tmp_path):
    """As a feed's rows state them, with the algorithm's name; they are compared too."""
    names = ["d/1.bin", "d/2.bin"]
    digests = ["md5:" + hashlib.md5(FILES["d/1.bin"]).hexdigest() for _ in names]
    rows = [row | {"digest": digest} for row, digest in zip(rows_of(origin, names), digests, strict=True)]
    good, bad = bring(work_of(tmp_path), rows)
    assert (good["status"], good["hash"]) == ("done", digests[0])
    assert (bad["status"], bad["error_kind"]) == ("failed", "corrupt")


def test_a_frame_in_use_is_not_an_old_one(origin, tmp_path):
    """A stream may last longer than a frame is kept that nobody uses."""
    work = work_of(tmp_path)
    directory = Path(work.spec.receipts).parent
    os.utime(directory, (0, 0))
    bring(work, rows_of(origin, ["d/1.bin"]))
    assert directory.stat().st_mtime > 0


def test_rows_without_a_download(tmp_path):
    """A piece of faults alone asks for nothing; its rows are in the totals."""
    totals = TaskTally()
    work = work_of(tmp_path)._replace(totals=totals)
    found = bring(work, [{"url": 3, "path": "../x", "size": None, "digest": "no"}])
    assert totals == TaskTally(failed=1)
    assert [row["status"] for row in found] == ["failed"]
    for key in ("url: it must be a string", "path: ", "sha256: it must be 64 hexadecimal digits"):
        assert key in found[0]["error"]


def test_settings_reach_the_tasks(tmp_path):
    """One request, as the setting says."""
    with serving({"a": b"x"}, {"a": Fault(kind="status", status=503, first=0)}) as busy:
        work = work_of(tmp_path, columns={"url": "url"}, max_attempts=1)
        assert [row["attempts"] for row in bring(work, [{"url": busy.url + "a"}])] == [1]
        assert len(busy.requests) == 1


def test_a_directory_that_executors_do_not_see(origin, tmp_path):
    """The message says what is asked of it."""
    options = _choose_options(str(tmp_path / "to"), None, content=False, content_limit="1MiB")
    work = _make_work(options, COLUMNS, Spread(None, 1, 1), is_scratch=False, makes=False)
    with pytest.raises(LocalFault, match=r"is not there on .* must see the directory"):
        bring(work, rows_of(origin))
    assert bring(work._replace(makes=True), rows_of(origin))  # by Spark Connect, tasks make it
    assert standing(tmp_path / "to") == FILES


def test_pieces_end_at_rows_and_at_bytes(monkeypatch):
    """Whatever batches Spark makes."""
    batches = [pa.record_batch({"n": list(range(first, first + 5))}) for first in (0, 5, 10)]
    assert [len(table) for table in cut_pieces(iter(batches), 4)] == [4, 4, 4, 3]
    assert [table["n"].to_pylist() for table in cut_pieces(iter(batches), 9)] == [
        list(range(9)),
        list(range(9, 15)),
    ]
    single = [pa.record_batch({"n": [n]}) for n in range(3000)]
    begin_s = time.process_time()
    assert [len(table) for table in cut_pieces(iter(single), 2000)] == [2000, 1000]
    assert time.process_time() - begin_s < 2  # it was quadratic in the number of batches: 7 s
    monkeypatch.setattr(pieces, "PIECE_BYTES", 80)
    assert [len(table) for table in cut_pieces(iter(batches), 100)] == [10, 5]
    assert list(cut_pieces(iter([batches[0].slice(0, 0)]), 4)) == []


@pytest.mark.parametrize(
    ("to", "settings", "told"),
    [
        (None, {}, "to is missing: a directory that all executors see, or an object store, or content=True"),
        ("here", {}, "absolute path"),
        ("/x", {"quiet": True}, "setting quiet means nothing to a data frame"),
        (
            "/x",
            {"hash_column": "sha256=digest"},
            "setting hash_column means nothing here; download has an arg",
        ),
        ("/x", {"name_by": "row"}, "name_by row is not for a data frame"),
        ("/x", {"bearer_env": "T"}, "say in header_host which hosts may have it"),
    ],
)
def test_wrong_settings(to, settings, told):
    """Each is named with what would be right."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        _choose_options(to, Settings(**settings), content=False, content_limit="1MiB")


def test_arguments_of_other_types(spark):
    """One sentence says what each takes, also where PySpark or Python would fail in words of their own."""
    frame = spark.createDataFrame([("u",)], "url string")
    frames: dict[str, Any] = {"list": ["u"], "pandas.core.frame.DataFrame": frame.toPandas()}
    for kind, df in frames.items():
        with pytest.raises(
            UsageError, match=f"^df is {kind}, and must be a data frame of Spark: spark.create"
        ):
            download(df, to="/x")
    wrong: dict[str, Any] = {
        "url": F.col("url"),
        "path": 1,
        "to": ["/x"],
        "content_limit": 1024,
        "settings": {"max_attempts": 3},
        "tasks": "x",
        "renew": 5,
        "prefix": None,
    }
    for name, value in wrong.items():
        with pytest.raises(UsageError, match=f"^{name} is of type {type(value).__name__}, and must be "):
            download(frame, **{"to": "/x", name: value})


def test_columns_with_any_names(spark, origin, tmp_path):
    """A dot and a backtick are syntax of Spark; two of one name, which a join may leave, are refused."""
    names = ["x.y", "a`b", "the.path"]
    frame = spark.createDataFrame([(origin.url + "d/1.bin", 1, "z")]).toDF(*names)
    (row,) = download(frame, "x.y", to=tmp_path, path="the.path").collect()
    assert list(row.asDict()) == [*names, *pieces.RESULTS]
    assert tuple(row)[: len(names) + 2] == (origin.url + "d/1.bin", 1, "z", "done", "z")
    with pytest.raises(UsageError, match="the frame has 2 columns 'n'; drop or rename the others before"):
        download(frame.toDF("url", "n", "n"), to=tmp_path)


def test_wrong_columns(spark, tmp_path):
    """Before any job."""
    frame = spark.createDataFrame([("u", "p", 1)], "url string, Status string, n int")
    told = r"no column 'link' for url; the frame has url, Status, n: download\(df, url=\"…\"\) names another"
    with pytest.raises(UsageError, match=told):
        download(frame, "link", to=tmp_path)
    told = "column 'n' for sha256 is int, which sha256 cannot be; make it string"
    with pytest.raises(UsageError, match=told):
        download(frame, to=tmp_path, sha256="n")
    with pytest.raises(UsageError, match=r"column 'd' for size is interval day, .* make it bigint"):
        download(frame.selectExpr("url", "interval '1' day d"), to=tmp_path, size="d")
    with pytest.raises(UsageError, match=r"column 'd' for headers is array<string>, .* make it map"):
        download(frame.selectExpr("url", "array('a') d"), to=tmp_path, headers="d")
    told = r'rename it before: df.withColumnRenamed\("Status", "my_Status"\), or give a prefix'
    with pytest.raises(UsageError, match=told):
        download(frame, to=tmp_path)
    added = download(frame, to=tmp_path, prefix="file_").columns[len(frame.columns) :]
    assert added == [f"file_{name}" for name in pieces.RESULTS]


def test_results_with_a_prefix(origin, tmp_path):
    """They stand beside columns of the same names, and of paths too."""
    rows = [{"url": origin.url + "d/1.bin", "path": "d/1.bin", "status": "new"}]
    (row,) = bring(work_of(tmp_path, columns={"url": "url", "path": "path"})._replace(prefix="file_"), rows)
    assert row.items() >= (rows[0] | {"file_status": "done", "file_path": "d/1.bin"}).items()
    assert list(row) == [*rows[0], *(f"file_{name}" for name in pieces.RESULTS)]


def test_the_page_names_arguments_and_columns():
    """docs/spark-download.md has all of them."""
    text = PAGE.read_text().partition("## Shards")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    assert named == {*inspect.signature(download).parameters, *pieces.RESULTS, "content"}
