"""Deals whole batches out to tasks, for several volumes: ``engine/placement/`` says which volume each gets.

A share is batches for one volume. A share that a volume refuses is dissolved, and those of its batches that
are not in place wait for another volume. All of this happens in an event loop of its own; other threads ask
and wait.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import count
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from cfetch.base.errors import LocalFault, Vanished, VolumeFault
from cfetch.base.events import Event, VolumeView
from cfetch.base.threads import start_thread
from cfetch.manifest.plan import Plan
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.cut import MICRO, MOST_FILES, choose_target
from cfetch.tasks.shares.dealing import ShareSource, Units
from cfetch.tasks.shares.placed_batches import PlacedBatches, Placing
from cfetch.tasks.shares.protocol import Committed, Failed, Fenced, Phase
from cfetch.tasks.shares.protocol import Event as UnitEvent
from cfetch.tasks.shares.work import Share, Turn

T = TypeVar("T")
P = ParamSpec("P")
Brought = Callable[[], Mapping[int, tuple[int, int]]]
"""By task: the files and bytes that it has brought until now."""


class _Dealt(NamedTuple):
    """A share: ``members`` are the entries of each of its ``batches`` that go to ``volume``."""

    volume: int
    batches: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]

    def pair(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each batch with its entries."""
        return zip(self.batches, self.members, strict=True)


