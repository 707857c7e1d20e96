"""Reads a feed to its end while its ranges split and merge: each change once, changes of a key in order.

It keeps a token for each piece of its keys, and reads a page for one after the other. A step takes effect
only when it returns: a step that fails or is cancelled has read nothing.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Self

from cfetch.base.clock import Clock
from cfetch.base.errors import FeedError, FeedReplaced, HostileFeed, SourceError, Transient
from cfetch.plugins.follow.cache import RouteCache, ask_first_listing, ask_in_turn
from cfetch.plugins.follow.checkpoint import Checkpoint
from cfetch.plugins.follow.lineage import Lineage, list_merged, show_range
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position
from cfetch.plugins.follow.route import Route, Token, make_first_tokens, narrow_token, route, settle_token
from cfetch.plugins.follow.source import Change, FeedSource, Gone, NotModified, Page

AGAIN_S = (1.0, 2.0, 4.0)  # pauses after a Gone without any news; then the step fails
MAX_GONE = 100  # in one step, with news each time: no feed splits that fast
BATCH = 256  # tokens whose requests are prepared together
MAX_STILL = 1000  # pages of a token that neither bring changes nor move it on
LAG_S = 300.0  # at the end of a feed, an archive may lag behind by this much


def make_lag_error() -> Transient:
    """Make the error of a caller that has waited for an archive for ``LAG_S``."""
    return Transient(f"an archive of the feed has lagged behind for {LAG_S:g} s; try again later")


_Answer = Page | Gone | NotModified | SourceError | FeedError


class ReadStep(NamedTuple):
    """The result of one request: ``changes`` of ``range``, of which the reader asked for ``keys``."""

    range: str
    keys: KeyRange
    changes: tuple[Change, ...]


async def _ask_starts(source: FeedSource, lineage: Lineage) -> dict[str, int]:
    """Ask for the oldest kept LSN of each closed range whose ancestors are not certain.

    Without an answer the range is entered at its first LSN, which may not be kept any more.
    """
    starts: dict[str, int] = {}
    for name in list_merged(lineage):
        for heir in reversed(lineage.heirs(name)):
            with suppress(SourceError):
                page = await source.read(heir.id, Position(name, 0), ALL_KEYS, 1)
                if isinstance(page, Page):
                    oldest = page.changes[0].lsn if page.changes else page.next_lsn
                    starts[name] = max(oldest, lineage.first_lsn(name))
                    break
    return starts


class Reader:
    """A follower has one; many may share a source and a cache. Only one task may call its methods."""

    def __init__(
        self,
        source: FeedSource,
        cache: RouteCache,
        clock: Clock,
        begin: Checkpoint,
        *,
        limit: int = 1000,
    ) -> None:
        self.pages = 0
        self.gone = 0
        self._source = source
        self._cache = cache
        self._clock = clock
        self._limit = limit
        self._keys = begin.keys
        self._lineage = begin.lineage
        self._tokens = deque(begin.tokens)
        self._starts = begin.starts
        self._idle = 0  # steps in a row that brought nothing and were at the end
        self._still = 0

    @classmethod
    async def open(
        cls,
        source: FeedSource,
        cache: RouteCache,
        clock: Clock,
        *,
        checkpoint: Checkpoint | None = None,
        keys: KeyRange = ALL_KEYS,
        limit: int = 1000,
    ) -> Self:
        """Continue from ``checkpoint``, or begin with the oldest kept entries of ``keys``.

        Raises:
            SourceError: the feed does not answer.
            FeedReplaced: the checkpoint belongs to another feed.
            HostileFeed: the feed's ranges are not in order.
        """
        listing = await ask_first_listing(source)
        if checkpoint is None:
            lineage = await cache.begin(source, listing)
            starts = await _ask_starts(source, lineage)
            checkpoint = Checkpoint(lineage, keys, make_first_tokens(lineage, keys), starts=starts)
        elif listing.feed != checkpoint.feed:
            raise FeedReplaced(
                "the checkpoint is of another feed, which was deleted, or made anew under its name"
            )
        return cls(source, cache, clock, checkpoint, limit=limit)

    @property
    def tokens(self) -> int:
        """The number of pieces of its keys, each of which is read on its own."""
        return len(self._tokens)

    @property
    def is_idle(self) -> bool:
        """Whether a whole round over all tokens has just brought nothing: it is time to wait."""
        return self._idle >= len(self._tokens)

    @property
    def is_at_end(self) -> bool:
        """Whether all entries have been read. A token in an archive that lags is not at its end."""
        return self.is_idle and not any(
            token.position.range in self._lineage.closed for token in self._tokens
        )

    def checkpoint(self, pending: tuple[Change, ...] = ()) -> Checkpoint:
        """The reader's position: all changes of the steps so far are before it."""
        is_beyond = all(token.position.range not in self._lineage.closed for token in self._tokens)
        starts = {} if is_beyond else self._starts
        return Checkpoint(self._lineage, self._keys, tuple(sorted(self._tokens)), pending, starts)

    async def step(self) -> ReadStep:
        """Read a page for the token whose turn it is; then the next token has its turn.

        Raises:
            SourceError: there is no answer now; another step may continue with the next token.
            FeedReplaced, CheckpointExpired, HostileFeed: the feed cannot be read any further.
        """
        without_news = 0
        if self.is_idle:  # a round is over, and another begins
            self._idle = 0
        for _ in range(MAX_GONE):
            try:
                way = await self._choose_route()
                answer = await self._read(way)
                if not isinstance(answer, Gone):
                    return self._take_answer(way, answer)
                self.gone += 1
                stale = self._lineage
                self._adopt(await self._cache.beyond(self._source, stale))
                if self._lineage.generation == stale.generation:
                    if without_news == len(AGAIN_S):
                        raise Transient(
                            f"{show_range(way.via)} is said to be gone, but nothing has taken its place: "
                            "try again later"
                        )
                    await self._clock.sleep(AGAIN_S[without_news])
                    without_news += 1
            except SourceError:
                self._idle = 0
                self._tokens.rotate(-1)
                raise
        raise HostileFeed(f"the feed said {MAX_GONE} times in a row that its ranges are gone")

    async def steps(self) -> list[ReadStep | SourceError]:
        """Do several steps, whose requests are sent at the same time if the source allows it.

        A SourceError takes the place of a step that had no answer; the next token has its turn then.

        Raises:
            FeedReplaced, CheckpointExpired, HostileFeed: as ``step``, and none of these steps was done.
        """
        batch: list[tuple[Token, Route]] = []
        if self._cache.is_enabled and self._source.reads_at_once > 1:
            self._idle = 0 if self.is_idle else self._idle
            # each read counts once: here if it is one of several, else where a single step asks again
            self._adopt(await self._cache.current(self._source, self._lineage, reads=0))
            batch = self._settle_batch()
        if len(batch) < 2:
            return [await self._step_or_error()]
        self._cache.count_reads(self._lineage, len(batch))
        answers = await self._read_batch([way for _, way in batch])
        steps: list[ReadStep | SourceError] = []
        for (token, way), answer in zip(batch, answers, strict=True):
            if self._tokens[0] is not token or answer is None or isinstance(answer, Gone):
                break  # it was joined with another, or is asked again by the next step
            try:
                steps.append(self._take_any(way, answer))
            except FeedError:
                if not steps:
                    raise
                break  # the next call raises it
        return steps or [await self._step_or_error()]

    async def _step_or_error(self) -> ReadStep | SourceError:
        try:
            return await self.step()
        except SourceError as error:
            return error

    def _settle_batch(self) -> list[tuple[Token, Route]]:
        """Find the next pages of several tokens, as ``_choose_route`` does; fewer where that fails."""
        pieces: list[Token] = []
        count = 0
        for token in islice(self._tokens, min(BATCH, len(self._tokens) - self._idle)):
            try:
                pieces += settle_token(self._lineage, token, self._starts)
            except FeedError:
                break
            count += 1
        for _ in range(count):
            self._tokens.popleft()
        self._tokens.extendleft(reversed(pieces))
        return [(piece, route(self._lineage, piece)) for piece in pieces[:BATCH]]

    async def _read_batch(self, ways: Sequence[Route]) -> list[_Answer | None]:
        """Read pages at the same time; None for those that are too many for the memory."""
        answers: list[_Answer | None] = [None] * len(ways)
        waiting = iter(enumerate(ways))
        changes = 0

        async def work() -> None:
            nonlocal changes
            for number, way in waiting:
                try:
                    answer: _Answer = await self._read(way)
                except (SourceError, FeedError) as error:
                    answer = error
                answers[number] = answer
                changes += len(answer.changes) if isinstance(answer, Page) else 0
                if changes >= self._limit:
                    break

        await asyncio.gather(*(work() for _ in range(min(self._source.reads_at_once, len(ways)))))
        return answers

    def _take_any(
        self, way: Route, answer: Page | NotModified | SourceError | FeedError
    ) -> ReadStep | SourceError:
        """Do the step of the first token with its answer. Raises FeedError if that is the answer."""
        if isinstance(answer, FeedError):
            raise answer
        if isinstance(answer, SourceError):
            self._idle = 0
            self._tokens.rotate(-1)
            return answer
        return self._take_answer(way, answer)

    async def _choose_route(self) -> Route:
        """Find the next page.

        The first token moves to it, and several tokens take its place if it divides.
        """
        self._adopt(await self._cache.current(self._source, self._lineage))
        name = self._tokens[0].position.range
        if not self._lineage.heirs(name):  # the cached lineage may be older than this reader's
            self._adopt(await self._cache.beyond(self._source, self._lineage))
        moved = settle_token(self._lineage, self._tokens[0], self._starts)
        self._tokens.popleft()
        self._tokens.extendleft(reversed(moved))
        return route(self._lineage, moved[0])

    def _adopt(self, lineage: Lineage) -> None:
        """Use a lineage: divide the tokens in ranges that have just closed among the ranges' heirs."""
        if lineage is not self._lineage:
            was_closed = self._lineage.closed
            tokens: deque[Token] = deque()
            for token in self._tokens:
                name = token.position.range
                has_ended = name in lineage.closed and name not in was_closed
                tokens.extend(narrow_token(lineage, token) if has_ended else (token,))
            self._tokens = tokens
            self._lineage = lineage

    async def _read(self, way: Route) -> Page | Gone | NotModified:
        """Ask the range that the route names, or the others that archive the same."""
        return await ask_in_turn(
            lambda via: self._source.read(via, way.position, way.keys, self._limit), (way.via, *way.others)
        )

    def _take_answer(self, way: Route, answer: Page | NotModified) -> ReadStep:
        token = self._tokens[0]
        name = token.position.range
        if isinstance(answer, NotModified):
            self._idle += 1
            self._still = 0
            self._tokens.rotate(-1)
            self._fuse_tokens()
            return ReadStep(name, way.keys, ())
        self._check_page(way, answer)
        next_lsn = max(answer.next_lsn, token.position.next_lsn)
        is_still = not answer.changes and answer.next_lsn <= way.position.next_lsn
        closed = self._lineage.closed.get(name)
        is_new = token.is_new and not answer.changes and (is_still or bool(closed and next_lsn > closed.last))
        self._still = self._still + 1 if is_still else 0
        if self._still > MAX_STILL * len(self._tokens):
            raise HostileFeed(f"{show_range(name)} brings page after page without anything")
        mark = answer.mark if next_lsn == answer.next_lsn else token.position.mark
        self._tokens[0] = Token(token.keys, Position(name, next_lsn, mark), is_new)
        self._tokens.rotate(-1)
        self._idle = 0
        self.pages += 1
        return ReadStep(name, way.keys, answer.changes)

    def _check_page(self, way: Route, page: Page) -> None:
        """Check that a page is the requested one, and does not go back."""
        name, asked_lsn, _ = way.position
        closed = self._lineage.closed.get(name)
        last_lsn = max(asked_lsn, self._tokens[0].position.next_lsn) - 1
        for change in page.changes:
            if change.lsn <= last_lsn:
                raise HostileFeed(f"{show_range(name)} goes back: LSN {change.lsn} comes after {last_lsn}")
            if not way.keys.holds(change.key):
                raise HostileFeed(
                    f"{show_range(name)} has other keys than were asked for at LSN {change.lsn}"
                )
            last_lsn = change.lsn
        if closed and page.changes and last_lsn > closed.last:
            raise HostileFeed(f"{show_range(name)} ended at LSN {closed.last}, but has LSN {last_lsn}")
        if page.next_lsn <= last_lsn if page.changes else page.next_lsn < asked_lsn:
            raise HostileFeed(
                f"{show_range(name)} goes back: its page says to read on from LSN {page.next_lsn}"
            )
        if len(page.changes) > self._limit:
            raise HostileFeed(
                f"{show_range(name)} brought {len(page.changes)} changes, {self._limit} were asked for"
            )

    def _fuse_tokens(self) -> None:
        """After a merge, join the token that was just read with a neighbour at the same position."""
        token = self._tokens[-1]
        leaf = self._lineage.leaf(token.position.range)
        if leaf is not None and leaf.keys == token.keys:  # it has no neighbour in its range
            return
        for number, other in enumerate(self._tokens):
            is_beside = other.keys.high == token.keys.low or other.keys.low == token.keys.high
            if is_beside and other[1:] == token[1:]:
                keys = KeyRange(min(token.keys.low, other.keys.low), max(token.keys.high, other.keys.high))
                self._idle -= number >= len(self._tokens) - self._idle  # two idle tokens became one
                self._tokens[-1] = token._replace(keys=keys)
                del self._tokens[number]
                return
