"""Objects that several machines change by turns: each write states the version that it replaces.

A store decides between two writers with ``If-None-Match: *`` (there must be no object) and ``If-Match`` (it
must still be that version). Old stores ignore these fields, and would take both writes: ``prove`` tries them.
The calls wait, and may be made from any thread, also from one with an event loop.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cfetch.base.errors import ConfigError, VolumeFault
from cfetch.base.secret import printable
from cfetch.storage.buckets.object_store import ObjectStore, find_status
from cfetch.storage.files import STATE_NAME
from cfetch.storage.hanging_calls import Call

T = TypeVar("T")
TIMEOUT_S = 30.0  # for one request with its retries; a heartbeat may miss more than that
LONGEST_S = 86_400.0  # for a file of any size; the library itself ends a request that stands still
MOST_FAULTS = 3  # of one change or answer, before it counts as failed: a connection is lost now and then
QUICK_S = 5.0  # a store that needs longer to fail is down, and has been asked several times
STILL_S = 10.0  # a loop that does not run for so long was stopped with its process, as a laptop that sleeps
_TICK_S = 1.0
_LOST = {"409", "412", "ConditionalRequestConflict", "PreconditionFailed"}
_DENIED = {"401", "403", "429", "500", "502", "503", "504"}  # says nothing about conditions


class Version(NamedTuple):
    """An object as it was read, put at ``changed_s`` by the store's clock. ``tag`` names the version."""

    data: bytes
    tag: dict[str, str]
    changed_s: float


class StoodStill(VolumeFault):
    """A request failed in which this process stood still: that says nothing about the store."""


class VersionedObjects:
    """The objects of the store at ``url``. Raises VolumeFault; UsageError: obstore is not installed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._objects = _Objects(url, timeout_s=TIMEOUT_S)

    def read(self, key: str, known: Version | None = None) -> Version | None:
        """Read an object; None if there is none. Bytes of the ``known`` version are not sent again."""
        return self._wait_again(lambda: self._objects.read_version(key, known))

    def swap(self, key: str, data: bytes, tag: dict[str, str] | None) -> bool:
        """Put an object in place of the version ``tag`` (None: where there is none); False if it was not so.

        If the store's answer is lost, this may say False, or fail, although the object was put.
        """
        return self._wait(lambda: self._objects.swap(key, data, tag))

    def prove(self, token: str) -> None:
        """Raise ConfigError if the store does not keep to conditions. ``token``: this process's own."""
        key = f"{STATE_NAME}/probe-{token}"
        try:
            # what stands there counts: a write whose answer was lost is made again, and is refused then
            self.swap(key, b"1", None)
            is_second = self.swap(key, b"2", None)
            version = self.read(key)
            kept = not is_second and version is not None and version.data == b"1"
            if kept and version is not None:
                self.swap(key, b"3", version.tag)
                is_second = self.swap(key, b"4", version.tag)
                version = self.read(key)
                kept = not is_second and version is not None and version.data == b"3"
        except _NotUnderstood:
            kept = False
        except VolumeFault as fault:
            if not fault.denied:
                raise
            raise VolumeFault(
                f"cannot write the plans in {printable(self.url)}: the store denies it to this login, with "
                "which `cfetch plan list` and `plan show` can only read them. Use one that may also write "
                "and delete there, or keep the plans elsewhere with --state",
                denied=True,
            ) from None
        finally:
            with suppress(VolumeFault):
                self.delete(key)
        if not kept:
            raise ConfigError(
                f"{printable(self.url)} does not decide between two writers (conditional writes), so the "
                "plan cannot be kept there: name another store, or a directory, with --state"
            )

    def put_file(self, key: str, path: Path) -> None:
        """Put the bytes of a file, however many."""
        self._wait(lambda: self._objects.put_file(key, path), LONGEST_S)

    def put(self, key: str, data: bytes) -> None:
        """Put a small object under a key that is nobody else's."""
        self._wait(lambda: self._objects.put(key, data))

    def get_file(self, key: str, path: Path) -> bool:
        """Write the object's bytes to a file; False if there is no object."""
        return self._wait_again(lambda: self._objects.get_file(key, path), LONGEST_S)

    def delete(self, key: str) -> None:
        """Delete an object, which need not exist."""
        self._wait(lambda: self._objects.delete([key]))

    def _wait_again(self, call: Callable[[], Coroutine[Any, Any, T]], limit_s: float = 2 * TIMEOUT_S) -> T:
        """Wait for the answer to a call that may be made again: the library does not if a body is cut."""
        began_s = time.monotonic()
        faults = 0
        while True:
            try:
                return self._wait(call, limit_s)
            except VolumeFault as fault:
                faults += 1
                if isinstance(fault, StoodStill):
                    began_s = time.monotonic()
                if faults == MOST_FAULTS or time.monotonic() - began_s > QUICK_S:
                    raise

    def _wait(self, call: Callable[[], Coroutine[Any, Any, T]], limit_s: float = 2 * TIMEOUT_S) -> T:
        """Wait for the answer in a thread of its own: this one may have an event loop."""
        began_s = time.monotonic()
        try:
            answer: T = Call(printable(self.url), lambda: asyncio.run(_watch(call))).result(limit_s)
        except TimeoutError as error:
            if time.monotonic() - began_s > limit_s + _TICK_S:  # this thread stood still as well
                raise StoodStill(str(error.args[-1])) from None
            raise
        return answer


