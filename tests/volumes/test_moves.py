"""Batches that move between volumes: nothing is lost, doubled or split, also by kill -9 at any call."""

import asyncio
import fcntl
import json
import math
import os
import random
import re
import shutil
from contextlib import asynccontextmanager, closing
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from cfetch.app import volume_moves
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held, UsageError
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.batch_records import read_records
from cfetch.storage.directory import Directory
from cfetch.storage.moves import move_batch, recover
from cfetch.storage.volume_values import BatchRecord
from tests.app.command import cfetch
from tests.gate import Gate
from tests.volumes.scene import KIB, MIB, Scene, named, under

KILLED = 137
CALLS = "openat,write,renameat,unlinkat,mkdirat,syncfs,ftruncate,rmdir,unlink,mkdir,fchmod"
_CALL = re.compile(r"(\d+) +(\w+)\(")


async def filled(folder, files, *, volumes=3, to=1, **how):
    """A scene of whose volumes the first ``to`` have all files, each named batch with its record."""
    folder.mkdir(exist_ok=True)
    async with Origin(files) as origin:
        scene = Scene(folder, origin.url, files, volumes=volumes, **how)
        whole, scene.to = scene.to, scene.to[:to]
        assert (await scene.run()).code == 0
        scene.to = whole
    return scene


@asynccontextmanager
async def held_back(folder, files, name):
    """A scene of two volumes; the last byte of the file comes once there is a file at the gate."""
    gate = folder / "gate"
    last = {name: files[name]}
    async with (
        Origin(files) as origin,
        Gate(last, gate, head_bytes=files[name].size_bytes - 1).open() as late,
    ):
        scene = Scene(folder, origin.url, files, volumes=2)
        scene.urls = {name: late.url + name}
        scene.write_manifest()
        yield scene, gate


async def volume(verb, *words):
    """Run the verb as a process of its own."""
    return await asyncio.to_thread(cfetch, "volume", verb, *words)


def to(*roots):
    return [word for root in roots for word in ("--to", root)]


def homes(scene):
    """The volume of each batch, by its name."""
    return {
        record.name: number for number, held in enumerate(scene.volumes()) for record in held.records.values()
    }


def is_well(scene):
    """All files are there, each batch on one volume with its record, and nothing is left over."""
    assert (scene.faults(), scene.missing(), scene.debris()) == ([], [], [])
    assert set(homes(scene)) == {name.partition("/")[0] for name in scene.files}
    assert list(scene.folder.glob("v*/.cfetch/moves")) == []


