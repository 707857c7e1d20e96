"""A short attack in the suite, and the judge who is judged: each promise broken by hand is noticed.

The long one: ``scripts/attack``.
"""

import asyncio
import json
import mmap
import os
import signal

import msgspec
import pytest

from tests.attack.battle import fight
from tests.attack.judge import CANARY, MAX_PEAK_BYTES, OWN, Judge
from tests.attack.life import Life, live
from tests.attack.replies import FAULTS
from tests.attack.shrink import shrink
from tests.attack.world import Ending, File, Version, World, body_of, draw_world

LAST = Version(1000, 300, 0)
FILE = File(path="d/f0.bin", known="hash and size", versions=(Version(5, 300, 1), LAST), faults=("", "stall"))
OTHER = File(path="f1.bin", known="size", versions=(LAST,), batch="red")
WORLD = World(seed=1, files=(FILE, OTHER), endings=(Ending(signal="KILL"), Ending()), volumes=2)


# By seed a world of each kind, with few pauses. A busy machine needs over 2 s for a write: none limits it so.
SHORT = [417, 6163, 6267, 6350, 8539]


@pytest.mark.parametrize("seed", SHORT)
def test_nothing_falls_in_a_short_attack(seed):
    """The real command, real sockets, real kills; what fell is printed by ``--replay``."""
    story = fight(draw_world(seed))
    assert story.breaches == []
    assert story.counts["requests"] > 0


def test_the_short_attack_has_some_of_all():
    """If drawing changes, these seeds have to be chosen anew."""
    worlds = [draw_world(seed) for seed in SHORT]
    assert {world.disk for world in worlds} >= {"plain", "full", "swapped"}
    assert {ending.signal for world in worlds for ending in world.endings} >= {"KILL", "TERM"}
    assert any(world.tls for world in worlds)
    assert any(world.own_state for world in worlds)
    assert any(ending.rival for world in worlds for ending in world.endings)
    assert any(file.batch for world in worlds for file in world.files)
    assert any(file.pieces > 1 for world in worlds for file in world.files)
    assert any(file.goes for world in worlds for file in world.files)
    assert any(world.hub for world in worlds)
    assert "--processes" in {option[0] for world in worlds for option in world.options}
    assert len({fault for world in worlds for file in world.files for fault in file.faults}) > 20


def test_a_seed_is_one_world():
    """It can be drawn again, and written down and read."""
    for seed in range(50):
        world = draw_world(seed)
        assert world == draw_world(seed)
        assert msgspec.json.decode(msgspec.json.encode(world), type=World) == world
        for file in world.files:  # nobody can notice a lie that needs more than the manifest knows
            assert all(FAULTS[name].needs <= file.level for name in file.faults if name)


def test_a_failure_becomes_small():
    """What it does not need goes: files, endings, options, faults, volumes."""
    world = max((draw_world(seed) for seed in range(40)), key=lambda drawn: len(drawn.files))
    culprit = world.files[3].path

    def fails(smaller):
        return any(file.path == culprit for file in smaller.files) and bool(smaller.endings)

    least = shrink(world, fails, limit_s=60)
    assert [file.path for file in least.files] == [culprit]
    assert (len(least.endings), least.options, least.volumes, least.disk) == (1, (), 1, "plain")
    assert not any(least.files[0].faults)
    assert len(least.files[0].versions) == 1


@pytest.fixture
def scene(tmp_path):
    """A judge, and a destination in which all is well."""
    roots = [tmp_path / "volume0", tmp_path / "volume1"]
    for place in (*roots, tmp_path / "outside"):
        place.mkdir()
    (tmp_path / "outside/canary").write_bytes(CANARY)
    (roots[0] / "d").mkdir()
    (roots[0] / "d/f0.bin").write_bytes(body_of(LAST))
    (roots[0] / "f1.bin").write_bytes(body_of(LAST))
    (roots[0] / ".cfetch").mkdir()
    for root in roots:
        (root / OWN).write_bytes(CANARY)
    return Judge(WORLD, roots, roots[0] / ".cfetch", tmp_path / "outside"), roots


def kinds(judge):
    return {breach.kind for breach in judge.breaches}


def change_a_file_of_the_user(roots):
    (roots[1] / OWN).write_bytes(b"")


def mix(roots):
    (roots[0] / "d/f0.bin").write_bytes(body_of(FILE.versions[0])[:150] + body_of(LAST)[150:])


def leave_the_old_version(roots):
    (roots[0] / "d/f0.bin").write_bytes(body_of(FILE.versions[0]))


def write_another_name(roots):
    (roots[1] / "f2.bin").write_bytes(b"")


def write_outside(roots):
    (roots[0].parent / "outside/f0.bin").write_bytes(b"")


def change_outside(roots):
    (roots[0].parent / "outside/canary").write_bytes(b"")


def keep_a_secret(roots):
    (roots[0] / ".cfetch/x.jsonl").write_bytes(b"Bearer CANARYENTRY")


