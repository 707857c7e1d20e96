"""Shards in an object store: tasks put them below ``.cfetch/shards/``, and the driver copies them.

A store has no rename and no locks. So an object is copied on the server, which moves no bytes to the driver;
and a number is taken by making an object that must not exist before, so two jobs at once take different ones.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from cfetch.plugins.spark.frames.shard_names import refuse_gone
from cfetch.storage.buckets.object_store import ObjectStore, pick_login
from cfetch.storage.files import STATE_NAME

STAGE = f"{STATE_NAME}/shards"
KEYS = f"{STATE_NAME}/shard-keys"
NUMBERS = f"{STATE_NAME}/shard-numbers"
WHOLE = ".whole"  # behind a shard's name: all of it is there, and no file of it has failed
AT_ONCE = 8  # copies under way: a store makes one of 100 MB in about a second
ENDINGS = (".tar", ".parquet")
_SHARD = re.compile(r"([0-9]{5,})\.(?:tar|parquet)\Z")

T = TypeVar("T")


class ShardStore:
    """The shards below ``url``. It goes to the executors, with the driver's login."""

    def __init__(self, url: str, env: Mapping[str, str], timeout_s: float) -> None:
        self.url = url
        self._login = pick_login(url, env)
        self._timeout_s = timeout_s

    def check(self) -> None:
        """Raise VolumeFault, UsageError: the store cannot be used."""
        self._run(lambda store: store.read_first())

    def is_complete(self, name: str) -> bool:
        """Whether a task has staged the shard, with all of its files."""
        return self._run(lambda store: store.find_object(f"{STAGE}/{name}{WHOLE}")) is not None

    def stage(self, name: str, files: Sequence[Path], *, has_all: bool) -> None:
        """Put the files of a shard, the table last: the shard is there when its table is."""
        ordered = sorted(files, key=lambda path: ENDINGS.index(path.suffix))
        sized = [(path, path.stat().st_size) for path in ordered]

        async def put(store: ObjectStore) -> None:
            for path, size_bytes in sized:
                await store.put_pieces(f"{STAGE}/{name}{path.suffix}", path, size_bytes)
            if has_all:
                await store.put(f"{STAGE}/{name}{WHOLE}", b"")

        self._run(put)

    def publish(self, names: Sequence[str], *, overwrite: bool, key: str | None) -> None:
        """Give staged shards their names, in order; ``key`` as in ``publish_shards``.

        Raises LocalFault: some are not there any more.
        """

        async def publish(store: ObjectStore) -> None:
            staged = set(await store.names(f"{STAGE}/"))
            refuse_gone([name for name in names if f"{name}.parquet" not in staged], names, self.url)
            there = {path: int(match[1]) for path in await store.names("") if (match := _SHARD.match(path))}
            numbers = await _take_numbers(store, len(names), max(there.values(), default=-1) + 1)
            pairs = list(zip(names, numbers, strict=True))
            if key is not None:
                await store.put(f"{KEYS}/{key}", msgspec.json.encode(pairs))
            await _copy_all(store, pairs, staged)
            if overwrite and there:
                await store.delete([*there, *(f"{NUMBERS}/{number:05d}" for number in there.values())])

        self._run(publish)

    def finish(self, key: str) -> bool:
        """Whether a job with this key has published; if it was interrupted, its shards get their names."""

        async def finish(store: ObjectStore) -> bool:
            journal = await store.read(f"{KEYS}/{key}")
            if journal is None:
                return False
            pairs = msgspec.json.decode(journal.data, type=list[tuple[str, int]])
            await _copy_all(store, pairs, set(await store.names(f"{STAGE}/")))
            return True

        return self._run(finish)

    def _run(self, call: Callable[[ObjectStore], Awaitable[T]]) -> T:
        async def run() -> T:
            store = ObjectStore(self.url, timeout_s=self._timeout_s, is_only=True, config=self._login or None)
            return await call(store)

        return asyncio.run(run())


async def _copy_all(store: ObjectStore, pairs: Sequence[tuple[str, int]], staged: set[str]) -> None:
    """Copy what is staged to its number, and then remove it from the stage."""
    free = asyncio.Semaphore(AT_ONCE)
    targets = {
        f"{STAGE}/{name}{ending}": f"{number:05d}{ending}"
        for name, number in pairs
        for ending in ENDINGS
        if f"{name}{ending}" in staged
    }

    async def copy(source: str) -> None:
        async with free:
            await store.copy(source, targets[source])

    try:
        async with asyncio.TaskGroup() as group:
            for source in targets:
                group.create_task(copy(source))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    await store.put("_SUCCESS", b"")
    left = [f"{STAGE}/{name}{WHOLE}" for name, _ in pairs if f"{name}{WHOLE}" in staged]
    if targets:
        await store.delete([*left, *targets])


async def _take_numbers(store: ObjectStore, count: int, first: int) -> list[int]:
    """Take so many numbers, from ``first`` on, that no other job takes."""
    numbers: list[int] = []
    number = first
    while len(numbers) < count:
        if await store.create(f"{NUMBERS}/{number:05d}", b""):
            numbers.append(number)
        number += 1
    return numbers
