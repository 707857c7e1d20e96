"""A directory of growing manifests as a stream: positions and turns, and real queries that stop and go on."""

import json
import re
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.types import StructType

from cfetch.base.errors import ConfigError, UsageError
from cfetch.plugins.spark import register
from cfetch.plugins.spark.frames.feed_reader import SPAN_LINES, FeedReader
from cfetch.plugins.spark.frames.feed_source import FeedDataSource
from cfetch.plugins.spark.frames.feed_spans import FeedSpan, open_feed_state, read_span
from cfetch.plugins.spark.frames.manifest_directory import (
    START,
    DirectoryPosition,
    advance,
    list_manifests,
    read_lines,
)
from cfetch.plugins.spark.frames.options import read_options
from cfetch.tasks.hub.leases import divide_fairly
from tests.plugins.spark.serving import asked, lines, serving

PROJECT = Path(__file__).parents[4]
FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(30)}
NAMES = list(FILES)


@pytest.fixture(scope="module")
def origin():
    """Has ``FILES``."""
    with serving(FILES) as one:
        yield one


@pytest.fixture
def path(tmp_path):
    """Where the manifests are."""
    (tmp_path / "feed").mkdir()
    return tmp_path / "feed"


@pytest.fixture
def feed(spark, path, origin, tmp_path):
    """A directory, and how a query follows it until it has nothing more to do: its rows for each trigger."""
    register(spark)
    origin.requests.clear()

    def follow(each=None, **options):
        batches: list[list[dict[str, object]]] = []

        def take(frame, number):
            batches.append([row.asDict() for row in frame.collect()])
            if each is not None:
                each(number)

        reader = spark.readStream.format("cfetch.feed").option("path", str(path))
        stream = reader.option("to", str(tmp_path / "to")).options(**options).load()
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches

    return follow


def counts(batches):
    """Rows of each trigger by manifest."""
    return [
        {
            name: [row["manifest"] for row in rows].count(name)
            for name in sorted({row["manifest"] for row in rows})
        }
        for rows in batches
    ]


def test_triggers_take_a_fair_share_and_a_restart_repeats_nothing(feed, path, origin, tmp_path):
    """Also of what has grown since, and of a line that was half written before."""
    lines(path / "a.jsonl", origin, NAMES[:12])
    lines(path / "b.jsonl", origin, NAMES[12:15])
    whole = json.dumps({"url": origin.url + NAMES[15], "path": NAMES[15]}) + "\n"
    with (path / "b.jsonl").open("a") as file:
        file.write(whole[:20])
    batches = feed(maxFilesPerTrigger="8")
    assert counts(batches) == [{"a.jsonl": 5, "b.jsonl": 3}, {"a.jsonl": 7}]
    rows = [row for batch in batches for row in batch]
    assert sorted((row["manifest"], row["id"], row["path"]) for row in rows) == sorted(
        [("a.jsonl", n, NAMES[n]) for n in range(12)] + [("b.jsonl", n - 12, NAMES[n]) for n in range(12, 15)]
    )
    assert {row["status"] for row in rows} == {"done"}
    assert asked(origin) == dict.fromkeys(NAMES[:15], 1)
    origin.requests.clear()
    with (path / "b.jsonl").open("a") as file:
        file.write(whole[20:])
    lines(path / "c.jsonl", origin, NAMES[16:18])
    assert counts(feed(maxFilesPerTrigger="8")) == [{"b.jsonl": 1, "c.jsonl": 2}]
    assert asked(origin) == dict.fromkeys(NAMES[15:18], 1)
    assert {path.read_bytes() for path in (tmp_path / "to" / "d").iterdir()} == set(list(FILES.values())[:18])


def test_what_spark_repeats_after_a_crash_is_not_asked_for_again(feed, path, origin):
    """The query dies between reading and commit; its rows come again, from the receipts."""
    lines(path / "a.jsonl", origin, [*NAMES[:6], "gone.bin"])

    def die(number):
        raise RuntimeError("the sink is ill")

    with pytest.raises(Exception, match="the sink is ill"):
        feed(die)
    assert asked(origin) == dict.fromkeys([*NAMES[:6], "gone.bin"], 1)
    origin.requests.clear()
    (rows,) = [batch for batch in feed() if batch]
    assert [row["status"] for row in rows] == ["done"] * 6 + ["failed"]
    assert asked(origin) == {}


def test_what_is_no_entry_is_a_row(feed, path, origin):
    """And what repeats itself costs nothing; two contents for one path are a contradiction."""
    one, other = ({"url": origin.url + name, "path": "x"} for name in NAMES[20:22])
    texts = [json.dumps(one | {"size": 300}), '{"url": 3}', "", "nonsense", json.dumps(one | {"size": 300})]
    texts += [json.dumps(other | {"size": 3}), '{"version": 1}']
    (path / "a.jsonl").write_text("\n".join(texts) + "\n")
    (rows,) = feed()
    assert [(row["id"], row["status"], row["path"]) for row in rows] == [
        (0, "done", "x"),
        (1, "failed", None),
        (3, "failed", None),
        (4, "skipped", "x"),
        (5, "failed", None),
        (6, "failed", None),
    ]
    told = [row["error"] for row in rows if row["path"] is None]
    for part, error in zip(
        ("must be a string", "not JSON", "line 1 states another size or hash", "a header is only the first"),
        told,
        strict=True,
    ):
        assert part in error
    assert {row["error_kind"] for row in rows if row["path"] is None} == {"manifest"}
    assert asked(origin) == {NAMES[20]: 1}