async def _watch(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Make a call. Raises StoodStill if it failed, and the process stood still meanwhile."""
    loop = asyncio.get_running_loop()
    ticked_s, longest_s = loop.time(), 0.0

    async def tick() -> None:
        nonlocal ticked_s, longest_s
        while True:
            await asyncio.sleep(_TICK_S)
            longest_s, ticked_s = max(longest_s, loop.time() - ticked_s), loop.time()

    ticking = loop.create_task(tick())
    try:
        return await call()
    except VolumeFault as fault:
        if max(longest_s, loop.time() - ticked_s) >= STILL_S:
            raise StoodStill(str(fault)) from None
        raise
    finally:
        ticking.cancel()


class _NotUnderstood(VolumeFault):
    """The store refuses the condition itself."""


class _Objects(ObjectStore):
    """The requests."""

    async def read_version(self, key: str, known: Version | None = None) -> Version | None:
        from obstore.exceptions import NotModifiedError

        options: Any = {"if_none_match": known.tag["e_tag"]} if known and "e_tag" in known.tag else None

        async def get() -> Version | None:
            try:
                reply = await self._obstore.get_async(self._store, key, options=options)
            except NotModifiedError:
                return known
            named = {"e_tag": reply.meta["e_tag"], "version": reply.meta["version"]}
            tag = {name: text for name, text in named.items() if text is not None}
            return Version(bytes(await reply.bytes_async()), tag, reply.meta["last_modified"].timestamp())

        with suppress(FileNotFoundError):
            return await self._ask(f"read {printable(key)}", get, may_lack=True)
        return None

    async def swap(self, key: str, data: bytes, tag: dict[str, str] | None) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if tag is None else tag

        async def put() -> bool | None:
            try:
                await self._obstore.put_async(self._store, key, data, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError:
                raise
            except Exception as error:
                said = find_status(str(error))
                if said & _LOST:
                    return False
                is_heard = any(code.isdigit() for code in said) and not said & _DENIED
                if is_heard or "not supported" in str(error) or "not implemented" in str(error):
                    return None
                raise
            return True

        kept = await self._ask(f"put {printable(key)}", put)
        if kept is None:
            raise _NotUnderstood(f"{printable(self.url)} refuses to put {printable(key)} on a condition")
        return kept

    async def put_file(self, key: str, path: Path) -> None:
        try:
            await self._obstore.put_async(self._store, key, path)
        except Exception as error:  # noqa: BLE001 - as in ``_ask``, which would limit the time
            raise self._fault(error, f"put {printable(key)}") from None

    async def get_file(self, key: str, path: Path) -> bool:
        try:
            reply = await self._obstore.get_async(self._store, key)
            with path.open("wb") as file:
                async for chunk in reply.stream():
                    file.write(chunk)
        except FileNotFoundError:
            return False
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise self._fault(error, f"read {printable(key)}") from None
        return True
