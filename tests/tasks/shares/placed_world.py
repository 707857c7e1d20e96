"""Several volumes, the dealer of a run, and tasks that may die at any word: in one thread, on virtual time.

The dealer is the real one, with its placer and its state table. Volumes are dictionaries, and a task is a
generator that stops at each word between it and the driver, where the test may let it die.
"""

import asyncio
from typing import Any

import pytest
from greenlet import getcurrent, greenlet

from cfetch.base import virtual_clock
from cfetch.base.config.engine import PlacementOptions
from cfetch.base.errors import Blocked, VolumeFault
from cfetch.base.events import BatchPlaced, EntryFinished
from cfetch.storage.volume_values import Holding, batch_id
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares import placed_shares
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.placed_batches import Placing
from cfetch.tasks.shares.placed_shares import PlacedShares

STEP_S = 0.25  # of a task, from word to word
IDLE_S = 1.0  # until idle processes ask again
FOR_EVER = 1e9
SILENT_S = 60.0  # a process that stands still is killed
MOST_STEPS = 800
REAPED, LOST, SILENT, DRIVER = "reaped by its parent", "lost by its node", "silent", "with its driver"


class VirtualLoop:
    """Stands for the dealer's thread: its loop runs while the world waits for it.

    The world is a greenlet: to run the loop anew for each call takes twice the time.
    """

    def __init__(self):
        self.loop = virtual_clock._VirtualLoop()
        self.waiting = getcurrent()  # for the world, to which it gives what a call returns

    def play(self, make):
        """Return what ``make`` returns, which may use ``call``."""
        try:
            return self.loop.run_until_complete(self._serve(greenlet(make)))
        finally:
            self.loop.close()

    async def _serve(self, world):
        self.waiting = getcurrent()
        said = world.switch()
        while not world.dead:
            try:
                answer = await said
            except BaseException as error:
                said = world.throw(error)
            else:
                said = world.switch(answer)
        left = asyncio.all_tasks() - {asyncio.current_task()}  # of dealers that have died
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return said

    def call(self, work):
        return self.waiting.switch(work)

    def close(self):
        """Nothing: the world looks once more."""


class Disk:
    """One volume. It refuses everything before ``well_s``, or from the word ``breaks_at`` on.

    ``hangs_until_s``: it puts nothing before.
    """

    is_stuck = False

    def __init__(self, number, row):
        self.name, self.room = f"v{number}", row.rooms[number] if row.rooms else None
        self.well_s, self.hangs_until_s = row.well.get(number, 0.0), row.hangs.get(number, 0.0)
        self.breaks_at = row.breaks.get(number)
        self.files: dict[str, str] = {}  # by path: the batch
        self.blocked: set[str] = set()  # paths in whose place something else stands
        self.records: set[str] = set()
        self.marks: set[str] = set()
        self.parts: dict[int, set[str]] = {}  # by task, while its directory stands
        self.kept: set[str] = set()  # whole parts of dead tasks
        self.late: list[tuple[int, str, str]] = []  # puts that hang: task, path, batch

    def refuses(self, word, now_s):
        """Whether it refuses what comes after a word, perhaps from now on."""
        if word == self.breaks_at:
            self.well_s = FOR_EVER
        return word == "hanging" or now_s < self.well_s

    def bury(self, task, now_s):
        """Close the task's directory, and keep what it has; a disk that hangs does neither."""
        if now_s >= self.hangs_until_s:
            self.kept |= self.parts.pop(task, set())

    def put(self, task, path, batch):
        """What the kernel does: without the directory of its part a file gets no name."""
        if task in self.parts:
            self.files[path] = batch

    # as the driver sees it

    async def open(self):
        pass

    async def free_bytes(self):
        return None if self.room is None else self.room

    async def inspect_batches(self, batches):
        return [
            Holding(
                batch in self.records,
                batch in self.marks,
                [position for position, entry in enumerate(entries) if entry.path in self.files],
                {n: Blocked("a directory") for n, entry in enumerate(entries) if entry.path in self.blocked},
            )
            for batch, entries in batches
        ]

    def oldest_s(self, now_s):
        return 0.0

    async def run(self):
        pass

    def drain(self):
        pass

    def withdraw_batch(self, batch, parts):
        self.records.discard(batch)

    def remove_older(self, entry):
        self.files.pop(entry.path, None)

    async def close(self):
        pass


def play(row, deaths):
    """The world of a row at its end, with these deaths."""
    loop = VirtualLoop()
    return loop.play(lambda: World(row, deaths, loop).run())


