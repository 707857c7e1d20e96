"""A feed as a stream: triggers that Spark may repeat, and a real query that stops and goes on."""

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import FeedReplaced, Held
from cfetch.plugins.follow.journal import Journal
from cfetch.plugins.spark import register
from cfetch.plugins.spark.frames.feed_pull import FeedPuller, name_manifest, parse_number
from tests.engine.drive import tree
from tests.plugins.follow.follow_world import Served


@pytest.fixture
def served(tmp_path):
    found = Served(tmp_path / "source")
    yield found
    found.close()


@pytest.fixture
def pull(served, tmp_path):
    return FeedPuller(tmp_path / "pulled", served.url, Settings(), {})


def paths(pull, number):
    lines = (pull.directory / name_manifest(number)).read_text().splitlines()
    return sorted(line.partition('"path":"')[2].partition('"')[0] for line in lines)


def test_a_trigger_is_one_manifest(pull, served):
    """The same when it is asked for again; the next has what is new, each path once."""
    assert pull.pull_next(0, None) is None
    served.write({"a": "1", "b": "1"})
    served.write({"a": "2"})
    assert (pull.pull_next(0, None), pull.pull_next(0, None)) == (1, 1)
    assert paths(pull, 1) == ["a", "b"]
    assert pull.pull_next(1, None) is None
    served.split()
    served.write({"b": "3", "c": "1", "a": None})
    assert pull.pull_next(1, None) == 2
    assert paths(pull, 2) == ["b", "c"]
    assert (pull.pull_next(0, None), parse_number(name_manifest(2))) == (1, 2)


def test_a_trigger_that_did_not_get_its_name_is_made_again(pull, served):
    """From the checkpoint in front of it."""
    served.write({"a": "1"})
    pull.pull_next(0, None)
    served.write({"b": "1"})
    pull.pull_next(1, None)
    (pull.directory / name_manifest(2)).unlink()
    served.write({"c": "1"})
    assert pull.pull_next(1, None) == 2
    assert paths(pull, 2) == ["b", "c"]


def test_what_was_committed_goes(pull, served):
    """But not the checkpoint that the next trigger begins with."""
    for name in "abc":
        served.write({name: "1"})
        pull.pull_next(ord(name) - ord("a"), None)
    pull.forget(3)
    found = {path.name for path in pull.directory.iterdir()}
    assert found == {"lock", "000000000003.json", "000000000003.jsonl"}
    assert pull.pull_next(3, None) is None


def test_one_query_at_a_time_and_one_feed(pull, served):
    """Anything else would mix two readers."""
    served.write({"a": "1"})
    with Journal(pull.directory), pytest.raises(Held):
        pull.pull_next(0, None)
    pull.pull_next(0, None)
    served.do(served.world.recreate())
    with pytest.raises(FeedReplaced):
        pull.pull_next(1, None)


def test_a_query_follows_a_feed_whose_ranges_split(spark, served, tmp_path):
    """It stops when nothing is new, and goes on from there."""
    register(spark)
    served.write({f"d/{n}": f"{n}" * (n + 1) for n in range(12)})

    def run():
        rows = []
        stream = spark.readStream.format("cfetch.feed").option("feed_url", served.url)
        frame = stream.option("to", str(tmp_path / "to")).option("maxFilesPerTrigger", "8").load()

        def take(found, _):
            rows.append([one.path for one in found.collect()])

        writer = frame.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [sorted(one) for one in rows if one]

    first = run()
    assert sorted(path for one in first for path in one) == sorted(f"d/{n}" for n in range(12))
    assert max(map(len, first)) <= 8
    served.split()
    served.write({"d/3": "new", "e": "new"})
    assert run() == [["d/3", "e"]]
    assert tree(tmp_path / "to") == served.tree()
