"""Iceberg tables, by metadata that PyIceberg 0.12 has written: append, append, delete, overwrite."""

import io
import json
from pathlib import Path

import fastavro
import pytest

from cfetch.base.errors import HostileFeed, Refused, StaleAnswer
from tests.plugins.follow.upstream_site import Mirror

SAMPLE = Path(__file__).parents[1] / "samples/iceberg/metadata"
VERSIONS = sorted(path.name for path in SAMPLE.glob("*.metadata.json"))
LOCATION = "file:///warehouse/t/"


def rows_of(path):
    return list(fastavro.reader(io.BytesIO(path.read_bytes())))


def data_files():
    """Size by path of all files that any manifest names."""
    return {
        row["data_file"]["file_path"].removeprefix(LOCATION): row["data_file"]["file_size_in_bytes"]
        for path in SAMPLE.glob("*-m0.avro")
        for row in rows_of(path)
    }


class Table:
    """The sample in a bucket, whose metadata are published version by version."""

    def __init__(self, bucket):
        self.bucket = bucket
        for path in SAMPLE.glob("*.avro"):
            bucket.put(f"metadata/{path.name}", path.read_bytes())

    def publish(self, number, without=()):
        for path, size in data_files().items():
            if path not in without:
                self.bucket.put(path, path[-40:].encode().ljust(size, b"."))
        self.bucket.put(f"metadata/{VERSIONS[number]}", (SAMPLE / VERSIONS[number]).read_bytes())


@pytest.fixture
def table(bucket):
    return Table(bucket)


@pytest.fixture
def mirror(bucket, tmp_path):
    return Mirror(f"iceberg+{bucket.url}", tmp_path)


def counts(mirror):
    """Data files, manifests, lists of manifests, and the names of the metadata."""
    names = mirror.names()
    data = sum(name.startswith("data/") for name in names)
    manifests = sum(name.endswith("-m0.avro") for name in names)
    lists = sum("/snap-" in name for name in names)
    return data, manifests, lists, [name[9:] for name in names if name.endswith(".json")]


def test_snapshots_follow_each_other(table, mirror):
    """Empty, one file, two, one deleted, overwritten; what a snapshot does not need has gone."""
    seen = []
    for number in range(5):
        table.publish(number)
        mirror.follow()
        seen.append(counts(mirror))
    assert [each[0] for each in seen] == [0, 1, 2, 1, 1]
    assert [each[3] for each in seen] == [[name] for name in VERSIONS]
    assert [each[2] for each in seen] == [0, 1, 1, 1, 1]
    assert all(each[1] >= 1 for each in seen[1:])
    assert mirror.follow().feed.entries == 0


def test_versions_between_are_passed_over(table, mirror):
    table.publish(1)
    mirror.follow()
    table.publish(4)
    mirror.follow()
    assert counts(mirror)[::3] == (1, [VERSIONS[4]])


def test_a_listing_that_goes_back_is_not_taken(table, mirror):
    """Else the files of the later snapshot would be deleted. One that was made anew is for ``--resync``."""
    for number in (1, 2):
        table.publish(number)
        mirror.follow()
    path = f"metadata/{VERSIONS[2]}"
    assert table.bucket.server.ask("DELETE", table.bucket._target(path))[0] == 204
    with pytest.raises(StaleAnswer, match=rf"has gone back, from {VERSIONS[2]} to {VERSIONS[1]}; with --res"):
        mirror.follow()
    assert counts(mirror)[::3] == (2, [VERSIONS[2]])
    mirror.follow(resync=True)
    assert counts(mirror)[::3] == (1, [VERSIONS[1]])


def test_a_snapshot_waits_for_its_files(table, mirror):
    table.publish(1)
    mirror.follow()
    before = mirror.names()
    new = data_files().keys() - set(before)
    table.publish(2, without=new)
    for path in new:
        assert table.bucket.server.ask("DELETE", table.bucket._target(path))[0] == 204
    assert mirror.follow().exit_code == 1
    assert set(before) <= set(mirror.names())
    assert counts(mirror)[3] == [VERSIONS[1]]
    table.publish(2)
    assert mirror.follow().exit_code == 0
    assert counts(mirror)[::3] == (2, [VERSIONS[2]])


def test_names_of_a_catalog_in_files(table, mirror, bucket):
    """v10 is later than v9."""
    for number, version in ((1, 9), (4, 10)):
        table.publish(number)
        bucket.put(f"metadata/v{version}.metadata.json", (SAMPLE / VERSIONS[number]).read_bytes())
    mirror.follow()
    assert counts(mirror)[3] == ["v10.metadata.json"]


def test_no_table(table, mirror):
    with pytest.raises(Refused, match="there is no Iceberg table at s3://"):
        mirror.follow()


def naming(path):
    """Metadata whose present snapshot has its list at that location."""
    snapshot = {"snapshot-id": 1, "manifest-list": path}
    return json.dumps({"location": "s3://b/t", "current-snapshot-id": 1, "snapshots": [snapshot]}).encode()


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        (b"<html>", HostileFeed, "another form than its protocol"),
        (naming("s3://other/l.avro"), Refused, "a file beside the table"),
        (naming("s3://b/t/metadata/bad.avro"), HostileFeed, "cannot be read"),
        (naming("s3://b/t/metadata/none.avro"), Refused, "has gone"),
    ],
)
def test_metadata_that_cannot_be_followed(table, mirror, bucket, body, error, says):
    bucket.put("metadata/bad.avro", b"Obj")
    bucket.put("metadata/00009-aa.metadata.json", body)
    with pytest.raises(error, match=says):
        mirror.follow()
    assert mirror.names() == []
