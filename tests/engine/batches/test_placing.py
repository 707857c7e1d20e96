"""Batches on several volumes through the real pool, on virtual time: fake servers, real directories."""

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Blocked, Held, LocalFault, VolumeFault
from cfetch.base.events import BatchCommitted, BatchPlaced, EntryFinished, Progress, RunStopping, VolumePaused
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.show.counts import LiveCounts
from cfetch.show.wasted_bytes import wasted_bytes
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from tests.engine.drive import ListPlan, entry_of, tree
from tests.engine.fake import FakeTransport, Reply

BODY = bytes(range(256)) * 16


class Volume(Directory):
    """A directory that says no on demand: ``full`` takes no new part, ``dead`` neither part nor name."""

    full = dead = False
    broken_names = 0  # so many of the next renames fail
    lacks_room = False  # why they do
    made = 0

    def __init__(self, root, staging):
        super().__init__(root, staging)
        create = self.staging.create_part

        def create_part(name):
            if self.full or self.dead:
                raise VolumeFault(f"{self.root.name} says no", no_room=self.full)
            self.made += 1
            return create(name)

        vars(self.staging)["create_part"] = create_part

    def publish(self, name, path):
        if self.broken_names:
            self.broken_names -= 1
            raise VolumeFault(f"{self.root.name} gives no name", no_room=self.lacks_room)
        super().publish(name, path)

    def free_bytes(self):
        return 1 << 30


class World:
    """Volumes that stay between runs; ``run`` brings a plan to its end on them."""

    def __init__(self, tmp_path, volumes=3):
        self.roots = [tmp_path / f"v{n}" for n in range(volumes)]
        self.epoch = 0

    def run(self, entries, scripts, *, before=None, confirm=lambda: None, on=lambda event: None, **settings):
        self.epoch += 1
        self.volumes = [Volume(root, f"attempts/i/{self.epoch}") for root in self.roots]
        self.events: list[Any] = []
        if before is not None:
            before(self)
        plan: Any = ListPlan(entries)
        self.transport = FakeTransport(scripts)
        resolved = Settings(**{"durability": "crash", "concurrency": 6, **settings})

        counts = LiveCounts()

        async def main():
            def emit(event):
                self.events.append(event)
                counts(event)
                on(event)

            volumes = [
                DirectoryVolume(volume, durable=resolved.durability == "power") for volume in self.volumes
            ]
            self.pool = Pool(
                plan,
                resolved,
                volumes,
                self.transport,
                PoolInputs(
                    instant="i",
                    clock=RunClock(VirtualClock()),
                    jitter=lambda: 0.5,
                    emit=emit,
                    counts=counts,
                    confirm=confirm,
                ),
            )
            await self.pool.run()

        run_virtual(main())
        for volume in self.volumes:
            volume.close()
        return self

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def statuses(self):
        found = [event.record for event in self.of(EntryFinished)]
        assert len(found) == len({record.path for record in found}), "an entry was told of twice"
        return {record.path: record.status for record in found}

    @property
    def records(self):
        return {event.record.path: event.record for event in self.of(EntryFinished)}

    @property
    def trees(self):
        return [tree(root) for root in self.roots]

    @property
    def debris(self):
        return [str(p) for root in self.roots for p in (root / ".cfetch/attempts").rglob("*") if p.is_file()]

    def batches(self):
        """The records on all volumes: by volume, a list of documents."""
        return [
            [json.loads(p.read_text()) for p in sorted((root / ".cfetch/batches").glob("*.json"))]
            for root in self.roots
        ]

    def homes(self):
        """On which volume each batch's files stand; fails if one is split or doubled."""
        found: dict[str, list[int]] = {}
        for at, files in enumerate(self.trees):
            for path in files:
                found.setdefault(path.split("/")[0], []).append(at)
        assert all(len(set(places)) == 1 for places in found.values()), found
        return {name: places[0] for name, places in found.items()}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def named(batches, files, body=BODY, **how):
    """``batches`` named batches of ``files`` files each, all of one size, and their scripts."""
    entries: list[Any] = []
    scripts: dict[str, Any] = {}
    for batch in range(batches):
        for number in range(files):
            path = f"b{batch}/f{number}"
            entries.append(entry_of(len(entries), path, body, batch=f"b{batch}", digest=True))
            scripts[path] = Reply(body, **how)
    return entries, scripts


