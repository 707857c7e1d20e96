"""The journal: what is there after a follower has died between any two of its steps."""

import json
import os
import re
import stat
import subprocess
import sys

import msgspec
import pytest

from cfetch.base.errors import Held, LocalFault
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.plugins.follow.checkpoint import Checkpoint
from cfetch.plugins.follow.journal import Journal, JournalStep, locate_journal
from cfetch.plugins.follow.lineage import Lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, Position, Range
from cfetch.plugins.follow.route import Token
from cfetch.plugins.follow.source import Change, FeedId
from cfetch.plugins.follow.steps import plan_rounds

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


LIVE = Range("0", ALL_KEYS)
LINEAGE = Lineage(FeedId("http://h", "f"), "e", (LIVE,), {})


def at(lsn, *pending):
    """A checkpoint."""
    return Checkpoint(LINEAGE, ALL_KEYS, (Token(ALL_KEYS, Position("0", lsn)),), pending)


def test_a_step_is_there_again_as_it_was(tmp_path):
    """With all that it states, numbers of 186 bits and secrets too."""
    found = plan_rounds([change("a"), change("b/c", 3, delete=True), change("a", BIG + 1)])
    with Journal(tmp_path / "j") as journal:
        begun = journal.begin(found, at(BIG + 2))
    with Journal(tmp_path / "j") as journal:
        assert journal.read_unfinished() == begun
        assert begun.rounds == found
        assert journal.checkpoint() is None


def test_a_round_that_was_applied_is_not_applied_again(tmp_path):
    """What could not be had of it is kept, and the checkpoint is in force with the end of the last."""
    found = plan_rounds([change("a", 1), change("a", 2)])
    with Journal(tmp_path) as journal:
        step = journal.finish_round(journal.begin(found, at(3)), [change("b", 0)])
        assert journal.read_unfinished() == step
        assert step.checkpoint == at(3, change("b", 0))
        assert [one.lsn for one in step.rounds[0].upserts] == [2]
        step = journal.finish_round(step, [])
        assert (journal.read_unfinished(), step.rounds) == (step, [])
        assert journal.checkpoint() is None
        journal.end(step)
        assert (journal.read_unfinished(), journal.checkpoint()) == (None, at(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "lock"]


def test_an_end_that_was_not_reached(tmp_path):
    """The checkpoint is in force, nothing is left of the step, and its end may come again."""
    with Journal(tmp_path) as journal:
        step = journal.finish_round(journal.begin(plan_rounds([change("a")]), at(3)), [])
        journal.keep(step.checkpoint)
        again = journal.read_unfinished()
        assert again == step == JournalStep([], at(3), 1)
        journal.end(again)
        assert (journal.read_unfinished(), journal.checkpoint()) == (None, at(3))


def test_a_step_that_did_not_begin(tmp_path):
    """Its rounds alone mean nothing, and the next step replaces them."""
    with Journal(tmp_path) as journal:
        journal.begin(plan_rounds([change("a")]), at(3))
        (tmp_path / "next.json").unlink()
        assert (journal.read_unfinished(), journal.checkpoint()) == (None, None)
        step = journal.begin(plan_rounds([change("b")]), at(5))
        assert journal.read_unfinished() == step


def test_nobody_else_may_read_it(tmp_path):
    """Links may be signed."""
    with Journal(tmp_path / "j") as journal:
        journal.end(journal.begin(plan_rounds([change("a")]), at(1)))
        journal.begin(plan_rounds([change("a")]), at(3))
        journal.record_deletes([change("c", delete=True)], "2026-01-01T00:00:00Z")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "j").iterdir()}
    assert set(modes) == {"lock", "step", "checkpoint.json", "next.json", "tombstones.jsonl"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700


def test_tombstones_are_lines(tmp_path):
    """One for each delete, with LSNs as text: JSON's numbers end at 53 bits for many readers."""
    with Journal(tmp_path) as journal:
        journal.record_deletes([], "never")
        journal.record_deletes([change("a", delete=True), change("b", 2, delete=True)], "t1")
        journal.record_deletes([change("a", 3, delete=True)], "t2")
    lines = [json.loads(line) for line in (tmp_path / "tombstones.jsonl").read_text().splitlines()]
    assert lines == [
        {"path": "a", "lsn": str(BIG), "at": "t1"},
        {"path": "b", "lsn": "2", "at": "t1"},
        {"path": "a", "lsn": "3", "at": "t2"},
    ]


@pytest.mark.parametrize("damage", ["bytes", "path", "lsn"])
def test_a_damaged_step_is_named(tmp_path, damage):
    """With what to do; nothing of it is applied, least of all outside the destination."""
    with Journal(tmp_path) as journal:
        journal.begin(plan_rounds([change("a", 1, delete=True)]), at(3))
        row = {"lsn": "1", "key": "0" * 32, "path": "a", "entry": None}
        row |= {"bytes": {}, "path": {"path": "../a"}, "lsn": {"lsn": "9" * 5000}}[damage]
        data = b"\x93" if damage == "bytes" else msgspec.msgpack.encode([[[row], []]])
        (tmp_path / "step").write_bytes(data)
        with pytest.raises(LocalFault, match=r"the step in .* is damaged; remove next\.json"):
            journal.read_unfinished()


def test_one_follower_at_a_time(tmp_path):
    """The second is told who the first is; when that has died, even by kill -9, the way is free."""
    code = (
        "import sys, time; from pathlib import Path; from cfetch.plugins.follow.journal import Journal\n"
        "with Journal(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(Held) as held, Journal(tmp_path):
        pass
    assert (held.value.pid, held.value.host) == (child.pid, os.uname().nodename)
    assert re.match(
        rf"another run follows this feed .*\(process {child.pid} on {os.uname().nodename}, for \d+ \w+\);",
        str(held.value),
    )
    child.kill()
    child.communicate()
    with Journal(tmp_path):
        pass


def test_one_feed_has_one_journal(tmp_path, monkeypatch):
    """However its directory is named."""
    (tmp_path / "feed").mkdir()
    monkeypatch.chdir(tmp_path)
    names = ["feed", "./feed", "feed/", str(tmp_path / "feed")]
    assert len({locate_journal(tmp_path, name, ["/a"]) for name in names}) == 1
    assert locate_journal(tmp_path, "http://h/feed", ["/a"]) == locate_journal(
        tmp_path, "http://h/feed/", ["/a"]
    )
    others = [("http://h/feed", ["/a"]), ("http://h/feed2", ["/a"]), ("http://h/feed", ["/b"])]
    assert len({locate_journal(tmp_path, *one) for one in others}) == 3
