"""Keep a directory in step with a feed: read, download, delete, and remember the position that was reached.

A step reads pages until there is enough to do, or nothing new. Its changes become rounds (``feed/steps``);
each round is a removable plan on the destination's timeline, and runs as any other. If a file cannot be had,
its change is *pending*: it is tried again later, until the file arrives or a later change of its path
replaces it. The journal (``feed/journal``) is written in an order that lets a follower die at any moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeVar

import msgspec

from cfetch.app.download import prepare_entries
from cfetch.app.plans import archive_plans, list_plans, roll_back_plan
from cfetch.clock import Clock, SystemClock
from cfetch.config.settings import Settings
from cfetch.errors import (
    Blocked,
    CfetchError,
    ConfigError,
    Interrupted,
    LocalFault,
    Refused,
    SourceError,
    Transient,
    UsageError,
)
from cfetch.events import EntryFinished, Event, Listener, fan_out
from cfetch.feed.backends.opening import open_feed
from cfetch.feed.cache import RouteCache
from cfetch.feed.checkpoint import MAX_PENDING, Checkpoint
from cfetch.feed.delete_limit import DeleteLimit
from cfetch.feed.journal import STEP, Journal, Step, locate_journal
from cfetch.feed.reader import Reader
from cfetch.feed.source import Change, FeedSource
from cfetch.feed.steps import Round, keep_latest, plan_rounds
from cfetch.feed.tally import FollowTally
from cfetch.manifest.entry import Entry, SafePath
from cfetch.records import Summary
from cfetch.run.directories import places
from cfetch.run.signals import listen
from cfetch.run.volumes import Volumes
from cfetch.secret import printable
from cfetch.storage.files import STATE_NAME
from cfetch.storage.tree import ReadOnlyTree
from cfetch.wire.network import Network, make_network

STEP_CHANGES = 10_000  # a plan costs a tenth of a second, and a change some hundred bytes of memory
STEP_BYTES = 4 << 30  # a checkpoint every minute or so
STEP_ROW_BYTES = 32 << 20  # rows with many long mirrors or headers
MOST_PLANS = 100  # completed plans that a follower leaves on the timeline; each run reads their names
ENCODE = msgspec.msgpack.Encoder().encode
PENDING_S = 60.0  # pause after which pending changes are tried again
LAG_S = 300.0  # at the end of the feed, an archive may lag behind by this much

T = TypeVar("T")


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``versions``: every version in its order, or for each path the last version in a step.

    ``delete``: delete files that the source has deleted, at most ``max_delete`` of them within an hour (a
    float is a share of the files in place). ``once``: end when nothing is new. Without ``route_cache``, each
    read asks for the lineage.
    """

    versions: Literal["all", "latest"] = "latest"
    delete: bool = False
    max_delete: float = 0.1
    once: bool = False
    poll_s: float = 5.0
    route_cache: bool = True


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
    if (settings.header or settings.bearer_env) and not settings.header_host:
        raise ConfigError("header or bearer_env is given; say which hosts may have it: --header-host HOST")
    clock = clock or SystemClock()
    where = places(settings)
    if options.delete and len(where.directories) < len(where.roots):
        raise ConfigError("--delete is for directories; nothing is deleted in an object store")
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(locate_journal(where.state, feed, where.roots)))
        runner = stack.enter_context(asyncio.Runner())
        source = runner.run(_open_source(feed, make_network(settings.network, env), clock))
        stack.callback(lambda: runner.run(source.close()))
        plans = _Plans(journal, settings, env, dashboard, clock, DeleteLimit(options.max_delete))
        plans.clear_up()
        stack.callback(plans.archive)
        return _Follower(source, journal, plans, options, emit_line, clock, runner).run()


async def _open_source(feed: str, network: Network, clock: Clock) -> FeedSource:
    return open_feed(feed, network=network, clock=clock)


