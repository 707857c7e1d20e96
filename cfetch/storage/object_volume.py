"""A volume that is a bucket: adapts ``ObjectStore`` to the volume's port.

Objects are put under their final names when they are verified: the store makes each visible as a whole. Those
of a batch are held back until all are there, as far as memory allows. Its record says that it is complete;
if it cannot be, what this run has put of it is deleted. Nothing of an upload is of use to another run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from cfetch.errors import Blocked, CfetchError, VolumeFault
from cfetch.manifest.entry import Entry, SafePath
from cfetch.secret import printable
from cfetch.storage import volume
from cfetch.storage.directory import STATE_NAME
from cfetch.storage.object_part import ObjectPart
from cfetch.storage.object_store import MAX_KEY_BYTES, Found, ObjectStore
from cfetch.storage.resume import identity
from cfetch.storage.volume import BATCHES, BatchRecord, Ended

__all__ = ["ObjectStoreVolume"]

T = TypeVar("T")
BEGUN = f"{STATE_NAME}/begun"  # one empty object for each batch that is being staged
LOOKS_AT_A_TIME = 32  # some 600 a second
AT_A_TIME = 16  # objects that are made visible together; a small one is a round trip of some 50 ms
MAX_HELD_BYTES = 64 << 20  # of all parts that wait for their next try or for their batch
MAX_PENDING_FILES = 256  # for their commit; each holds less than one piece
MAX_PENDING_BYTES = 64 << 20
LONGEST_END_S = (
    10.0  # what the end of a run waits for uploads to be ended; a store's own rule ends the others
)


class ObjectStoreVolume:
    """See ``volume.Volume``. Made and used in an event loop; ``monotonic`` is the run's clock.

    ``run_id`` is unique to this execution: only what it has put is ever deleted. ``confirm`` is the plan's
    guard: it raises CfetchError if the plan is not this run's any more, and then nothing is put or deleted.
    """

    def __init__(
        self, store: ObjectStore, *, run_id: str, confirm: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self.name = printable(store.url)
        self.store = store
        self.run_id = run_id
        self.line: asyncio.Future[VolumeFault] = asyncio.get_running_loop().create_future()
        self.turns = asyncio.Semaphore(AT_A_TIME)
        self._confirm = confirm
        self._monotonic = monotonic
        self._since_s: dict[asyncio.Future[Any], float] = {}  # of each call under way
        self._tidying: set[asyncio.Task[None]] = set()
        self._clearing: dict[str, asyncio.Task[None]] = {}  # what is done beside, by key
        self._resting: dict[ObjectPart, None] = {}  # the longest first
        self._begun: set[str] = set()  # batches, by their marks
        self._was_empty = False
        self._late: asyncio.Task[None] | None = None
        self._commits: set[asyncio.Task[None]] = set()
        self._pending_files = self._pending_bytes = 0
        self._draining = False
        self._changed = asyncio.Event()  # in what is pending

    async def open(self) -> None:
        """Raises VolumeFault too where the store cannot be used at all."""
        self._begun = set(await self.ask(partial(self.store.names, BEGUN)))
        self._was_empty = await self.ask(self.store.is_empty)

    def new_part(self, entry: Entry) -> ObjectPart:
        """No upload is begun before the first whole piece."""
        return ObjectPart(self, entry)

    async def verify_existing(self, entry: Entry) -> str | None:
        """By the hash that was told with the object, where the manifest has one; it is not read again.

        Else by size, and by the link it came from as far as that was told. Raises Blocked for a name that no
        store takes.
        """
        obstacle = self._obstacle(entry)
        if obstacle is not None:
            raise obstacle
        if entry.size_bytes is None and entry.digest is None:
            return None
        await self.cleared(entry.path)
        found = await self.ask(partial(self.store.look, entry.path))
        if found is None or (entry.size_bytes is not None and found.size_bytes != entry.size_bytes):
            return None
        about = found.about
        if entry.digest is not None:
            told = f"{entry.digest.algorithm}:{entry.digest.hex}"
            return entry.digest.algorithm if about is not None and about.digest == told else None
        if about is None or about.source is None:
            return "size"
        return "size" if about.source in map(identity, (entry.url, *entry.mirrors)) else None

    async def adopt_leftover(self, entry: Entry, part: volume.Part) -> None:
        """Nothing: an upload belongs to the process that began it."""

    def remove_leftovers(self, entry: Entry) -> None:
        """Nothing is left of dead runs that could be found."""

    def _obstacle(self, entry: Entry) -> Blocked | None:
        if self.store.key_bytes(entry.path) <= MAX_KEY_BYTES:
            return None
        return Blocked(f"its name, with the prefix, is longer than the {MAX_KEY_BYTES} bytes of a key")

    async def inspect_batch(self, batch: str, entries: Sequence[Entry]) -> volume.Holding:
        """By its mark or its record, and by the sizes of what stands under the names; a request for each."""
        obstacles = {n: self._obstacle(entry) for n, entry in enumerate(entries)}
        blocked = {n: error for n, error in obstacles.items() if error is not None}
        if self._was_empty:
            return volume.Holding(blocked=blocked)
        turns = asyncio.Semaphore(LOOKS_AT_A_TIME)

        async def look(key: str) -> Found | None:
            async with turns:
                return await self.ask(partial(self.store.look, key))

        free = [n for n in obstacles if n not in blocked]
        record, *found = await asyncio.gather(look(_record_of(batch)), *(look(entries[n].path) for n in free))
        standing = [
            n
            for n, one in zip(free, found, strict=True)
            if one is not None and entries[n].size_bytes in (one.size_bytes, None)
        ]
        return volume.Holding(record is not None, batch in self._begun, standing, blocked)

    def mark_batch(self, batch: str) -> None:
        """An empty object, soon: before anything of a batch that waits for it is to be seen."""
        if batch not in self._begun:
            self._begun.add(batch)
            self._in_turn(_mark_of(batch), partial(self.store.put, _mark_of(batch), b""))

    def unmark_batch(self, batch: str) -> None:
        """Soon."""
        if batch in self._begun:
            self._begun.discard(batch)
            self._in_turn(_mark_of(batch), partial(self._delete, _mark_of(batch)))

    def publish(self, parts: Sequence[volume.Part], ended: Ended, record: BatchRecord | None = None) -> None:
        """Beside others: each object is visible at once when it is complete."""
        own = cast("Sequence[ObjectPart]", parts)
        size = (len(own), sum(part.held_bytes for part in own))
        self._pending_files += size[0]
        self._pending_bytes += size[1]
        task = asyncio.create_task(self._commit(own, ended, record, size))
        self._commits.add(task)
        task.add_done_callback(lambda _: self._changed.set())

    async def _commit(
        self, parts: Sequence[ObjectPart], ended: Ended, record: BatchRecord | None, size: tuple[int, int]
    ) -> None:
        error: CfetchError | None = None
        try:
            self._confirm()
            if record is not None:
                await self.cleared(_mark_of(record.id))
            if parts:
                done, _ = await asyncio.wait(
                    [part.complete() for part in parts], return_when=asyncio.FIRST_EXCEPTION
                )
                for one in done:
                    one.result()
            if record is not None:
                self._confirm()
                await self._put_record(record)
        except CfetchError as failure:
            error = failure
        for part in parts:
            if error is None:
                part.mark_published()
            else:
                part.discard()
        self._pending_files -= size[0]
        self._pending_bytes -= size[1]
        ended(error)

    async def _put_record(self, record: BatchRecord) -> None:
        key = _record_of(record.id)
        await self.cleared(key)
        try:
            await self.ask(partial(self.store.put, key, msgspec.json.encode(record)))
        except VolumeFault:
            self._in_turn(key, partial(self._delete, key))  # it may be there all the same
            raise

    def remove_older(self, path: SafePath) -> None:
        """Nothing is done: of what stands in a store only what this run has put is ever deleted."""

    @property
    def left_behind(self) -> int:
        """Not counted: what cannot be deleted was put whole, and the docs say so."""
        return 0

    def withdraw_batch(self, batch: str, parts: Sequence[volume.Part]) -> None:
        """Soon: the record, and what this run has put."""
        self._in_turn(_record_of(batch), partial(self._delete, _record_of(batch)))
        for part in cast("Sequence[ObjectPart]", parts):
            part.withdraw()

    async def run(self) -> None:
        """Wait for what is committed, until ``drain`` and the last of it. Never raises LocalFault."""
        while self._commits or not self._draining:
            await self._changed.wait()
            self._changed.clear()
            for task in [one for one in self._commits if one.done()]:
                self._commits.discard(task)
                task.result()

    def drain(self) -> None:
        """Nothing more will be committed."""
        self._draining = True
        self._changed.set()

    @property
    def is_full(self) -> bool:
        """By number or by what they hold in memory."""
        return self._pending_files >= MAX_PENDING_FILES or self._pending_bytes >= MAX_PENDING_BYTES

    async def wait_for_room(self) -> None:
        """Wait while it is full."""
        while self.is_full:
            under_way = [one for one in self._commits if not one.done()]
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    async def free_bytes(self) -> int | None:
        """A store does not say."""
        return None

    @property
    def written_bytes(self) -> int | None:
        """No more is known than what has come; a store that is behind lets no more come."""
        return None

    @property
    def is_behind(self) -> bool:
        """Entries are under way until the store has them."""
        return False

    def oldest_s(self, now_s: float) -> float:
        """Of what somebody waits for."""
        return max((now_s - since_s for since_s in self._since_s.values()), default=0.0)

    def abandon(self, why: str) -> None:
        """What is under way is broken off; what it may have put is deleted, as far as the store answers."""
        line, self.line = self.line, asyncio.get_running_loop().create_future()
        line.set_result(VolumeFault(why))
        self._late = self.tidy(self._answers)

    async def _answers(self) -> None:
        await self.store.look(BEGUN)

    @property
    def is_stuck(self) -> bool:
        """A call made when it was abandoned has neither been answered nor run out of time."""
        return self._late is not None and not self._late.done()

    async def close(self) -> None:
        """Uploads and objects that are not wanted are gone, unless the store does not answer."""
        if self._tidying:
            await asyncio.wait(self._tidying, timeout=LONGEST_END_S)
        late = [*self._tidying, *self._commits]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """The store's answer. Raises VolumeFault, also when the volume is abandoned meanwhile."""
        line = self.line
        asked = asyncio.ensure_future(call())
        either: list[asyncio.Future[Any]] = [asked, line]
        self._since_s[asked] = self._monotonic()
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                raise line.result()
            return asked.result()
        finally:
            asked.cancel()
            del self._since_s[asked]

    def tidy(self, step: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """Soon; a store that says no to that has said no to more important things."""

        async def carry_out() -> None:
            with suppress(CfetchError):
                await step()

        task = asyncio.create_task(carry_out())
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)
        return task

    def undo(self, key: str, after: "asyncio.Task[None]") -> None:
        """Only what this run has put: another object may stand there, old or new."""
        self._in_turn(key, partial(self._undo, key, after))

    async def _undo(self, key: str, after: "asyncio.Task[None]") -> None:
        await asyncio.wait([after])
        found = await self.store.look(key)
        if found is not None and found.about is not None and found.about.run == self.run_id:
            await self._delete(key)

    async def _delete(self, key: str) -> None:
        self._confirm()
        await self.store.delete([key])

    def _in_turn(self, key: str, step: Callable[[], Awaitable[None]]) -> None:
        before = self._clearing.get(key)

        async def then() -> None:
            if before is not None:
                await asyncio.wait([before])
            await step()

        def over(task: "asyncio.Task[None]") -> None:
            if self._clearing.get(key) is task:
                del self._clearing[key]

        self._clearing[key] = self.tidy(then)
        self._clearing[key].add_done_callback(over)

    async def cleared(self, key: str) -> None:
        """Wait for what was to be put or deleted under ``key`` until now: what comes next is to last."""
        clearing = self._clearing.get(key)
        if clearing is not None:
            await asyncio.wait([clearing])

    def rests(self, part: ObjectPart) -> None:
        """Beyond ``MAX_HELD_BYTES`` those that wait longest let go of what they hold."""
        self._resting[part] = None
        held_bytes = sum(one.held_bytes for one in self._resting)
        while held_bytes > MAX_HELD_BYTES:
            oldest = next(iter(self._resting))
            del self._resting[oldest]
            held_bytes -= oldest.held_bytes
            oldest.shed()

    def goes_on(self, part: ObjectPart) -> None:
        """It is not to let go of anything now."""
        self._resting.pop(part, None)


def _mark_of(batch: str) -> str:
    return f"{BEGUN}/{batch}"


def _record_of(batch: str) -> str:
    return f"{STATE_NAME}/{BATCHES}/{batch}.json"
