"""Stopped at any moment, a run leaves nothing behind: 320 seeded runs against misbehaving servers.

To look at one failure: ``pytest -k "seed and 7"``; each seed draws the servers, the settings and the moments.
"""

import errno
import os
import random
from pathlib import Path

import pytest

from cfetch.base.errors import Transient
from cfetch.base.events import FallbackTriggered, RunStopping, StragglerCancelling, StragglerCheck
from cfetch.storage.resume import part_name
from cfetch.storage.staging import boot_id
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

RUNS_PER_SEED = 20


def script_of(rng, body):
    """One to three replies, most of them bad, then a good one or none."""
    kinds = (
        lambda: Reply(body=body, rate_bps=rng.uniform(500, 20_000)),
        lambda: Reply(
            body=body, cut=rng.randrange(len(body) + 1), then=rng.choice(["stall", "reset", "end"])
        ),
        lambda: Reply(body=body, latency_s=rng.uniform(0, 8)),
        lambda: Reply(body=body, status=rng.choice([403, 404, 416, 500, 503, 206])),
        lambda: Reply(body=body[::-1], etag=rng.choice(['"v2"', None]), rate_bps=5000.0),
        lambda: Reply(error=Transient("cannot connect: Connection refused"), latency_s=rng.uniform(0, 1)),
        lambda: Reply(body=body, ranges=False, framing=rng.choice(["chunked", "close"])),
        lambda: Reply(body=body, etag=None, at_s=(0.5, 1.0, 1.5, 2.0)),
    )
    bad = [rng.choice(kinds)() for _ in range(rng.randrange(3))]
    return [*bad, Reply(body=body, rate_bps=rng.choice([None, 20_000.0]))]


def scene(rng):
    bodies = {f"d{i % 3}/f{i}": rng.randbytes(rng.choice([0, 1, 3000, 12_000])) for i in range(9)}
    scripts = {path: script_of(rng, body) for path, body in bodies.items()}
    entries = [
        entry_of(i, path, body, size=rng.random() < 0.9, digest=True, host=f"h{i % 2}.test")
        for i, (path, body) in enumerate(bodies.items())
    ]
    settings = {
        "concurrency": rng.choice([1, 3, 9]),
        "per_host": rng.choice([None, 1, 2]),
        "padding": rng.choice([0.1, 1.0]),
        "check_interval": 0.25,
        "stall_timeout": rng.choice([2.0, 5.0]),
        "max_stragglers": rng.choice([0, 2]),
        "sequential_fallback": rng.random() < 0.3,
        "max_attempts": rng.choice([1, 3]),
    }
    return bodies, scripts, entries, settings


def check(outcome, bodies, entries):
    """What has to hold whenever a run ends. Parts are only of entries that a stop has cancelled."""
    detector = outcome.pool._policy
    assert outcome.tasks == set()
    left = {part_name(entry, boot_id()): bodies[entry.path] for entry in entries}
    cancelled = [record for record in outcome.all_records if record.status == "cancelled"]
    held = {part.name: part.read_bytes() for part in map(Path, outcome.parts)}
    assert sorted(map(len, held.values())) == sorted(record.bytes for record in cancelled if record.bytes)
    for name, data in held.items():  # a server may bring a wrong body, which its hash will show
        assert left[name].startswith(data) or left[name][::-1].startswith(data)
    assert outcome.transport.left_open() == []
    assert outcome.transport.open_now == set()
    assert detector.known == detector.total_finished
    assert list(outcome.pool._parts.in_flight) == []
    assert len(outcome.records) == len(outcome.all_records)
    assert {path: bodies[path] for path in outcome.tree} == outcome.tree
    for entry in entries:
        record = outcome.records.get(entry.path)
        assert (record is not None and record.status == "done") == (entry.path in outcome.tree)
        if record is not None:
            consistent(record, len(bodies[entry.path]))
    assert (outcome.root / ".cfetch").exists() is bool(outcome.parts)


