"""Parts and batches on their way to a real object store."""

import asyncio
import hashlib
import time
from contextlib import asynccontextmanager, nullcontext

import msgspec
import pytest

from cfetch.base.errors import Blocked, CfetchError, Corrupt, Held, VolumeFault
from cfetch.storage.buckets import object_part as module
from cfetch.storage.buckets import object_store, object_volume
from cfetch.storage.buckets.object_store import PIECE_BYTES, ObjectStore, Upload
from cfetch.storage.buckets.object_volume import ObjectStoreVolume
from cfetch.storage.resume import identity
from cfetch.storage.volume_values import BatchRecord, Holding, Standing
from cfetch.testing.volume import inspect_batch
from tests.engine.drive import entry_of
from tests.storage.s3_server import Bucket, MotoServer, point_at
from tests.wire.raw_server import RawServer

MIB = 1 << 20
BIG = bytes(range(256)) * (20 * MIB // 256)
CHUNK = 200_000  # as a socket gives them: no divisor of a piece


@asynccontextmanager
async def lane_to(url, *, run_id="run-1", confirm=lambda: None, timeout_s=30.0, is_only=False, alone=True):
    store = ObjectStore(url, timeout_s=timeout_s, is_only=is_only)
    volume = ObjectStoreVolume(store, run_id=run_id, confirm=confirm, monotonic=time.monotonic, alone=alone)
    committing = asyncio.create_task(volume.run())
    try:
        yield volume
        volume.drain()
        await committing
    finally:
        committing.cancel()
        await volume.close()


@pytest.fixture
async def volume(bucket):
    async with lane_to(bucket.url) as made:
        yield made


async def feed(part, body):
    """As an attempt does."""
    for start in range(0, len(body), CHUNK):
        part.write(body[start : start + CHUNK])
        if part.must_wait:
            await part.wait_for_room()


async def staged(volume, path, body, **how):
    """A whole and verified part."""
    entry = entry_of(0, path, body, **how)
    part = volume.new_part(entry)
    await feed(part, body)
    part.verify(entry.size_bytes, entry.digest)
    return part


async def committed(volume, parts, record=None):
    """What the volume tells of it."""
    told = asyncio.get_running_loop().create_future()
    volume.publish(parts, told.set_result, record)
    return await told


def record_of(batch="b1", **how):
    facts = {"name": None, "instant": "i", "entries": 3, "files": 3, "bytes": 3, "why": "first"}
    return BatchRecord(id=batch, **facts | how)


async def tidied(volume):
    """Wait until nothing is being cleaned up."""
    await volume.bucket.calls.wait_until_tidy()


@pytest.mark.parametrize("size", [0, 1, 100 << 10, PIECE_BYTES, 20 * MIB, 20 * MIB - 1])
async def test_a_file_arrives_whole_and_is_seen_only_then(volume, bucket, size):
    """Any size; while it comes, nobody sees it; afterwards no upload is left."""
    part = await staged(volume, "d/a", BIG[:size], digest=True)
    assert part.position == size
    assert bucket.keys() == []
    assert await committed(volume, [part]) is None
    part.discard()
    await tidied(volume)
    assert (bucket.keys(), bucket.uploads()) == (["d/a"], [])
    assert bucket.get("d/a") == BIG[:size]


@pytest.mark.parametrize("size", [1000, 12 * MIB])
async def test_wrong_bytes_are_never_seen(volume, bucket, size):
    """By hash or by size; the upload is ended, and the right bytes may follow."""
    body = BIG[:size]
    entry = entry_of(0, "a", body, digest=True)
    part = volume.new_part(entry)
    for wrong in (b"x" + body[1:], body[:-1]):
        await feed(part, wrong)
        with pytest.raises(Corrupt):
            part.verify(entry.size_bytes, entry.digest)
        assert part.position == 0
    await tidied(volume)
    assert (bucket.keys(), bucket.uploads()) == ([], [])
    await feed(part, body)
    assert part.verify(entry.size_bytes, entry.digest) == "sha256"
    assert await committed(volume, [part]) is None
    assert bucket.get("a") == body


async def test_begun_anew_in_the_middle(volume, bucket):
    """What came before the restart is in no upload."""
    part = volume.new_part(entry_of(0, "a", BIG, digest=True))
    part.validator = '"v1"'
    await feed(part, BIG[::-1][: 13 * MIB])
    part.restart()
    assert (part.position, part.validator) == (0, None)
    await feed(part, BIG)
    part.verify(len(BIG), entry_of(0, "a", BIG, digest=True).digest)
    assert await committed(volume, [part]) is None
    await tidied(volume)
    assert bucket.uploads() == []
    assert bucket.get("a") == BIG


async def test_another_try_goes_on_in_the_same_upload(volume, bucket):
    """Bytes so far stay, to the last one, while few parts wait."""
    part = volume.new_part(entry_of(0, "a", BIG, digest=True))
    await feed(part, BIG[: 13 * MIB])
    part.close()
    assert part.position == 13 * MIB
    await feed(part, BIG[13 * MIB :])
    part.verify(len(BIG), entry_of(0, "a", BIG, digest=True).digest)
    assert bucket.uploads() == ["a"]
    assert await committed(volume, [part]) is None
    assert bucket.get("a") == BIG


async def test_parts_that_wait_share_a_bounded_memory(volume, bucket, monkeypatch):
    """The one that waits longest goes back to its last whole piece; it is fetched again from there."""
    monkeypatch.setattr(module, "MAX_HELD_BYTES", 3 * MIB)
    parts = [volume.new_part(entry_of(n, str(n), BIG, digest=True)) for n in range(3)]
    for part, size in zip(parts, (12 * MIB, 2 * MIB, MIB), strict=True):
        part.validator = '"v1"'
        await feed(part, BIG[:size])
        part.close()
    assert [part.position for part in parts] == [2 * PIECE_BYTES, 2 * MIB, MIB]
    parts[2].close()
    await feed(parts[1], BIG[2 * MIB : 3 * MIB])
    parts[1].close()
    assert [part.position for part in parts] == [2 * PIECE_BYTES, 3 * MIB, 0]
    assert [part.validator for part in parts] == ['"v1"', '"v1"', None]
    for part in parts:
        await feed(part, BIG[part.position :])
        part.verify(len(BIG), entry_of(0, "a", BIG, digest=True).digest)
        assert await committed(volume, [part]) is None
    assert {bucket.get(str(n)) == BIG for n in range(3)} == {True}


async def test_a_batch_is_seen_when_it_is_whole_and_recorded_last(volume, bucket):
    """Sealed parts wait; then all are there, and the record vouches for them."""
    parts = [await staged(volume, path, body) for path, body in (("a", b"1"), ("b", BIG), ("c", b""))]
    for part in parts:
        part.finish()
    assert bucket.keys() == []
    record = record_of()
    confirmed = []
    volume.bucket.objects.confirm = lambda: confirmed.append(bucket.keys())
    assert await committed(volume, parts, record) is None
    assert confirmed == [[], ["a", "b", "c"]]
    assert bucket.keys() == [".cfetch/batches/b1.json", "a", "b", "c"]
    assert msgspec.json.decode(bucket.get(".cfetch/batches/b1.json"), type=BatchRecord) == record
    entries = [
        entry_of(n, path, body) for n, (path, body) in enumerate((("a", b"1"), ("b", b"2"), ("d", b"")))
    ]
    assert await inspect_batch(volume, "b1", entries) == Holding(True, False, [0], {})
    assert await inspect_batch(volume, "b2", entries[1:]) == Holding(False, False, [], {})
    unsized = [entry_of(0, "b", BIG, size=False)]
    assert await inspect_batch(volume, "b1", unsized) == Holding(True, False, [0], {}, learned={0: len(BIG)})


async def test_a_batch_that_cannot_be_whole_leaves_nothing(volume, bucket):
    """One upload is ended by somebody else: what this run has put is deleted, and nothing else."""
    bucket.put("b", b"another tool's")
    parts = [await staged(volume, path, body) for path, body in (("a", b"1"), ("b", BIG), ("c", b"3"))]
    await bucket.end_uploads(len(BIG) // PIECE_BYTES)
    fault = await committed(volume, parts, record_of())
    assert isinstance(fault, VolumeFault)
    assert "ended the upload" in str(fault)
    await tidied(volume)
    assert (bucket.keys(), bucket.uploads()) == (["b"], [])
    assert bucket.get("b") == b"another tool's"


async def test_an_object_of_another_run_is_not_taken_back(volume, bucket):
    """It may be the successor's, or the one that this run could not replace."""
    async with lane_to(bucket.url, run_id="run-2") as other:
        assert await committed(other, [await staged(other, "b", b"other")]) is None
    part = await staged(volume, "b", BIG)
    await bucket.end_uploads(len(BIG) // PIECE_BYTES)
    assert await committed(volume, [part], record_of()) is not None
    await tidied(volume)
    assert bucket.get("b") == b"other"


@pytest.fixture
def asked(volume, monkeypatch):
    """What the store is asked for, in order, when that begins or, for deletions, is over."""
    log = []
    upload, put, delete = volume.bucket.store.upload, volume.bucket.store.put, volume.bucket.store.delete

    def noted(key, *rest):
        log.append(f"put {key}")
        return (put if key.startswith(".cfetch") else upload)(key, *rest)

    async def deleted(keys):
        await delete(keys)
        log.extend(f"deleted {key}" for key in keys)

    monkeypatch.setattr(volume.bucket.store, "upload", noted)
    monkeypatch.setattr(volume.bucket.store, "put", noted)
    monkeypatch.setattr(volume.bucket.store, "delete", deleted)
    return log


async def test_what_is_put_after_a_deletion_stays(volume, bucket, asked):
    """A batch may come back at once, under the same names."""
    parts = [await staged(volume, "a", b"1")]
    await parts[0].complete()
    parts[0].discard()
    again = [await staged(volume, "a", b"1")]
    assert await committed(volume, again, record_of()) is None
    parts[0].discard()
    await tidied(volume)
    assert asked == ["put a", "deleted a", "put a", "put .cfetch/batches/b1.json"]
    assert bucket.keys() == [".cfetch/batches/b1.json", "a"]


async def test_discarded_while_it_waits_for_an_older_deletion(volume, bucket, asked):
    """It waits for that, the deletion of itself for it, and nobody for ever."""
    parts = [await staged(volume, "a", b"1") for _ in range(3)]
    await parts[0].complete()
    parts[0].discard()
    second = parts[1].complete()
    await asyncio.sleep(0)
    parts[1].discard()
    assert await committed(volume, parts[2:]) is None
    await second
    await tidied(volume)
    assert asked == ["put a", "deleted a", "put a"]
    assert bucket.keys() == ["a"]


async def test_a_record_that_may_have_arrived_is_deleted(volume, bucket, monkeypatch):
    """Its batch is given up, as the store has not confirmed it."""
    put = volume.bucket.store.put

    async def lost(*asked):
        await put(*asked)
        raise VolumeFault("no answer")

    monkeypatch.setattr(volume.bucket.store, "put", lost)
    assert str(await committed(volume, [await staged(volume, "a", b"1")], record_of())) == "no answer"
    await tidied(volume)
    assert bucket.keys() == []


async def test_a_mark_that_is_set_again_stays(volume, bucket, asked):
    """Its removal was asked for before."""
    volume.mark_batch("b1")
    assert not volume.is_stuck  # that is for one that was abandoned
    volume.unmark_batch("b1")
    volume.mark_batch("b1")
    await tidied(volume)
    mark = ".cfetch/begun/b1"
    assert asked == [f"put {mark}", f"deleted {mark}", f"put {mark}"]
    assert bucket.keys() == [mark]


async def test_what_is_not_begun_when_its_batch_fails_is_not_begun(volume, bucket, asked):
    """A thousand objects that nobody wants would be put and deleted again."""
    volume.bucket.turns = asyncio.Semaphore(1)
    parts = [await staged(volume, path, body) for path, body in (("b", BIG), ("a", b"1"), ("c", b"3"))]
    await bucket.end_uploads(len(BIG) // PIECE_BYTES)
    assert await committed(volume, parts, record_of()) is not None
    await tidied(volume)
    assert "put c" not in asked
    assert bucket.keys() == []


async def test_what_arrives_after_its_batch_has_failed_is_deleted(volume, bucket, monkeypatch):
    """Nobody waits for it, but for its deletion."""
    parts = [await staged(volume, path, body) for path, body in (("a", b"1"), ("b", BIG))]
    await bucket.end_uploads(len(BIG) // PIECE_BYTES)
    told = asyncio.Event()
    complete = Upload.complete

    async def late(upload):
        if upload._key == "a":
            await told.wait()
        await complete(upload)

    monkeypatch.setattr(Upload, "complete", late)
    assert await committed(volume, parts, record_of()) is not None
    told.set()
    await tidied(volume)
    assert bucket.keys() == []


async def test_a_batch_beyond_memory_is_made_visible_early(volume, bucket, monkeypatch):
    """Verified files, the one that waits longest first; given up, they go; left, a later run finds them."""
    monkeypatch.setattr(module, "MAX_HELD_BYTES", 1)
    for end, left in (("discard", []), ("keep_leftover", ["a"])):
        parts = [await staged(volume, path, b"12", digest=True) for path in ("a", "b")]
        parts[0].finish()
        await asyncio.wait([parts[0].complete()])
        assert bucket.keys() == ["a"]
        monkeypatch.setattr(module, "MAX_HELD_BYTES", 1000)
        parts[1].finish()
        kept = [getattr(part, end)() for part in parts]
        await tidied(volume)
        assert bucket.keys() == left
        monkeypatch.setattr(module, "MAX_HELD_BYTES", 1)
    assert kept == [2, 0]
    parts[0].discard()
    await tidied(volume)
    assert await volume.verify_existing(entry_of(0, "a", b"12", digest=True)) == Standing("sha256")


async def test_a_run_that_has_lost_its_plan_puts_and_deletes_nothing(bucket):
    """The successor's objects have the same names."""
    lost: list[bool] = []

    def confirm():
        if lost:
            raise Held("another run has it")

    async with lane_to(bucket.url, confirm=confirm) as volume:
        part = await staged(volume, "a", b"1")
        whole = await staged(volume, "b", b"2")
        assert await committed(volume, [whole]) is None
        early = await staged(volume, "c", b"3")
        await early.complete()
        lost.append(True)
        assert isinstance(await committed(volume, [part], record_of()), Held)
        early.discard()
        volume.unmark_batch("b1")
    assert bucket.keys() == ["b", "c"]


@pytest.mark.parametrize(("put", "asked", "vouched"), [
    ({"digest": True}, {"digest": True}, "sha256"),
    ({"digest": True}, {"digest": True, "size": False}, "sha256"),
    ({"digest": True}, {"digest": True, "body": b"124"}, None),
    ({"digest": True}, {"digest": True, "body": b"1234"}, None),
    ({"digest": True}, {}, "size"),
    ({}, {"digest": True}, None),
    ({}, {}, "size"),
    ({}, {"query": "?sv=1&sr=b&se=1&sig=2"}, "size"),
    ({}, {"host": "other.test"}, None),
    ({}, {"size": False}, "none"),
    ({}, {"size": False, "host": "other.test"}, None),
    ({}, {"body": b"1234"}, None),
    (None, {"size": False}, None),
    (None, {}, "size"),
    (None, {"digest": True}, None),
    ({"none": True}, {}, None),
])  # fmt: skip
async def test_what_vouches_for_an_object_that_stands(volume, bucket, put, asked, vouched):
    """Hash and link as they were told with it; nothing is read again. None of ours: its size."""
    if put is None:
        bucket.put("a", b"123")
    elif "none" not in put:
        assert await committed(volume, [await staged(volume, "a", b"123", **put)]) is None
    asked = {"body": b"123", **asked}
    assert await volume.verify_existing(entry_of(0, "a", **asked)) == (vouched and Standing(vouched))


@pytest.mark.parametrize(("how", "said"), [
    ({"is_named_by_server": True}, "chose the name mine, and a file of that name is there"),
    ({"replaces": ()}, r"a file is there that cfetch has not put there, .* \(mine\); move it away"),
])  # fmt: skip
async def test_a_name_that_a_server_chose_replaces_no_object_of_the_user(volume, bucket, how, said):
    """It replaces one that cfetch has put there."""
    bucket.put("mine", b"123")
    assert await committed(volume, [await staged(volume, "ours", b"123")]) is None
    mine, ours = (msgspec.structs.replace(entry_of(0, path, b"1234"), **how) for path in ("mine", "ours"))
    assert await volume.verify_existing(ours) is None
    with pytest.raises(Blocked, match=said):
        await volume.verify_existing(mine)


async def test_a_mirror_of_the_link_vouches_too(volume):
    """It is another way to the same file."""
    assert await committed(volume, [await staged(volume, "a", b"123", host="mirror.test")]) is None
    mirrors = (entry_of(0, "a", b"", host="mirror.test").url,)
    entry = entry_of(0, "a", b"123", mirrors=mirrors)
    assert identity(mirrors[0]) != identity(entry.url)
    assert await volume.verify_existing(entry) == Standing("size")


async def test_a_name_that_no_store_takes_is_an_obstacle_of_its_own(volume):
    """1,024 bytes with the prefix; the others of the run go on."""
    fits = "/".join(["x" * 199] * 5) + "x" * (1024 - len("some/prefix/") - 999)
    assert await volume.verify_existing(entry_of(0, fits, b"1")) is None
    with pytest.raises(Blocked, match="1024 bytes"):
        await volume.verify_existing(entry_of(0, fits + "x", b"1"))


async def test_a_later_run_comes_back_to_what_was_begun(bucket):
    """The mark of a batch is there until the batch is given up."""
    async with lane_to(bucket.url) as first:
        await first.open()
        assert await inspect_batch(first, "b1", []) == Holding()
        for batch in ("b1", "b2", "b2"):
            first.mark_batch(batch)
    async with lane_to(bucket.url, run_id="run-2") as second:
        await second.open()
        assert [(await inspect_batch(second, one, [])).is_begun for one in ("b1", "b2", "b3")] == [
            True,
            True,
            False,
        ]
        second.unmark_batch("b1")
        second.unmark_batch("b1")
        second.mark_batch("b1")
        second.unmark_batch("b2")
    async with lane_to(bucket.url, run_id="run-3") as third:
        await third.open()
        assert [(await inspect_batch(third, one, [])).is_begun for one in ("b1", "b2")] == [True, False]


async def test_a_copy_of_a_task_sees_the_objects_that_another_copy_has_put_since(bucket):
    """It has listed the prefix before; without this it would fetch them once more."""
    entries = [entry_of(n, name, b"12", digest=True) for n, name in enumerate(("a", "b"))]
    for is_empty in (True, False):
        async with (
            lane_to(bucket.url, run_id=f"task-1-{is_empty}", alone=False) as first,
            lane_to(bucket.url, run_id=f"task-2-{is_empty}", alone=False) as second,
        ):
            await second.open()
            entry = entries[0 if is_empty else 1]
            assert not second.has_nothing_of(entry)
            assert await second.verify_existing(entry) is None
            assert await committed(first, [await staged(first, entry.path, b"12", digest=True)]) is None
            assert await second.verify_existing(entry) == Standing("sha256")


async def test_what_is_there_of_a_batch(bucket):
    """By size alone, for now; a name that no store takes is an obstacle, wherever it is looked for."""
    entries = [
        entry_of(0, "x" * 200 + "/y" * 500, b"1"),
        entry_of(1, "a", b"1"),
        entry_of(2, "b", b"", size=False),
    ]
    async with lane_to(bucket.url) as empty:
        await empty.open()
        bucket.put("a", b"2")
        bucket.put("b", b"any")
        found = await inspect_batch(empty, "b1", entries)
        assert (found.same_size, [*found.blocked]) == ((), [0])
    async with lane_to(bucket.url) as volume:
        await volume.open()
        found = await inspect_batch(volume, "b1", entries)
        assert (found.is_committed, found.same_size, [*found.blocked]) == (False, [1, 2], [0])


async def test_a_batch_that_was_committed_can_be_taken_back(volume, bucket):
    """It came too late, and is somewhere else."""
    bucket.put("b", b"another tool's")
    parts = [await staged(volume, path, b"1") for path in ("a", "c")]
    assert await committed(volume, parts, record_of()) is None
    volume.withdraw_batch("b1", parts)
    await tidied(volume)
    assert bucket.keys() == ["b"]


async def test_a_store_that_goes_away_is_told_in_time(monkeypatch):
    """In the middle of a file; then nothing is waited for at the end either."""
    server = MotoServer()
    try:
        point_at(monkeypatch, server.url)
        async with asyncio.timeout(60), lane_to(Bucket(server).url) as volume:
            part = volume.new_part(entry_of(0, "a", BIG * 4))
            small = await staged(volume, "b", b"1")
            await feed(part, BIG)
            server.kill()
            volume.bucket.store._timeout_s = 0.5
            with pytest.raises(VolumeFault):
                await feed(part, BIG * 3)
            assert part.keep_leftover() == 0
            assert isinstance(await committed(volume, [small]), VolumeFault)
            with pytest.raises(VolumeFault):
                await volume.verify_existing(entry_of(0, "a", BIG))
    finally:
        server.child.kill()


@pytest.mark.parametrize("is_only", [True, False])
async def test_a_sole_store_that_asks_to_slow_down_is_waited_for(bucket, monkeypatch, is_only):
    """Whatever it is asked, far more often than one of several volumes is: listing, looking, putting."""
    monkeypatch.setattr(object_store, "BACKOFF_S", (0.001, 0.002))
    bucket.server.be_busy(2 * object_store.MAX_RETRIES)
    try:
        with nullcontext() if is_only else pytest.raises(VolumeFault, match="slow down"):
            async with lane_to(bucket.url, is_only=is_only) as volume:
                await volume.open()
                for path, body in (("a", b"1"), ("b", BIG)):
                    assert await volume.verify_existing(entry_of(0, path, body)) is None
                    assert await committed(volume, [await staged(volume, path, body)]) is None
                volume.mark_batch("b1")
                volume.unmark_batch("b1")
                await tidied(volume)
    finally:
        bucket.server.be_busy(0)
    assert bucket.keys() == (["a", "b"] if is_only else [])


async def test_a_piece_that_is_not_taken_ends_its_file(monkeypatch):
    """Also the last one, which nobody waits for but the commit."""
    async with RawServer(b"") as server, asyncio.timeout(60):
        point_at(monkeypatch, server.url)
        async with lane_to("s3://bucket/p", timeout_s=0.2) as volume:
            part = await staged(volume, "a", BIG[:PIECE_BYTES])
            fault = await committed(volume, [part])
            assert "take a piece of a within 0.2 s" in str(fault)
            with pytest.raises(VolumeFault, match="take a piece"):
                part.finish()


async def test_a_store_that_hangs_holds_nobody_up(monkeypatch):
    """Memory stays bounded, the oldest call is told, and abandoned nobody waits any more."""
    async with RawServer(b"") as server, asyncio.timeout(60):
        point_at(monkeypatch, server.url)
        async with lane_to("s3://bucket/p", timeout_s=300.0) as volume:
            assert volume.oldest_s(time.monotonic()) == 0
            part, late = volume.new_part(entry_of(0, "a", BIG)), volume.new_part(entry_of(1, "b", BIG))
            while not part.must_wait:
                part.write(BIG[:CHUNK])
            assert part.position < 3 * PIECE_BYTES
            late.write(b"1")
            whole = await staged(volume, "c", b"1")
            told = asyncio.ensure_future(committed(volume, [whole], record_of()))
            waiting = [
                asyncio.ensure_future(one) for one in (part.wait_for_room(), inspect_batch(volume, "x", []))
            ]
            while len(server.heads) < 3:
                await asyncio.sleep(0)
            assert volume.oldest_s(time.monotonic() + 100) >= 100
            volume.bucket.store._timeout_s = 0.5
            volume.abandon("it hangs")
            for one in waiting:
                with pytest.raises(VolumeFault, match="it hangs"):
                    await one
            assert str(await told) == "it hangs"
            for old in (part, late):
                with pytest.raises(VolumeFault, match="it hangs"):
                    old.write(b"1")
                old.discard()
            assert volume.oldest_s(time.monotonic()) == 0
            assert volume.is_stuck
            volume.new_part(entry_of(0, "a", BIG)).write(b"1")
            await tidied(volume)
            assert not volume.is_stuck
            going_on = {str(task.get_coro()) for task in asyncio.all_tasks()}
            assert not {name for name in going_on if "ObjectStore." in name or "Upload." in name}


async def test_too_much_that_waits_for_its_commit_makes_workers_wait(volume, monkeypatch):
    """By number and by bytes; the end of a commit lets them go on."""
    for limit in ("MAX_PENDING_FILES", "MAX_PENDING_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(object_volume, limit, 2)
            told: list[CfetchError | None] = []
            for path in ("a", "b"):
                assert not volume.is_full
                volume.publish([await staged(volume, path, b"1")], told.append)
            assert volume.is_full
            await volume.wait_for_room()
            assert not volume.is_full
            while len(told) < 2:
                await asyncio.wait(volume._publisher.tasks)
            assert told == [None, None]


async def test_a_bug_in_what_is_told_ends_the_run(bucket):
    """It is not swallowed by a task that nobody looks at."""
    with pytest.raises(ZeroDivisionError):
        async with lane_to(bucket.url) as volume:
            volume.publish([await staged(volume, "a", b"1")], lambda error: 1 // 0)


async def test_what_is_told_with_an_object_is_no_secret(volume, bucket):
    """Its hash, or a hash of its link without the signature."""
    entry = entry_of(0, "a", b"1", query="?X-Amz-Signature=CANARY")
    part = volume.new_part(entry)
    part.write(b"1")
    assert await committed(volume, [part]) is None
    assert await committed(volume, [await staged(volume, "b", b"1", digest=True)]) is None
    fields = {name.lower(): value for name, value in bucket.head("a").items()}
    assert msgspec.json.decode(fields["x-amz-meta-cfetch"]) == {
        "digest": None, "source": identity(entry.url), "run": "run-1", "etag": None,
    }  # fmt: skip
    fields = {name.lower(): value for name, value in bucket.head("b").items()}
    assert msgspec.json.decode(fields["x-amz-meta-cfetch"])["digest"] == (
        f"sha256:{hashlib.sha256(b'1').hexdigest()}"
    )
