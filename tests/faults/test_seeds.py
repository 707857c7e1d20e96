"""Whole worlds from seeds: nothing is broken in any of them, and engines that are wrong are found out.

More seeds, and one of them step by step: ``python benchmarks/simulate_faults.py``.
"""

import asyncio
import os
import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cfetch.engine import segment_split as helping
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.pool import Pool
from cfetch.engine.transfer import RequestAccess
from cfetch.show.summary import exit_code
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.storage.part_file import PartFile
from cfetch.storage.staging import Staging
from cfetch.straggler import burst, regime
from cfetch.straggler.stall import find_stalled
from cfetch.timeline.attempts import Attempts
from cfetch.wire.judge import judge
from cfetch.wire.next_step import next_step
from cfetch.wire.rate import Limiter
from cfetch.wire.retry import Limits
from tests.faults import life
from tests.faults.disk import Disk
from tests.faults.life import simulate
from tests.faults.servers import Body, Network
from tests.faults.world import Ending, Shaping, draw_world

SEEDS = 30  # the script plays thousands
CHUNK = 15
DRAWN = ("rate limits", "several processes", "segments", "byte ranges")  # each chunk has runs of each
MOST_SEEDS = 60  # within which a wrong engine must have been found out


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_broken_in_any_world(first):
    """No silent corruption, no loss, no leak, no storm; and without faults everything is had."""
    stories = [simulate(seed) for seed in range(first, first + CHUNK)]
    assert {story.seed: story.violations for story in stories if story.violations} == {}
    assert sum(story.requests for story in stories) > CHUNK  # the worlds are not empty
    assert all(sum(story.drawn[name] for story in stories) for name in DRAWN)


def test_nothing_is_broken_where_streams_share_files(monkeypatch):
    """The same with slow servers and idle slots: nearly every file is split."""
    monkeypatch.setattr(helping, "MIN_SEGMENT_BYTES", 32 << 10)  # files are 3 MiB at most
    monkeypatch.setattr(helping, "MIN_GAIN_S", 0.02)
    asked = 0
    for seed in range(12):
        story = simulate(seed, world=sharing(seed))
        assert (seed, story.violations) == (seed, [])
        asked += sum(bool(re.search(r"bytes=\d+-\d", line)) for line in story.trace)
    assert asked > 20


def test_nothing_is_broken_where_hosts_hold_back(monkeypatch):
    """The same with hosts that send a burst, then little, and at times nothing at all."""
    monkeypatch.setattr(burst, "LEAST_CHUNK_BYTES", 16 << 10)  # files are 3 MiB at most
    monkeypatch.setattr(regime, "LEAST_REPLY_BYTES", 16 << 10)
    for seed in range(20):
        story = simulate(seed, world=holding_back(seed))
        assert (seed, story.violations) == (seed, [])


def holding_back(seed):
    """The world of ``seed`` with shaped hosts, and with patience."""
    world, rng = sharing(seed), random.Random(f"holding back {seed}")
    freezes = tuple((from_s, from_s + 1.5) for from_s in range(rng.randint(1, 3), 40, 4))
    shaping = Shaping(
        rng.choice((48, 192)) << 10, rng.choice((32, 128)) * 2.0**10, rng.choice((0.05, 1.0)), freezes
    )
    world.hosts = {
        name: replace(host, rate_bps=2.0**23, trouble=0.02, shaping=shaping)
        for name, host in world.hosts.items()
    }
    return world


def sharing(seed):
    """The world of ``seed`` with patience, and with all that the adaptive policy does."""
    world = draw_world(seed)
    world.settings = replace(
        world.settings,
        policy="adaptive", mitigation=True, concurrency=16, per_host=None, segments=8,
        stall_timeout=30.0, retry_budget=60.0, max_attempts=8,
    )  # fmt: skip
    world.hosts = {name: replace(one, rate_bps=2.0**18, ranges=True) for name, one in world.hosts.items()}
    return world


@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_is_one_story(seed):
    """The same seed gives the same trace, to the last step."""
    first, second = simulate(seed), simulate(seed)
    assert first.trace == second.trace
    assert first.trace