class World:
    """A run of ``row`` by its processes; ``deaths``: in which way who says a word (from 0) dies with it."""

    def __init__(self, row, deaths, loop):
        self.plan, self.row, self.deaths = row.plan, row, deaths
        self.disks: list[Any] = [Disk(p, row) for p in range(len(row.loads))]
        for number, p in row.stands.items():
            batch = batch_id(self.entries_of(number))
            self.disks[p].files |= dict.fromkeys((entry.path for entry in self.entries_of(number)), batch)
        for number, p in row.blocks.items():
            self.disks[p].blocked.add(self.entries_of(number)[-1].path)
        self.loop = loop
        self.words: list[str] = []
        self.strays = 0
        self.began = 0  # steps of ``row.story`` that were taken
        self.failed: set[int] = set()
        self.taken_over: list[tuple[str, str]] = []  # from which volume, to which
        self.frozen: list[Any] = []
        self.begin()

    def begin(self):
        """The driver begins."""
        row = self.row
        self.account = Account()
        options = PlacementOptions(
            concurrency=4,
            mode=row.mode.value,
            batch_share=0.5,
            write_timeout_s=3.0,
            deadline_s=row.deadline_s,
        )
        placing = Placing(
            options=options,
            open_volumes=lambda: self.disks,
            note_files=lambda _: None,
            earlier=None,
            pace=ExpectedPace(latency_s=100.0 if row.is_one_by_one else 1e-3, rate_bps=1e12, concurrency=1),
            slots=row.processes,
            instant="i",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(placed_shares, "_LoopThread", lambda: self.loop)
            self.placed = PlacedShares(self.plan, placing, self.account, self.now, dict)
        self._let_nobody_watch()
        self.placer = self.placed._batches._placer
        for p, load in enumerate(row.loads):  # a batch of somebody's that is still being written there
            if load:
                self.placer.submit(-1 - p, load, load, 0.0, home=p)
                assert [one.volume for one in self.placer.assign(0.0)] == [p]
                self.placer.begin(p, 0.0)
        self.processes: list[Any] = [self.serve(place) for place in range(row.processes)]
        self.turns: dict[Any, Any] = {}  # of each process that has one

    def _let_nobody_watch(self):
        """Here each second's look at speeds, rooms and old calls sees nothing, for a fifth of the time."""
        self.placed._batches.watch.leave()
        self.placed._batches.watch.close()

    def now(self):
        """Virtual seconds."""
        return self.loop.loop.time()

    def wait(self, seconds):
        """Let virtual time pass."""
        self.loop.call(asyncio.sleep(seconds))

    def serve(self, place, turn=None):
        """A process: it brings one share after the other. Yields its turn, and the word that it has said."""
        while True:
            turn = turn or self.placed.take(None if place else self.row.sees)
            if turn is not None:
                yield from self.bring(turn)
                turn = None
            elif self.placed.is_over():
                return
            else:
                yield None, ""

    def bring(self, turn):
        """A task: stages each batch, gives the files their names, writes the record, leaves a receipt."""
        share = self.placed.fill(turn)
        assert share.volume is not None
        disk = self.disks[share.volume]
        self.check_grant(share, turn)
        disk.parts[turn.task] = set()
        yield turn, "granted"
        for steps in self.split(turn, share, disk):
            for word in steps:
                yield turn, word
                if word and disk.refuses(word, self.now()):
                    yield turn, "refused"
                    yield from self.give_up(turn, disk, "is broken")
                    return
                if turn.task not in disk.parts:  # another has the share
                    assert not self.placed.is_mine(turn)
                    return
        disk.parts.pop(turn.task, None)
        self.placed.end(turn)
        yield None, "committed"

    def split(self, turn, share, disk):
        """The steps of each batch of a share."""
        first = 0
        for files in share.batches:
            yield self.bring_batch(turn, share.entries[first : first + files], disk)
            first += files

    def bring_batch(self, turn, entries, disk):
        """Bring one batch. Yields each word."""
        batch = batch_id(entries)
        self.placed.renew(turn)
        yield "heartbeat"
        missing = [entry.path for entry in entries if entry.path not in disk.files]
        disk.marks.add(batch)
        disk.parts[turn.task].update(missing)
        yield "staged"
        if missing and self.now() < disk.hangs_until_s:
            yield from self.hang(turn, disk, missing[0], batch)
        for number, path in enumerate(missing):
            disk.put(turn.task, path, batch)
            if number in (0, len(missing) - 1):
                yield "put"
        disk.records.add(batch)
        disk.marks.discard(batch)
        yield "recorded"
        for entry in entries:
            if entry.id not in self.account:
                self.account.add(entry.id)
        yield "reported"

    def hang(self, turn, disk, path, batch):
        """A put that does not return: after its patience the task says so, and will undo the put."""
        disk.late.append((turn.task, path, batch))
        end_s = self.now() + min(3.0, self.row.deadline_s)
        while self.now() < end_s:
            yield ""
        yield "hanging"

    def give_up(self, turn, disk, why):
        """Say that the volume does not take the share."""
        if self.placed.is_mine(turn):
            self.placed.move(turn, VolumeFault(f"{disk.name} {why}"))
        disk.parts.pop(turn.task, None)
        yield None, "failed"

    def check_grant(self, share, turn):
        """I3: a volume out of use gets one batch at a time, as a probe."""
        books = self.placer._volumes[share.volume]
        is_current = all(number in books.running for number in self.numbers_of(turn))
        assert books.usable or not is_current or len(share.batches) <= 1, "a volume out of use got a share"

    def numbers_of(self, turn):
        """The batches of a share."""
        return self.placed._dealt[turn.share].batches

    # the run

    def run(self):
        """Until all processes have ended."""
        for _ in range(MOST_STEPS):
            self.take_story()
            if not self.processes:
                break
            said = len(self.words)
            for process in list(self.processes):
                is_known = process in self.processes  # all are new once the driver has died
                if is_known and self.step(process) and (self.row.is_in_turn or self.row.is_one_by_one):
                    break
            for turn in self.turns.values():
                self.placed.renew(turn)
            self.wait(STEP_S if len(self.words) > said else IDLE_S)
            self.land()
            self.hear()
            self.end_silence()
        else:
            raise AssertionError("the run does not end")
        self.fault = self.placed.fault
        for _, process, _ in self.frozen:  # it wakes up when all is over
            list(process)
        for disk in self.disks:
            disk.hangs_until_s = 0.0
        self.land()
        self.placed.close()
        self.ended_s = self.now()
        return self

    def take_story(self):
        """What else happens in the row, each step as soon as it may."""
        while self.began < len(self.row.story) and self.row.story[self.began](self):
            self.began += 1

    def step(self, process):
        """Let a process work until its next word; False: it has nothing to do."""
        said = next(process, None)
        if said is None:
            self.processes.remove(process)
            self.turns.pop(process, None)
            return False
        turn, word = said
        if turn is None:
            self.turns.pop(process, None)
        else:
            self.turns[process] = turn
        if word:
            self.words.append(word)
            if (way := self.deaths.get(len(self.words) - 1)) is not None:
                self.die(process, turn, way)
        return bool(word) or turn is not None

    def die(self, process, turn, way):
        """The process dies, or stands still."""
        if way == DRIVER:
            for disk in self.disks:
                for task in list(disk.parts):
                    disk.bury(task, self.now())
            self.frozen.clear()
            self.began = 0
            self.begin()
            return
        place = self.processes.index(process)
        self.turns.pop(process, None)
        if way == SILENT:
            self.frozen.append((self.now(), process, turn))
            self.processes[place] = self.serve(place)  # somebody else is idle
            return
        self.processes[place] = self.serve(place, self.bury(turn, way))

    def bury(self, turn, way):
        """What follows a death. Returns what the next process begins with."""
        if turn is None:
            return None
        volume = self.placed.find_volume(turn.task)
        assert volume is not None
        self.disks[volume].bury(turn.task, self.now())
        if way == REAPED:
            return self.placed.take_again(turn)
        self.placed.bury(turn)
        return None

    def end_silence(self):
        """Its parent kills a process that stands still, unless the run ends before."""
        for silence in list(self.frozen):
            since_s, _, turn = silence
            if self.now() - since_s > SILENT_S and turn is not None:
                self.frozen.remove(silence)
                self.bury(turn, LOST)

    def land(self):
        """What hung reaches the disk; a process that has given up on it removes what it has put."""
        for disk in self.disks:
            if self.now() >= disk.hangs_until_s:
                for task, path, batch in disk.late:
                    self.strays += task in disk.parts
                    disk.put(task, path, batch)
                disk.late.clear()

    def hear(self):
        """The driver takes in what was given up."""
        for event in self.placed.take_events():
            if isinstance(event, BatchPlaced) and event.moved_from is not None:
                self.taken_over.append((event.moved_from, event.volume))
            if isinstance(event, EntryFinished) and event.record.id not in self.account:
                self.account.add(event.record.id)
                self.failed.add(event.record.id)

    # what holds

    def entries_of(self, number):
        """The entries of a batch."""
        return [entry for entry in self.plan.all if entry.path.startswith(f"b{number}/")]

    def homes(self):
        """By batch, in the order of the manifest: the volume that has it; None: none has any file of it.

        Apart from ``strays``: one file for each process that died while the kernel had a put of its own.
        """
        homes = []
        for number in range(len(self.row.sizes)):
            entries = self.entries_of(number)
            batch = batch_id(entries)
            holders = [p for p, disk in enumerate(self.disks) if batch in disk.files.values()]
            records = [p for p, disk in enumerate(self.disks) if batch in disk.records]
            if holders != records and self.strays:
                assert (
                    sum(disk.files.get(entry.path) == batch for entry in entries for disk in self.disks) == 1
                )
                holders = []
            assert holders == records, f"b{number}: files on {holders}, records on {records}"
            assert len(holders) <= 1, f"b{number} is on several volumes: {holders}"
            for p in holders:
                assert all(self.disks[p].files.get(entry.path) == batch for entry in entries)
            homes.append(holders[0] if holders else None)
        return homes
