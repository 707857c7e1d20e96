"""Keep a directory in step with a feed: read, download, delete, and remember the position that was reached.

A step reads pages until there is enough to do, or nothing new. Its changes become rounds (``feed/steps``);
each round is a removable plan on the destination's timeline, and runs as any other. If a file cannot be had,
its change is *pending*: it is tried again later, until the file arrives or a later change of its path
replaces it. The journal (``feed/journal``) is written in an order that lets a follower die at any moment.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import (
    CfetchError,
    CheckpointExpired,
    FeedReplaced,
    HostileFeed,
    Interrupted,
    LocalFault,
    Refused,
    SourceError,
    StaleAnswer,
)
from cfetch.base.events import Listener
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.manifest.entry import SafePath
from cfetch.plugins.follow.backends.change_log import forget_log
from cfetch.plugins.follow.backends.opening import find_host, lists_all_files, open_feed
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import MAX_PENDING
from cfetch.plugins.follow.journal import STEP, Journal, JournalStep, locate_journal, name_feed
from cfetch.plugins.follow.link_hosts import LinkHosts
from cfetch.plugins.follow.ranges import key_of
from cfetch.plugins.follow.reader import LAG_S, Reader, make_lag_error
from cfetch.plugins.follow.snapshot import Snapshot
from cfetch.plugins.follow.source import Change, FeedSource
from cfetch.plugins.follow.steps import Round, keep_latest, plan_rounds
from cfetch.plugins.follow.tally import FollowTally
from cfetch.plugins.follow.use_cases.feed_plans import FeedPlans
from cfetch.plugins.follow.use_cases.follow_options import FollowOptions, check_options
from cfetch.plugins.follow.use_cases.follow_text import (
    end_text,
    generation_text,
    idle_text,
    moved_text,
    resync_text,
    step_text,
)
from cfetch.plugins.follow.use_cases.mirror import Mirror
from cfetch.plugins.follow.use_cases.own_files import OwnFiles, locate_own_files
from cfetch.plugins.monitors.telemetry import span_listener
from cfetch.run.directories import open_to_group, require_directory
from cfetch.run.signals import listen
from cfetch.run.stoppable import StoppableRunner
from cfetch.show.format import plural
from cfetch.storage.generations import Generations
from cfetch.wire.network import Network, make_network

STEP_CHANGES = 10_000  # a plan costs a tenth of a second, and a change some hundred bytes of memory
STEP_BYTES = 4 << 30  # a checkpoint every minute or so
STEP_S = 10.0  # and what has been read by then is brought: pages may be slow
STEP_ROW_BYTES = 32 << 20  # rows with many long mirrors or headers
RESYNC = (
    "with --resync, the same command compares the files here with the feed as it is now, and fetches those "
    "that differ"
)
ENCODE = msgspec.msgpack.Encoder().encode
PENDING_S = 60.0  # pause after which pending changes are tried again
NONSENSE_S = 600.0  # a feed may contradict itself for so long: servers behind a balancer are being updated
STALE_ONCE_S = 60.0  # patience of a single run: caches hold an answer for about a minute

T = TypeVar("T")


class Followed(NamedTuple):
    """The result of a follower; ``error`` ended it early, and is None if only a plan's own end did."""

    summary: Summary
    error: CfetchError | None


