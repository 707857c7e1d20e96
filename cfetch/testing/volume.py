"""What every volume and every disk does alike: suites that the tests of an adapter or a double inherit.

A test module derives a class from a suite and gives it a ``world``::

    class TestDirectory(KeepingVolumeContract):
        @pytest.fixture
        async def world(self, tmp_path):
            world = DirectoryWorld(tmp_path)   # a VolumeWorld
            yield world
            await world.close()

``VolumeContract`` is what the engine relies on within a run, so the simulator's volume keeps it too;
``KeepingVolumeContract`` is what a later run relies on. ``DiskContract`` gets a ``disk`` fixture.
"""

import asyncio
import time
import zlib
from typing import Any, Protocol

from cfetch.base.errors import CfetchError, Corrupt, LocalFault
from cfetch.manifest.entry import Digest
from cfetch.storage.disk import Disk
from cfetch.storage.volume import PartPort, Volume
from cfetch.storage.volume_values import BatchRecord, Holding, Standing
from cfetch.testing.checks import expect_error, make_entry

BODY = bytes(range(256)) * 1000
OTHER = bytes(reversed(BODY))
CHUNK_BYTES = 50_000
SOON_S = 60.0
BATCH = "0123456789abcdef" * 2


class VolumeWorld(Protocol):
    """A volume that was opened and whose ``run`` is under way."""

    volume: Volume

    async def settle(self) -> None:
        """Wait until nothing is being tidied up."""

    async def next_run(self) -> Volume:
        """End the run, and open the volume as the next run of the same plan does."""

    def content(self, path: str) -> bytes | None:
        """What other programs find under ``path``; None if there is nothing."""


def record_of(files: int) -> BatchRecord:
    return BatchRecord(id=BATCH, name=None, instant="i", entries=files, files=files, bytes=1, why="first")


async def feed(part: PartPort, body: bytes) -> None:
    """As an attempt does, whose memory has other bytes after each write."""
    memory = bytearray(CHUNK_BYTES)
    for start in range(0, len(body), CHUNK_BYTES):
        data = body[start : start + CHUNK_BYTES]
        memory[: len(data)] = data
        part.write(memoryview(memory)[: len(data)])
        memory[:] = bytes(CHUNK_BYTES)
        if part.must_wait:
            await part.wait_for_room()


async def whole_part(volume: Volume, path: str, body: bytes = BODY, **how: Any) -> PartPort:
    """Whole and verified."""
    entry = make_entry(0, path, body, **how)
    part = volume.new_part(entry)
    await feed(part, body)
    await part.hash_rest()
    part.verify(entry.size_bytes, entry.digest)
    return part


async def inspect_batch(volume: Volume, batch: str, entries: list[Any]) -> Holding:
    """What the volume holds of one batch."""
    return (await volume.inspect_batches([(batch, entries)]))[0]


async def published(volume: Volume, parts: list[PartPort], record: BatchRecord | None = None) -> list[Any]:
    """All that the volume tells of it."""
    told: list[CfetchError | None] = []
    volume.publish(parts, told.append, record)
    async with asyncio.timeout(SOON_S):
        while not told:
            await asyncio.sleep(0.001)
    return told


async def until_at_rest(volume: Volume | Disk) -> None:
    """No call is under way; a thread may need a moment after its answer."""
    async with asyncio.timeout(SOON_S):
        while volume.oldest_s(1e9) > 0.0:
            await asyncio.sleep(0.001)