def name_a_secret(roots):
    os.setxattr(roots[0] / "f1.bin", "user.x", b"CANARYQUERY")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [(mix, "corruption"), (leave_the_old_version, "corruption"), (write_another_name, "outside"),
     (write_outside, "outside"), (change_outside, "outside"), (keep_a_secret, "secret"),
     (name_a_secret, "secret"), (change_a_file_of_the_user, "own")],
)  # fmt: skip
def test_what_is_wrong_in_a_tree_is_noticed(scene, spoil, kind):
    """And a tree in which all is well is not blamed."""
    judge, roots = scene
    judge.judge_tree()
    assert kinds(judge) == set()
    spoil(roots)
    judge.judge_tree()
    assert kinds(judge) == {kind}


def life(code=0, out="", said="done", **more):
    return Life(code, out, said, 1.0, 1 << 20, **more)


INTERRUPTED_BEFORE_US = """\
Fatal Python error: init_import_site: Failed to import the site module
Python runtime state: initialized
Traceback (most recent call last):
  File "<frozen importlib._bootstrap>", line 1176, in _find_and_load
  File "<frozen site>", line 616, in <module>
    main()
  File "<string>", line 1, in <module>
KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (life(hung=True), "hang"),
        (life(70, said="a bug"), "exit code"),
        (life(3, said="disk full"), "exit code"),  # on a good disk
        (life(4, said="held"), "exit code"),  # by nobody
        (life(130), "exit code"),  # nobody interrupted it
        (life(-signal.SIGSEGV), "exit code"),
        (life(1, said=""), "exit code"),
        (life(said="Traceback (most recent call last)"), "noise"),
        (life(said=INTERRUPTED_BEFORE_US.replace("frozen site", "/cfetch/cli.py")), "noise"),
        (life(said="Task exception was never retrieved"), "noise"),
        (life(said="HTTP 500 \x1b[2J"), "controls"),
        (life(said="http://h/?sig=CANARYQUERY"), "secret"),
        (Life(0, "", "", 1.0, 1 << 30), "memory"),
    ],
)
def test_what_is_wrong_with_a_life_is_noticed(scene, bad, kind):
    """And lives that may be so are not blamed."""
    judge, _ = scene
    for good in (
        life(),
        life(1),
        life(130, signalled="INT"),
        life(-9, signalled="KILL"),
        life(1, signalled="INT", said=INTERRUPTED_BEFORE_US),
        life(4, rival=True),
    ):
        judge.judge_life(good, calm=True)
    assert kinds(judge) == set()
    judge.judge_life(bad, calm=True)
    assert kinds(judge) == {kind}


def test_the_memory_of_a_life_is_its_own(tmp_path):
    """The process that starts it holds 800 MB."""
    with mmap.mmap(-1, 800_000_000) as held:
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        (alone,) = asyncio.run(live(["--version"], tmp_path, None, Ending()))
    assert alone.code == 0
    assert 1 << 20 < alone.peak_bytes < MAX_PEAK_BYTES


def ended(roots, code=0, *, statuses=("done", "skipped"), verified="sha256", **counts):
    """A life that ended by itself, with its summary and metrics."""
    records = [
        {"schema": "cfetch.file/1", "id": number, "path": file.path, "status": status, "verified": verified}
        for number, (file, status) in enumerate(zip(WORLD.files, statuses, strict=False))
    ]
    metrics = roots[0] / ".cfetch/m.jsonl"
    metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    files = {"total": 2, "done": 1, "skipped": 1, "failed": 0} | counts
    return life(code, json.dumps({"exit_code": code, "files": files, "metrics": str(metrics)}))


def lose_a_file(roots):
    (roots[0] / "d/f0.bin").unlink()


def leave_a_part(roots):
    (roots[1] / ".cfetch/attempts/i/1").mkdir(parents=True)
    (roots[1] / ".cfetch/attempts/i/1/h0").write_bytes(b"")


def leave_a_plan(roots):
    (roots[0] / ".cfetch/plans/i").mkdir(parents=True)
    (roots[0] / ".cfetch/plans/i/entries").write_bytes(b"")


def publish_a_batch_twice(roots):
    (roots[1] / "f1.bin").write_bytes(body_of(LAST))


@pytest.mark.parametrize(
    ("spoil", "how", "kind"),
    [
        (lose_a_file, {}, "promise"),
        (leave_a_part, {}, "debris"),
        (leave_a_plan, {}, "debris"),
        (publish_a_batch_twice, {}, "batch"),
        (None, {"code": 1}, "summary"),  # it failed, and all is there
        (None, {"failed": 1}, "summary"),
        (None, {"total": 3}, "summary"),
        (None, {"statuses": ("done",)}, "records"),
        (None, {"verified": "size"}, "records"),
    ],
)
def test_a_claim_that_is_not_so_is_noticed(scene, spoil, how, kind):
    """And one that is so is not."""
    judge, roots = scene
    judge.judge_end(ended(roots))
    assert kinds(judge) == set()
    if spoil is not None:
        spoil(roots)
    judge.judge_end(ended(roots, **how))
    assert kind in kinds(judge)


def test_output_that_is_no_document_is_noticed(scene):
    """Exactly one JSON document is promised."""
    judge, _ = scene
    judge.judge_end(life(out="{}{}"))
    assert kinds(judge) == {"json"}