def follow(
    feed: str,
    settings: Settings,
    options: FollowOptions,
    *,
    env: Mapping[str, str],
    dashboard: Callable[[], AbstractContextManager[Listener]],
    emit_line: Callable[[str], None],
    clock: Clock | None = None,
) -> Followed:
    """Follow a feed until nothing is new (``once``) or a signal comes; open ``dashboard`` for each plan.

    Raises:
        UsageError: the feed's name or a setting is wrong.
        Held: another follower, or another run, is at work here.
        LocalFault: the journal cannot be written.
    """
    settings = replace(settings, metrics=None, failed_from=None, dry_run=False, engine="local", deadline=None)
    clock = clock or SystemClock()
    asked: set[str] = set()  # addresses of the feed
    network = msgspec.structs.replace(make_network(settings.network, env), addresses=asked)
    where = require_directory(settings, "follow")
    check_options(feed, settings, options, where)
    for note in network.notes:
        emit_line(note)
    generations = None
    if options.consistent is not None:
        generations = Generations(where.directories[0], options.consistent)
    open_to_group(where, settings)
    with ExitStack() as stack:
        directory = locate_journal(where.state, feed, where.roots)
        journal = stack.enter_context(Journal(directory, state=where.state))
        runner = stack.enter_context(asyncio.Runner())
        if options.resync:
            forget_log(journal.directory)
        begin_s = None if options.resync else journal.keep_begin(options.begin_s)
        source = runner.run(_open_source(feed, network, clock, journal.directory, emit_line, begin_s))
        stack.callback(lambda: runner.run(source.close()))
        hosts = LinkHosts(find_host(feed), options.allow_hosts, asked)
        own = stack.enter_context(OwnFiles(locate_own_files(directory)))
        mirror = Mirror(own, journal, name_feed(feed), settings, emit_line)
        name = printable(str(journal.directory / STEP), 1000)
        plans = FeedPlans(mirror, name, settings, env, dashboard, clock, hosts, options.max_delete)
        stack.callback(mirror.leave)
        mirror.claim()
        plans.clear_up()
        mirror.settle(tells_lack=not options.adopt)
        if options.adopt:
            mirror.adopt(options.paths)
        if options.resync:
            journal.begin_resync()
        if journal.keep_filter(options.paths):
            emit_line("feed: other paths are taken than before")
        stack.callback(plans.archive)
        return _Follower(
            source,
            journal,
            plans,
            generations,
            options,
            emit_line,
            clock,
            runner,
            lists_all=lists_all_files(feed),
        ).run()


async def _open_source(
    feed: str,
    network: Network,
    clock: Clock,
    directory: Path,
    emit_line: Callable[[str], None],
    begin_s: float | None,
) -> FeedSource:
    def tell_left_out(text: str) -> None:
        emit_line(f"feed: left out: {text}")

    return open_feed(
        feed,
        network=network,
        clock=clock,
        directory=directory,
        tell_left_out=tell_left_out,
        begin_s=begin_s,
    )