def plain(files, body=BODY, **how):
    """``files`` files of no batch."""
    paths = [f"f{number}" for number in range(files)]
    entries = [entry_of(n, path, body, digest=True) for n, path in enumerate(paths)]
    return entries, {path: Reply(body, **how) for path in paths}


def test_a_named_batch_stands_whole_on_one_volume_with_its_record(world):
    """Seven batches of four files: each on one volume, evenly, and the records tell the truth."""
    world.run(*named(7, 4))
    assert set(world.statuses.values()) == {"done"}
    homes = world.homes()
    assert sorted(list(homes.values()).count(at) for at in range(3)) == [2, 2, 3]
    for at, batches in enumerate(world.batches()):
        assert {one["name"] for one in batches} == {name for name, home in homes.items() if home == at}
        assert all((one["files"], one["bytes"], one["instant"]) == (4, 4 * len(BODY), "i") for one in batches)
    assert {path: record.volume for path, record in world.records.items()} == {
        path: str(world.roots[homes[path.split("/")[0]]]) for path in world.records
    }
    assert {record.batch for record in world.records.values()} == set(homes)
    assert world.debris == []


def test_files_without_a_batch_are_cut_by_their_share(world):
    """Of 40 equal files, a tenth makes batches of four, and every file stands once."""
    world.run(*plain(40), batch_share=0.1)
    assert sum(len(files) for files in world.trees) == 40
    assert [one["files"] for batches in world.batches() for one in batches] == [4] * 10


def test_new_files_are_looked_for_only_by_the_listing_of_their_directory(world, monkeypatch):
    """A call to each volume for each file would take longer than to fetch a small one."""
    looked = []

    class Listed(DirectoryVolume):
        async def verify_existing(self, entry):
            looked.append(entry.path)
            return await super().verify_existing(entry)

        async def adopt_leftover(self, entry, part):
            looked.append(entry.path)
            await super().adopt_leftover(entry, part)

    def before(world):
        for volume in world.volumes:
            monkeypatch.setattr(volume, "existing", looked.append)

    monkeypatch.setitem(globals(), "DirectoryVolume", Listed)
    world.run(*plain(40), batch_share=0.1, before=before)
    assert sum(map(len, world.trees)) == 40
    assert looked == []


def test_a_batch_is_visible_only_as_a_whole(world):
    """The last file of each batch is slow: until it is there nothing of its batch has a name."""
    entries, scripts = named(2, 3)
    scripts["b0/f2"] = scripts["b1/f2"] = Reply(BODY, rate_bps=len(BODY) / 10)
    seen = []

    def look(event):
        if isinstance(event, Progress) and event.t_s < 9:
            seen.append(sum(len(files) for files in world.trees))

    world.run(entries, scripts, on=look, mitigation=False)
    assert seen
    assert set(seen) == {0}
    assert set(world.statuses.values()) == {"done"}


def test_a_second_run_asks_for_nothing_and_a_new_file_goes_to_its_batch(world):
    """All is skipped; one more file of a named batch joins the others."""
    entries, scripts = named(4, 3)
    world.run(entries, scripts)
    before = world.homes()
    world.run(entries, scripts)
    assert set(world.statuses.values()) == {"skipped"}
    assert world.transport.opens == []
    more = entry_of(12, "b2/new", BODY, batch="b2", digest=True)
    world.run([*entries, more], {**scripts, "b2/new": Reply(BODY)})
    assert [asked.path for asked in world.transport.opens] == ["b2/new"]
    assert world.homes() == before
    assert world.records["b2/new"].volume == str(world.roots[before["b2"]])


def test_files_of_a_cut_batch_stay_where_they_are_when_the_manifest_grows(world):
    """Other batches are cut then; nothing is fetched again or doubled."""
    world.run(*plain(30), batch_share=0.1)
    entries, scripts = plain(37)
    world.run(entries, scripts, batch_share=0.1)
    assert len(world.transport.opens) == 7
    assert sum(len(files) for files in world.trees) == 37
    assert {p: r.volume for p, r in world.records.items()} == {
        path: str(world.roots[at]) for at, files in enumerate(world.trees) for path in files
    }


