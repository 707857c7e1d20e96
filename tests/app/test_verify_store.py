"""``cfetch verify`` of an object store: sizes by the listing, hashes by the objects' own bytes."""

import hashlib
import json

import pytest

from cfetch.app.verify import open_verification
from cfetch.storage.buckets import object_tree
from tests.app.command import cfetch

CONTENT = {
    "a.bin": b"alpha",
    "d/b.bin": b"beta" * 1000,
    "d/empty.bin": b"",
    "ü/100%.bin": b"omega",
    "[x]*?.bin": b"odd",
}


@pytest.fixture
def manifest(tmp_path, bucket):
    """A manifest, and its files as objects of the bucket, beside cfetch's own and another prefix's."""
    files = [
        {"url": f"https://h.example/{n}", "path": path, "size": len(content), "sha256": sha256(content)}
        for n, (path, content) in enumerate(CONTENT.items())
    ]
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"files": files}))
    for name, content in CONTENT.items():
        bucket.put(name, content)
    bucket.put(".cfetch/batches/x.json", b"{}")
    assert bucket.server.ask("PUT", f"/{bucket.name}/some/prefix-2/other", b"other")[0] == 200
    return str(path)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def compared(manifest, *roots, **options):
    with open_verification(manifest, roots, **options) as comparison:
        differences = [(each.kind, each.path) for each in comparison.differences(lambda files, bytes_: None)]
    return differences, comparison


def test_a_whole_store(manifest, bucket):
    """All hashes are right; objects of cfetch's own and of other prefixes do not count."""
    differences, comparison = compared(manifest, bucket.url)
    assert differences == []
    assert comparison.good == {"sha256": 5}


def test_each_kind_of_damage(manifest, bucket):
    """Other bytes of the same size, another size, a lack and an excess are named."""
    bucket.put("a.bin", b"Alpha")
    bucket.put("d/b.bin", b"beta")
    bucket.put("ü/excess.bin", b"x")
    assert bucket.server.ask("DELETE", f"/{bucket.name}/some/prefix/d/empty.bin")[0] == 204
    differences, _ = compared(manifest, bucket.url)
    assert differences == [
        ("wrong hash", "a.bin"),
        ("wrong size", "d/b.bin"),
        ("missing", "d/empty.bin"),
        ("excess", "ü/excess.bin"),
    ]


def test_quick_asks_for_no_object(manifest, bucket):
    """``--quick`` needs the listing only."""
    bucket.server.take_asked()
    differences, comparison = compared(manifest, bucket.url, quick=True)
    assert (differences, comparison.good) == ([], {"size": 5})
    assert set(bucket.server.take_asked()) == {"GET list-type"}


def test_an_md5_needs_no_bytes_if_the_store_states_it(tmp_path, bucket):
    """The ETag of an object that was put in one request is its MD5. Where it differs, the bytes decide."""
    files = []
    for n, (path, content) in enumerate(CONTENT.items()):
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        files.append({"url": f"https://h.example/{n}", "path": path, "size": len(content), "md5": md5})
        bucket.put(path, content)
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"files": files}))
    bucket.server.take_asked()
    differences, comparison = compared(str(manifest), bucket.url)
    assert (differences, comparison.good) == ([], {"md5": 5})
    assert set(bucket.server.take_asked()) == {"GET list-type"}
    bucket.put("a.bin", b"Alpha")
    differences, _ = compared(str(manifest), bucket.url)
    assert differences == [("wrong hash", "a.bin")]
    assert "GET" in set(bucket.server.take_asked())


def test_an_object_in_several_ranges(manifest, bucket, monkeypatch):
    """A large object comes in ranges."""
    monkeypatch.setattr(object_tree, "RANGE_BYTES", 999)
    bucket.server.take_asked()
    differences, _ = compared(manifest, bucket.url)
    assert differences == []
    assert bucket.server.take_asked()["GET"] == 5 + 3  # one each, five for d/b.bin, none for the empty one


def test_an_object_that_is_replaced_while_it_is_read(manifest, bucket, monkeypatch):
    """Ranges of two versions are never joined."""
    monkeypatch.setattr(object_tree, "RANGE_BYTES", 2000)

    def replace(files, size_bytes):
        if size_bytes == 2000:
            bucket.put("d/b.bin", b"zeta" * 1000)

    with open_verification(manifest, [bucket.url]) as comparison:
        (difference,) = comparison.differences(replace)
    assert (difference.kind, difference.path) == ("unreadable", "d/b.bin")
    assert "replaced" in difference.message


def test_an_object_that_has_gone_since_the_listing(manifest, bucket):
    """It counts as missing."""
    with open_verification(manifest, [bucket.url]) as comparison:
        bucket.server.ask("DELETE", f"/{bucket.name}/some/prefix/a.bin")
        differences = comparison.differences(lambda files, size_bytes: None)
        assert [(each.kind, each.path) for each in differences] == [("missing", "a.bin")]


def test_a_prefix_that_is_percent_encoded(tmp_path, bucket):
    """A destination's URL is read so when objects are put."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"files": [{"url": "https://h.example/a", "path": "a", "size": 1}]}))
    assert bucket.server.ask("PUT", f"/{bucket.name}/x%20y/a", b"a")[0] == 200
    differences, comparison = compared(str(path), f"s3://{bucket.name}/x%20y")
    assert (differences, comparison.good) == ([], {"size": 1})


def test_a_directory_and_a_store_together(manifest, bucket, tmp_path):
    """Each file has to be on one of them; the difference names its volume."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.bin").write_bytes(b"alpha")
    bucket.put("d/b.bin", b"beta")
    with open_verification(manifest, [tmp_path / "tree", bucket.url]) as comparison:
        (difference,) = comparison.differences(lambda files, size_bytes: None)
        (duplicate,) = comparison.duplicates
    assert (difference.kind, difference.volume) == ("wrong size", bucket.url)
    assert (duplicate.path, duplicate.volumes) == ("a.bin", (str(tmp_path / "tree"), bucket.url))


def test_the_command(manifest, bucket):
    """The exit code is 1 where something differs, 2 where the store cannot be listed."""
    run = cfetch("verify", manifest, "--to", bucket.url)
    assert run.returncode == 0, run.stderr
    assert "good: 5 by sha256; found: nothing wrong" in run.stderr
    assert f"listing the objects below {bucket.url}" in run.stderr
    bucket.put("a.bin", b"Alpha")
    assert cfetch("verify", manifest, "--to", bucket.url).returncode == 1
    run = cfetch("verify", manifest, "--to", "s3://no-such-bucket/x")
    assert run.returncode == 2
    assert "there is no such bucket" in run.stderr
