"""The lineages of feeds, so that readers need not ask for them again.

Each feed has one immutable lineage, with its generation (the etag of the listing). It is built when a split
is proven: by a Gone, or by ancestors in the listing that a reader begins with. After that a Gone refreshes
it, once for all readers that got one. A refresh that fails changes nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from cfetch.base.clock import Clock
from cfetch.base.errors import HostileFeed, SourceError, Transient
from cfetch.base.events import Listener, RouteEvent
from cfetch.plugins.follow.lineage import Lineage, check_ranges, grow_lineage, list_closed_ids
from cfetch.plugins.follow.ranges import Range, Span
from cfetch.plugins.follow.source import FeedId, FeedSource, Gone, NotModified, Ranges

FEEDS = 64  # one process rarely follows more, and a lineage of a thousand ranges takes under 1 MB
AT_ONCE = 16  # requests for LSNs: a lineage of 64 ranges takes four round trips, and no backend is flooded
ARCHIVES = 3  # live ranges that archive the same range and are asked in turn, if the first is down
RELIST_S = (0.5, 1.0, 2.0)  # a listing has gaps or overlaps until a split is done

T = TypeVar("T")
_Outcome = Literal["hit", "miss", "build", "refresh", "stale"]


async def ask_first_listing(source: FeedSource) -> Ranges:
    """Ask a source for its ranges, which is the first request. Raises SourceError, HostileFeed."""
    listing = await source.ranges(None)
    if isinstance(listing, NotModified):
        raise HostileFeed("the feed says that its ranges have not changed, in its first answer")
    return listing


async def ask_in_turn(ask: Callable[[str], Awaitable[T]], archives: Sequence[str]) -> T:
    """Ask the first of several live ranges that archive the same; ask another if it is down.

    Raises SourceError: the answer of the last one.
    """
    *first, last = archives[:ARCHIVES]
    for via in first:
        with suppress(SourceError):
            return await ask(via)
    return await ask(last)


@dataclass
class CacheCounts:
    """Counts the work of a cache. ``info_requests_saved``: the requests for a lineage at each read."""

    hits: int = 0
    misses: int = 0
    builds: int = 0
    refreshes: int = 0
    stale: int = 0
    info_requests: int = 0
    info_requests_saved: int = 0


class _Flight:
    """A build or refresh under way, and how many wait for it."""

    def __init__(self, task: "asyncio.Task[Lineage]") -> None:
        self.task = task
        self.waiters = 0
        task.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # if no waiter is left, nobody else reads the exception


class RouteCache:
    """Shared by all readers of a process. ``enabled=False`` asks for every closed range at every read."""

    def __init__(
        self, clock: Clock, *, enabled: bool = True, feeds: int = FEEDS, listener: Listener | None = None
    ) -> None:
        self.counts = CacheCounts()
        self._clock = clock
        self._began_s = clock.monotonic()
        self._enabled = enabled
        self._most = feeds
        self._listener = listener
        self._lineages: OrderedDict[FeedId, Lineage] = OrderedDict()
        self._flights: dict[FeedId, _Flight] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether lineages are kept."""
        return self._enabled

    @property
    def feeds(self) -> int:
        """The number of feeds whose lineage is kept."""
        return len(self._lineages)

    async def begin(self, source: FeedSource, listing: Ranges) -> Lineage:
        """The lineage for a reader that has none. A feed that never split is neither asked nor kept."""
        if not self._enabled or not any(live.ancestors for live in listing.ranges):
            return await self._grow(source, None, listing)
        if listing.feed in self._lineages:
            return self._count_hit(self._lineages[listing.feed])
        return await self._await_refresh(source, listing.feed, None, listing)

    async def current(self, source: FeedSource, own: Lineage, *, reads: int = 1) -> Lineage:
        """The lineage for one read by a reader that has ``own``; 0 ``reads`` are counted by ``count_reads``.

        Raises:
            HostileFeed: the cache is disabled, and the feed's answers about the past have changed.
        """
        if not self._enabled:
            return await self._ask_anew(source, own) if own.closed else own
        cached = self._lineages.get(own.feed)
        if cached is own:
            return self._count_hit(own, reads)
        if own.closed and (cached is None or any(live.id in own.closed for live in cached.live)):
            cached = self._keep(own)
        return self._count_hit(cached, reads) if cached else own

    async def beyond(self, source: FeedSource, stale: Lineage) -> Lineage:
        """A newer lineage than ``stale``, which led to a Gone; the same if the feed has no news.

        Raises:
            SourceError, FeedReplaced, HostileFeed: there is none; the cached lineage stays.
        """
        if not self._enabled:
            return await self._grow(source, stale, None)
        self.counts.stale += 1
        self._emit("stale", stale.feed, stale.generation)
        cached = self._lineages.get(stale.feed)
        if cached and cached.generation != stale.generation:
            return cached  # another reader was faster
        return await self._await_refresh(source, stale.feed, stale, None)

    def count_reads(self, lineage: Lineage, reads: int) -> None:
        """Count reads for which ``lineage`` was known."""
        if self._lineages.get(lineage.feed) is lineage:
            self._count_hit(lineage, reads)

    def _count_hit(self, lineage: Lineage, reads: int = 1) -> Lineage:
        self._lineages.move_to_end(lineage.feed)
        if not reads:
            return lineage
        self.counts.hits += reads
        self.counts.info_requests_saved += len(lineage.closed) * reads
        self._emit("hit", lineage.feed, lineage.generation, len(lineage.closed) * reads)
        return lineage

    def _keep(self, lineage: Lineage) -> Lineage:
        if lineage.closed:
            self._lineages[lineage.feed] = lineage
            self._lineages.move_to_end(lineage.feed)
            while len(self._lineages) > self._most:
                self._lineages.popitem(last=False)
        return lineage

    async def _await_refresh(
        self, source: FeedSource, feed: FeedId, known: Lineage | None, listing: Ranges | None
    ) -> Lineage:
        """Wait for the build or refresh of this feed that is under way, or begin one."""
        flight = self._flights.get(feed)
        if not flight:
            flight = _Flight(asyncio.create_task(self._run_flight(source, feed, known, listing)))
            self._flights[feed] = flight
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                self._end_flight(feed, flight.task)
                flight.task.cancel()

    async def _run_flight(
        self, source: FeedSource, feed: FeedId, known: Lineage | None, listing: Ranges | None
    ) -> Lineage:
        before = self.counts.info_requests
        is_build = feed not in self._lineages
        if is_build:
            self.counts.misses += 1
            self._emit("miss", feed, known.generation if known else "")
        try:
            lineage = self._keep(await self._grow(source, known, listing))
        finally:
            self._end_flight(feed, asyncio.current_task())
        if not is_build:
            self.counts.refreshes += 1
        elif lineage.closed:
            self.counts.builds += 1
        self._emit(
            "build" if is_build else "refresh", feed, lineage.generation, self.counts.info_requests - before
        )
        return lineage

    def _end_flight(self, feed: FeedId, task: "asyncio.Task[Lineage] | None") -> None:
        flight = self._flights.get(feed)
        if flight and flight.task is task:
            del self._flights[feed]

    async def _grow(self, source: FeedSource, known: Lineage | None, listing: Ranges | None) -> Lineage:
        """Add to ``known`` the ranges that have been closed since.

        A listing that contradicts itself is asked for again.
        """
        for wait_s in (*RELIST_S, None):
            if listing is None and known:
                answer = await source.ranges(known.generation)
                if isinstance(answer, NotModified):
                    return known
            else:
                answer = listing or await ask_first_listing(source)
            listing = None
            try:
                if known and answer.feed != known.feed:
                    return grow_lineage(known, answer, {})  # always raises FeedReplaced
                live = check_ranges(answer.ranges)
                spans = await self._ask_spans(source, live, list_closed_ids(live, known))
                if spans is not None:
                    return grow_lineage(known, answer, spans)
            except HostileFeed:
                if wait_s is None:
                    raise
            if wait_s is not None:
                await self._clock.sleep(wait_s)
        raise Transient("the feed's ranges split faster than they can be listed: try again later")

    async def _ask_anew(self, source: FeedSource, own: Lineage) -> Lineage:
        """Ask for all spans of ``own`` again; if a range has gone meanwhile, its heirs are added."""
        spans = await self._ask_spans(source, own.live, tuple(sorted(own.closed)))
        if spans is None:
            return await self._grow(source, own, None)
        return grow_lineage(own, Ranges(own.feed, own.generation, own.live), spans)

    async def _ask_spans(
        self, source: FeedSource, live: Sequence[Range], names: Sequence[str]
    ) -> dict[str, Span] | None:
        """Ask which LSNs these closed ranges owned. None: a live range that was asked is gone by now."""
        spans: dict[str, Span] = {}
        heirs: dict[str, list[str]] = {}
        for leaf in live:
            for name in leaf.ancestors:
                heirs.setdefault(name, []).append(leaf.id)
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            asked = [self._ask_span(source, name, heirs[name]) for name in some]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for name, answer in zip(some, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                if isinstance(answer, Gone):
                    return None
                spans[name] = answer
        return spans

    async def _ask_span(self, source: FeedSource, name: str, heirs: Sequence[str]) -> Span | Gone:
        """Ask for a closed range's LSNs, the last heir by key first."""

        async def ask(via: str) -> Span | Gone:
            self.counts.info_requests += 1
            return await source.info(name, via)

        return await ask_in_turn(ask, heirs[::-1])

    def _emit(self, what: _Outcome, feed: FeedId, generation: str, requests: int = 0) -> None:
        if self._listener:
            t_s = self._clock.monotonic() - self._began_s
            self._listener(
                RouteEvent(t_s=t_s, what=what, feed=feed.id, generation=generation, requests=requests)
            )