def everywhere(monkeypatch, original, wrong):
    """Put ``wrong`` in the place of a function wherever the engine names it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cfetch."):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, attribute, wrong)


def hostile(seed, *, faults=(), endings=None, trouble=0.6, host=None, **settings):
    """The world of ``seed``, but with these troubles only."""
    world = draw_world(seed)
    plenty = {"max_attempts": 8, "retry_budget": 60.0, "per_host": None}
    world.settings = replace(world.settings, **{**plenty, **settings})
    world.hosts = {
        name: replace(one, **{"trouble": trouble if faults else 0.0, "outages": (), **(host or {})})
        for name, one in world.hosts.items()
    }
    world.faults = tuple(faults)
    if endings is not None:
        world.endings = list(endings)
    return world


def found_out(kind, make_world, *, first=0):
    """Whether some seed from ``first`` on shows a breach of this kind."""
    return any(
        breach.kind == kind
        for seed in range(first, first + MOST_SEEDS)
        for breach in simulate(seed, world=make_world(seed)).violations
    )


QUIET = (Ending(),)


def test_who_ignores_the_etag_on_resume_mixes_versions(monkeypatch):
    """Bytes of two versions under one name: size right, file wrong."""

    def blind(status, headers, asked):
        return judge(status, headers, msgspec.structs.replace(asked, validator=None))

    ask = Network.open

    async def without_if_range(self, url, headers, secrets, **how):
        kept = {name: value for name, value in headers.items() if name != "If-Range"}
        return await ask(self, url, kept, secrets, **how)

    everywhere(monkeypatch, judge, blind)
    monkeypatch.setattr(Network, "open", without_if_range)
    assert found_out("corruption", lambda seed: hostile(seed, faults=["cut"], endings=QUIET * 3), first=80)


def test_who_publishes_before_verifying_publishes_anything(monkeypatch):
    """Wrong bytes under a final name."""
    monkeypatch.setattr(Part, "verify", lambda self, size_bytes, digest: "size")
    assert found_out("corruption", lambda seed: hostile(seed, faults=["flipped byte", "short", "html"]))


def test_who_trusts_bodies_that_the_connection_ends_publishes_halves(monkeypatch):
    """A cut goes unseen where no length was stated."""
    everywhere(monkeypatch, judge, lambda *asked: msgspec.structs.replace(judge(*asked), framed=True))
    world = {"faults": ["cut", "reset"], "host": {"framing": "close"}}
    assert found_out("corruption", lambda seed: hostile(seed, **world))


def test_who_takes_any_range_for_the_asked_one_publishes_other_bytes(monkeypatch):
    """The number of bytes is right where a server begins elsewhere."""

    def blind(status, headers, asked):
        if asked.base is not None and status == 206 and headers.get("Content-Range"):
            start = int(headers["Content-Range"].removeprefix("bytes ").partition("-")[0])
            asked = msgspec.structs.replace(asked, base=start - asked.from_byte)
        return judge(status, headers, asked)

    everywhere(monkeypatch, judge, blind)
    assert found_out(
        "corruption", lambda seed: hostile(seed, faults=["wrong start"], endings=QUIET), first=13
    )


def test_who_publishes_before_flushing_loses_files_to_a_power_cut(monkeypatch):
    """Names outlive their bytes, or do not live."""
    monkeypatch.setattr(Directory, "flush", lambda self: None)
    cuts = [Ending("power cut", at) for at in (20, 40, 80)]
    for kind in ("corruption", "promise"):
        assert found_out(kind, lambda seed: hostile(seed, endings=cuts, durability="power"))


def test_who_never_forgets_bytes_cannot_heal(monkeypatch):
    """What one wrong byte has spoiled is never had, or worse."""
    monkeypatch.setattr(Part, "restart", lambda self: None)
    kills = [Ending("kill", at) for at in (20, 40, 60)]
    assert found_out("liveness", lambda seed: hostile(seed, faults=["flipped byte", "cut"], endings=kills))


def test_who_waits_for_silent_servers_never_ends(monkeypatch):
    """Without the stall rule one silent server holds the run for ever; ten minutes tell it from what ends."""
    monkeypatch.setattr(life, "RUN_LIMIT_S", 600.0)

    def world(seed):
        return hostile(seed, faults=["silent"], endings=QUIET, trouble=0.3, mitigation=False)

    assert simulate(4, world=world(4)).violations == []
    everywhere(monkeypatch, find_stalled, lambda *watched, **limits: ())
    assert found_out("liveness", world, first=4)


def test_who_follows_symlinks_writes_outside(monkeypatch):
    """A symlink in the destination leads out of it."""

    def publish(self, name, path):
        full = Path(self.root, path)
        full.parent.mkdir(parents=True, exist_ok=True)
        os.rename(Path(self.root, self.staging.path, name), full)

    def linked(seed):
        world = hostile(seed, endings=QUIET, durability="crash")
        world.obstacles = {e.path: "symlinked parent" for e in world.entries if e.path.startswith("only")}
        world.old = {}
        return world

    monkeypatch.setattr(Directory, "publish", publish)
    monkeypatch.setattr(Directory, "existing", lambda self, path: None)
    assert found_out("outside", linked)


def test_who_claims_success_is_contradicted_by_the_records(monkeypatch):
    """Exit code 0 with failed files."""
    everywhere(monkeypatch, exit_code, lambda unfinished, error: 0)
    assert found_out("exit code", lambda seed: hostile(seed, faults=["404"]))


def test_who_does_not_tell_of_an_entry_is_found_out(monkeypatch):
    """Each entry ends in exactly one record."""
    finish = EntryRecords.finish

    def silently(self, job, status, **more):
        if status != "failed":
            finish(self, job, status, **more)

    monkeypatch.setattr(EntryRecords, "finish", silently)
    assert found_out("records", lambda seed: hostile(seed, faults=["404"], endings=QUIET))


def test_who_does_not_roll_back_leaves_debris(monkeypatch):
    """A dead run's parts stay on the disk."""
    monkeypatch.setattr(Attempts, "roll_back", lambda self, instant, below, **how: None)
    kills = [Ending("kill", at) for at in range(10, 40, 5)]
    assert found_out("debris", lambda seed: hostile(seed, endings=kills))


