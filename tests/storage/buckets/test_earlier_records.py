"""What stands at an object store, for placement: by its records, of which a bounded number is read."""

import asyncio

import msgspec

from cfetch.run.earlier_placements import MOST_READ, find_earlier
from cfetch.storage.buckets.object_store import ObjectStore
from cfetch.storage.volume_values import BatchRecord


def put_records(bucket, count):
    for number in range(count):
        record = BatchRecord(
            id=f"{number:032x}", name=None, instant="1", entries=3, files=3, bytes=30, why="",
            paths=tuple(f"{number}/{file}" for file in range(3)),
        )  # fmt: skip
        bucket.put(f".cfetch/batches/{record.id}.json", msgspec.json.encode(record))


def ask_directory(root, step):
    raise AssertionError(f"{root} is no directory")


async def test_the_mean_of_some_records_stands_for_all(bucket, tmp_path):
    """A request for each of thousands would cost more than the run."""
    stores = [ObjectStore(bucket.url, timeout_s=30)]
    put_records(bucket, 5)
    earlier = await asyncio.to_thread(find_earlier, stores, [], tmp_path, ask_directory)
    assert list(earlier.held) == [(150, 15)]
    put_records(bucket, 3 * MOST_READ)
    bucket.server.take_asked()
    earlier = await asyncio.to_thread(find_earlier, stores, [], tmp_path, ask_directory)
    assert list(earlier.held) == [(30 * 3 * MOST_READ, 3 * 3 * MOST_READ)]
    assert sum(bucket.server.take_asked().values()) <= MOST_READ + 2