def test_a_volume_that_fails_gives_its_whole_batch_to_another(world):
    """Volume 1 takes two parts and no more: nothing of it stays there, no batch is split, nothing is lost."""

    def die(event):
        if world.volumes[1].made == 2:
            world.volumes[1].dead = True

    world.run(*named(9, 4, rate_bps=4096), on=die)
    assert set(world.statuses.values()) == {"done"}
    homes = world.homes()
    assert 1 not in homes.values()
    assert len(homes) == 9
    assert world.trees[1] == {}
    assert world.debris == []
    assert world.of(VolumePaused)[0].volume == str(world.roots[1])


def test_the_attempts_on_a_volume_that_was_left_are_told_of_as_moved(world):
    """What came on the old volume is copied to the new one, and nothing is asked for again."""
    entries, scripts = named(1, 3)
    scripts["b0/f2"] = Reply(BODY, rate_bps=len(BODY) / 10)
    left: list[int] = []

    def die(event):
        if isinstance(event, Progress) and event.t_s > 4 and not left:
            left.append(at := next(n for n, volume in enumerate(world.volumes) if volume.made))
            world.volumes[at].broken_names = 1

    world.run(entries, scripts, on=die, mitigation=False)
    assert set(world.statuses.values()) == {"done"}
    assert world.homes()["b0"] != left[0]
    for record in world.records.values():
        assert [attempt.outcome for attempt in record.attempts] == ["moved"]
        assert wasted_bytes(record) == 0
    assert len(world.transport.opens) == 3


def refuse_third_name(world):
    """One volume refuses the third name of the batch ``b0``, once."""
    real = Volume.publish
    tripped: list[Volume] = []

    def publish(self, name, path):
        if path == "b0/f2" and not tripped:
            tripped.append(self)
            raise VolumeFault("no")
        real(self, name, path)

    for volume in world.volumes:
        volume.publish = publish.__get__(volume)


def test_names_that_were_given_are_taken_back_when_the_last_one_fails(world):
    """The third rename of the batch fails: the two before it are undone on that volume."""
    entries, scripts = named(1, 3)

    world.run(entries, scripts, before=refuse_third_name)
    assert set(world.statuses.values()) == {"done"}
    assert sorted(len(files) for files in world.trees) == [0, 0, 3]
    assert sum(len(batches) for batches in world.batches()) == 1


def test_files_that_cannot_be_taken_back_are_told_of(world):
    """The volume gives two names, refuses the third, and takes nothing back: the user is told."""
    entries, scripts = named(1, 3)

    def unpublish(self, name, path):
        raise VolumeFault("no")

    def trip(world):
        refuse_third_name(world)
        for volume in world.volumes:
            volume.unpublish = unpublish.__get__(volume)

    world.run(entries, scripts, before=trip)
    assert set(world.statuses.values()) == {"done"}
    assert sorted(len(files) for files in world.trees) == [0, 2, 3]
    assert "no; 2 whole files were left here" in world.of(VolumePaused)[-1].reason


def test_a_full_volume_is_not_a_failed_one(world):
    """No room for a batch: it goes elsewhere, and the volume's breaker stays closed."""

    def fill(world):
        world.volumes[0].full = True

    world.run(*named(6, 2), before=fill)
    assert set(world.statuses.values()) == {"done"}
    assert 0 not in world.homes().values()
    assert world.of(VolumePaused) == []


def test_a_volume_that_comes_back_is_tried_with_one_batch_and_then_used(world):
    """It says no for three seconds; the run is long enough to use it again."""

    def mend(event):
        world.volumes[2].dead = event.t_s < 3

    world.run(*named(24, 4, rate_bps=2048), on=mend)
    assert set(world.statuses.values()) == {"done"}
    assert 2 in world.homes().values()
    probes = [event for event in world.of(BatchPlaced) if "probe" in event.why]
    assert probes
    assert {event.volume for event in probes} == {str(world.roots[2])}


def test_without_sizes_no_time_is_claimed(world):
    """A batch of unknown size counts for a guess, which is neither a size nor a time for a person."""
    entries, scripts = named(8, 4)
    world.run([replace(entry, size_bytes=None) for entry in entries], scripts)
    placed = world.of(BatchPlaced)
    assert {(event.size_bytes, event.sizes_unknown - event.files) for event in placed} == {(0, 0)}
    assert not any("done in" in event.why or "MiB" in event.why for event in placed)
    assert any("without sizes" in event.why for event in placed)