class _Follower:
    def __init__(
        self,
        source: FeedSource,
        journal: Journal,
        plans: "_Plans",
        options: FollowOptions,
        emit_line: Callable[[str], None],
        clock: Clock,
        runner: asyncio.Runner,
    ) -> None:
        self._source = source
        self._journal = journal
        self._plans = plans
        self._options = options
        self._emit_line = emit_line
        self._clock = clock
        self._cache = RouteCache(clock, enabled=options.route_cache)
        self._reader: Reader | None = None
        self._pending: dict[SafePath, Change] = {}
        self._tally = FollowTally()
        self._began_s = clock.monotonic()
        self._tried_s = self._began_s  # when the pending changes were tried last
        self._is_last_word = False
        self._kept: Checkpoint | None = None
        self._stop = _Stop(runner)

    def run(self) -> Followed:
        """Follow the feed to its end, or until an error ends the follower; then sum up."""
        error: CfetchError | None = None
        with listen(self._stop.end):
            try:
                self._follow_steps()
            except CfetchError as ended:
                error = ended
        reader, counts = self._reader, self._cache.counts
        feed = Summary.Feed(
            entries=self._tally.upserts,
            deletes=self._tally.deletes,
            pages=reader.pages if reader else 0,
            gone=reader.gone if reader else 0,
            info_requests=counts.info_requests,
            info_requests_saved=counts.info_requests_saved,
        )
        elapsed_s = self._clock.monotonic() - self._began_s
        waiting = list(self._pending)
        return Followed(self._tally.summary(elapsed_s, waiting, error, self._plans.metrics, feed), error)

    def _follow_steps(self) -> None:
        goes_on = self._begin()
        while goes_on:
            changes, is_over = self._retry_until_reachable(self._gather)
            again = self._take_due(is_last=is_over and not changes)
            assert self._reader is not None
            checkpoint = self._reader.checkpoint(tuple(self._pending.values()))
            if changes or again:
                goes_on = self._apply(self._journal.begin(self._plan_rounds(again, changes), checkpoint))
                continue
            if checkpoint != self._kept:  # ranges have split, or pages without changes were passed
                self._journal.keep(checkpoint)
                self._kept = checkpoint
            if is_over:
                return
            self._stop.run(self._wait)

    def _begin(self) -> bool:
        """Finish the step of a follower that died, then read the checkpoint. Return whether to go on."""
        step = self._journal.read_unfinished()
        if step is not None:
            self._pending = {change.path: change for change in step.checkpoint.pending}
            if not self._apply(step):
                return False
        checkpoint = self._journal.checkpoint()
        self._kept = checkpoint
        if checkpoint is not None:
            self._pending = {change.path: change for change in checkpoint.pending}

        async def begin() -> Reader:
            return await Reader.open(self._source, self._cache, self._clock, checkpoint=checkpoint)

        self._reader = self._retry_until_reachable(begin)
        where = "goes on from its checkpoint" if checkpoint is not None else "begins with the oldest entry"
        tokens = len(self._reader.checkpoint().tokens)
        self._emit_line(f"feed: {where}; {tokens} range{'s' if tokens > 1 else ''} to read")
        return True

    def _retry_until_reachable(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do ``work``, again and again while the source cannot be reached; with ``once``, raise instead."""
        while True:
            try:
                return self._stop.run(work)
            except SourceError as error:
                if self._options.once:
                    raise
                self._emit_line(f"feed: {error}; asking again in {self._options.poll_s:g} s")
            self._stop.run(self._wait)

    async def _gather(self) -> tuple[list[Change], bool]:
        """Read new changes, as many as fit one step; with ``once``, also tell whether the feed is at its end.

        If the range of one token cannot be read now, the others are read all the same.
        """
        assert self._reader is not None
        changes: list[Change] = []
        size_bytes, row_bytes, failures = 0, 0, 0
        lag_s = self._clock.monotonic() + LAG_S
        while len(changes) < STEP_CHANGES and size_bytes < STEP_BYTES and row_bytes < STEP_ROW_BYTES:
            try:
                step = await self._reader.step()
            except SourceError:
                failures += 1
                if failures <= len(self._reader.checkpoint().tokens):
                    continue
                if changes:
                    break
                raise
            changes += step.changes
            size_bytes += sum(
                change.entry.size_bytes or 0 for change in step.changes if change.entry is not None
            )
            row_bytes += len(ENCODE([change.entry for change in step.changes]))
            if not self._reader.is_idle:
                continue
            if changes or self._reader.is_at_end or not self._options.once:
                break
            if self._clock.monotonic() > lag_s:
                raise Transient(f"an archive of the feed has lagged behind for {LAG_S:g} s; try again later")
            await self._wait()
        return changes, self._options.once and self._reader.is_at_end

    async def _wait(self) -> None:
        await self._clock.sleep(self._options.poll_s)

    def _take_due(self, *, is_last: bool) -> list[Change]:
        """Return the pending changes if they are to be tried again now: after a pause, once at the end."""
        now_s = self._clock.monotonic()
        is_late = now_s - self._tried_s >= PENDING_S
        if not self._pending or not (is_late or (is_last and not self._is_last_word)):
            return []
        self._tried_s = now_s
        self._is_last_word = is_last
        return list(self._pending.values())

    def _plan_rounds(self, again: Iterable[Change], changes: Sequence[Change]) -> list[Round]:
        """Make rounds of the changes; a pending change gives way to a later change of its path."""
        overtaken = {change.path for change in changes}
        for path in overtaken:
            self._pending.pop(path, None)
        self._tally.read(changes)
        wanted = [*(change for change in again if change.path not in overtaken), *changes]
        return plan_rounds(keep_latest(wanted) if self._options.versions == "latest" else wanted)

    def _apply(self, step: Step) -> bool:
        """Apply the step's remaining rounds in order; False if a run ended early, so that the step stays."""
        while step.rounds:
            this = step.rounds[0]
            self._stop.check()
            if this.deletes:
                if self._options.delete:
                    self._plans.delete(this.deletes)
                deleted_at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="seconds")
                self._journal.record_deletes(this.deletes, deleted_at)
            failed, summary = self._plans.bring(this.upserts, self._tally)
            if summary is not None:
                self._tally.add(summary)
                if summary.exit_code > 1:
                    return False
            for change in (*this.deletes, *this.upserts):
                self._pending.pop(change.path, None)
                if change.path in failed:
                    self._pending[change.path] = change
            if len(self._pending) > MAX_PENDING:
                raise Refused(
                    f"{len(self._pending):,} files of the feed cannot be had, one of them "
                    f"{printable(next(iter(self._pending)))}; what arrived is in place, see the metrics"
                )
            step = self._journal.finish_round(step, self._pending.values())
        self._journal.end(step)
        self._kept = step.checkpoint
        return True