class VolumeContract:
    """Within one run."""

    async def test_a_new_part_is_empty(self, world):
        """It waits for nothing, is of no known source, and takes bytes in order."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        assert (part.position, part.validator, part.total_bytes) == (0, None, None)
        assert (part.ranges, part.segment, part.must_wait) == (None, None, False)
        await part.wait_for_room()

    async def test_bytes_are_counted_and_vouched_for(self, world):
        """At once, however far behind the volume is."""
        entry = make_entry(0, "a", BODY)
        part = world.volume.new_part(entry)
        await feed(part, BODY)
        assert part.position == len(BODY)
        await part.hash_rest()
        assert part.verify(entry.size_bytes, entry.digest) == "size"

    async def test_a_part_may_be_closed_between_tries(self, world):
        """What comes next goes to the end."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        part.write(BODY[:1000])
        part.close()
        part.write(BODY[1000:])
        assert part.position == len(BODY)

    async def test_a_restart_forgets_bytes_and_their_source(self, world):
        """The next byte is the first."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        part.validator = '"v1"'
        await feed(part, BODY)
        part.restart()
        assert (part.position, part.validator) == (0, None)
        part.restart()

    async def test_a_second_part_of_an_entry_is_another(self, world):
        """The first is thrown away, and the second is published."""
        entry = make_entry(0, "second", BODY)
        first = world.volume.new_part(entry)
        first.write(OTHER[:1000])
        second = first.open_second()
        if second is None:
            return
        await feed(second, BODY)
        first.write(OTHER[1000:2000])
        first.discard()
        assert second.verify(entry.size_bytes, entry.digest) == "size"
        assert await published(world.volume, [second]) == [None]

    async def test_another_source_has_another_validator(self, world):
        """Which is not known yet; the bytes stay."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        part.validator = '"v1"'
        part.write(BODY[:1000])
        part.change_source(mirror=True)
        assert (part.position, part.validator) == (1000, None)

    async def test_parts_are_published_and_told_once(self, world):
        """All that were given together; a part is not harmed by ``discard`` afterwards."""
        parts = [await whole_part(world.volume, name) for name in ("a", "b", "c")]
        assert await published(world.volume, parts) == [None]
        for part in parts:
            part.discard()

    async def test_what_was_published_before_the_drain_is_told_before_the_end(self, world):
        """``run`` ends when nothing is pending any more."""
        told: list[CfetchError | None] = []
        parts = [await whole_part(world.volume, str(number)) for number in range(20)]
        for part in parts:
            world.volume.publish([part], told.append)
        world.volume.drain()
        await asyncio.wait_for(world.running, SOON_S)
        assert told == [None] * 20

    async def test_a_volume_that_nobody_writes_to_is_at_rest(self, world):
        """It is neither full nor behind nor stuck, and nothing of it takes time."""
        volume = world.volume
        assert not volume.is_full
        await asyncio.wait_for(volume.wait_for_room(), SOON_S)
        assert (volume.is_behind, volume.is_stuck, volume.left_behind) == (False, False, 0)
        assert volume.name
        await until_at_rest(volume)

    async def test_what_is_known_of_its_bytes_is_a_number_or_unknown(self, world):
        """Free ones, and those that it has taken."""
        free_bytes, written_bytes = await world.volume.free_bytes(), world.volume.written_bytes
        assert free_bytes is None or free_bytes > 0
        assert written_bytes is None or written_bytes >= 0

    async def test_only_a_part_of_a_known_source_is_split(self, world):
        """Without a validator, and without a hash, bytes of two replies may not be joined."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        part.write(BODY[:1000])
        assert not part.can_split(len(BODY))

    async def test_several_streams_bring_a_part_that_can_be_split(self, world):
        """Each writes where its segment stands; together they make it whole. An upload takes no such part."""
        entry = make_entry(0, "a", BODY, has_hash=True)
        part = world.volume.new_part(entry)
        part.validator = '"v1"'
        part.write(BODY[:1000])
        if not part.can_split(len(BODY)):
            with expect_error(NotImplementedError):
                part.split_into_ranges(len(BODY))
            return
        ranges = part.split_into_ranges(len(BODY))
        assert (ranges.held_bytes, part.segment.position) == (1000, 1000)
        helper = part.open_segment(ranges.join(200_000, len(BODY)))
        assert (helper.position, helper.validator) == (200_000, '"v1"')
        helper.write(BODY[200_000:])
        part.write(BODY[1000:100_000])
        assert part.position == 100_000 + len(BODY) - 200_000
        helper.release_segment()
        part.write(BODY[100_000:200_000])
        part.release_segment()
        assert ranges.is_whole
        await part.hash_rest()
        assert part.verify(entry.size_bytes, entry.digest) in ("sha256", "size")
        assert await published(world.volume, [part]) == [None]
        assert world.content("a") in (BODY, None)

    async def test_a_stream_that_ends_early_gives_its_segment_back(self, world):
        """What it has not brought is missing again; a restart of its own forgets only what it brought."""
        part = world.volume.new_part(make_entry(0, "a", BODY))
        part.validator = '"v1"'
        part.write(BODY[:1000])
        if not part.can_split(len(BODY)):
            return
        ranges = part.split_into_ranges(len(BODY))
        helper = part.open_segment(ranges.join(200_000, len(BODY)))
        helper.write(BODY[200_000:210_000])
        helper.restart()
        helper.release_segment()
        part.release_segment()
        assert ranges.held_bytes == part.position == 1000
        assert ranges.missing == [(1000, len(BODY))]
        part.discard()


class KeepingVolumeContract(VolumeContract):
    """What others find, and a later run."""

    async def test_a_file_has_its_name_when_it_is_published_and_not_before(self, world):
        """Whole."""
        part = await whole_part(world.volume, "deep/er/a")
        await world.settle()
        assert world.content("deep/er/a") is None
        assert await published(world.volume, [part]) == [None]
        assert world.content("deep/er/a") == BODY

    async def test_a_small_file_that_comes_in_one_piece_is_itself(self, world):
        """It may wait in memory, while the memory that it came in has other bytes."""
        part = await whole_part(world.volume, "small", BODY[:1000])
        assert await published(world.volume, [part]) == [None]
        assert world.content("small") == BODY[:1000]

    async def test_wrong_bytes_are_refused_and_forgotten(self, world):
        """By hash and by size; the right ones may follow."""
        entry = make_entry(0, "a", BODY, has_hash=True)
        part = world.volume.new_part(entry)
        for wrong in (OTHER, BODY[:-1], b""):
            await feed(part, wrong)
            with expect_error(Corrupt):
                part.verify(entry.size_bytes, entry.digest)
            assert part.position == 0
        await feed(part, BODY)
        assert part.verify(entry.size_bytes, entry.digest) == "sha256"
        assert await published(world.volume, [part]) == [None]
        assert world.content("a") == BODY

    async def test_bytes_are_verified_by_what_their_server_states(self, world):
        """Where the manifest has no hash. After a restart nothing is stated any more."""
        entry = make_entry(0, "a", BODY)
        part, stated = world.volume.new_part(entry), Digest("crc32", f"{zlib.crc32(BODY):08x}")
        part.stated = stated
        await feed(part, OTHER)
        with expect_error(Corrupt) as raised:
            part.verify(entry.size_bytes, None)
        other = f"{zlib.crc32(OTHER):08x}"
        assert str(raised.value) == f"the crc32 of the bytes is {other} where the server says {stated.hex}"
        await feed(part, BODY)
        assert part.verify(entry.size_bytes, None) == "size"
        part.restart()
        part.stated = stated
        await feed(part, BODY)
        assert part.verify(entry.size_bytes, None) == "server-crc32"
        part.discard()

    async def test_an_older_file_is_replaced(self, world):
        """In one step."""
        for body in (OTHER, BODY):
            assert await published(world.volume, [await whole_part(world.volume, "a", body)]) == [None]
            assert world.content("a") == body

    async def test_nothing_of_a_part_that_was_discarded_stays(self, world):
        """Neither a name nor anything for a later run."""
        part = await whole_part(world.volume, "a", has_hash=True)
        part.discard()
        part.discard()
        volume = await world.next_run()
        later = volume.new_part(make_entry(0, "a", BODY, has_hash=True))
        await volume.adopt_leftover(make_entry(0, "a", BODY, has_hash=True), later)
        assert later.position == 0
        assert world.content("a") is None

    async def test_what_is_in_place_is_vouched_for_by_its_size(self, world):
        """Where the manifest has no hash; in this run and in the next one."""
        await self._vouch(world, digest=False)

    async def test_what_is_in_place_is_vouched_for_by_its_hash(self, world):
        """Where the manifest has one."""
        await self._vouch(world, digest=True)

    async def _vouch(self, world, *, digest):
        entry = make_entry(0, "a", BODY, has_hash=digest)
        vouched = "sha256" if digest else "size"
        assert await world.volume.verify_existing(entry) is None
        await published(world.volume, [await whole_part(world.volume, "a", has_hash=digest)])
        assert await world.volume.verify_existing(entry) == Standing(vouched)
        volume = await world.next_run()
        assert await volume.verify_existing(entry) == Standing(vouched)
        assert await volume.verify_existing(make_entry(0, "a", BODY[:-1], has_hash=digest)) is None
        assert await volume.verify_existing(make_entry(0, "b", BODY, has_hash=digest)) is None

    async def test_of_what_is_in_place_nobody_says_that_nothing_was_there(self, world):
        """By the next run; neither of a part that is left. A volume that does not know says no."""
        await published(world.volume, [await whole_part(world.volume, "d/a")])
        (await whole_part(world.volume, "d/b", has_hash=True)).keep_leftover(whole=True)
        volume = await world.next_run()
        assert not volume.has_nothing_of(make_entry(0, "d/a", BODY))
        assert not volume.has_nothing_of(make_entry(1, "d/b", BODY, has_hash=True))

    async def test_another_file_of_the_same_size_is_not_vouched_for(self, world):
        """Where the manifest has a hash."""
        await published(world.volume, [await whole_part(world.volume, "a", OTHER, has_hash=True)])
        assert await world.volume.verify_existing(make_entry(0, "a", BODY, has_hash=True)) is None

    async def test_a_batch_is_committed_when_its_parts_are_published(self, world):
        """Its record says so to the next run, with which of its files are there."""
        entries = [make_entry(number, name, BODY) for number, name in enumerate("abc")]
        before = await inspect_batch(world.volume, BATCH, entries)
        assert (before.is_committed, before.is_begun, [*before.same_size]) == (False, False, [])
        world.volume.mark_batch(BATCH)
        parts = [await whole_part(world.volume, name) for name in "ab"]
        assert await published(world.volume, parts, record_of(2)) == [None]
        world.volume.unmark_batch(BATCH)
        await world.settle()
        after = await inspect_batch(await world.next_run(), BATCH, entries)
        assert (after.is_committed, after.is_begun, [*after.same_size]) == (True, False, [0, 1])

    async def test_a_batch_that_was_begun_is_found_by_the_next_run(self, world):
        """Which then goes on with it, or says that it goes elsewhere."""
        world.volume.mark_batch(BATCH)
        await world.settle()
        volume = await world.next_run()
        found = await inspect_batch(volume, BATCH, [])
        assert (found.is_committed, found.is_begun) == (False, True)
        volume.unmark_batch(BATCH)
        volume = await world.next_run()
        assert not (await inspect_batch(volume, BATCH, [])).is_begun

    async def test_a_batch_that_goes_elsewhere_is_withdrawn(self, world):
        """Record and files; what stood there before this run is not its business."""
        parts = [await whole_part(world.volume, name) for name in "ab"]
        assert await published(world.volume, parts, record_of(2)) == [None]
        world.volume.withdraw_batch(BATCH, parts)
        await world.settle()
        assert (world.content("a"), world.content("b")) == (None, None)
        found = await inspect_batch(await world.next_run(), BATCH, [make_entry(0, "a", BODY)])
        assert (found.is_committed, [*found.same_size]) == (False, [])


class DiskContract:
    """Who carries out steps, at once or in a thread. ``disk`` is a fixture."""

    async def test_steps_are_carried_out_in_order(self, disk: Disk):
        """Whichever way they were asked for."""
        seen: list[str] = []
        disk.do(seen.append, "do", size_bytes=1)
        disk.tidy(lambda: seen.append("tidy"))
        await disk.call(lambda: seen.append("call"))
        disk.do(seen.append, "do again")
        await disk.long(lambda: seen.append("long"))
        disk.do(time.sleep, 0.05)
        disk.do(seen.append, "do late")
        await disk.beside(lambda: seen.append("beside"))
        assert seen == ["do", "tidy", "call", "do again", "long", "do late", "beside"]

    async def test_a_step_has_an_answer_or_an_error(self, disk: Disk):
        """Which whoever waits for it gets, however it was asked for."""

        def fail():
            raise LocalFault("the disk is full")

        for ask in (disk.call, disk.long, disk.beside, disk.call_reading):
            assert await ask(lambda: 7) == 7
            with expect_error(LocalFault, "the disk is full"):
                await ask(fail)
            assert await ask(lambda: 8) == 8

    async def test_an_answer_in_time_is_not_undone(self, disk: Disk):
        """``undo`` is for those that nobody waits for any more."""
        undone: list[int] = []
        assert await disk.call(lambda: 7, undo=undone.append) == 7
        assert undone == []

    async def test_a_disk_at_rest_lets_everybody_go_on(self, disk: Disk):
        """It has room, no call under way and no fault."""
        await disk.call(lambda: None)
        assert not disk.must_wait
        await asyncio.wait_for(disk.wait_for_room(), SOON_S)
        assert disk.line.fault is None
        await until_at_rest(disk)

    async def test_what_is_prompt_is_done_when_the_function_returns(self, disk: Disk):
        """Else it is done before the next answer."""
        seen: list[int] = []
        disk.do(seen.append, 1)
        assert seen == [1] or not disk.is_prompt
        await disk.call(lambda: None)
        assert seen == [1]
