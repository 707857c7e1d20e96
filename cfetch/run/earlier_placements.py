"""What earlier runs have left on several volumes, as placement needs it: files, bytes, and whose turn it is.

Files and bytes come from the records of the batches, and from what a rescan has counted besides. They are
read once, when a run begins. The turn of ``round-robin`` is in the state: the volume that comes next.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.engine.placement.chooser import Earlier
from cfetch.storage.batch_records import read_records
from cfetch.storage.counted_files import read_counted
from cfetch.storage.directory import Directory
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


def explain_pauses(paused: Sequence[Path], *, all_of_them: bool) -> list[tuple[str, LocalFault]]:
    """Say why these volumes take nothing. Raises VolumeFault: no other is left."""
    if all_of_them:
        raise VolumeFault(
            f"{', '.join(map(str, paused))}: every destination is paused; `cfetch volume resume` "
            "lets it take files again"
        )
    why = "it is paused, so nothing new goes there; `cfetch volume resume` ends that"
    return [(str(root), VolumeFault(why)) for root in paused]


def find_earlier(
    volumes: "Sequence[Directory | ObjectStore]", paused: Sequence[Path], state: Path, ask: _Ask
) -> Earlier:
    """Find what earlier runs have left; ``ask`` does not wait for ever for a directory.

    A volume that cannot be read counts as empty: it will fail when it is used.
    """
    recorded: list[RecordedFiles] = []
    for volume in volumes:
        files = RecordedFiles()
        with suppress(CfetchError):
            if isinstance(volume, Directory):
                files = ask(volume.root, partial(_read_directory, volume.root))
            else:
                files = asyncio.run(_read_store(volume))
        recorded.append(files)
    held = [(counted.size_bytes, counted.files) for counted in count_recorded(recorded)]
    names = [str(volume.root) if isinstance(volume, Directory) else volume.url for volume in volumes]
    turn = _read_turn(state)
    return Earlier(
        held,
        {number for number, name in enumerate(names) if Path(name) in paused},
        names.index(turn) if turn in names else 0,
        lambda index: _keep_turn(state, names[index]),
    )


def _keep_turn(state: Path, name: str) -> None:
    """Keep which volume comes next. A state that cannot be written begins with the first volume again."""
    with suppress(LocalFault):
        replace_file(state / PLACEMENT, msgspec.json.encode(_Turn(next=name)), durable=False)


def _read_turn(state: Path) -> str | None:
    with suppress(OSError, *NOT_DECODED):
        return msgspec.json.decode((state / PLACEMENT).read_bytes(), type=_Turn).next
    return None


def _read_directory(root: Path) -> RecordedFiles:
    with on_disk(root):
        files = RecordedFiles(record for record in read_records(root) if isinstance(record, BatchRecord))
        for counted in read_counted(root):
            files.add(counted)
        return files


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
