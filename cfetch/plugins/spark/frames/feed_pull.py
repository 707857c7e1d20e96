"""Turns a feed into manifests: each trigger's changes are written to one, so that Spark may repeat it.

``<number>.json`` is the checkpoint behind a manifest and is written first; ``<number>.rows`` counts once it
has its name. A manifest has each path once, in its last version, as tasks work side by side.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.plugins.follow.backends.opening import open_feed
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import read_checkpoint, write_checkpoint
from cfetch.plugins.follow.journal import Journal
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.steps import keep_latest
from cfetch.storage.files import on_disk, replace_file
from cfetch.wire.network import make_network

FeedRow = tuple[str, str, int | None, str | None, dict[str, str] | None]
COLUMNS = "url string, path string, size bigint, digest string, headers map<string,string>"
"""The columns of a ``FeedRow``: what ``download`` takes. A digest is ``algorithm:digits``."""
_ENDING = ".rows"


class FeedPuller:
    """``directory`` belongs to one query; ``name`` is a feed as ``cfetch follow`` takes it.

    ``most``: a manifest ends with the page of the feed that makes it so many changes.
    """

    def __init__(
        self, directory: Path, name: str, settings: Settings, env: Mapping[str, str], most: int
    ) -> None:
        self.directory = directory
        self._name = name
        self._settings = settings
        self._env = env
        self._most = most

    def pull_next(self) -> int:
        """Write the feed's news to a manifest, if there are any; return the number of the newest one.

        0: the feed has had nothing yet.

        Raises:
            SourceError, FeedError: the feed does not answer, or cannot be read any further.
            UsageError: an entry of the feed is more than a row can state.
            Held: another query pulls the feed into this directory. LocalFault.
        """
        with Journal(self.directory):
            newest = max(self._list_numbers(), default=0)
            return newest + asyncio.run(self._pull_changes(newest))

    async def _pull_changes(self, after: int) -> bool:
        clock = SystemClock()
        network = make_network(self._settings.network, self._env)
        source = open_feed(self._name, network=network, clock=clock, directory=self.directory)
        try:
            checkpoint = read_checkpoint(self._locate_checkpoint(after)) if after else None
            most, routes = self._most, RouteCache(clock)
            reader = await Reader.open(source, routes, clock, checkpoint=checkpoint, limit=most)
            changes: list[Change] = []
            while len(changes) < most and not reader.is_idle:
                changes += (await reader.step()).changes
        finally:
            await source.close()
        if changes:
            rows = [_make_row(change.entry) for change in keep_latest(changes) if change.entry is not None]
            write_checkpoint(self._locate_checkpoint(after + 1), reader.checkpoint())
            replace_file(self._locate_manifest(after + 1), msgspec.json.encode(rows))
        return bool(changes)

    def read_rows(self, start: int, end: int) -> list[FeedRow]:
        """The rows of the manifests behind ``start`` up to ``end``: of several, each path's last version.

        Raises:
            UsageError: they are not all there. LocalFault.
        """
        if end < start or not {*range(start + 1, end + 1)} <= {*self._list_numbers()}:
            shown = printable(str(self.directory))
            raise UsageError(
                f"the query goes on from manifest {start} to {end}, and {shown} lacks some: state and "
                "checkpointLocation belong together; put back the one that was removed, or give the query "
                "new directories for both"
            )
        last: dict[str, FeedRow] = {}
        for number in range(start + 1, end + 1):
            path = self._locate_manifest(number)
            with on_disk(path):
                data = path.read_bytes()
            last |= {row[1]: row for row in msgspec.json.decode(data, type=list[FeedRow])}
        return [*last.values()]

    def forget(self, before: int) -> None:
        """Remove manifests before ``before``, which Spark does not repeat any more, and their checkpoints."""
        for number in self._list_numbers():
            if number < before:
                with suppress(OSError):
                    self._locate_manifest(number).unlink()
                    self._locate_checkpoint(number).unlink()

    def _list_numbers(self) -> list[int]:
        with on_disk(self.directory):
            return [int(path.stem) for path in self.directory.glob(f"*{_ENDING}")]

    def _locate_manifest(self, number: int) -> Path:
        return self.directory / f"{number:012}{_ENDING}"

    def _locate_checkpoint(self, number: int) -> Path:
        return self.directory / f"{number:012}.json"


def _make_row(entry: Entry) -> FeedRow:
    if entry.range_start is not None or entry.piece is not None:
        raise UsageError(
            f"the feed has {printable(entry.path)} as a range of bytes or as a piece of a file, which a row "
            "cannot say: cfetch follow brings such a feed"
        )
    digest = None if entry.digest is None else f"{entry.digest.algorithm}:{entry.digest.hex}"
    headers = {name: text.reveal() for name, text in entry.headers}
    return entry.url.reveal(), entry.path, entry.size_bytes, digest, headers or None
