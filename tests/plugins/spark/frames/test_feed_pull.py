"""A feed as manifests: triggers that Spark may repeat, and what a row says of an entry."""

import json

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import FeedReplaced, Held, UsageError
from cfetch.plugins.follow.journal import Journal
from cfetch.plugins.spark.frames.feed_pull import FeedPuller
from tests.plugins.follow.follow_world import Served


@pytest.fixture
def served(tmp_path):
    found = Served(tmp_path / "source")
    yield found
    found.close()


@pytest.fixture
def pull(served, tmp_path):
    return FeedPuller(tmp_path / "pulled", served.url, Settings(), {}, 100)


def paths(pull, start, end):
    return sorted(row[1] for row in pull.read_rows(start, end))


def test_a_trigger_is_one_manifest(pull, served):
    """It is the same whenever it is read; the next one has what is new, each path once."""
    assert pull.pull_next() == 0
    served.write({"a": "1", "b": "1"})
    served.write({"a": "2"})
    assert (pull.pull_next(), pull.pull_next()) == (1, 1)
    served.split()
    served.write({"b": "3", "c": "1", "a": None})
    assert pull.pull_next() == 2
    assert (paths(pull, 0, 1), paths(pull, 1, 2), paths(pull, 2, 2)) == (["a", "b"], ["b", "c"], [])


def test_of_several_manifests_in_a_trigger_the_last_version_counts(pull, served):
    """As after a crash between a pull and Spark's own note of it: tasks bring the rows side by side."""
    for text in ("1", "22"):
        served.write({"a": text})
        pull.pull_next()
    assert [row[1:3] for row in pull.read_rows(0, 2)] == [("a", 2)]


def test_a_manifest_that_did_not_get_its_name_is_made_again(pull, served):
    """From the checkpoint in front of it."""
    for name in "ab":
        served.write({name: "1"})
        pull.pull_next()
    (pull.directory / "000000000002.rows").unlink()
    served.write({"c": "1"})
    assert pull.pull_next() == 2
    assert paths(pull, 1, 2) == ["b", "c"]


def test_what_was_committed_goes(pull, served):
    """But not the checkpoint that the next trigger begins with. Who needs what has gone is told so."""
    for name in "abc":
        served.write({name: "1"})
        pull.pull_next()
    pull.forget(3)
    found = {path.name for path in pull.directory.iterdir()}
    assert found == {"lock", "000000000003.json", "000000000003.rows"}
    assert pull.pull_next() == 3
    for start, end in ((0, 3), (4, 3)):  # Spark's checkpoint was removed, or the state
        with pytest.raises(UsageError, match=f"from manifest {start} to 3, .* belong together"):
            pull.read_rows(start, end)


def test_one_query_at_a_time_and_one_feed(pull, served):
    """Anything else would mix two readers."""
    served.write({"a": "1"})
    with Journal(pull.directory), pytest.raises(Held):
        pull.pull_next()
    pull.pull_next()
    served.do(served.world.recreate())
    with pytest.raises(FeedReplaced):
        pull.pull_next()


def test_a_row_has_what_download_takes(pull, served):
    """Link, path, size, hash of any algorithm, and headers; what is not stated is null."""
    md5 = "0" * 32
    row = {"url": "https://h/a?s=1", "size": 3, "md5": md5, "headers": {"X-Who": "me"}}
    served.publish_row("a", json.dumps(row))
    served.publish_row("b", '{"url": "https://h/b"}')
    pull.pull_next()
    assert sorted(pull.read_rows(0, 1)) == [
        ("https://h/a?s=1", "a", 3, f"md5:{md5}", {"X-Who": "me"}),
        ("https://h/b", "b", None, None, None),
    ]


def test_an_entry_that_no_row_can_state_ends_the_query(pull, served):
    """The whole resource would be another file."""
    served.publish_row("a", '{"url": "https://h/a", "offset": 3, "length": 4}')
    with pytest.raises(UsageError, match=r"has a as a range of bytes .* cfetch follow"):
        pull.pull_next()
