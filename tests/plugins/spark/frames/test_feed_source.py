"""Streams and ``download``: the changes of a feed, and files of rows that Spark's own stream reads."""

import re
from pathlib import Path

import pytest

from cfetch.base.errors import ConfigError
from cfetch.plugins.spark.frames.feed_pull import FeedPuller
from cfetch.plugins.spark.frames.feed_source import ROWS, FeedDataSource, FeedReader
from tests.engine.drive import tree
from tests.plugins.follow.follow_world import Served
from tests.plugins.spark.serving import asked, lines, serving

DOCS = Path(__file__).parents[4] / "docs"
FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(4)}


def run_example(spark, page, tmp_path, *others):
    """The stream of a page, word by word but for directories and ``others``; the rows of its table."""
    (code,) = (
        one
        for one in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        if "readStream" in one
    )
    for old, new in (("/data", str(tmp_path / "data")), *others):
        assert old in code
        code = code.replace(old, new)
    exec(code, {"spark": spark})
    return spark.read.parquet(str(tmp_path / "data" / "table")).collect()


def test_a_query_follows_a_feed_whose_ranges_split(spark, tmp_path):
    """The page's example takes all in several triggers, stops when nothing is new, and goes on from there."""
    served = Served(tmp_path / "source")
    try:
        feed = ("https://archive.example.org/feed", served.url)
        limit = (".load()", '.option("maxFilesPerTrigger", "5").load()')
        served.write({f"d/{n}": f"{n}" * (n + 1) for n in range(8)})
        rows = run_example(spark, "data-source.md", tmp_path, feed, limit)
        assert sorted((row.path, row.status, row.size) for row in rows) == [
            (f"d/{n}", "done", n + 1) for n in range(8)
        ]
        assert all(row.hash == row.digest for row in rows)
        served.split()
        served.write({"d/3": "new", "e": "new"})
        later = run_example(spark, "data-source.md", tmp_path, feed, limit)
        assert sorted(row.path for row in later) == sorted([*(row.path for row in rows), "d/3", "e"])
        assert tree(tmp_path / "data" / "files") == served.tree()
    finally:
        served.close()


def test_download_takes_the_files_of_rows_that_spark_streams(spark, tmp_path):
    """The page's example: each file of rows once, also if others come later."""
    (tmp_path / "data" / "feed").mkdir(parents=True)
    with serving(FILES) as origin:
        for names in (["d/0.bin", "d/1.bin"], ["d/2.bin", "d/3.bin"]):
            lines(tmp_path / "data" / "feed" / f"{len(names[0])}-{names[0][2]}.jsonl", origin, names)
            rows = run_example(spark, "spark-download.md", tmp_path)
        assert sorted((row.path, row.status) for row in rows) == [(name, "done") for name in FILES]
        assert asked(origin) == dict.fromkeys(FILES, 1)


class Pulled(FeedPuller):
    """In place of a puller: three manifests."""

    def __init__(self):
        self.forgotten = 0

    def pull_next(self):
        return 3

    def forget(self, before):
        self.forgotten = before

    def read_rows(self, start, end):
        return [("https://h/a", f"{n}", None, None, None) for n in range(start * ROWS, end * ROWS + 1)]


def test_rows_are_cut_into_partitions():
    """Always the same ones, and none is lost. Spark 4.0 asks for the end without a start."""
    pulled = Pulled()
    reader = FeedReader(pulled)
    begin, end = reader.initialOffset(), reader.latestOffset()
    parts = [list(reader.read(part)) for part in reader.partitions(begin, end)]
    assert [len(part) for part in parts] == [ROWS, ROWS, ROWS, 1]
    assert [row for part in parts for row in part] == pulled.read_rows(0, 3)
    assert reader.latestOffset(begin, None) == end
    reader.commit(end)
    assert pulled.forgotten == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "/dev"}, r"/dev is not a feed: .*readStream.*\.json.*cfetch.spark.download"),
        ({"feed": "https://h/f", "to": "/x"}, "option to means nothing to cfetch.feed, .*spark.download"),
        ({"feed": "https://h/f", "state": "s"}, "option state must be the absolute path"),
        ({"feed": "https://h/f", "maxfilespertrigger": "0"}, "maxFilesPerTrigger must be a whole number"),
        ({"feed": "https://h/f", "maxfilespertrigger": "many"}, "maxFilesPerTrigger must be"),
        ({"feed": "https://h/f", "header": "X: y"}, "option header may hold a secret, .* header_url"),
        ({}, "option feed is missing"),
    ],
)
def test_wrong_options(given, message):
    """Each is named with what would be right."""
    with pytest.raises(ConfigError, match=message):
        FeedDataSource({"state": "/x", **given}).schema()


@pytest.mark.parametrize("name", ["feed", "path"])
def test_a_feed_whose_url_may_hold_a_secret_has_its_own_option(name):
    """Spark's logs show all options but those with ``url`` in their names."""
    url = "https://me:word@h/feed?token=t"
    with pytest.raises(ConfigError, match=f"option {name} is a URL .* call it feed_url") as caught:
        FeedDataSource({name: url, "state": "/x"}).schema()
    assert "word" not in str(caught.value)
    more = {"header_url": "X-Key: word", "header_host": "h"}
    assert FeedDataSource({"feed_url": url, "state": "/x", **more}).schema().startswith("url string")
