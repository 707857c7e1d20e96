"""Files that live in an object store: whole runs against a real one."""

import os

from tests.cli.verbs import cfetch
from tests.conditions.runner import secrets_in
from tests.engine.drive import tree
from tests.storage.s3_server import PREFIX

MIB = 1 << 20


async def test_a_prefix_by_two_processes_and_again(bucket, tmp_path):
    """Links are signed in the processes that ask, stand in no file, and a second run asks for nothing."""
    bodies = {"a b.bin": b"1" * 1000, "x/ü?.bin": b"2" * 10, "x/large": os.urandom(3 * MIB)}
    for key, body in bodies.items():
        bucket.put(key, body)
    words = [
        "download",
        f"s3://{bucket.name}/{PREFIX}/",
        "--to",
        tmp_path / "to",
        "--processes",
        "2",
        "--json",
    ]
    first = await cfetch(*words)
    assert (first.code, first.document["files"]["done"]) == (0, 3)
    assert tree(tmp_path / "to") == bodies
    second = await cfetch(*words)
    assert (second.document["files"]["skipped"], second.document["bytes"]["fetched"]) == (3, 0)
    assert secrets_in(tmp_path, sealed=True) == []
    assert "CANARY" not in first.out + first.err


async def test_a_list_of_objects_some_of_which_are_not_to_be_had(bucket, tmp_path):
    """A list in the bucket itself: a relative row is relative to it."""
    bucket.put("a", b"1")
    bucket.put("list.jsonl", b'{"url": "a"}\n{"url": "%s/nix"}\n' % bucket.url.encode())
    words = ["--to", tmp_path / "to", "--json", "--max-attempts", "1"]
    done = await cfetch("download", f"{bucket.url}/list.jsonl", *words)
    assert (done.code, tree(tmp_path / "to")) == (1, {"a": b"1"})
    assert [failure["message"] for failure in done.document["failures"]] == ["HTTP 404"]
