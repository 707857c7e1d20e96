"""``cfetch follow --verify``: compare the files here with what a feed has now. Nothing is written here.

The feed is read from its oldest entry to its end, beside a follower that may be at work, and its files become
the list of a ``Verification``.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cfetch.app.verify import Verification
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.path_filter import PathFilter
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.checked_entries import freeze_entries
from cfetch.manifest.entry import Entry
from cfetch.manifest.folding import join_foldings
from cfetch.plugins.follow.backends.opening import open_feed
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.reader import LAG_S, Reader, make_lag_error
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.snapshot import Snapshot
from cfetch.run.directories import require_directory
from cfetch.run.open_manifest import shown_name
from cfetch.storage.name_folding import read_folding
from cfetch.storage.tree import ReadOnlyTree
from cfetch.wire.network import Network, make_network

BATCH = 10_000  # files in memory
POLL_S = 1.0


@contextmanager
def open_feed_verification(
    feed: str, settings: Settings, paths: PathFilter, *, env: Mapping[str, str], clock: Clock | None = None
) -> Iterator[Verification]:
    """Read all of the feed, and compare its files, if ``paths`` takes them, with those of ``settings``.

    Raises:
        UsageError: the feed's name or a setting is wrong, or the feed contradicts itself.
        SourceError: the feed does not answer.
        LocalFault: there is no room for temporary files.
    """
    clock = clock or SystemClock()
    where = require_directory(settings, "follow")
    if len(where.directories) < len(where.roots):
        raise ConfigError("--verify reads directories only; --resync also looks into an object store")
    with ExitStack() as stack:
        trees = [stack.enter_context(ReadOnlyTree(root)) for root in where.directories]
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cfetch-")))
        snapshot = stack.enter_context(Snapshot(scratch / "snapshot"))
        asyncio.run(_read_all(feed, paths, snapshot, make_network(settings.network, env), clock))
        folding = join_foldings([read_folding(root) for root in where.directories])
        plan = stack.enter_context(
            freeze_entries(_list_entries(snapshot), name=shown_name(feed), directory=scratch, folding=folding)
        )
        others = [frozenset(_list_others(tree, paths)) for tree in trees]
        yield Verification(plan, trees, quick=False, ignored=others, list_name="the feed", folding=folding)


async def _read_all(feed: str, paths: PathFilter, snapshot: Snapshot, network: Network, clock: Clock) -> None:
    source = open_feed(feed, network=network, clock=clock)
    try:
        reader = await Reader.open(source, RouteCache(clock), clock)
        end_s = clock.monotonic() + LAG_S
        while not reader.is_at_end:
            step = await reader.step()
            if step.changes:
                taken = [change for change in step.changes if paths.takes(change.path)]
                snapshot.add(taken, reader.checkpoint())
                end_s = clock.monotonic() + LAG_S
            elif reader.is_idle and not reader.is_at_end:
                if clock.monotonic() > end_s:
                    raise make_lag_error()
                await clock.sleep(POLL_S)
    finally:
        await source.close()


def _list_entries(snapshot: Snapshot) -> Iterator[Entry]:
    for changes in snapshot.batches(BATCH):
        yield from (change.entry for change in changes if change.entry is not None)


def _list_others(tree: ReadOnlyTree, paths: PathFilter) -> Iterator[str]:
    """The files that are none of the feed's: also those of a server that publishes the directory further."""
    for standing in tree.walk():
        if standing.path.startswith(f"{STATE_DIRECTORY}/") or not paths.takes(standing.path):
            yield standing.path