def consistent(record, size):
    """Its tries follow one another, and their bytes make up what was kept."""
    assert [a.n for a in record.attempts] == list(range(1, len(record.attempts) + 1))
    edges = [record.start_s, *(t for a in record.attempts for t in (a.start_s, a.end_s)), record.end_s]
    assert edges == sorted(edges)
    assert sum(a.outcome == "done" for a in record.attempts) == (record.status == "done")
    assert all(0 <= a.from_byte + a.bytes <= size for a in record.attempts)
    if record.status == "done":
        assert record.bytes == size
        assert record.error is None
        assert record.attempts[-1].from_byte + record.attempts[-1].bytes == size
    else:
        assert record.bytes == 0 or record.status == "cancelled"
        assert (record.error is None) == (record.status == "cancelled")


@pytest.mark.parametrize("seed", range(5))
def test_stopped_at_a_random_moment(tmp_path, seed):
    """No task, part, open reply or half file stays; every entry has at most one record, and it adds up."""
    rng = random.Random(seed)
    for _ in range(RUNS_PER_SEED):
        bodies, scripts, entries, settings = scene(rng)
        stop_at = rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 20)])
        outcome = drive(tmp_path, scripts, entries, stop_at=stop_at, jitter=rng.random, **settings)
        check(outcome, bodies, entries)
        assert outcome.elapsed_s <= max(stop_at, 1e-9) + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_left_to_itself_it_converges(tmp_path, seed):
    """Every entry ends with exactly one record; a second run, with good servers, completes the tree."""
    rng = random.Random(1000 + seed)
    for _ in range(5):
        bodies, scripts, entries, settings = scene(rng)
        outcome = drive(tmp_path, scripts, entries, jitter=rng.random, **settings)
        check(outcome, bodies, entries)
        assert len(outcome.records) == len(entries)
        assert all(record.status in ("done", "failed") for record in outcome.all_records)
        good = {path: Reply(body=body) for path, body in bodies.items()}
        again = drive(tmp_path, good, entries, before=lambda root, old=outcome.tree: plant(root, old))
        assert again.tree == bodies
        assert {a.path for a in again.transport.opens} == bodies.keys() - outcome.tree.keys()


def plant(root, files):
    for path, data in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(data)


@pytest.mark.parametrize("moment", [StragglerCheck, StragglerCancelling, FallbackTriggered])
def test_stopped_in_the_very_check_that_breaks_stragglers_off(tmp_path, moment):
    """Whichever cancellation comes first, the run's own wins: nothing is tried again."""
    scripts = {str(i): Reply(body=b"x", latency_s=0.1 if i < 7 else 50.0) for i in range(10)}
    outcome = drive(
        tmp_path, scripts, stop_on=moment, padding=1.0, max_stragglers=1, sequential_fallback=True
    )
    assert outcome.elapsed_s == pytest.approx(1.5)
    assert outcome.statuses == ["done"] * 7 + ["cancelled"] * 3
    assert len(outcome.transport.opens) == 10
    assert (outcome.tasks, outcome.parts) == (set(), [])


def test_stopped_before_it_began(tmp_path):
    """Nothing is started; the run returns."""
    outcome = drive(tmp_path, {"a": Reply(body=b"x")}, stop_first=True)
    assert (outcome.transport.opens, outcome.all_records, outcome.tree) == ([], [], {})


def test_stopped_twice_is_stopped_once(tmp_path):
    """The second call does nothing and tells nothing."""
    outcome = drive(tmp_path, {"a": Reply(body=b"x" * 100, rate_bps=10.0)}, stop_at=0.5)
    outcome.pool.stop("again")
    assert len(outcome.of(RunStopping)) == 1


def test_a_file_that_the_file_system_does_not_take_stops_no_other(tmp_path, monkeypatch):
    """Its name or its size is refused: it fails with the reason, and the others are brought."""
    rename = os.rename

    def refuse_colons(name, to, **more):
        if b":" in os.fsencode(to):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        rename(name, to, **more)

    monkeypatch.setattr(os, "rename", refuse_colons)
    scripts = {name: Reply(name.encode()) for name in ("a", "bb:c", "d", "ee:f", "gg:h", "ii:j", "k")}
    outcome = drive(tmp_path, scripts, concurrency=1)
    assert outcome.tree == {name: name.encode() for name in ("a", "d", "k")}
    assert [record.error_kind for record in outcome.all_records if record.status == "failed"] == [
        "unstorable"
    ] * 4
    assert outcome.pool.fault is None