class _Plans:
    """Brings rounds to the destination, each by a plan of its own."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        env: Mapping[str, str],
        dashboard: Callable[[], AbstractContextManager[Listener]],
        clock: Clock,
        limit: DeleteLimit,
    ) -> None:
        self._limit = limit
        self._name = printable(str(journal.directory / STEP), 1000)  # of this follower's plans
        self._settings = settings
        self._env = env
        self._dashboard = dashboard
        self._clock = clock
        self._found = places(settings)
        self._completed: list[str] = []
        self.metrics = str(self._found.state / "metrics")

    def clear_up(self) -> None:
        """Roll back the plans of rounds that were not completed. Raises Held, LocalFault."""
        with suppress(UsageError):  # there is no timeline yet
            plans = [plan for plan in list_plans(self._settings).plans if plan.manifest == self._name]
            dead = {plan.instant for plan in plans if plan.action == "download" and plan.state != "completed"}
            for instant in sorted(dead):
                roll_back_plan(self._settings, instant, remove=False)
            if dead:
                rollbacks = [plan for plan in list_plans(self._settings).plans if plan.target in dead]
                self._completed += [rollback.instant for rollback in rollbacks]

    def bring(self, upserts: Sequence[Change], listener: Listener) -> tuple[set[str], Summary | None]:
        """Download one round; return the paths that failed, and the summary. Raises as ``Prepared.run``."""
        entries = [change.entry for change in upserts if change.entry is not None]
        if not entries:
            return set(), None
        self._supersede([entry for entry in entries if entry.digest is None])
        failed: set[str] = set()

        def collect(event: Event) -> None:
            if isinstance(event, EntryFinished) and not event.record.is_in_place:
                failed.add(event.record.path)

        with (
            prepare_entries(
                entries, self._name, self._settings, env=self._env, clock=self._clock
            ) as prepared,
            self._dashboard() as shown,
        ):
            summary = prepared.run(fan_out(collect, listener, shown), removable=True)
        if summary is not None and summary.exit_code == 0:
            self._completed.append(summary.instant)
            if len(self._completed) >= MOST_PLANS:
                self.archive()
        if failed:
            self.clear_up()  # the failed changes become pending, so nobody needs the plan any more
        return failed, summary

    def archive(self) -> None:
        """Archive completed plans: a follower that runs for years would fill the timeline with them."""
        if self._completed:
            with suppress(LocalFault):  # a later run tidies up
                archive_plans(self._settings, self._completed)
            self._completed = []

    def delete(self, deletes: Sequence[Change]) -> None:
        """Delete files; a directory in a file's place is left alone.

        Raises:
            LocalFault: a file cannot be deleted.
            Refused: more files would be deleted than may be; none of these was deleted.
        """
        with closing(self._open_volumes()) as volumes:
            standing = sum(
                any(volume.identify(change.path) is not None for volume in volumes.local)
                for change in deletes
            )
            refusal = self._limit.take(standing, self._clock.monotonic(), self._count_files)
            if refusal is not None:
                raise Refused(f"{refusal}. None of the last {standing} was deleted")
            for change in deletes:
                for volume in volumes.local:
                    with suppress(Blocked):
                        volume.delete(change.path)

    def _count_files(self) -> int:
        """The files in the destinations."""
        files = 0
        for directory in self._found.directories:
            with ReadOnlyTree(directory) as tree:
                files += sum(status is not None for _, status, _ in tree.regular_files((STATE_NAME,)))
        return files

    def _supersede(self, entries: Sequence[Entry]) -> None:
        """Mark the files in place as older versions.

        Without a hash, a new version may have the size and link of the old one.
        """
        if not entries:
            return
        with closing(self._open_volumes()) as volumes:
            for entry in entries:
                for volume in volumes.local:
                    volume.supersede(entry.path)

    def _open_volumes(self) -> Volumes:
        return Volumes(self._found.roots, write_timeout_s=self._settings.write_timeout)


class _Stop:
    """Ends a follower's read or wait in good order at a signal; a run of a plan ends itself before that."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._by: Interrupted | None = None
        self._cancel: Callable[[], object] | None = None

    def end(self, interrupted: Interrupted) -> None:
        """Take note of a signal, and cancel the work that runs now."""
        self._by = interrupted
        if self._cancel is not None:
            self._cancel()

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self._by is not None:
            raise self._by

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work`` in the follower's event loop. Raises Interrupted if a signal comes."""

        async def cancellable() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                self.check()
                return await work()
            except asyncio.CancelledError:
                self.check()
                raise
            finally:
                self._cancel = None

        return self._runner.run(cancellable())
