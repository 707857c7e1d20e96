"""What earlier runs have left on several volumes, as placement needs it: files, bytes, and whose turn it is.

Files and bytes come from the records of the batches, which are read once, when a run begins. The turn of
``round-robin`` is in the state: the volume that comes next.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.base.errors import CfetchError, LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.engine.placement.chooser import Earlier
from cfetch.storage.batch_records import read_records
from cfetch.storage.files import STATE_NAME, on_disk, replace_file
from cfetch.storage.recorded_files import Recorded, RecordedFiles, count_recorded
from cfetch.storage.volume_values import BATCHES, BatchRecord

if TYPE_CHECKING:
    from cfetch.storage.buckets.object_store import ObjectStore

PLACEMENT = "placement.json"  # in the state directory
MOST_READ = 64  # records of an object store: a request for each; the others count as the mean of these

_Ask = Callable[[Path, Callable[[], RecordedFiles]], RecordedFiles]


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = "cfetch.placement/1"
    next: str  # a volume


class Origin(NamedTuple):
    """A volume: its name, which is a path for a directory, and the store, if it is one."""

    name: str
    store: "ObjectStore | None" = None


def find_earlier(volumes: Sequence[Origin], paused: frozenset[int], state: Path, ask: _Ask) -> Earlier:
    """Find what earlier runs have left; ``ask`` does not wait for ever for a directory.

    A volume that cannot be read counts as empty: it will fail when it is used.
    """
    recorded: list[RecordedFiles] = []
    for volume in volumes:
        files = RecordedFiles()
        with suppress(CfetchError):
            if volume.store is not None:
                files = asyncio.run(_read_store(volume.store))
            else:
                files = ask(Path(volume.name), partial(_read_directory, Path(volume.name)))
        recorded.append(files)
    held = [(counted.size_bytes, counted.files) for counted in count_recorded(recorded)]
    names = [volume.name for volume in volumes]
    turn = _read_turn(state)
    return Earlier(held, paused, names.index(turn) if turn in names else 0)


def keep_turn(state: Path, name: str) -> None:
    """Keep which volume comes next. A state that cannot be written begins with the first volume again."""
    with suppress(LocalFault):
        replace_file(state / PLACEMENT, msgspec.json.encode(_Turn(next=name)), durable=False)


def _read_turn(state: Path) -> str | None:
    with suppress(OSError, *NOT_DECODED):
        return msgspec.json.decode((state / PLACEMENT).read_bytes(), type=_Turn).next
    return None


def _read_directory(root: Path) -> RecordedFiles:
    with on_disk(root):
        return RecordedFiles(record for record in read_records(root) if isinstance(record, BatchRecord))


async def _read_store(store: "ObjectStore") -> RecordedFiles:
    prefix = f"{STATE_NAME}/{BATCHES}"
    names = await store.names(prefix)
    read = await asyncio.gather(*(store.read(f"{prefix}/{name}") for name in names[:MOST_READ]))
    records: list[BatchRecord] = []
    for object_ in read:
        with suppress(*NOT_DECODED):
            records += [] if object_ is None else [msgspec.json.decode(object_.data, type=BatchRecord)]
    files = RecordedFiles(records)
    if records and len(names) > len(read):
        share = (len(names) - len(read)) / len(records)
        files.unnamed = Recorded(
            files.unnamed.files + round(share * sum(record.files for record in records)),
            files.unnamed.size_bytes + round(share * sum(record.bytes for record in records)),
        )
    return files