class _Follower:
    def __init__(
        self,
        source: FeedSource,
        journal: Journal,
        plans: FeedPlans,
        generations: Generations | None,
        options: FollowOptions,
        emit_line: Callable[[str], None],
        clock: Clock,
        runner: asyncio.Runner,
        *,
        lists_all: bool,
    ) -> None:
        self._source = source
        self._journal = journal
        self._plans = plans
        self._generations = generations
        self._options = options
        self._emit_line = emit_line
        self._clock = clock
        self._lists_all = lists_all
        self._cache = RouteCache(clock, enabled=options.route_cache, listener=span_listener())
        self._reader: Reader | None = None
        self._pending: dict[SafePath, Change] = {}
        self._tally = FollowTally()
        self._tried_s = clock.monotonic()  # when the pending changes were tried last
        self._is_last_word = False
        self._stop = StoppableRunner(runner)

    def run(self) -> Followed:
        """Follow the feed to its end, or until an error ends the follower; then sum up."""
        error: CfetchError | None = None
        began_s = self._clock.monotonic()
        with listen(self._stop.end):
            try:
                self._follow_steps()
            except (CheckpointExpired, FeedReplaced, StaleAnswer) as ended:
                error = type(ended)(f"{ended}; {RESYNC}")
            except CfetchError as ended:
                error = ended
        if error is not None and not isinstance(error, Interrupted):
            with suppress(LocalFault):  # perhaps the disk is the error
                self._journal.note_error(str(error), self._clock.wall())
        return Followed(self._sum_up(error, self._clock.monotonic() - began_s), error)

    def _sum_up(self, error: CfetchError | None, elapsed_s: float) -> Summary:
        """Make the summary, and say how the follower ended unless the command names the error."""
        reader, counts = self._reader, self._cache.counts
        feed = Summary.Feed(
            entries=self._tally.upserts,
            deletes=self._tally.deletes,
            pages=reader.pages if reader else 0,
            gone=reader.gone if reader else 0,
            info_requests=counts.info_requests,
            info_requests_saved=counts.info_requests_saved,
        )
        waiting = list(self._pending)
        summary = self._tally.summary(elapsed_s, waiting, error, self._plans.mirror.metrics, feed)
        if error is None or isinstance(error, Interrupted):
            is_stopped = summary.exit_code > 1
            self._emit_line(end_text(feed.entries, feed.deletes, len(waiting), is_stopped=is_stopped))
            self._plans.mirror.tell(is_stopped=is_stopped)
        return summary

    def _follow_steps(self) -> None:
        goes_on, is_idle = self._begin(), False
        if goes_on and self._journal.is_resyncing():
            goes_on = self._resync()
        while goes_on:
            changes, is_over = self._retry_until_reachable(self._gather)
            again = self._take_due(is_last=is_over and not changes)
            assert self._reader is not None
            checkpoint = self._reader.checkpoint(tuple(self._pending.values()))
            if changes or again:
                is_idle = False
                self._tell_step(changes)
                goes_on = self._apply(self._journal.begin(self._plan_rounds(again, changes), checkpoint))
                continue
            self._journal.keep(checkpoint)  # ranges may have split, or pages without changes were passed
            if self._reader.is_at_end:
                self._journal.note_in_step(self._clock.wall())
                self._publish_generation()
            if is_over and self._plans.shortage:
                raise LocalFault(self._plans.shortage)
            if is_over:
                return
            if not is_idle:
                self._emit_line(idle_text(self._options.poll_s, len(self._pending)))
                is_idle = True
            self._stop.run(self._wait)

    def _publish_generation(self) -> None:
        """Publish the files as a generation, if they are not published yet and none is missing.

        Called when each range has been read to its end since the last change came: at the moment of the first
        of these reads the source was exactly so.
        """
        generations = self._generations
        if generations is not None and not self._pending:
            version = self._journal.version()
            if not generations.has_current(version):
                self._emit_line(generation_text(generations.publish(version)))

    def _tell_step(self, changes: Sequence[Change]) -> None:
        deletes = sum(change.entry is None for change in changes)
        if changes:
            applies = self._options.delete
            self._emit_line(step_text(len(changes) - deletes, deletes, applies_deletes=applies))

    def _begin(self) -> bool:
        """Finish the step of a follower that died, then read the checkpoint. Return whether to go on."""
        step = self._journal.read_unfinished()
        if step is not None:
            self._pending = {change.path: change for change in step.checkpoint.pending}
            self._retry_until_reachable(self._ask_feed)  # its address decides what its links may lead to
            self._emit_line("feed: finishes first what an earlier run has begun")
            self._tell_step([*chain.from_iterable((*this.deletes, *this.upserts) for this in step.rounds)])
            if not self._apply(step):
                return False
        if self._journal.is_resyncing():
            with Snapshot(self._journal.snapshot) as snapshot:
                checkpoint = snapshot.checkpoint()
        else:
            checkpoint = self._journal.checkpoint()
        if checkpoint is not None:
            self._pending = {change.path: change for change in checkpoint.pending}

        async def begin() -> Reader:
            return await Reader.open(self._source, self._cache, self._clock, checkpoint=checkpoint)

        self._reader = self._retry_until_reachable(begin)
        where = "goes on from its checkpoint" if checkpoint is not None else "begins with the oldest entry"
        tokens = self._reader.tokens
        if checkpoint is None and self._options.from_now:
            self._skip_to_now()
            return True
        self._emit_line(f"feed: {where}; {plural(tokens, 'range')} to read")
        return True

    def _skip_to_now(self) -> None:
        """Read to the present end of each range, and apply nothing; the position after that is kept.

        So it is the same for every kind of feed, whatever has split or merged, and costs only its pages. Now
        is when it is at its end, as no feed states the time of a change.
        """
        assert self._reader is not None
        self._emit_line("feed: begins now; reads past what is there already, and brings none of it")
        skipped, at_end = 0, False
        while not at_end:
            changes, _ = self._retry_until_reachable(self._gather)
            skipped += len(changes)
            at_end = self._reader.is_at_end
            if not changes and not at_end:
                self._stop.run(self._wait)
        self._journal.keep(self._reader.checkpoint())
        self._emit_line(f"feed: leaves {plural(skipped, 'earlier change')} alone")

    def _resync(self) -> bool:
        """Read all of the feed, then make the files here as it has them; False if a run ended early.

        If this ends early for any reason, the next run goes on with it. Deletes come first: they make room,
        and a file may be where the feed has a directory.
        """
        assert self._reader is not None
        self._emit_line("feed: reads all of the feed, to compare it with the files here")
        with Snapshot(self._journal.snapshot) as snapshot:
            while True:
                changes, _ = self._retry_until_reachable(self._gather)
                snapshot.add(changes, self._reader.checkpoint())
                if not changes and self._reader.is_at_end:
                    break
                if not changes:
                    self._stop.run(self._wait)
            paths = self._options.paths
            own, others = self._plans.mirror.list_others(snapshot.has, paths)
            # A stream does not name what it has forgotten, so only its own deletes are applied.
            applies = self._options.delete and self._lists_all
            compared = resync_text(
                snapshot.count(), len(own), others, applies_deletes=applies, lists_all=self._lists_all
            )
            self._emit_line(compared)
            if applies:
                self._plans.delete(own)
                self._record_deletes([Change(0, key_of(path), path, None) for path in own])
            self._pending, self._plans.compares = {}, True
            for some in snapshot.batches(STEP_CHANGES):
                step = self._journal.begin(self._plan_rounds((), some), self._reader.checkpoint())
                if not self._apply(step):
                    return False
        self._plans.compares = False
        checkpoint = self._reader.checkpoint(tuple(self._pending.values()))
        self._journal.end_resync(checkpoint)
        return True

    async def _ask_feed(self) -> None:
        await self._source.ranges(None)

    def _retry_until_reachable(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do ``work``, again and again while the source cannot be reached; with ``once``, raise instead.

        Answers that contradict themselves are asked for again too, as nothing of them is applied: they may
        come from the middle of a split, or from servers that do not agree yet. With ``once`` only a stale
        answer is asked for again.
        """
        end_s = math.inf  # of the patience with answers that contradict themselves
        while True:
            try:
                return self._stop.run(work)
            except (SourceError, HostileFeed) as error:
                now_s = self._clock.monotonic()
                patience_s = self._patience_s(error)
                end_s = min(end_s, now_s + patience_s) if patience_s < math.inf else math.inf
                if now_s >= end_s:
                    raise
                self._journal.note_error(str(error), self._clock.wall())
                self._emit_line(f"feed: {error}; asking again in {self._options.poll_s:g} s")
            self._stop.run(self._wait)

    def _patience_s(self, error: SourceError | HostileFeed) -> float:
        """Return the seconds for which the feed is asked again after such an error."""
        if self._options.once:
            return STALE_ONCE_S if isinstance(error, StaleAnswer) else 0.0
        return NONSENSE_S if isinstance(error, HostileFeed) else math.inf

    async def _gather(self) -> tuple[list[Change], bool]:
        """Read new changes, as many as fit one step; with ``once``, also tell whether the feed is at its end.

        If the range of one token cannot be read now, the others are read all the same.
        """
        assert self._reader is not None
        changes: list[Change] = []
        size_bytes, row_bytes, failures = 0, 0, 0
        began_s = self._clock.monotonic()
        while len(changes) < STEP_CHANGES and size_bytes < STEP_BYTES and row_bytes < STEP_ROW_BYTES:
            try:
                steps = await self._reader.steps()
            except HostileFeed:
                if self._options.once or not changes:
                    raise
                break  # the reader is beyond these changes already
            for step in steps:
                if isinstance(step, SourceError):
                    failures += 1
                    if failures > self._reader.tokens and not changes:
                        raise step
                    continue
                taken = [change for change in step.changes if self._options.paths.takes(change.path)]
                changes += taken
                entries = [change.entry for change in taken if change.entry is not None]
                size_bytes += sum(entry.size_bytes or 0 for entry in entries)
                row_bytes += len(ENCODE(entries))
            elapsed_s = self._clock.monotonic() - began_s
            if failures > self._reader.tokens or (changes and elapsed_s >= STEP_S):
                break
            if not self._reader.is_idle:
                continue
            if changes or self._reader.is_at_end or not self._options.once:
                break
            if elapsed_s > LAG_S:
                raise make_lag_error()
            await self._wait()
        return changes, self._options.once and self._reader.is_at_end

    async def _wait(self) -> None:
        await self._clock.sleep(self._options.poll_s)

    def _take_due(self, *, is_last: bool) -> list[Change]:
        """Return the pending changes if they are to be tried again now: after a pause, once at the end.

        Those that wait come behind those that they may wait for.
        """
        now_s = self._clock.monotonic()
        is_late = now_s - self._tried_s >= PENDING_S
        if not self._pending or not (is_late or (is_last and not self._is_last_word)):
            return []
        self._tried_s = now_s
        self._is_last_word = is_last
        return sorted(self._pending.values(), key=lambda change: change.lsn if change.waits else -1)

    def _plan_rounds(self, again: Iterable[Change], changes: Sequence[Change]) -> list[Round]:
        """Make rounds of the changes; a pending change gives way to a later change of its path."""
        overtaken = {change.path for change in changes}
        for path in overtaken:
            self._pending.pop(path, None)
        self._tally.read(changes)
        wanted = [*(change for change in again if change.path not in overtaken), *changes]
        if self._options.versions == "latest":
            wanted = keep_latest(wanted)
        self._plans.check_links(wanted)
        return plan_rounds(wanted)

    def _apply(self, step: JournalStep) -> bool:
        """Apply the step's remaining rounds in order; False if a run ended early, so that the step stays."""
        while step.rounds:
            this, held = self._hold_waiting(step.rounds[0])
            self._stop.check()
            if this.deletes:
                if self._options.delete:
                    moved = self._plans.move_renamed(this.deletes, this.upserts)
                    if moved:
                        self._emit_line(moved_text(moved))
                    self._plans.delete([change.path for change in this.deletes])
                self._record_deletes(this.deletes)
            shortage = self._plans.shortage
            failed, summary = self._plans.bring(this.upserts, self._tally)
            if self._plans.shortage and self._plans.shortage != shortage and not self._options.once:
                self._emit_line(f"feed: {self._plans.shortage}; they wait, and the follower goes on")
            if summary is not None:
                self._tally.add(summary)
                if summary.exit_code > 1:
                    return False
            for change in (*this.deletes, *this.upserts):
                self._pending.pop(change.path, None)
                if change.path in failed:
                    self._pending[change.path] = change
            self._pending |= {change.path: change for change in held}
            if len(self._pending) > MAX_PENDING:
                raise Refused(
                    f"{len(self._pending):,} files of the feed cannot be had, one of them "
                    f"{printable(next(iter(self._pending)))}; what arrived is in place, see the metrics"
                )
            step = self._journal.finish_round(step, self._pending.values())
        self._journal.end(step)
        return True

    def _hold_waiting(self, this: Round) -> tuple[Round, list[Change]]:
        """Take changes out of a round that wait for files that failed, or for an earlier such change."""
        changes = (*this.deletes, *this.upserts)
        if not any(change.waits for change in changes):
            return this, []
        missing = (change for change in self._pending.values() if change.entry is not None)
        first_lsn = min((change.lsn if change.waits else -1 for change in missing), default=math.inf)

        def goes_on(change: Change) -> bool:
            return not change.waits or change.lsn <= first_lsn

        held = [change for change in changes if not goes_on(change)]
        return Round(tuple(filter(goes_on, this.deletes)), tuple(filter(goes_on, this.upserts))), held

    def _record_deletes(self, deletes: Sequence[Change]) -> None:
        deleted_at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="seconds")
        self._journal.record_deletes(deletes, deleted_at)
