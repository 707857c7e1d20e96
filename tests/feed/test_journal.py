"""The journal: what is there after a follower has died between any two of its steps."""

import json
import os
import stat
import subprocess
import sys

import pytest

from cfetch.errors import Held, LocalFault
from cfetch.feed.journal import Journal
from cfetch.feed.source import Change
from cfetch.feed.steps import rounds
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.secret import SecretText, SecretUrl

BIG = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898  # of a Kinesis record


def change(path, lsn=BIG, *, delete=False):
    path = safe_path(path)
    entry = Entry(
        id=0,
        url=SecretUrl("https://h/x?sig=1"),
        path=path,
        size_bytes=7,
        digest=Digest("sha256", "0" * 64),
        headers=(("a", SecretText("b")),),
    )
    return Change(lsn, 2**128 - 1, path, None if delete else entry)


def test_a_step_is_there_again_as_it_was(tmp_path):
    """With all that it states, numbers of 186 bits and secrets too."""
    found = rounds([change("a"), change("b/c", 3, delete=True), change("a", BIG + 1)])
    with Journal(tmp_path / "j") as journal:
        begun = journal.begin(found, b"after")
    with Journal(tmp_path / "j") as journal:
        assert journal.unfinished() == begun
        assert begun.rounds == found
        assert journal.checkpoint() is None


def test_a_round_that_was_applied_is_not_applied_again(tmp_path):
    """And the checkpoint is kept with the end of the last."""
    found = rounds([change("a", 1), change("a", 2)])
    with Journal(tmp_path) as journal:
        step = journal.did(journal.begin(found, b"after"))
        assert journal.unfinished() == step
        assert [one.lsn for one in step.rounds[0].upserts] == [2]
        step = journal.did(step)
        assert (journal.unfinished(), step.rounds) == (step, [])
        journal.end(step)
        assert (journal.unfinished(), journal.checkpoint()) == (None, b"after")


def test_the_checkpoint_comes_before_the_end_of_the_step(tmp_path):
    """If that fails, the step is there with nothing left to do, and the end may come again."""
    with Journal(tmp_path) as journal:
        step = journal.did(journal.begin(rounds([change("a")]), b"after"))
        (tmp_path / "checkpoint.json").mkdir()
        with pytest.raises(LocalFault):
            journal.end(step)
        assert journal.unfinished() == step


def test_nobody_else_may_read_it(tmp_path):
    """Links may be signed."""
    with Journal(tmp_path / "j") as journal:
        journal.begin(rounds([change("a")]), b"after")
        journal.keep(b"x")
        journal.keep_pending([change("b")])
        journal.bury([change("c", delete=True)], "2026-01-01T00:00:00Z")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "j").iterdir()}
    assert set(modes) == {"lock", "step-0", "checkpoint.json", "pending", "tombstones.jsonl"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700


def test_pending_changes_are_kept(tmp_path):
    """In the order of the feed; none at first."""
    with Journal(tmp_path) as journal:
        assert journal.pending() == []
        journal.keep_pending([change("b"), change("a", 3)])
        assert journal.pending() == [change("b"), change("a", 3)]


def test_tombstones_are_lines(tmp_path):
    """One for each delete, with LSNs as text: JSON's numbers end at 53 bits for many readers."""
    with Journal(tmp_path) as journal:
        journal.bury([], "never")
        journal.bury([change("a", delete=True), change("b", 2, delete=True)], "t1")
        journal.bury([change("a", 3, delete=True)], "t2")
    lines = [json.loads(line) for line in (tmp_path / "tombstones.jsonl").read_text().splitlines()]
    assert lines == [
        {"path": "a", "lsn": str(BIG), "at": "t1"},
        {"path": "b", "lsn": "2", "at": "t1"},
        {"path": "a", "lsn": "3", "at": "t2"},
    ]


@pytest.mark.parametrize("name", ["step-0", "pending"])
def test_a_damaged_file_is_named(tmp_path, name):
    """With what to do."""
    with Journal(tmp_path) as journal:
        (tmp_path / name).write_bytes(b"\x93")
        with pytest.raises(LocalFault, match=f"{name} is damaged; remove "):
            _ = journal.unfinished() if name == "step-0" else journal.pending()


def test_one_follower_at_a_time(tmp_path):
    """The second is told who the first is; when that has died, even by kill -9, the way is free."""
    code = (
        "import sys, time; from pathlib import Path; from cfetch.feed.journal import Journal\n"
        "with Journal(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(Held) as held, Journal(tmp_path):
        pass
    assert (held.value.pid, held.value.host) == (child.pid, os.uname().nodename)
    assert str(held.value).startswith(f"process {child.pid} on {os.uname().nodename} follows this feed")
    child.kill()
    child.communicate()
    with Journal(tmp_path):
        pass
