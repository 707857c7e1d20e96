"""Shards in an object store: tasks put them below ``.cfetch/shards/``, and the driver copies them.

A store has no rename and no locks. So an object is copied on the server, which moves no bytes to the driver;
and a number is taken by making an object that must not exist before, so two jobs at once take different ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TypeVar

import msgspec

from cfetch.base.errors import UsageError, VolumeFault
from cfetch.plugins.spark.frames.shard_names import (
    EMPTY,
    PUBLISHED,
    Published,
    name_published,
    refuse_gone,
)
from cfetch.storage.buckets.object_store import ObjectStore, pick_login
from cfetch.storage.files import STATE_NAME

STAGE = f"{STATE_NAME}/shards"
KEYS = f"{STATE_NAME}/shard-keys"
NUMBERS = f"{STATE_NAME}/shard-numbers"
GAPS = ".gaps"  # behind the name of a shard of which files have failed: a later attempt makes it again
AT_ONCE = 8  # copies under way: a store makes one of 100 MB in about a second
TABLE = ".parquet"
ENDINGS = (".tar", TABLE)  # the table last: a shard is there when its table is
_MARKS = ("", GAPS, EMPTY)  # what may stand behind a name in the stage; the first that is there counts

T = TypeVar("T")


class ShardStore:
    """The shards below ``url``. It goes to the executors, with the driver's login."""

    def __init__(self, url: str, env: Mapping[str, str], timeout_s: float) -> None:
        self.url = url
        self._login = pick_login(url, env)
        self._timeout_s = timeout_s
        self._store: ObjectStore | None = None  # kept for its connections

    def __getstate__(self) -> dict[str, object]:
        """Leave out the store of this process."""
        return self.__dict__ | {"_store": None}

    def check(self) -> None:
        """Raise VolumeFault, UsageError: the store cannot be used."""
        try:
            self._run(lambda store: store.read_first())
        except (VolumeFault, UsageError) as error:
            error.args = (f"{error}; if os.environ has changed since register(spark), call that again",)
            raise

    def find_complete(self, names: Sequence[str]) -> set[str]:
        """Those of the shards that a task has staged with all of their files."""

        async def find(store: ObjectStore) -> set[str]:
            free = asyncio.Semaphore(AT_ONCE)

            async def is_staged(name: str) -> bool:
                async with free:
                    return await store.find_object(f"{STAGE}/{name}{TABLE}") is not None

            staged = await asyncio.gather(*map(is_staged, names))
            return {name for name, is_there in zip(names, staged, strict=True) if is_there}

        return self._run(find)

    def stage(self, name: str, files: Sequence[Path], *, has_all: bool) -> None:
        """Put the files of a shard; ``has_all``: none has failed."""
        mark = EMPTY if any(path.stem.endswith(EMPTY) for path in files) else "" if has_all else GAPS
        key = f"{STAGE}/{name}{mark}"
        ordered = sorted(files, key=lambda path: ENDINGS.index(path.suffix))
        sized = [(path, path.stat().st_size) for path in ordered]

        async def put(store: ObjectStore) -> None:
            for path, size_bytes in sized:
                await store.put_pieces(f"{key}{path.suffix}", path, size_bytes)

        self._run(put)

    def publish(self, names: Sequence[str], *, overwrite: bool, key: str | None) -> int:
        """Give staged shards their names, in order; ``key`` and the answer as in ``publish_shards``.

        Raises LocalFault: some are not there any more.
        """

        async def publish(store: ObjectStore) -> int:
            staged = set(await store.names(f"{STAGE}/"))
            marks = {name: _find_mark(name, staged) for name in names}
            refuse_gone([name for name in names if marks[name] is None], names, self.url)
            there = {path: match[1] for path in await store.names("") if (match := PUBLISHED.match(path))}
            last = max((int(number) for number in there.values() if number), default=-1)
            full = [name for name in names if marks[name] != EMPTY]
            numbers = dict(zip(full, await _take_numbers(store, len(full), last + 1), strict=True))
            pairs = [(name, numbers.get(name)) for name in names]
            if key is not None:
                await store.put(f"{KEYS}/{key}", msgspec.json.encode(pairs))
            await _copy_all(store, pairs, staged)
            old = there.keys() - {f"{name_published(pair)}{TABLE}" for pair in pairs}
            if overwrite and old:
                taken = {f"{NUMBERS}/{number}" for number in there.values() if number}
                await store.delete([*old, *taken])
            return len(full)

        return self._run(publish)

    def finish(self, key: str) -> bool:
        """Whether a job with this key has published; if it was interrupted, its shards get their names."""

        async def finish(store: ObjectStore) -> bool:
            journal = await store.read(f"{KEYS}/{key}")
            if journal is None:
                return False
            pairs = msgspec.json.decode(journal.data, type=list[Published])
            await _copy_all(store, pairs, set(await store.names(f"{STAGE}/")))
            return True

        return self._run(finish)

    def _run(self, call: Callable[[ObjectStore], Awaitable[T]]) -> T:
        async def run() -> T:
            if self._store is None:
                self._store = ObjectStore(
                    self.url, timeout_s=self._timeout_s, is_only=True, config=self._login or None
                )
            return await call(self._store)

        return asyncio.run(run())


def _find_mark(name: str, staged: set[str]) -> str | None:
    """The mark behind the name of a staged shard; None: it is not there."""
    return next((mark for mark in _MARKS if f"{name}{mark}{TABLE}" in staged), None)


async def _copy_all(store: ObjectStore, pairs: Sequence[Published], staged: set[str]) -> None:
    """Copy what is staged to its number, and then remove it from the stage.

    Two copies of a task may leave a shard with and one without gaps: the one without counts. Others go
    before the copies, and tables go last: so who ends an interrupted job chooses the same.
    """
    free = asyncio.Semaphore(AT_ONCE)
    targets: dict[str, str] = {}
    others: list[str] = []
    for name, number in pairs:
        chosen = _find_mark(name, staged)
        for mark, ending in product(_MARKS, ENDINGS):
            source = f"{name}{mark}{ending}"
            if source not in staged:
                continue
            if mark == chosen:
                targets[f"{STAGE}/{source}"] = f"{name_published((name, number))}{ending}"
            else:
                others.append(f"{STAGE}/{source}")
    if others:
        await store.delete(others)

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
    for ending in ENDINGS:
        if copied := [source for source in targets if source.endswith(ending)]:
            await store.delete(copied)


async def _take_numbers(store: ObjectStore, count: int, first: int) -> list[int]:
    """Take so many numbers, from ``first`` on, that no other job takes."""
    numbers: list[int] = []
    number = first
    while len(numbers) < count:
        if await store.create(f"{NUMBERS}/{number:05d}", b""):
            numbers.append(number)
        number += 1
    return numbers
