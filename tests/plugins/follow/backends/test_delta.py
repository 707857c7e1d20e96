"""Delta tables, by a log that delta-rs 1.6 has written: versions, checkpoints, a log that was cleaned up."""

import json
from pathlib import Path

import pytest

from cfetch.base.errors import HostileFeed, Refused
from cfetch.plugins.follow.backends.delta import _Add, _list_files, _Vector
from tests.plugins.follow.upstream_site import Mirror

SAMPLE = Path(__file__).parents[1] / "samples/delta/_delta_log"
CHECKPOINT = "00000000000000000002.checkpoint.parquet"
DATA = {
    action["add"]["path"].replace("%25", "%"): action["add"]["size"]
    for path in SAMPLE.glob("*.json")
    for action in map(json.loads, path.read_text().splitlines())
    if "add" in action
}


class Table:
    """The sample in a bucket, published version by version."""

    def __init__(self, bucket):
        self.bucket = bucket

    def publish(self, *versions, without=()):
        for version in versions:
            body = (SAMPLE / name(version)).read_bytes()
            for path, size in DATA.items():
                if path.encode().replace(b"%", b"%25") in body and path not in without:
                    self.bucket.put(path, path[-10:].encode().ljust(size, b"."))
            self.bucket.put(f"_delta_log/{name(version)}", body)

    def checkpoint(self):
        self.bucket.put(f"_delta_log/{CHECKPOINT}", (SAMPLE / CHECKPOINT).read_bytes())

    def drop(self, key):
        assert self.bucket.server.ask("DELETE", self.bucket._target(key))[0] == 204


def name(version):
    return f"{version:020}.json"


@pytest.fixture
def table(bucket):
    return Table(bucket)


@pytest.fixture
def mirror(bucket, tmp_path):
    return Mirror(f"delta+{bucket.url}", tmp_path)


def days(mirror):
    """What the mirror's own log names, by partition; every file of it is there."""
    return sorted(path.partition("/")[0] for path in mirror.names() if path.startswith("day="))


def versions(mirror):
    return [int(path[11:31]) for path in mirror.names() if path.endswith(".json")]


def test_versions_add_and_remove_files(table, mirror):
    table.publish(0, 1)
    mirror.follow()
    assert (days(mirror), versions(mirror)) == (["day=a%20b", "day=c", "day=c"], [0, 1])
    table.publish(2)  # a DELETE
    table.checkpoint()
    found = mirror.follow()
    assert (days(mirror), versions(mirror), found.feed.deletes) == (["day=a%20b"], [0, 1, 2], 2)
    table.publish(3, 4)  # an append and an overwrite
    mirror.follow()
    assert (days(mirror), versions(mirror)) == (["day=e"], [0, 1, 2, 3, 4])


def test_a_new_mirror_begins_with_the_last_checkpoint(table, mirror):
    """Which it has too: programs that read tables find it in the log's directory."""
    table.publish(0, 1, 2)
    table.checkpoint()
    table.publish(3)
    mirror.follow()
    assert (days(mirror), versions(mirror)) == (["day=a%20b", "day=d"], [3])
    assert mirror.names()[0] == f"_delta_log/{CHECKPOINT}"


def test_a_log_that_was_cleaned_up_is_read_from_its_checkpoint(table, mirror):
    """What the missed versions removed has gone here too; the deletes come behind the new files."""
    table.publish(0)
    mirror.follow()
    table.publish(1, 2)
    table.checkpoint()
    table.publish(3)
    for version in (0, 1, 2):
        table.drop(f"_delta_log/{name(version)}")
    mirror.follow()
    assert (days(mirror), versions(mirror)) == (["day=a%20b", "day=d"], [3])


@pytest.mark.parametrize(
    ("kind", "there", "kept"), [("latest", [0, 1], "day=c"), ("all", [0, 1, 2, 3], "day=d")]
)
def test_a_version_waits_for_its_files(table, mirror, kind, there, kept):
    """A reader of the mirror finds the version before it until then; nothing that it needs is deleted.

    Of several versions at once only the files of the last are fetched, so all of them wait.
    """
    table.publish(0, 1)
    mirror.follow()
    (late,) = (path for path in DATA if "day=e" in path)
    table.publish(2, 3, 4, without=[late])
    assert mirror.follow(versions=kind).exit_code == 1
    assert (versions(mirror), kept in days(mirror)) == (there, True)
    table.publish(4)
    assert mirror.follow(versions=kind).exit_code == 0
    assert (versions(mirror), days(mirror)) == ([0, 1, 2, 3, 4], ["day=e"])


def test_nothing_new_is_one_request(table, mirror, bucket):
    table.publish(0)
    mirror.follow()
    assert mirror.follow().feed.entries == 0


def test_the_name_of_a_deletion_vector():
    """The example of the protocol's own text."""
    vector = _Vector("u", "ab^-aqEH.-t@S}K{vb[*k^")
    assert list(_list_files([_Add("x%20y", 7, vector)])) == [
        ("x y", 7),
        ("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", None),
    ]


def test_no_table(table, mirror):
    with pytest.raises(
        Refused, match=r"cannot be followed as a Delta table: its _delta_log has no version 0"
    ):
        mirror.follow()


def test_a_version_that_is_missing_is_not_passed_over(table, mirror):
    """What it adds would be missing for good."""
    table.publish(0)
    mirror.follow()
    table.publish(1, 3)
    with pytest.raises(Refused, match="has no version 2"):
        mirror.follow()
    table.publish(2)
    mirror.follow()
    assert (versions(mirror), days(mirror)) == ([0, 1, 2, 3], ["day=a%20b", "day=d"])


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        (b"<html>", HostileFeed, "is no commit of Delta's log"),
        (b'{"add": {"path": "s3://other/f.parquet", "size": 1}}', Refused, "is a shallow clone"),
        (b'{"add": {"path": "../f.parquet", "size": 1}}', HostileFeed, "path"),
    ],
)
def test_commits_that_cannot_be_followed(table, mirror, bucket, line, error, says):
    bucket.put(f"_delta_log/{name(0)}", line)
    with pytest.raises(error, match=says):
        mirror.follow()
    assert mirror.names() == []