def test_committed_batches_still_count_where_they_are(world):
    """In ``count``, a volume whose batches come slowly is as full as the others in the end."""
    entries, scripts = named(30, 1)
    scripts |= {f"b{number}/f0": [Reply(BODY, rate_bps=100.0)] for number in range(3, 30, 3)}
    world.run(entries, scripts, placement="count", mitigation=False)
    assert set(world.statuses.values()) == {"done"}
    assert [len(there) for there in world.trees] == [10, 10, 10]


def test_stragglers_on_one_volume_speak_against_it(world):
    """All files of one batch are far slower than the rest: its volume gets no new batch for a while."""
    entries, scripts = named(40, 4)
    for number in range(4):
        scripts[f"b0/f{number}"] = [Reply(BODY, rate_bps=1.0), Reply(BODY)]
    world.run(entries, scripts, padding=1.0, mitigation=True)
    assert set(world.statuses.values()) == {"done"}
    (paused,) = world.of(VolumePaused)
    placed = [event for event in world.of(BatchPlaced) if event.batch == "b0"]
    assert paused.volume == placed[0].volume
    assert "slower than the rest" in paused.reason


def test_no_volume_at_all_ends_the_run_at_the_deadline_and_names_each(world):
    """All say no: nothing is placed anywhere, each entry has failed once, and the fault names the volumes."""

    def kill(world):
        for volume in world.volumes:
            volume.dead = True

    world.run(*named(5, 3), before=kill, placement_deadline=20.0, write_timeout=10.0)
    assert isinstance(world.pool.fault, LocalFault)
    assert world.pool.fault.exit_code == 3
    assert all(str(root) in str(world.pool.fault) for root in world.roots)
    assert "done" not in world.statuses.values()
    assert world.trees == [{}, {}, {}]
    assert 20 < world.events[-1].t_s < 40
    assert world.debris == []


def test_many_batches_share_one_deadline_where_no_volume_takes_any(tmp_path):
    """One is full, the other fails in mid-run: the rest of 30 batches is given up after one deadline."""
    world = World(tmp_path, volumes=2)

    def fill(world):
        world.volumes[0].free_bytes = lambda: 0

    def die(event):
        if world.volumes[1].made == 10:
            world.volumes[1].dead = True

    world.run(*named(30, 1), before=fill, on=die, placement_deadline=20.0)
    assert world.pool.fault is not None
    assert world.pool.fault.exit_code == 3
    assert all(f"{root}: " in str(world.pool.fault) for root in world.roots)
    assert sorted(set(world.statuses.values())) == ["done", "failed"]
    assert len(world.statuses) == 30
    assert 20 < world.events[-1].t_s < 25


def test_a_volume_that_comes_back_before_the_deadline_takes_the_rest(tmp_path):
    """The same with one that fails for 15 of the 20 s: nothing is given up."""
    world = World(tmp_path, volumes=2)

    def fill(world):
        world.volumes[0].free_bytes = lambda: 0

    def come_and_go(event):
        if world.volumes[1].made == 10 and event.t_s < 15:
            world.volumes[1].dead = True
        elif event.t_s > 15:
            world.volumes[1].dead = False

    world.run(*named(30, 1), before=fill, on=come_and_go, placement_deadline=20.0)
    assert set(world.statuses.values()) == {"done"}


def test_a_volume_that_comes_back_after_its_last_pause_is_used_at_the_deadline(tmp_path):
    """Its probes are 0.5 to 19.5 s after it failed, and the deadline of 20 s is one more."""
    world = World(tmp_path, volumes=2)
    died: list[float] = []

    def fill(world):
        world.volumes[0].free_bytes = lambda: 0

    def come_and_go(event):
        if world.volumes[1].made == 10 and not died:
            died.append(event.t_s)
        world.volumes[1].dead = bool(died) and event.t_s < died[0] + 19.6

    world.run(*named(30, 1), before=fill, on=come_and_go, placement_deadline=20.0)
    assert set(world.statuses.values()) == {"done"}
    again = [event.t_s for event in world.of(BatchPlaced) if "probe" in event.why]
    assert 19.9 < again[-1] - died[0] < 21.0