def test_the_example_runs(spark, origin, tmp_path):
    """docs/data-source.md, word by word but for the place."""
    text = (PROJECT / "docs" / "data-source.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[1]
    (tmp_path / "data" / "feed").mkdir(parents=True)
    lines(tmp_path / "data" / "feed" / "a.jsonl", origin, NAMES[:4])
    exec(code.replace("/data", str(tmp_path / "data")), {"spark": spark})
    rows = spark.read.parquet(str(tmp_path / "data" / "table")).collect()
    assert sorted(row.path for row in rows) == NAMES[:4]


@pytest.fixture
def reader(tmp_path):
    """A reader over a directory, without a session."""
    (tmp_path / "feed").mkdir(exist_ok=True)
    options = {"feed": str(tmp_path / "feed"), "to": str(tmp_path / "to")}
    feed = open_feed_state(read_options(options, needed="feed"), slots=2)
    return lambda most=None: FeedReader(feed, most)


def test_spans_are_the_same_for_the_same_offsets(reader, tmp_path):
    """Whole lines, none twice; a replay finds the receipts of the first time."""
    (tmp_path / "feed" / "a.jsonl").write_text("".join(f"{n}\n" for n in range(450)))
    one = reader()
    start = {"a.jsonl": [10, 20]}
    end = one.latestOffset(start, one.getDefaultReadLimit())
    spans = [(span.begin, span.end) for span in one.partitions(start, end)]
    assert [first.lines for first, _ in spans] == [10, 10 + SPAN_LINES, 10 + 2 * SPAN_LINES]
    assert [last for _, last in spans[:-1]] == [first for first, _ in spans[1:]]
    assert list(spans[-1][1]) == end["a.jsonl"] == [450, (tmp_path / "feed" / "a.jsonl").stat().st_size]
    assert spans == [(span.begin, span.end) for span in reader().partitions(start, end)]


def test_lines_that_vanish_between_trigger_and_plan(reader, tmp_path):
    """An endless search for them would be worse than an end."""
    (tmp_path / "feed" / "a.jsonl").write_text("1\n")
    with pytest.raises(UsageError, match="has lost lines"):
        reader().partitions({}, {"a.jsonl": [2, 4]})


def test_what_comes_after_the_beginning_is_for_another_run(reader, tmp_path):
    """Of a query that takes what is there and ends."""
    path = tmp_path / "feed" / "a.jsonl"
    path.write_text("1\n2\n")
    one = reader()
    one.prepareForTriggerAvailableNow()
    path.write_text("1\n2\n3\n")
    (tmp_path / "feed" / "b.jsonl").write_text("1\n")
    assert one.latestOffset({}, one.getDefaultReadLimit()) == {"a.jsonl": [2, 4]}
    assert reader().latestOffset({}, one.getDefaultReadLimit()) == {"a.jsonl": [3, 6], "b.jsonl": [1, 2]}


def test_a_manifest_that_has_shrunk_ends_the_query(reader, tmp_path):
    """It would be read from the middle of a line."""
    (tmp_path / "feed" / "a.jsonl").write_text("1\n")
    one = reader()
    with pytest.raises(UsageError, match=r"a\.jsonl has 2 bytes, and 6 were read"):
        one.latestOffset({"a.jsonl": [3, 6]}, one.getDefaultReadLimit())


def test_a_manifest_that_is_gone_keeps_its_place(reader, tmp_path):
    """Nothing of it is new."""
    one = reader(3)
    assert one.latestOffset({"a.jsonl": [3, 6]}, one.getDefaultReadLimit()) == {"a.jsonl": [3, 6]}


def test_receipts_go_with_the_commit(reader, origin, tmp_path):
    """Those of what is committed, and no others."""
    path = tmp_path / "feed" / "a.jsonl"
    lines(path, origin, NAMES[:4])
    one = reader()
    middle = advance(path, START, path.stat().st_size, 2)
    end = advance(path, middle, path.stat().st_size, None)
    for span in (FeedSpan("a.jsonl", START, middle), FeedSpan("a.jsonl", middle, end)):
        assert sum(batch.num_rows for batch in one.read(span)) == 2
    receipts = tmp_path / "to" / ".cfetch" / "feeds"
    assert len(list(receipts.glob("*/*/*/share-*"))) == 2
    one.commit({"a.jsonl": list(middle)})
    assert [found.parent.name for found in receipts.glob("*/*/*/share-*")] == [f"{middle.bytes}-{end.bytes}"]
    one.commit({"a.jsonl": list(end), "unknown.jsonl": [1, 2]})
    assert list(receipts.glob("*/*/*")) == []


def test_the_first_line_may_be_a_header(tmp_path, origin):
    """Its base URL and headers hold for lines far behind it; its line counts."""
    path = tmp_path / "feed" / "a.jsonl"
    path.parent.mkdir()
    header = json.dumps({"version": 1, "base_url": origin.url, "headers": {"X-Who": "me"}})
    path.write_text(f'{header}\n{{"url": "d/1.bin"}}\n{{"url": "d/2.bin"}}\n')
    size_bytes = path.stat().st_size
    text = read_lines(path, advance(path, START, size_bytes, 2), advance(path, START, size_bytes, None), None)
    assert [(line.number, line.entry and line.entry.url.reveal()) for line in text.lines] == [
        (2, origin.url + "d/2.bin")
    ]
    assert [
        line.number for line in read_lines(path, START, DirectoryPosition(3, size_bytes), None).lines
    ] == [1, 2]
    options = {"feed": str(path.parent), "to": str(tmp_path / "to")}
    feed = open_feed_state(read_options(options, needed="feed"), slots=2)
    origin.requests.clear()
    (batch,) = read_span(feed, FeedSpan("a.jsonl", START, DirectoryPosition(3, size_bytes)))
    assert batch.column("status").to_pylist() == ["done", "done"]
    assert {request.headers["x-who"] for request in origin.requests} == {"me"}


def test_only_manifests_that_are_ready(tmp_path):
    """By their ending, and without a dot before it."""
    for name in ("a.jsonl", ".b.jsonl", "c.json", "d.jsonl.tmp"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "e.jsonl").mkdir()
    assert list_manifests(tmp_path) == {"a.jsonl": 2}


@pytest.mark.parametrize("window", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    ("begin", "end", "most", "found"),
    [
        (START, 100, None, (3, 7)),
        (START, 100, 2, (2, 5)),
        (START, 100, 3, (3, 7)),
        (START, 4, None, (1, 2)),
        (START, 5, None, (2, 5)),
        (DirectoryPosition(1, 2), 100, 1, (2, 5)),
        (DirectoryPosition(3, 7), 100, None, (3, 7)),
        (START, 0, None, (0, 0)),
        (START, 100, 0, (0, 0)),
    ],
)
def test_walking_by_whole_lines(tmp_path, monkeypatch, window, begin, end, most, found):
    """However the file is cut into windows."""
    monkeypatch.setattr("cfetch.plugins.spark.frames.manifest_directory.PIECE_BYTES", window)
    (tmp_path / "a").write_text("1\n22\n3\nhalf")
    assert advance(tmp_path / "a", begin, end, most) == found


@pytest.mark.parametrize(
    ("waiting", "most", "taken"),
    [
        ({"a": 1000, "b": 200}, 400, {"a": 200, "b": 200}),
        ({"a": 1000, "b": 20}, 400, {"a": 380, "b": 20}),
        ({"a": 5, "b": 5}, 400, {"a": 5, "b": 5}),
        ({"a": 5, "b": 5, "c": 5}, 1, {"a": 1, "b": 0, "c": 0}),
        ({"a": 9, "b": 1}, 1, {"a": 0, "b": 1}),
        ({}, 3, {}),
    ],
)
def test_fair_shares(waiting, most, taken):
    """Nobody gets more than another who wants it, and nothing is left unused."""
    assert divide_fairly(waiting, most, sorted(waiting, key=waiting.__getitem__)) == taken
    assert sum(taken.values()) == min(most, sum(waiting.values()))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "feed"}, "absolute path of a directory"),
        ({"path": "/feed", "maxfilespertrigger": "0"}, "maxFilesPerTrigger must be a whole number from 1"),
        ({"path": "/feed", "maxfilespertrigger": "many"}, "maxFilesPerTrigger must be"),
        ({"path": "/feed", "manifest": "m"}, "no option 'manifest'"),
    ],
)
def test_wrong_options(given, told):
    """Each is named with what would be right."""
    with pytest.raises(ConfigError, match=told):
        FeedDataSource({"to": "/x", **given}).schema()


def test_an_older_spark_is_refused(monkeypatch):
    """It would not ask how much a trigger may take, and end after the first one."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.2")
    with pytest.raises(UsageError, match=r"cfetch.feed needs Spark 4.2 or newer, and this is 4.1.2"):
        FeedDataSource({"path": "/feed", "to": "/x"}).streamReader(StructType())


@pytest.mark.parametrize("name", ["feed", "path"])
def test_a_feed_whose_url_may_hold_a_secret_has_its_own_option(tmp_path, name):
    """Spark's logs show all options but those with ``url`` in their names."""
    url, to = "https://me:word@h/feed?token=t", str(tmp_path / "to")
    with pytest.raises(ConfigError, match=f"option {name} is a URL .* call it feed_url") as caught:
        FeedDataSource({name: url, "to": to}).schema()
    assert "word" not in str(caught.value)
    assert FeedDataSource({"feed_url": url, "to": to}).schema().startswith("`manifest` string")