async def test_drain_moves_all_batches(tmp_path):
    """The others get whole batches, shared out; times and sources move too; nothing is fetched again."""
    files = named(6, 3, 40 * KIB)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, hashed=False)
        v0, v1, v2 = scene.to
        scene.to = [v0]
        assert (await scene.run()).code == 0
        times = {name: (v0 / name).stat().st_mtime_ns for name in files}

        shown = await volume("drain", "--from", v0, *to(v1, v2), "--dry-run")
        assert (shown.returncode, shown.stdout.count("would go: batch")) == (0, 6)
        assert len(under(v0)) == 18

        done = await volume("drain", "--from", v0, *to(v1, v2), "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert (len(document["moves"]), document["stayed"], document["recovered"]) == (6, [], [])
        assert under(v0) == {}
        assert not list(read_records(v0))
        scene.to = [v1, v2]
        scene.folder = tmp_path
        counts = [len(list(read_records(root))) for root in (v1, v2)]
        assert counts == [3, 3]
        for root in (v1, v2):
            for name in under(root):
                assert (root / name).stat().st_mtime_ns == times[name]
            records = [record for record in read_records(root) if isinstance(record, BatchRecord)]
            assert [record.moves for record in records] == [(str(v0),)] * 3
        asked = len(origin.requests)
        assert set((await scene.run()).statuses().values()) == {"skipped"}
        assert len(origin.requests) == asked


async def test_a_batch_that_has_changed_moves_as_one(tmp_path):
    """The record from before the change goes with the newest, and no file is moved twice."""
    files = named(1, 3)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        v0, v1 = scene.to
        scene.to = [v0]
        await scene.run()
        origin.files = scene.files | {"b0/more": Synthetic("b0/more", 5000)}
        scene.files = dict(origin.files)
        scene.write_manifest()
        await scene.run()
        assert len(list(read_records(v0))) == 2
    done = await volume("drain", "--from", v0, *to(v1))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (under(v0), list(read_records(v0)), set(under(v1))) == ({}, [], set(scene.files))
    (record,) = read_records(v1)
    assert isinstance(record, BatchRecord)
    assert set(record.paths or ()) == set(scene.files)


async def test_rebalance_makes_volumes_level(tmp_path):
    """A new volume gets its share of the bytes, within the bound; a second call moves nothing."""
    scene = await filled(tmp_path, named(20, 1, 50 * KIB), volumes=2)
    done = await volume("rebalance", *to(*scene.to), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["level"]
    assert len(document["moves"]) in range(9, 11)
    is_well(scene)
    again = await volume("rebalance", *to(*scene.to))
    assert again.stdout.startswith("moved: 0 batches, 0 B; the volumes are level: none is more than ")


async def test_volumes_that_cannot_get_level_say_what_to_do(tmp_path):
    """Three batches on two volumes have no half: the end names the distance, the reason and the next step.

    They differ in size: of two equal ways the free space would choose one, and it changes all the time.
    """
    sizes = (50 * KIB, 50 * KIB, 60 * KIB)
    files = {f"b{n}/0": Synthetic(f"b{n}/0", size_bytes) for n, size_bytes in enumerate(sizes)}
    scene = await filled(tmp_path, files, volumes=2)
    done = await volume("rebalance", *to(*scene.to), "--within", 0, "--dry-run")
    last = done.stdout.splitlines()[-1]
    assert last.startswith("would go: 1 batch, 60.0 KiB; the volumes would be not level: one is 20."), last
    assert "--within allows nothing, and no single batch can move" in last
    assert last.endswith("give a larger --within, or make room on the volume that has little")
    for batch in range(3):
        (scene.to[1] / f"b{batch}").mkdir(parents=True)
        (scene.to[1] / f"b{batch}/0").write_text("mine")
    done = await volume("rebalance", *to(*scene.to))
    assert done.returncode == 1
    assert "off its share, --within allows 4." in done.stdout
    assert done.stdout.endswith("mend what keeps the batches above, then give the same command again\n")


async def test_an_old_record_says_why_its_batch_stays(tmp_path):
    """A record without paths and a record of a newer version: named, exit code 1, and nothing is touched."""
    scene = await filled(tmp_path, named(3, 2), volumes=2)
    records = sorted((scene.to[0] / ".cfetch/batches").glob("*.json"))
    old, newer, _ = (json.loads(path.read_bytes()) for path in records)
    del old["paths"], old["moves"]
    newer["schema"] = "cfetch.batch/2"
    records[0].write_text(json.dumps(old))
    records[1].write_text(json.dumps(newer))
    done = await volume("drain", "--from", scene.to[0], *to(scene.to[1]))
    assert done.returncode == 1
    assert done.stdout.count("stays: ") == 2
    assert "does not name its files; cfetch download with --existing refetch" in done.stdout
    assert "a newer version of cfetch has written it" in done.stdout
    assert (len(under(scene.to[0])), len(under(scene.to[1]))) == (4, 2)
    listed = json.loads((await volume("list", *to(*scene.to), "--json")).stdout)["volumes"]
    assert [(row["batches"], row["files"], row["unread"]) for row in listed] == [(1, 2, 1), (1, 2, 0)]


async def test_a_file_in_the_way_keeps_the_batch_where_it_is(tmp_path):
    """A file of the same name at the target is never replaced; the other batches move."""
    scene = await filled(tmp_path, named(2, 2), volumes=2)
    (scene.to[1] / "b0").mkdir(parents=True)
    (scene.to[1] / "b0/1").write_bytes(b"mine")
    done = await volume("drain", "--from", scene.to[0], *to(scene.to[1]))
    assert done.returncode == 1
    assert "has a file b0/1 already" in done.stdout
    assert (scene.to[1] / "b0/1").read_bytes() == b"mine"
    assert set(under(scene.to[0])) == {"b0/0", "b0/1"}
    assert homes(scene) == {"b0": 0, "b1": 1}


async def test_a_full_target_takes_nothing(tmp_path, namespaces):
    """No batch goes where it does not fit, and the reason is named."""
    scene = await filled(tmp_path, named(2, 1, 3 * MIB), volumes=2)
    words = ["volume", "drain", "--from", str(scene.to[0]), *map(str, to(scene.to[1]))]
    script = f"""
        set -e; mkdir -p v1; mount -t tmpfs -o size=2m tmpfs v1
        {scene.words()[0]} -m cfetch {" ".join(words)} >out || echo $? >code
    """
    code, _, said = await scene.ended(await scene.begun(["unshare", "-Urm", "sh", "-c", script]))
    assert code == 0, said
    assert (tmp_path / "code").read_text() == "1\n"
    assert (tmp_path / "out").read_text().count("has no room") == 2
    assert len(under(scene.to[0])) == 2


async def test_a_read_only_volume_hinders_no_other(tmp_path, namespaces):
    """No batch goes to it or leaves it; the rest of a drain is done."""
    scene = await filled(tmp_path, named(3, 1), volumes=3)
    verb = f"{scene.words()[0]} -m cfetch volume"
    script = f"""
        set -e; mkdir -p v1 v2; mount -t tmpfs -o size=2m tmpfs v1; mount -o remount,ro v1
        {verb} drain --from v0 --to v1 --to v2 >out || echo $? >code
        mount --bind v2 v2; mount -o remount,bind,ro v2
        {verb} drain --from v2 --to v0 >>out || echo $? >code2
    """
    code, _, said = await scene.ended(await scene.begun(["unshare", "-Urm", "sh", "-c", script]))
    assert code == 0, said
    assert not (tmp_path / "code").exists(), said
    assert homes(scene) == {"b0": 2, "b1": 2, "b2": 2}
    assert (tmp_path / "code2").read_text() == "1\n"
    assert (tmp_path / "out").read_text().count("Read-only file system") == 3


async def test_no_move_while_a_run_is_at_work(tmp_path):
    """Exit code 4 while a download writes there; --wait waits for its end, and then all is moved."""
    files = named(2, 2, 40 * KIB)
    async with held_back(tmp_path, files, "b1/1") as (scene, gate):
        v0, v1 = scene.to
        scene.to = [v0]
        words = [*scene.words("--no-mitigation"), "--state", str(tmp_path / "state")]
        child = await scene.begun(words)
        while child.returncode is None and not list(v0.glob(".cfetch/attempts/*/*/b*")):
            await asyncio.sleep(0.01)
        held = await volume("drain", "--from", v0, *to(v1))
        assert held.returncode == 4
        assert "another run or move is at work on" in held.stderr
        waiting = asyncio.create_task(volume("drain", "--from", v0, *to(v1), "--wait"))
        gate.touch()
        waited = await waiting
        assert (waited.returncode, waited.stdout.count("moved: batch")) == (0, 2), waited.stderr
        assert (await scene.ended(child))[0] == 0
        assert set(under(v1)) == set(files)


async def test_no_move_while_a_heartbeat_tells_of_a_run(tmp_path):
    """A run that another machine's lock does not show is seen by its heartbeat on the timeline."""
    files = named(1, 2, 40 * KIB)
    async with held_back(tmp_path, files, "b0/1") as (scene, gate):
        v0, v1 = scene.to
        scene.to = [v0]
        child = await scene.begun(scene.words("--no-mitigation"))
        while child.returncode is None and not list(v0.glob(".cfetch/attempts/*/*/b*")):
            await asyncio.sleep(0.01)
        settings = Settings(to=(str(v1),))
        with (
            patch.object(volume_moves, "occupy"),
            pytest.raises(Held, match=r"plan .* is held by"),
            volume_moves.prepare_drain(settings, [str(v0)], pause=print, note=print),
        ):
            pass
        gate.touch()
        assert (await scene.ended(child))[0] == 0


async def test_the_bytes_that_stand_there_count(tmp_path):
    """A volume that has batches already gets those of the emptied one after one that has none."""
    files = named(3, 1, 50 * KIB)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=3)
        v0, v1, v2 = scene.to
        scene.files = {name: content for name, content in files.items() if not name.startswith("b0")}
        scene.write_manifest()
        scene.to = [v1]
        await scene.run()
        scene.files = {"b0/0": files["b0/0"]}
        scene.write_manifest()
        scene.to = [v0]
        await scene.run()
    assert (await volume("drain", "--from", v0, *to(v1, v2))).returncode == 0
    assert set(under(v2)) == {"b0/0"}


async def test_a_record_names_all_files_of_its_batch(tmp_path):
    """Also those that were in place before, of a batch that was cut by size."""
    files = named(1, 4)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2, names=False, hashed=False)
        options = {"batch_share": 1.0}
        await scene.run(**options)
        home = next(root for root in scene.to if under(root))
        (home / "b0/2").unlink()
        await scene.run(**options)
    (record,) = (record for root in scene.to for record in read_records(root))
    assert isinstance(record, BatchRecord)
    assert (set(record.paths or ()), record.files) == (set(files), 4)


