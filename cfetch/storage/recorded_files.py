"""How many files and bytes stand on each volume, by its records of batches. No file is looked at.

A batch that changes gets another id, and an older record of its files stays beside the new one, on the same
volume or on another. So a file counts where its newest record is, and only once. If a volume has many files,
a sample of them is compared, which hashes choose; then the numbers are true to about one per cent.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cfetch.storage.volume_values import BatchRecord

MOST_KEPT = 1 << 15  # files of one volume that are compared, in some 5 MB


class Recorded(NamedTuple):
    """What stands on a volume by its records."""

    files: int = 0
    size_bytes: int = 0


class _Mention(NamedTuple):
    """What a record says of each of its files: ``files`` is above 1 where a file comes in pieces."""

    instant: str
    files: float
    size_bytes: float


class RecordedFiles:
    """The files that the records of one volume name, or a sample of them."""

    def __init__(self, records: Iterable[BatchRecord] = ()) -> None:
        self.mentions: dict[int, _Mention] = {}  # by the hashes of paths whose last ``halvings`` bits are 0
        self.halvings = 0
        self.unnamed = Recorded()  # of an earlier version's records, which name no files
        for record in records:
            self.add(record)

    def add(self, record: BatchRecord) -> None:
        """Add a record."""
        if not record.paths:
            files, size_bytes = self.unnamed
            self.unnamed = Recorded(files + record.files, size_bytes + record.bytes)
            return
        count = len(record.paths)
        mention = _Mention(record.instant, record.files / count, record.bytes / count)
        mask = (1 << self.halvings) - 1
        for key in map(hash, record.paths):
            if not key & mask:
                known = self.mentions.get(key)
                if known is None or known.instant < mention.instant:
                    self.mentions[key] = mention
        while len(self.mentions) > MOST_KEPT:
            self.thin(self.halvings + 1)

    def thin(self, halvings: int) -> None:
        """Keep only the files whose hashes end in so many zeros."""
        self.halvings = max(self.halvings, halvings)
        mask = (1 << self.halvings) - 1
        self.mentions = {key: mention for key, mention in self.mentions.items() if not key & mask}


def count_recorded(volumes: Sequence[RecordedFiles]) -> list[Recorded]:
    """Count what stands on each volume; each file counts on the volume with its newest record."""
    halvings = max((volume.halvings for volume in volumes), default=0)
    newest: dict[int, tuple[str, int]] = {}
    for number, volume in enumerate(volumes):
        volume.thin(halvings)
        for key, mention in volume.mentions.items():
            if key not in newest or newest[key][0] < mention.instant:
                newest[key] = mention.instant, number
    counted: list[Recorded] = []
    for number, volume in enumerate(volumes):
        own = [mention for key, mention in volume.mentions.items() if newest[key][1] == number]
        files = round(sum(mention.files for mention in own)) << halvings
        size_bytes = round(sum(mention.size_bytes for mention in own)) << halvings
        counted.append(Recorded(volume.unnamed.files + files, volume.unnamed.size_bytes + size_bytes))
    return counted