@pytest.mark.parametrize("lacks_room", [False, True])
def test_a_batch_that_no_volume_brings_to_an_end_is_given_up(world, lacks_room):
    """Each takes its bytes, so that the deadline begins anew, and gives it no name; they are fetched once.

    The last of them to be full finds the batch given up already.
    """

    def trip(world):
        for volume in world.volumes:
            volume.broken_names, volume.lacks_room = 1000, lacks_room

    world.run(*named(1, 2), before=trip)
    assert world.pool.fault is not None
    assert "never completed" in str(world.pool.fault)
    assert all(f"{root}: " in str(world.pool.fault) for root in world.roots)
    assert set(world.statuses.values()) == {"failed"}
    assert lacks_room or len(world.transport.opens) == 2  # parts may take the room that is lacking
    assert len(world.of(BatchPlaced)) == 17
    assert world.debris == []


def test_one_volume_has_nobody_to_go_to(tmp_path):
    """With a single destination a fault ends the run at once."""
    world = World(tmp_path, volumes=1)

    def kill(world):
        world.volumes[0].dead = True

    world.run(*named(2, 2), before=kill)
    assert isinstance(world.pool.fault, VolumeFault)
    assert world.events[-1].t_s < 1


def test_a_plan_that_was_taken_over_looks_like_failing_volumes_and_ends_the_run(world):
    """Whoever took it has removed the parts' directories: nobody waits for the deadline then."""

    def kill(world):
        for volume in world.volumes:
            volume.dead = True

    def confirm():
        raise Held("another run has it")

    world.run(*named(5, 3), before=kill, confirm=confirm)
    assert world.of(RunStopping)
    assert world.events[-1].t_s < 1


def test_a_file_that_cannot_be_had_holds_its_named_batch_back(world):
    """Nothing of it is published, and the parts of the others stay for the next run."""
    entries, scripts = named(3, 3)
    world.run(entries, {**scripts, "b1/f1": Reply(status=404)})
    assert sorted(world.homes()) == ["b0", "b2"]
    kinds = {path: record.error_kind for path, record in world.records.items() if record.status == "failed"}
    assert kinds == {"b1/f0": "batch", "b1/f1": "refused", "b1/f2": "batch"}
    assert [one["name"] for batches in world.batches() for one in batches].count("b1") == 0
    assert sum("/h" in path for path in world.debris) == 2


def test_a_file_that_cannot_be_had_does_not_hold_up_a_cut_batch(world):
    """The others of it are published, and the record counts them."""
    entries, scripts = plain(8)
    world.run(entries, {**scripts, "f3": Reply(status=404)}, batch_share=0.5)
    assert world.statuses.pop("f3") == "failed"
    assert sum(len(files) for files in world.trees) == 7
    assert sorted(one["files"] for batches in world.batches() for one in batches) == [3, 4]


def test_something_else_in_a_files_place_fails_that_file_only(world):
    """A directory stands under its name on every volume."""
    entries, scripts = plain(8)

    def block(world):
        for root in world.roots:
            (root / "f2").mkdir()

    world.run(entries, scripts, before=block, batch_share=0.5)
    assert world.records["f2"].error_kind == Blocked.kind
    assert [status for path, status in world.statuses.items() if path != "f2"] == ["done"] * 7


def test_something_in_a_files_place_on_one_volume_sends_its_batch_to_another(world):
    """It is where the batch would otherwise go."""
    entries, scripts = named(6, 3)

    def block(world):
        (world.roots[0] / "b0/f1").mkdir(parents=True)

    world.run(entries, scripts, before=block)
    assert set(world.statuses.values()) == {"done"}
    assert world.homes()["b0"] != 0


def test_a_slow_volume_delays_only_its_own_batches(world):
    """Its files take a hundred times as long; no more than its share of the places waits for it."""
    entries, scripts = named(30, 2, rate_bps=4096)
    busy: list[int] = []

    def count(event):
        if isinstance(event, Progress):
            busy.extend(view.running for view in event.volumes)

    world.run(entries, scripts, on=count)
    assert set(world.statuses.values()) == {"done"}
    assert max(busy) <= 2 * 2 + 2