async def test_no_run_while_batches_move(tmp_path):
    """A download ends with exit code 4 while another process has a volume for itself."""
    files = named(1, 1)
    async with Origin(files) as origin:
        scene = Scene(tmp_path, origin.url, files, volumes=2)
        scene.to[1].mkdir()
        descriptor = os.open(scene.to[1], os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            code, _, said = await scene.command()
            assert code == 4
            assert f"cfetch volume is moving batches of {scene.to[1]}" in said
        finally:
            os.close(descriptor)
        assert (await scene.command())[0] == 0


async def test_list_and_where(tmp_path):
    """Each volume has a row, also one that is not mounted; each file has its volume and batch, or exit 1."""
    scene = await filled(tmp_path, named(4, 2), volumes=3, to=3)
    before = homes(scene)
    gone = scene.to[max(before.values())]  # not the first, which has the list of labels
    gone.rename(tmp_path / "away")
    gone.mkdir()
    here = next(root for root in scene.to if root != gone)
    shown = await volume("list", *to(*scene.to), "--json")
    rows = {row["volume"]: row for row in json.loads(shown.stdout)["volumes"]}
    assert rows[str(gone)]["state"] == "missing"
    assert rows[str(here)]["state"] == "mounted"
    assert len(rows[str(here)]["label"]) == 32
    assert sum(row["files"] for row in rows.values()) == sum(
        2 for home in before.values() if scene.to[home] != gone
    )

    name = next(f"{batch}/0" for batch, home in before.items() if scene.to[home] != gone)
    place = scene.to[before[name.partition("/")[0]]] / name
    for path in (name, place):
        where = await volume("where", path, *to(*scene.to), "--json")
        (holder,) = json.loads(where.stdout)["holders"]
        assert (where.returncode, holder["path"], holder["volume"]) == (0, name, str(place.parents[1]))
        assert holder["name"] == name.partition("/")[0]
    away = next(f"{batch}/0" for batch, home in before.items() if scene.to[home] == gone)
    lost = await volume("where", away, name, *to(*scene.to))
    assert (lost.returncode, lost.stderr) == (1, f"cfetch: {away} is on no volume\n")
    place.unlink()
    assert (await volume("where", name, *to(*scene.to))).returncode == 1
    listed = (await volume("list", *to(*scene.to))).stdout
    assert "1 file of its batches are gone" in listed


def points(children, folder, words):
    """Every call of an undisturbed drain from its first at the target on, as (call, number in its thread)."""
    trace = folder / "trace"
    options = ["-o", str(trace), "-y", f"-etrace={CALLS}"]
    assert children.run(options, words, folder / "said") == 0, (folder / "said").read_text()
    counts: dict[tuple[str, str], int] = {}
    seen: dict[tuple[str, int], None] = {}
    begun = False
    for line in trace.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        thread, call = match.groups()
        counts[thread, call] = counts.get((thread, call), 0) + 1
        begun = begun or "moves" in line
        if begun:
            seen.setdefault((call, counts[thread, call]))
    return list(seen)


def batch_is_whole(scene, batch):
    """Whether some volume has the batch's record and all its files, with the right bytes."""
    names = {name for name in scene.files if name.partition("/")[0] == batch}
    return any(
        any(record.name == batch for record in held.records.values()) and names <= set(held.files)
        for held in scene.volumes()
    )


@pytest.mark.parametrize("share", [15, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_killed_at_any_call(tmp_path, strace, children, share):
    """Kill -9 as a call begins: each batch is whole somewhere; the next drain ends it, and all is well."""
    files = named(2, 2, 2 * KIB)
    model = await filled(tmp_path / "model", files, volumes=2)

    def place(name):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "model", folder, symlinks=True)
        scene = Scene(folder, model.url, files, volumes=2)
        drain = ["volume", "drain", "--from", str(scene.to[0]), *map(str, to(scene.to[1]))]
        return scene, drain

    scene, drain = place("warm")
    assert await asyncio.to_thread(children.run, None, drain, tmp_path / "said") == 0
    scene, drain = place("traced")
    every = await asyncio.to_thread(points, children, scene.folder, drain)
    assert len({call for call, _ in every}) >= 6
    dice = random.Random(21)
    dice.shuffle(every)
    met = 0
    for number, (call, n) in enumerate(every[:share]):
        scene, drain = place(f"s{number}")
        options = [f"-etrace={call}", f"-einject={call}:signal=SIGKILL:when={n}", "-o", "/dev/null"]
        code = await asyncio.to_thread(children.run, options, drain, scene.folder / "said")
        assert code in (0, KILLED), (scene.folder / "said").read_text()
        met += code == KILLED
        assert all(batch_is_whole(scene, batch) for batch in ("b0", "b1")), (call, n)
        again = await asyncio.to_thread(children.run, None, drain, scene.folder / "said")
        assert again == 0, ((call, n), (scene.folder / "said").read_text())
        is_well(scene)
        assert set(homes(scene).values()) == {1}, (call, n)
        assert under(scene.to[0]) == {}
        shutil.rmtree(scene.folder)
    assert met >= 0.8 * min(share, len(every))


def test_an_undone_move_needs_the_volume_that_has_the_batch(tmp_path):
    """A draft whose source is not named in the call is left alone, as its files may be the only ones."""
    draft = BatchRecord(
        id="0" * 32, name=None, instant="i", entries=1, files=1, bytes=1, why="", paths=("a",), moves=("/v0",)
    )
    state = tmp_path / "v1/.cfetch/moves" / draft.id
    state.mkdir(parents=True)
    (state / f"{draft.id}.json").write_bytes(msgspec.json.encode(draft))
    (tmp_path / "v1/a").write_bytes(b"x")
    (tmp_path / "v2").mkdir()
    assert list(recover([tmp_path / "v1", tmp_path / "v2"])) == []
    assert Path(tmp_path / "v1/a").exists()
    assert state.exists()


async def moved(tmp_path):
    """A batch of two files that was moved to the second volume, and a copy of the first from before."""
    scene = await filled(tmp_path, named(1, 2), volumes=3)
    before = tmp_path / "before"
    shutil.copytree(scene.to[0], before)
    assert (await volume("drain", "--from", scene.to[0], *to(scene.to[1]))).returncode == 0
    assert (len(under(scene.to[0])), len(under(scene.to[1]))) == (0, 2)
    return scene, before


async def test_a_volume_that_has_the_same_batch_by_itself_keeps_it(tmp_path):
    """It was downloaded there too; the move was from another volume."""
    scene, before = await moved(tmp_path)
    shutil.copytree(before, scene.to[2])
    assert list(recover([scene.to[1], scene.to[2]])) == []
    assert (len(under(scene.to[2])), len(list(read_records(scene.to[2])))) == (2, 1)


async def test_a_record_stays_while_the_target_lacks_files(tmp_path):
    """They were removed there by somebody, and downloaded again to the source."""
    scene, before = await moved(tmp_path)
    shutil.rmtree(scene.to[0])
    shutil.copytree(before, scene.to[0])
    for path in under(scene.to[1]):
        (scene.to[1] / path).unlink()
    list(recover(scene.to[:2]))
    assert (len(under(scene.to[0])), len(list(read_records(scene.to[0])))) == (2, 1)


async def test_a_file_that_somebody_put_on_the_target_stays(tmp_path):
    """Whatever becomes of the move that was killed before its copy had that name."""
    scene = await filled(tmp_path, named(1, 1), volumes=2)
    source, target = scene.to

    def die(*_):
        raise KeyboardInterrupt

    records = [record for record in read_records(source) if isinstance(record, BatchRecord)]
    with (
        closing(Directory(source, sharers=2)) as opened,
        patch.object(Directory, "publish", die),
        pytest.raises(KeyboardInterrupt),
    ):
        move_batch(opened, target, records, lambda *_: None)
    (name,) = under(source)
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source / name, target / name)
    assert [done.is_done for done in recover(scene.to)] == [False]
    assert (set(under(source)), set(under(target))) == ({name}, {name})
    assert not (target / ".cfetch/moves").exists()


async def test_a_volume_that_is_not_there_is_not_emptied(tmp_path):
    """A wrong name is told, and makes no directory."""
    (tmp_path / "b").mkdir()
    done = await volume("drain", "--from", tmp_path / "typo", *to(tmp_path / "b"))
    assert (done.returncode, "no such directory" in done.stderr) == (2, True)
    assert not (tmp_path / "typo").exists()


async def test_a_directory_that_is_no_volume_is_not_emptied(tmp_path):
    """Nothing is written in it, and it is not said to be empty now."""
    for name in "ab":
        (tmp_path / name).mkdir()
    done = await volume("drain", "--from", tmp_path / "a", *to(tmp_path / "b"))
    assert (done.returncode, "which is no volume" in done.stderr) == (2, True)
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("words", [["drain", "--from", "x"], ["rebalance", "--dry-run"]])
async def test_nothing_moves_to_the_working_directory_unasked(tmp_path, words):
    """It is the usual --to, and no place for what leaves a volume."""
    (tmp_path / "x/.cfetch").mkdir(parents=True)
    done = await volume(*(tmp_path / word if word == "x" else word for word in words))
    assert (done.returncode, done.stderr) == (2, "cfetch: name the volumes, each with --to\n")


def test_a_bound_that_is_no_number_is_refused():
    """NaN passes a comparison with either end of the range."""
    with (
        pytest.raises(UsageError, match="within is nan but must be from 0 to 1"),
        volume_moves.prepare_rebalance(Settings(to=("a", "b")), math.nan, pause=print, note=print),
    ):
        pass


async def test_a_stray_file_beside_moves_is_left_alone(tmp_path):
    """It is nothing of cfetch's."""
    scene = await filled(tmp_path, named(1, 1), volumes=2)
    stray = scene.to[0] / ".cfetch/moves/stray"
    stray.parent.mkdir()
    stray.touch()
    assert (await volume("drain", "--from", scene.to[0], *to(scene.to[1]))).returncode == 0
    assert stray.exists()
