"""Keeps the count of the files on a volume that no record of a batch names: placement counts them too.

A run to a single destination, or somebody else, has put them there. The count has the form of the records of
batches, but it is not among them: nobody moves these files, or misses one that has gone. A record of a batch
that names one of them is newer, and so it counts instead.
"""

import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from cfetch.storage.batch_records import read_records
from cfetch.storage.files import STATE_NAME, make_private, on_disk, replace_file
from cfetch.storage.volume_values import BatchRecord

COUNTED = "counted"  # below the volume's state directory
MOST_FILES = 1000  # that one of the records names, as of a batch: a reader has one record in memory


def read_counted(root: Path) -> Iterator[BatchRecord]:
    """Read the count of the volume at ``root``. Raises OSError."""
    return (record for record in read_records(root, COUNTED) if isinstance(record, BatchRecord))


def keep_counted(root: Path, sizes: Iterable[tuple[str, int]]) -> None:
    """Keep the count of these files, by path and bytes, instead of the former one. Raises LocalFault."""
    top = root / STATE_NAME / COUNTED
    with on_disk(top):
        shutil.rmtree(top, ignore_errors=True)
    rest, number = iter(sizes), 0
    while block := dict(islice(rest, MOST_FILES)):
        record = BatchRecord(
            id=f"{number:09}",
            name=None,
            instant="",  # before all batches
            entries=len(block),
            files=len(block),
            bytes=sum(block.values()),
            why="no record of a batch names these files",
            paths=tuple(block),
        )
        with on_disk(top):
            make_private(top)
        replace_file(top / f"{record.id}.json", msgspec.json.encode(record), durable=False)
        number += 1
