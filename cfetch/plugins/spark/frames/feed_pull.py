"""Turns a feed into manifests: each trigger's changes are written to one, so that Spark may repeat it.

``<number>.json`` is the checkpoint behind a manifest and is written first; ``<number>.jsonl`` counts once it
has its name. A manifest has each path once, in its last version, as tasks work side by side.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.manifest.writing import TARGETS, survey
from cfetch.plugins.follow.backends.opening import open_feed
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import read_checkpoint, write_checkpoint
from cfetch.plugins.follow.journal import Journal
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.steps import keep_latest
from cfetch.plugins.spark.frames.manifest_directory import ENDING
from cfetch.storage.files import on_disk, replace_file
from cfetch.wire.network import make_network

MOST_CHANGES = 10_000  # of one trigger, if no limit is given
_NUMBER = re.compile(r"([0-9]{12})\.jsonl\Z")


class FeedPuller:
    """``directory`` belongs to one query; ``name`` is a feed as ``cfetch follow`` takes it."""

    def __init__(self, directory: Path, name: str, settings: Settings, env: Mapping[str, str]) -> None:
        self.directory = directory
        self._name = name
        self._settings = settings
        self._env = env

    def pull_next(self, after: int, most: int | None) -> int | None:
        """The number of the manifest behind ``after``: an existing one, or a new one with the feed's news.

        ``most``: a manifest ends after so many changes. Returns None if there is nothing new.

        Raises:
            SourceError, FeedError: the feed does not answer, or cannot be read any further.
            Held: another query pulls the feed into this directory. LocalFault.
        """
        with Journal(self.directory):
            there = sorted(number for number in self._list_numbers() if number > after)
            if there:
                return there[0]
            return after + 1 if asyncio.run(self._pull_changes(after, most or MOST_CHANGES)) else None

    async def _pull_changes(self, after: int, most: int) -> bool:
        clock = SystemClock()
        network = make_network(self._settings.network, self._env)
        source = open_feed(self._name, network=network, clock=clock, directory=self.directory)
        try:
            checkpoint = read_checkpoint(self._locate_checkpoint(after)) if after else None
            reader = await Reader.open(source, RouteCache(clock), clock, checkpoint=checkpoint, limit=most)
            changes: list[Change] = []
            while len(changes) < most and not reader.is_idle:
                changes += (await reader.step()).changes
        finally:
            await source.close()
        if changes:
            write_checkpoint(self._locate_checkpoint(after + 1), reader.checkpoint())
            entries = [change.entry for change in keep_latest(changes) if change.entry is not None]
            text = StringIO()
            TARGETS["jsonl"].write(entries, survey(entries, ()), text)
            replace_file(self.directory / name_manifest(after + 1), text.getvalue().encode())
        return bool(changes)

    def forget(self, before: int) -> None:
        """Remove manifests before ``before``, which Spark does not repeat any more, and their checkpoints."""
        for number in self._list_numbers():
            if number < before:
                with suppress(OSError):
                    (self.directory / name_manifest(number)).unlink()
                    self._locate_checkpoint(number).unlink()

    def _list_numbers(self) -> list[int]:
        with on_disk(self.directory):
            matches = (_NUMBER.match(path.name) for path in self.directory.iterdir())
            return [int(match[1]) for match in matches if match is not None]

    def _locate_checkpoint(self, number: int) -> Path:
        return self.directory / f"{number:012}.json"


def name_manifest(number: int) -> str:
    """The file name of the manifest of a trigger."""
    return f"{number:012}{ENDING}"


def parse_number(name: str) -> int:
    """The number of the trigger whose manifest has this name."""
    return int(name.removesuffix(ENDING))