class _LoopThread:
    """An event loop in a thread of its own, in which other threads let work be done."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = start_thread(self._serve, "placement")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


def _in_turn(
    step: "Callable[Concatenate[PlacedShares, P], Coroutine[Any, Any, T]]",
) -> "Callable[Concatenate[PlacedShares, P], T]":
    """Let other threads take a step in the loop of the shares, one step after the other."""

    async def take_turn(shares: "PlacedShares", *args: P.args, **named: P.kwargs) -> T:
        async with shares.lock:
            return await step(shares, *args, **named)

    def wait(shares: "PlacedShares", /, *args: P.args, **named: P.kwargs) -> T:
        return shares.loop.call(take_turn(shares, *args, **named))

    return wait


class PlacedShares(ShareSource):
    """Implements ``ShareSource`` for a run that has several volumes and all batches of its plan for itself.

    It knows which tasks have shares, and what these are; ``PlacedBatches`` knows which batches wait, and for
    what. ``account`` knows the entries that have ended; ``now_s`` is the run's clock.
    """

    def __init__(
        self,
        plan: Plan,
        placing: Placing,
        account: Account,
        now_s: Callable[[], float],
        brought: Brought,
        happened: Iterable[Event] = (),
    ) -> None:
        self._plan = plan
        self._placing = placing
        self._account = account
        self._brought = brought
        self._tasks = count(1)
        self._units = Units(now_s)
        self._dealt: list[_Dealt] = []
        self._dealt_for = Counter[int]()  # shares by volume
        self._at_work: dict[int, int] = {}  # the share of each task that has one
        self._lost: list[int] = []  # shares that their tasks have lost, and nobody has yet
        self._events: deque[Event] = deque(happened)
        self._is_over = False
        self.loop = _LoopThread()
        self.lock = asyncio.Lock()
        self._batches = self.loop.call(self._open(now_s))

    @property
    def fault(self) -> LocalFault | None:
        """The fault with which the run ends: batches were given up, or files have gone."""
        return self._batches.fault

    @_in_turn
    async def take(self, volumes: Collection[int] | None = None) -> Turn | None:
        """Take batches for a volume that has work, or a copy of a share whose task stands still.

        ``volumes``: only for one of these, as whoever asks sees no other.
        """
        batches = self._batches
        volumes = batches.volumes if volumes is None else volumes
        for share in self._lost:
            if self._dealt[share].volume in volumes:
                self._lost.remove(share)
                return self._claim(share)
        while True:
            batches.assign()
            for volume in sorted(volumes, key=self._count_shares):
                if (dealt := await self._deal(volume)) is not None:
                    self._dealt.append(dealt)
                    self._dealt_for[volume] += 1
                    return self._claim(self._units.add(volume))
            if batches.waiting.is_over:
                if not self._is_over:
                    await batches.confirm()
                self._is_over = True
                return None
            if not batches.waiting.wants_more():
                return self._claim(self._units.find_silent(volumes))
            await batches.waiting.arrive()

    @_in_turn
    async def take_again(self, turn: Turn) -> Turn | None:
        """Take the same share as another task: this one has been reaped, so it is past the fence."""
        await self._step_to_end(turn, self._fence(turn))
        return self._claim(turn.share)

    @_in_turn
    async def bury(self, turn: Turn) -> None:
        """Let the next one who asks have the share: its task is past the fence, and was no child of this run.

        All receipts of the task have been read.
        """
        await self._step_to_end(turn, self._fence(turn))
        if self._units[turn.share].phase is Phase.OPEN:
            self._lost.append(turn.share)

    def renew(self, turn: Turn) -> None:
        """Lengthen the task's lease, at once."""
        self.loop.call(self._renew(turn))

    @_in_turn
    async def end(self, turn: Turn) -> None:
        """Count the batches of the share, unless a copy of its task was faster."""
        await self._step_to_end(turn, Committed(turn.task))

    @_in_turn
    async def move(self, turn: Turn, fault: VolumeFault) -> bool:
        """Dissolve a share that its volume refuses, once all receipts of its task have been read."""
        if isinstance(fault, Vanished):
            await self._batches.confirm(fault, self._dealt[turn.share].volume)
            return False
        self._at_work.pop(turn.task, None)
        self._units.step(turn.share, Failed(turn.task, is_final=True))
        if self._units[turn.share].is_over:  # otherwise a copy has it
            dealt = self._dealt[turn.share]
            await self._batches.refuse(dealt.volume, dealt.pair(), fault)
        return True

    def is_mine(self, turn: Turn) -> bool:
        """Whether no copy of the task has brought the share."""
        return not self._units[turn.share].is_over

    def is_over(self) -> bool:
        """Whether all batches are over."""
        return self._is_over

    def fill(self, turn: Turn) -> Share:
        """The content of a share: the batches of it that are not over, each of them whole."""
        dealt = self._dealt[turn.share]
        left = [members for members in dealt.members if not self._have_ended(members)]
        entries = [self._plan.entry(index) for members in left for index in members]
        return Share(entries, self._placing.slots, tuple(map(len, left)), dealt.volume)

    def find_volume(self, task: int) -> int | None:
        """The volume of a task's share."""
        share = self._at_work.get(task)
        return None if share is None else self._dealt[share].volume

    def take_events(self) -> list[Event]:
        """What has happened since the last call."""
        return [self._events.popleft() for _ in range(len(self._events))]

    def views(self) -> list[VolumeView]:
        """The volumes at this moment."""
        return self._batches.watch.views(self._account.done_bytes)

    def close(self) -> None:
        """Remove what other volumes have of batches that are whole, and let go of the volumes."""
        self.loop.call(self._batches.close())
        self.loop.close()

    # in the loop

    async def _open(self, now_s: Callable[[], float]) -> PlacedBatches:
        batches = PlacedBatches(self._plan, self._placing, self._has_ended, now_s, self._events)
        await batches.open(self._count_landed)
        return batches

    async def _deal(self, volume: int) -> _Dealt | None:
        """Make a share of batches for one volume, as long as shares are to be; None: there are none."""
        pace, target_s, cost_s = self._placing.pace, self._target_s, 0.0
        dealt: dict[int, tuple[int, ...]] = {}
        while cost_s < target_s and sum(map(len, dealt.values())) < MOST_FILES:
            begun = await self._batches.begin(volume)
            if begun is not None:
                dealt[begun.number] = begun.members
                cost_s += pace.cost_s(len(begun.members), begun.missing_bytes)
            elif dealt and self._batches.may_go_on(volume):
                await self._batches.waiting.arrive()
                self._batches.assign()
            else:
                break
        return _Dealt(volume, tuple(dealt), tuple(dealt.values())) if dealt else None

    @cached_property
    def _target_s(self) -> float:
        """How long a share should take: a plan of millions of sizes is added up once, not for each share."""
        sizes = self._plan.sizes
        total_s = self._placing.pace.cost_s(len(sizes), sum(size for size in sizes if size > 0))
        return choose_target(total_s, max(self._placing.slots, len(self._batches.volumes))) / MICRO

    def _has_ended(self, index: int) -> bool:
        return self._plan.entry(index).id in self._account

    def _have_ended(self, members: Iterable[int]) -> bool:
        return all(map(self._has_ended, members))

    def _count_landed(self) -> dict[int, tuple[int, int]]:
        """Return for each task at work its volume, and the bytes that it has brought."""
        at_work = self._at_work
        return {
            task: (self._dealt[at_work[task]].volume, size_bytes)
            for task, (_, size_bytes) in self._brought().items()
            if task in at_work
        }

    def _count_shares(self, volume: int) -> tuple[int, int]:
        """Count the shares that tasks bring to a volume now, and all that were dealt for it.

        With fewer tasks than volumes the second tells which comes next. Otherwise the first ones would be
        given the batches of those that wait.
        """
        now = sum(self._dealt[share].volume == volume for share in self._at_work.values())
        return now, self._dealt_for[volume]

    def _claim(self, share: int | None) -> Turn | None:
        turn = None if share is None else self._units.claim(share, next(self._tasks))
        if turn is not None:
            self._at_work[turn.task] = turn.share
        return turn

    def _fence(self, turn: Turn) -> Fenced:
        """The task is past the fence; its share stands if all of its entries have ended."""
        return Fenced(turn.task, stands=all(map(self._have_ended, self._dealt[turn.share].members)))

    async def _renew(self, turn: Turn) -> None:
        self._units.renew(turn.share, turn.task)

    async def _step_to_end(self, turn: Turn, event: UnitEvent) -> None:
        """Take a step after which the task has the share no more; count its batches if it is committed."""
        self._at_work.pop(turn.task, None)
        self._units.step(turn.share, event)
        if self._units[turn.share].is_over:
            dealt = self._dealt[turn.share]
            await self._batches.finish(dealt.volume, dealt.pair())
