"""The verbs about volumes say the same of a tree, whoever has brought it: one process or several."""

import json
import subprocess
import sys

import pytest

from tests.tasks.processes.test_named_batches import BATCHES, FILES, find_wrong, write_batches
from tests.tasks.scene import asked, everything, served, whole

THREE = [word for name in "abc" for word in ("--to", name)]


def call(folder, *words):
    """What the command prints, as JSON; it ends with 0."""
    left = THREE[: -2 if "--from" in words else None]
    command = [sys.executable, "-m", "cfetch", *words, *left, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def standing(folder):
    """What the verbs say of the volumes, without what differs from disk to disk."""
    verified = call(folder, "verify", "m.json")
    listed = call(folder, "volume", "list")["volumes"]
    return {
        "good": verified["good"],
        "files": sum(volume["files"] for volume in listed),
        "batches": sum(volume["batches"] for volume in listed),
        "bytes": sum(volume["bytes"] for volume in listed),
    }


@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_the_verbs_agree_on_what_was_brought(tmp_path, more):
    """Recounted, drained and rebalanced, every batch stays whole, and no file is asked for again."""
    volumes = [tmp_path / name for name in "abc"]
    with served(FILES) as origin:
        write_batches(tmp_path / "m.json", origin.url)
        call(tmp_path, "download", "m.json", *more)
        seen = [standing(tmp_path)]
        for words in (("rescan",), ("drain", "--from", "c"), ("rebalance",)):
            call(tmp_path, "volume", *words)
            seen.append(standing(tmp_path))
            assert find_wrong(volumes, BATCHES) == []
        again = call(tmp_path, "download", "m.json", *more)
        assert asked(origin) == dict.fromkeys(FILES, 1)
    assert again["files"]["skipped"] == len(FILES)
    assert seen == seen[:1] * 4
    assert seen[0]["files"] == len(FILES)
    assert everything(volumes) == whole(FILES)
