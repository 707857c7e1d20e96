"""What says that a batch is on a volume: its record, and the id by which all volumes know it."""

import hashlib
from collections.abc import Iterable

import msgspec

from cfetch.manifest.entry import Entry
from cfetch.manifest.urls import unsigned

__all__ = ["BATCHES", "BatchRecord", "batch_id"]

BATCHES = "batches"  # below the volume's state directory: one file a batch


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that stands whole on the volume where this lies (``cfetch.batch/1``).

    ``name`` is the manifest's; ``files`` and ``bytes`` are what stands there, ``files`` of ``entries`` that
    the batch has; ``why`` says why it was placed there.
    """

    schema: str = "cfetch.batch/1"
    id: str
    name: str | None
    instant: str
    entries: int
    files: int
    bytes: int
    why: str


def batch_id(entries: Iterable[Entry]) -> str:
    """The same for the same files from the same sources, however links are signed; 32 hex digits."""
    told = sorted(f"{one.path}\0{one.size_bytes}\0{one.digest}\0{unsigned(one.url.value)}" for one in entries)
    running = hashlib.blake2b(digest_size=16)
    for text in told:
        running.update(text.encode() + b"\n")
    return running.hexdigest()
