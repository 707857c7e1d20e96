"""The hub of all frames of a driver: their tasks report there, as those of a run do, and ask for fresh links.

A frame is evaluated whenever its user likes, so one hub serves all frames for as long as the program runs. A
beat states the frame and the limits of its settings, and each frame has a registry of its own.

The driver renews links for tasks: it alone has the login, and each link is asked for once. Links are not
encrypted on the way, as the rows that bring them are not; where Spark encrypts, the tasks ask the source
themselves. A frame whose tasks cannot reach the hub has the same result, with a fixed part of each limit.
"""

import asyncio
from contextlib import ExitStack, suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.base.clock import SystemClock
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.errors import Refused, SourceError, Transient
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import Entry
from cfetch.plugins.spark.frames.renewing import LinkSource
from cfetch.plugins.spark.job import find_driver_address
from cfetch.tasks.hub.connection import connect
from cfetch.tasks.hub.messages import MOST_BEAT_BYTES, HubAddress, Orders, Question, TaskBeat
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from cfetch.wire.fresh_link import Link, UrlRefresher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_S = 300.0  # the user's function may wait for a server, and for other calls before this one
KEPT_S = 3600.0  # a frame without tasks for so long is forgotten, with what it had learned of hosts


class _LinkQuestion(msgspec.Struct, frozen=True):
    number: int
    entry: Entry
    stale: Link


class _LinkAnswer(msgspec.Struct, frozen=True):
    """``link`` None: ``refusal`` says why; ``is_passing``: it may be had later."""

    link: Link | None = None
    refusal: str = ""
    is_passing: bool = False


class FrameRegistry(TaskRegistry):
    """The registries of all frames, by the limits that beats state."""

    def __init__(self) -> None:
        super().__init__(StragglerConfig(), None)
        self._frames: dict[str, tuple[TaskRegistry, float]] = {}  # with the time of the last beat

    def answer(self, beat: TaskBeat, now_s: float) -> Orders:
        """Take in the beat of a task of some frame. Returns the orders for it."""
        limits = beat.limits
        if limits is None:
            return super().answer(beat, now_s)
        registry, _ = self._frames.get(limits.run, (None, 0.0))
        if registry is None:
            self._frames = {run: kept for run, kept in self._frames.items() if now_s - kept[1] < KEPT_S}
            registry = TaskRegistry(limits.config, limits.per_host, limits.rates)
        self._frames[limits.run] = registry, now_s
        return registry.answer(beat, now_s)


class FrameHub:
    """Listens at ``place`` until the program ends. Raises OSError: it cannot."""

    def __init__(self, place: HubPlace) -> None:
        self._stack = ExitStack()  # as long as the hub, which is as long as the program
        self._sources: list[LinkSource] = []
        self._open: dict[int, UrlRefresher] = {}
        hub = self._stack.enter_context(open_hub(FrameRegistry(), place, SystemClock()))
        hub.answer_by(self._find_link)
        self.address = hub.address._replace(is_shared=True)

    def add(self, source: LinkSource) -> "LinkAddress":
        """Serve the source of links too; the address is for its tasks."""
        self._sources.append(source)
        return LinkAddress(self.address, len(self._sources) - 1)

    async def _find_link(self, data: bytes) -> _LinkAnswer:
        question = msgspec.msgpack.decode(data, type=_LinkQuestion)
        if not 0 <= question.number < len(self._sources):
            return _LinkAnswer(refusal="the driver has no such source of links")
        try:
            source = self._open.get(question.number)
            if source is None:
                source = self._open[question.number] = self._sources[question.number].open(self._stack)
            return _LinkAnswer(await source.refresh(question.entry, question.stale))
        except SourceError as error:
            return _LinkAnswer(refusal=str(error), is_passing=isinstance(error, Transient))


_open = cache(FrameHub)


def open_frame_hub(spark: "SparkSession") -> FrameHub | None:
    """The hub of this driver, which is opened once; None: tasks cannot reach it, as with Connect.

    Raises UsageError: the port is none.
    """
    place = find_driver_address(spark)
    if place is not None:
        with suppress(OSError):  # such as a port that is taken
            return _open(place)
    return None


class LinkAddress(NamedTuple):
    """Where a task asks the driver for links. ``number``: which source of the hub's."""

    hub: HubAddress
    number: int

    def open(self, _: ExitStack) -> UrlRefresher:
        """Open the driver as a source, as ``LinkSource.open`` does."""
        return self

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask(entry, stale)
        except (OSError, EOFError, TimeoutError, *NOT_DECODED) as error:
            raise Transient(
                f"the driver, which renews links, cannot be asked ({type(error).__name__}); executors must "
                "reach it at spark.driver.host"
            ) from None
        if answer.link is None:
            raise Transient(answer.refusal) if answer.is_passing else Refused(answer.refusal)
        return answer.link

    async def _ask(self, entry: Entry, stale: Link) -> _LinkAnswer:
        async with connect(self.hub, within_s=ANSWER_S) as hub:
            hub.write(Question(data=msgspec.msgpack.encode(_LinkQuestion(self.number, entry, stale))))
            return msgspec.msgpack.decode(await hub.read(MOST_BEAT_BYTES), type=_LinkAnswer)
