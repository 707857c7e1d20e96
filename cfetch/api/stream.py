"""``stream``: the files of a source as bytes in memory, in their order, while later ones are downloaded.

Each iteration is a run of its own, in a thread of its own (``own_thread.py``). The run puts whole and
verified files into an outbox, as far ahead as the memory permits; the iteration takes them out. However an
iteration ends, by an error or a ``break`` too, its run has ended before, and nothing is left on disk.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.api.downloads import _describe_missing, _Relay
from cfetch.api.entry import Entry, from_manifest
from cfetch.api.own_thread import Stop, start_apart
from cfetch.api.sources import Source, prepare_source
from cfetch.app.prepared import Prepared
from cfetch.app.stream import open_plan_place
from cfetch.base.config.settings import Settings
from cfetch.base.config.units import parse_size
from cfetch.base.errors import ConfigError, Incomplete, SourceError, UsageError
from cfetch.base.events import Listener, RunNoted
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.manifest.fields import Headers
from cfetch.manifest.unpacking import check_libraries, unpack
from cfetch.run.stream_run import Handed, Outbox

if TYPE_CHECKING:
    import pyarrow

STATEMENT = "statement.json"


class Item(NamedTuple):
    """One file: its entry, and its bytes."""

    entry: Entry
    data: bytes


def stream(
    source: Source | Mapping[str, object],
    *,
    ordered: bool = True,
    memory: int | str = "256M",
    unpacked: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
) -> "Stream":
    """The files of ``source`` as bytes, each as soon as it is whole, verified and its turn has come.

    Iterate over the result with ``for`` or ``async for``; each iteration is a run of its own.

    Args:
        source: as for ``download``; also the reply of a SQL statement, as a mapping.
        ordered: in the order of the source; else each file as soon as it is whole.
        memory: the most bytes that are held for files under way and files that wait, as a number or as
            "256M". What the caller keeps of earlier items does not count.
        unpacked: unpack LZ4 frames, zstd and gzip. Half of the memory is for the file that is unpacked.
        settings: the options of ``cfetch download``, without those of a destination.
        on_event: as for ``download``.

    Raises:
        UsageError: the memory is no size, or too small; or a library for unpacking is missing. In an
            iteration as ``download``, and ``Incomplete`` when the turn of a file comes that cannot be had.
            ``Settings(max_failures=…)`` leaves out some.
    """
    if unpacked:
        check_libraries()
    return Stream(source, ordered, _read_memory(memory), unpacked, settings or Settings(), on_event)


class Stream:
    """The files of a source, for ``for`` and ``async for``; ``batches`` are those of Arrow files."""

    def __init__(
        self,
        source: Source | Mapping[str, object],
        ordered: bool,
        memory_bytes: int,
        unpacked: bool,
        settings: Settings,
        on_event: Listener | None,
    ) -> None:
        self._source = source
        self._ordered = ordered
        self._memory_bytes = memory_bytes
        self._unpacked = unpacked
        self._settings = settings
        self._on_event = on_event

    def __iter__(self) -> Iterator[Item]:
        reading = self._begin(unpacked=self._unpacked)
        try:
            while (handed := reading.outbox.wait_and_take()) is not None:
                index, items = handed.key, reading.open(handed)
                del handed
                while items:
                    yield items.pop()  # from here on only the caller has the bytes
                reading.outbox.give_away(index)
        finally:
            reading.stop_soon()
            wait([reading.future])
        reading.finish()

    async def __aiter__(self) -> AsyncIterator[Item]:
        reading = self._begin(unpacked=self._unpacked)
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(changed.set)

        reading.outbox.on_change = wake
        try:
            while True:
                changed.clear()
                is_closed = reading.outbox.is_closed
                handed = reading.outbox.take()
                if handed is None:
                    if is_closed:
                        break
                    await changed.wait()
                    continue
                index = handed.key
                if self._unpacked:
                    items = await asyncio.to_thread(reading.open, handed)
                else:
                    items = reading.open(handed)
                del handed
                while items:
                    yield items.pop()
                reading.outbox.give_away(index)
        finally:
            reading.stop_soon()
            with suppress(BaseException):
                await asyncio.shield(asyncio.wrap_future(reading.future))
        reading.finish()

    def batches(self) -> "Iterator[pyarrow.RecordBatch]":
        """The record batches of Arrow files (streams, as a statement's, or files), unpacked.

        Raises UsageError: pyarrow is not installed; and as an iteration.
        """
        try:
            from pyarrow import ipc
        except ImportError:
            raise UsageError("record batches need pyarrow; pip install 'cfetch[parquet]'") from None
        unpacking = Stream(
            self._source, self._ordered, self._memory_bytes, True, self._settings, self._on_event
        )
        for _, data in unpacking:
            if data.startswith(b"ARROW1"):
                file = ipc.open_file(data)
                yield from map(file.get_batch, range(file.num_record_batches))
            else:
                yield from ipc.open_stream(data)

    def _begin(self, *, unpacked: bool) -> "_Reading":
        return _Reading(
            self._source,
            self._settings,
            Outbox(ordered=self._ordered),
            self._memory_bytes // 2 if unpacked else self._memory_bytes,
            self._on_event,
            unpacked_bytes=self._memory_bytes // 2 if unpacked else None,
        )


class _Reading:
    """One run, and what its reader needs of it."""

    def __init__(
        self,
        source: Source | Mapping[str, object],
        settings: Settings,
        outbox: Outbox,
        most_bytes: int,
        on_event: Listener | None,
        *,
        unpacked_bytes: int | None,
    ) -> None:
        self.outbox = outbox
        self._skips = settings.max_failures is not None and settings.max_failures > 0
        self._unpacked_bytes = unpacked_bytes
        self._headers: Headers = ()
        self._relay = _Relay(on_event)
        self._stop = Stop()

        def run(stop: Stop) -> Summary:
            try:
                with _prepare(source, settings, stop) as prepared:
                    return self._run(prepared, most_bytes, stop)
            finally:
                outbox.close()

        self.future: Future[Summary] = start_apart(run, self._stop)

    def _run(self, prepared: Prepared, most_bytes: int, stop: Stop) -> Summary:
        self._headers = prepared.plan.headers
        self._relay.end_run = prepared.interrupt
        stop.end_by(prepared.interrupt)
        for note in prepared.notes:
            self._relay(RunNoted(t_s=0.0, note=note))
        return prepared.stream(self.outbox, most_bytes, self._relay)

    def open(self, handed: Handed) -> list[Item]:
        """The item of an entry, unpacked; none if it cannot be had and is left out.

        Raises Incomplete: it cannot be had.
        """
        if handed.error is not None:
            if self._skips:
                return []
            self.stop_soon()
            summary = self.future.result()
            raise Incomplete(f"{printable(handed.entry.path)} cannot be had: {handed.error}", summary)
        data = handed.take()
        if self._unpacked_bytes is not None:
            try:
                data = unpack(data, self._unpacked_bytes)
            except SourceError as error:
                raise type(error)(f"{printable(handed.entry.path)}: {error}") from None
        return [Item(from_manifest(handed.entry, self._headers), data)]

    def stop_soon(self) -> None:
        """End the run, if it is not over."""
        if not self.future.done():
            self._stop.pull()

    def finish(self) -> None:
        """Raise the error with which the run has ended, if there is one."""
        summary = self.future.result()
        if self._relay.error is not None:
            raise self._relay.error
        if summary.exit_code:
            raise Incomplete(_describe_missing(summary, self._relay.stopping), summary)


@contextmanager
def _prepare(source: Source | Mapping[str, object], settings: Settings, stop: Stop) -> Iterator[Prepared]:
    with open_plan_place(settings) as placed:
        if isinstance(source, Mapping) and "statement_id" in source:
            place = Path(placed.to[0], STATEMENT)
            place.touch(0o600)
            place.write_bytes(msgspec.json.encode(source))  # its links are signed
            source = os.fspath(place)
        with prepare_source(source, placed, lambda _: stop.check(), needs_room=False) as prepared:
            yield prepared


def _read_memory(memory: int | str) -> int:
    """The number of bytes. Raises ConfigError."""
    try:
        return parse_size(memory) if isinstance(memory, str) else int(memory)
    except ValueError as error:
        raise ConfigError(f"memory is {memory!r} but {error}") from None
