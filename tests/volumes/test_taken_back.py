"""Files that their source took back are not missing: their batch moves without them."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.batch_record_edits import strike_out
from cfetch.storage.batch_records import read_records, record_path
from cfetch.storage.volume_values import BatchRecord
from tests.app.command import cfetch
from tests.plugins.follow.follow_world import open_world

FILES = {f"{batch}/{n}": Synthetic(f"{batch}/{n}", 3000) for batch in "ab" for n in range(3)}


def named(*roots):
    """The files that the records of volumes name, after a look that each is there."""
    paths: set[str] = set()
    for root in roots:
        for record in read_records(root):
            assert isinstance(record, BatchRecord)
            assert record.paths is not None
            assert all((root / path).is_file() for path in record.paths)
            assert record.files == len(record.paths)
            paths.update(record.paths)
    return sorted(paths)


def drain(source, target):
    done = cfetch("volume", "drain", "--from", source, "--to", target, "--json")
    return done.returncode, json.loads(done.stdout)


def move_all(roots, files):
    """Each volume is emptied into one; what is lost by another hand is missing, and only that."""
    to = roots[0].parent / "all"
    for root in roots:
        code, document = drain(root, to)
        assert (code, document["stayed"]) == (0, [])
    assert named(*roots, to) == sorted(files)
    lost = named(to)[0]
    (to / lost).unlink()
    code, document = drain(to, roots[0])
    assert (code, f"has no file {lost}" in document["stayed"][0]["why"]) == (1, True)


@asynccontextmanager
async def syncing(roots, manifest):
    """A function that syncs the volumes with those of ``FILES`` that it is given."""
    words = ("sync", manifest, *(word for root in roots for word in ("--to", root)), "--delete", "-q")
    async with Origin(FILES) as origin:

        async def sync(names):
            rows = [{"url": name, "path": name, "batch": name[0]} for name in names]
            manifest.write_bytes(msgspec.json.encode({"version": 1, "base_url": origin.url, "files": rows}))
            done = await asyncio.to_thread(cfetch, *words, "--max-delete", 9)
            assert done.returncode == 0, done.stderr

        yield sync


async def test_a_batch_moves_without_what_a_sync_has_deleted(tmp_path):
    """The last file of a batch goes with the record of the batch."""
    roots = [tmp_path / "v0", tmp_path / "v1"]
    async with syncing(roots, tmp_path / "m.json") as sync:
        await sync(FILES)
        assert named(*roots) == sorted(FILES)
        left = [name for name in FILES if name not in ("a/1", "b/0", "b/1", "b/2")]
        await sync(left)
    assert named(*roots) == left
    await asyncio.to_thread(move_all, roots, left)


async def test_a_sync_deletes_and_strikes_out_where_the_batch_is_now(tmp_path):
    """Not where the sync has put the file; also when it has seen the move in an earlier run."""
    roots = [tmp_path / "v0", tmp_path / "v1"]
    async with syncing(roots, tmp_path / "m.json") as sync:
        await sync(FILES)
        for source, target in (roots, roots[::-1], roots):  # also to the volume where it was
            code, _ = await asyncio.to_thread(drain, source, target)
            assert code == 0
        (roots[1] / "a/1").unlink()  # by another hand
        await sync([name for name in FILES if name not in ("a/0", "a/1")])
        left = ["b/0", "b/1", "b/2"]
        await sync(left)
    assert sorted(str(path.relative_to(roots[1])) for path in roots[1].glob("?/*")) == left
    assert named(*roots) == left


async def test_a_file_that_another_volume_has_by_now_is_not_missing(tmp_path):
    """As a newer version of it that a run has put there; the records of both volumes name it."""
    roots = [tmp_path / "v0", tmp_path / "v1"]
    manifest = tmp_path / "m.json"
    words = ("download", manifest, *(word for root in roots for word in ("--to", root)), "-q")
    async with Origin(FILES) as origin:
        rows = [{"url": name, "path": name, "batch": name[0]} for name in FILES]
        manifest.write_bytes(msgspec.json.encode({"version": 1, "base_url": origin.url, "files": rows}))
        done = await asyncio.to_thread(cfetch, *words)
        assert done.returncode == 0, done.stderr
    (record,) = read_records(roots[0])
    assert isinstance(record, BatchRecord)
    assert record.paths is not None
    moved, lost = record.paths[:2]
    newer = msgspec.structs.replace(record, id="f" * 32, files=1, paths=(moved,))
    record_path(roots[1], newer.id).write_bytes(msgspec.json.encode(newer))
    (roots[1] / moved).parent.mkdir()
    (roots[0] / moved).rename(roots[1] / moved)
    (roots[0] / lost).unlink()  # by another hand: nobody has it
    told_of = [*(word for root in roots for word in ("--to", root)), "--json"]
    listed = await asyncio.to_thread(cfetch, "volume", "list", *told_of)
    assert [row["missing"] for row in json.loads(listed.stdout)["volumes"]] == [1, 0]
    where = await asyncio.to_thread(cfetch, "volume", "where", moved, lost, *told_of)
    holders = [
        (one["path"], one["volume"], one["bytes"] is None) for one in json.loads(where.stdout)["holders"]
    ]
    assert holders == [(moved, str(roots[1]), False), (lost, str(roots[0]), True)]
    code, document = await asyncio.to_thread(drain, *roots)
    assert (code, f"has no file {lost}" in document["stayed"][0]["why"]) == (1, True)
    (roots[0] / lost).write_bytes(b"again")
    code, document = await asyncio.to_thread(drain, *roots)
    assert (code, document["stayed"]) == (0, [])
    assert named(roots[1]) == sorted(FILES)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_batch_moves_without_what_a_follower_has_deleted(tmp_path, monkeypatch, calls):
    """Also if the follower died in between, after so many calls; and with a file that it has renamed."""
    roots = [tmp_path / "v0", tmp_path / "v1"]
    with open_world(tmp_path) as world:
        settings = {"to": tuple(map(str, roots))}
        world.served.write({f"d/{n}": f"{n}" * 500 for n in range(6)})
        world.follow(settings=settings)
        assert len(named(*roots)) == 6
        world.served.write({"d/0": None, "d/1": None, "d/2": None, "d/two": "2" * 500})

        def die(*words):
            nonlocal calls
            if not calls:
                raise KeyboardInterrupt
            calls -= 1
            strike_out(*words)

        monkeypatch.setattr("cfetch.plugins.follow.use_cases.feed_plans.strike_out", die)
        with pytest.raises(KeyboardInterrupt):
            world.follow(settings=settings, delete=True, max_delete=9)
        monkeypatch.setattr("cfetch.plugins.follow.use_cases.feed_plans.strike_out", strike_out)
        world.follow(settings=settings, delete=True, max_delete=9)
        left = ["d/3", "d/4", "d/5", "d/two"]
        assert sorted(world.served.tree()) == left
        assert named(*roots) == left
    move_all(roots, left)