def test_who_drops_no_leftovers_is_found_out(monkeypatch):
    """What was salvaged for a file that is in place by now is of no use."""
    monkeypatch.setattr(Staging, "remove_leftover", lambda self, leftover: None)
    kills = [Ending("kill", at) for at in range(10, 40, 5)]
    assert found_out("debris", lambda seed: hostile(seed, endings=kills))


def test_who_leaves_a_task_behind_is_found_out(monkeypatch):
    """Nothing of a run outlives it."""
    work, strays = Pool.run, []

    async def run(self):
        strays.append(asyncio.create_task(asyncio.sleep(1e6)))
        await work(self)

    monkeypatch.setattr(Pool, "run", run)
    assert found_out("task", lambda seed: hostile(seed, endings=QUIET))


def test_who_leaves_a_descriptor_behind_is_found_out(monkeypatch):
    """Descriptors are few."""
    left = []

    def forget(self, **_):
        if self.fd >= 0:
            left.append(self.fd)
            self.fd = -1

    monkeypatch.setattr(PartFile, "close", forget)
    try:
        assert found_out("descriptor", lambda seed: hostile(seed, endings=QUIET))
    finally:
        for descriptor in left:
            os.close(descriptor)


def test_who_leaves_a_response_open_is_found_out(monkeypatch):
    """A response that is not read to its end has to be closed."""
    monkeypatch.setattr(Body, "close", lambda self: None)
    assert found_out("response", lambda seed: hostile(seed, faults=["500", "404"], endings=QUIET))


def test_who_sends_a_header_along_to_other_origins_is_found_out(monkeypatch):
    """An entry's headers are for its own origin."""
    headers = {}

    def to_all(self, of_all, source):
        headers.update({name: value.reveal() for name, value in self._entry.headers})
        return {**of_all, **headers}

    monkeypatch.setattr(RequestAccess, "secrets", to_all)
    assert found_out("secret", lambda seed: hostile(seed, endings=QUIET))


def test_who_tries_again_and_again_makes_a_storm(monkeypatch):
    """Tries are bounded whatever happens."""

    def tireless(error, spent, limits, **more):
        return next_step(error, spent, Limits(limits.max_attempts * 20, 1e9), **more)

    everywhere(monkeypatch, next_step, tireless)
    world = {"faults": ["408", "stall"], "endings": QUIET, "trouble": 0.98, "max_attempts": 1}
    assert found_out("storm", lambda seed: hostile(seed, **world))


def test_who_reads_as_fast_as_it_can_breaks_the_limit(monkeypatch):
    """A rate limit is kept over every run, by every process."""
    monkeypatch.setattr(Limiter, "reader", lambda self, read, host, attempt: lambda: read(-1))
    assert found_out("rate", lambda seed: hostile(seed, endings=QUIET, limit_rate=1 << 20))


def test_who_looks_at_nothing_asks_for_all_again(monkeypatch):
    """What is in place is not fetched again."""
    monkeypatch.setattr(Directory, "existing", lambda self, path: None)
    assert found_out("twice", lambda seed: hostile(seed, endings=QUIET))


def test_the_disk_keeps_what_was_flushed_and_may_lose_the_rest(tmp_path):
    """The model of a power cut: over many dice, unflushed bytes and names are lost, flushed ones never."""
    fates = set()
    for seed in range(60):
        folder = tmp_path / str(seed)
        (folder / "tree0").mkdir(parents=True)
        disk = Disk(folder, random.Random(seed), models_power=True, on_change=lambda *_: None)
        disk.load()
        root = os.open(disk.root, os.O_RDONLY)
        try:
            for name, flushes in (("kept", True), ("new", False)):
                part = disk.open("part", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=root)
                disk.write(part, b"bytes of it")
                disk.close(part)
                if flushes:
                    disk.flush(root)
                disk.rename("part", name, src_dir_fd=root, dst_dir_fd=root)
                if flushes:
                    disk.flush(root)
        finally:
            os.close(root)
        disk.cut_power()
        assert (disk.root / "kept").read_bytes() == b"bytes of it"
        new = disk.root / "new"
        fates.add("whole" if new.exists() and new.read_bytes() == b"bytes of it" else
                  "torn" if new.exists() else "lost")  # fmt: skip
    assert fates == {"whole", "torn", "lost"}
