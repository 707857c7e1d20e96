"""``cfetch follow --status``: how far a follower is behind its feed, what waits, and its last error.

It reads the follower's files, and the feed from its checkpoint on. It changes nothing. The follower may be
running at the same time.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held, SourceError, UsageError
from cfetch.plugins.follow.backends.opening import open_feed
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import Checkpoint, read_checkpoint
from cfetch.plugins.follow.journal import CHECKPOINT, LOCK, SNAPSHOT, locate_journal, read_status
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.use_cases.follow_text import FollowStatus
from cfetch.run.directories import require_directory
from cfetch.run.open_manifest import shown_name
from cfetch.storage.locks import take_lock
from cfetch.wire.network import Network, make_network

MOST_CHANGES = 10_000  # are counted: some seconds
MOST_FAILURES = 3
LISTED_PATHS = 100


def find_status(
    feed: str, settings: Settings, *, env: Mapping[str, str], clock: Clock | None = None
) -> FollowStatus:
    """Find how far the follower with these settings is.

    Raises:
        UsageError: no follower has been here, or the feed cannot be read from its checkpoint on.
        SourceError: the feed does not answer.
    """
    clock = clock or SystemClock()
    where = require_directory(settings, "follow")
    directory = locate_journal(where.state, feed, where.roots)
    checkpoint = read_checkpoint(directory / CHECKPOINT)
    is_resyncing = (directory / SNAPSHOT).exists()
    if checkpoint is None and not is_resyncing:
        raise UsageError(
            f"no follower of {shown_name(feed)} has a checkpoint in {directory}; start one first"
        )
    left_out: list[str] = []
    lags, is_counted = asyncio.run(
        _count_changes(
            feed, checkpoint, make_network(settings.network, env), clock, directory, left_out.append
        )
    )
    noted = read_status(directory)
    since_s = None if noted.in_step_s is None else max(0.0, clock.wall() - noted.in_step_s)
    pending = [] if checkpoint is None else [str(change.path) for change in checkpoint.pending]
    return FollowStatus(
        feed=shown_name(feed),
        is_running=_is_locked(directory / LOCK),
        is_resyncing=is_resyncing,
        entries=lags.total(),
        is_counted=is_counted,
        ranges=[
            FollowStatus.Lag(range=name, entries=entries, seconds=since_s)
            for name, entries in lags.most_common()
        ],
        in_step_s=noted.in_step_s,
        pending=len(pending),
        pending_paths=pending[:LISTED_PATHS],
        left_out=left_out,
        error=noted.error,
        error_s=noted.error_s,
    )


async def _count_changes(
    feed: str,
    checkpoint: Checkpoint | None,
    network: Network,
    clock: Clock,
    directory: Path,
    tell_left_out: Callable[[str], None],
) -> tuple[Counter[str], bool]:
    """Count the changes behind the checkpoint, by range; also tell whether these are all."""
    lags: Counter[str] = Counter()
    failures = 0
    source = open_feed(feed, network=network, clock=clock, directory=directory, tell_left_out=tell_left_out)
    try:
        reader = await Reader.open(source, RouteCache(clock), clock, checkpoint=checkpoint)
        while not reader.is_idle and lags.total() < MOST_CHANGES:
            for step in await reader.steps():
                if isinstance(step, SourceError):
                    failures += 1
                    if failures > MOST_FAILURES:
                        raise step
                elif step.changes:
                    lags[step.range] += len(step.changes)
        return lags, reader.is_at_end
    finally:
        await source.close()


def _is_locked(path: Path) -> bool:
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            take_lock(descriptor, "{holder} follows", shared=True)
        except Held:
            return True
        finally:
            os.close(descriptor)
    return False
