"""A feed as manifests: what one trigger takes of it is written down as one, so that Spark may repeat it.

``<number>.json`` is the checkpoint behind a manifest and comes first; ``<number>.jsonl`` is in force once it
has its name. A path stands in a manifest once, in its last version: tasks work side by side.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path

from cfetch.clock import SystemClock
from cfetch.config.settings import Settings
from cfetch.feed.backends.opening import open_feed
from cfetch.feed.cache import RouteCache
from cfetch.feed.checkpoint import read_checkpoint, write_checkpoint
from cfetch.feed.journal import Journal
from cfetch.feed.reader import Reader
from cfetch.feed.source import Change
from cfetch.feed.steps import keep_latest
from cfetch.manifest.writing import TARGETS, survey
from cfetch.spark.frames.manifest_directory import ENDING
from cfetch.storage.files import on_disk, replace_file
from cfetch.wire.network import make_network

__all__ = ["Pull", "manifest_name", "number_of"]

MOST_CHANGES = 10_000  # of one trigger, where nobody says another number
_NUMBER = re.compile(r"([0-9]{12})\.jsonl\Z")


class Pull:
    """``directory`` is one query's; ``name`` is a feed as ``cfetch follow`` takes it."""

    def __init__(self, directory: Path, name: str, settings: Settings, env: Mapping[str, str]) -> None:
        self.directory = directory
        self._name = name
        self._settings = settings
        self._env = env

    def next(self, after: int, most: int | None) -> int | None:
        """The number of the manifest behind ``after``: one that is there, or what the feed has now.

        ``most``: so many changes at least end it. None: there is nothing new.

        Raises:
            SourceError, FeedError: the feed cannot be had, or not be read on.
            Held: another query pulls it here. LocalFault.
        """
        with Journal(self.directory):
            there = sorted(number for number in self._numbers() if number > after)
            if there:
                return there[0]
            return after + 1 if asyncio.run(self._pull(after, most or MOST_CHANGES)) else None

    async def _pull(self, after: int, most: int) -> bool:
        clock = SystemClock()
        source = open_feed(self._name, network=make_network(self._settings.network, self._env), clock=clock)
        try:
            checkpoint = read_checkpoint(self._checkpoint(after)) if after else None
            reader = await Reader.open(source, RouteCache(clock), clock, checkpoint=checkpoint, limit=most)
            found: list[Change] = []
            while len(found) < most and not reader.is_idle:
                found += (await reader.step()).changes
        finally:
            await source.close()
        if found:
            write_checkpoint(self._checkpoint(after + 1), reader.checkpoint())
            entries = [one.entry for one in keep_latest(found) if one.entry is not None]
            text = StringIO()
            TARGETS["jsonl"].write(entries, survey(entries, ()), text)
            replace_file(self.directory / manifest_name(after + 1), text.getvalue().encode())
        return bool(found)

    def forget(self, before: int) -> None:
        """Manifests that nobody asks for again, and the checkpoints in front of the one that is in force."""
        for number in self._numbers():
            if number < before:
                with suppress(OSError):
                    (self.directory / manifest_name(number)).unlink()
                    self._checkpoint(number).unlink()

    def _numbers(self) -> list[int]:
        with on_disk(self.directory):
            found = (_NUMBER.match(path.name) for path in self.directory.iterdir())
            return [int(one[1]) for one in found if one is not None]

    def _checkpoint(self, number: int) -> Path:
        return self.directory / f"{number:012}.json"


def manifest_name(number: int) -> str:
    """Of a trigger."""
    return f"{number:012}{ENDING}"


def number_of(name: str) -> int:
    """The trigger's."""
    return int(name.removesuffix(ENDING))