def test_stopping_keeps_what_is_whole_and_tells_of_it(world):
    """Files that waited for their batch are cancelled, and their parts stay for the next run."""
    entries, scripts = named(2, 3)
    scripts["b0/f2"] = scripts["b1/f2"] = Reply(BODY, rate_bps=len(BODY) / 100)

    def stop(event):
        if isinstance(event, Progress) and event.t_s > 2:
            world.pool.stop("the test says so")

    world.run(entries, scripts, on=stop, mitigation=False)
    assert set(world.statuses.values()) == {"cancelled"}
    assert sum("/h" in path for path in world.debris) >= 4
    assert all(files == {} for files in world.trees)


@pytest.mark.parametrize("mode", ["finish", "count", "round-robin"])
def test_every_way_of_placing_brings_all_to_an_end(world, mode):
    """With retries and slow files among them."""
    entries, scripts = named(12, 3, rate_bps=8192)
    scripts["b3/f1"] = [Reply(status=503), Reply(BODY)]
    scripts["b5/f0"] = [Reply(BODY, cut=100, then="reset"), Reply(BODY)]
    world.run(entries, scripts, placement=mode)
    assert set(world.statuses.values()) == {"done"}
    assert len(world.of(BatchCommitted)) == 12
    assert not math.isinf(world.events[-1].t_s)


def test_a_batch_that_moved_ends_while_a_settled_entry_was_not_handed_out_again(world):
    """Its volume is shut by the host's limit when the batch is over, and must not be opened after that."""
    big, small = BODY * 30, BODY * 8
    entries = [
        entry_of(0, "b0/f0", big, batch="b0", digest=True, host="a.test"),
        entry_of(1, "b0/f1", BODY, batch="b0", digest=True, host="b.test"),
    ]
    scripts: dict[str, Any] = {"b0/f0": Reply(big), "b0/f1": Reply(BODY, rate_bps=len(BODY) / 3)}
    world.run(entries, scripts)
    home = world.homes()["b0"]
    (world.roots[home] / "b0/f1").unlink()
    for n in range(6):
        entries.append(entry_of(2 + n, f"c{n}/f", small, batch=f"c{n}", digest=True, host="a.test"))
        scripts[f"c{n}/f"] = Reply(small, rate_bps=len(small) / 60)

    def trip(world):
        world.volumes[home].broken_names = 1

    world.run(entries, scripts, before=trip, mitigation=False, per_host=1, placement="count")
    assert len(world.statuses) == 8
    assert set(world.statuses.values()) <= {"done", "skipped"}
    assert len(world.homes()) == 7
    assert world.of(Progress)[-1].waiting == 0


@pytest.mark.parametrize("names", [True, False])
def test_files_in_place_of_which_no_size_is_stated_count_with_their_bytes(world, names):
    """In the records of the files, and in that of their batch once one more file of it has come."""
    entries, scripts = named(1, 4) if names else plain(4)
    entries = [replace(entry, size_bytes=None) for entry in entries]
    world.run(entries, scripts, batch_share=1.0)
    (home,) = [at for at, files in enumerate(world.trees) if files]
    (world.roots[home] / entries[3].path).unlink()
    world.run(entries, scripts, batch_share=1.0)
    assert sorted(world.statuses.values()) == ["done", "skipped", "skipped", "skipped"]
    assert {record.bytes for record in world.records.values()} == {len(BODY)}
    (batch,) = world.batches()[home]
    assert (batch["files"], batch["bytes"]) == (4, 4 * len(BODY))


@pytest.mark.parametrize("resized", [False, True])
def test_a_new_version_of_a_file_replaces_the_old_one_on_whichever_volume(world, resized):
    """All hashes change, and sizes perhaps: afterwards each file stands once, and is the new one."""
    world.run(*plain(30), batch_share=0.1)
    new = BODY[::-1] + b"!" * resized
    entries, scripts = plain(31, new)
    world.run(entries, scripts, batch_share=0.1)
    assert set(world.statuses.values()) == {"done"}
    found = [(path, body) for files in world.trees for path, body in files.items()]
    assert len(found) == 31
    assert {body for _, body in found} == {new}


def test_a_machine_out_of_descriptors_is_no_volumes_fault(world):
    """The run ends with that fault, and nobody is told that a volume is out of use."""

    def trip(world):
        def leftovers():
            raise LocalFault("too many open files")

        world.volumes[1].leftovers = leftovers

    world.run(*named(3, 2), before=trip)
    assert str(world.pool.fault) == "too many open files"
    assert world.of(VolumePaused) == []
