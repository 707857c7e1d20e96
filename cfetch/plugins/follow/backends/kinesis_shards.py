"""Shards of a Kinesis stream as ranges of a feed: keys, descent, and sequence numbers as LSNs. Pure.

A sequence number is an integer that rises within a shard; a child's numbers are above its parents'. An LSN is
that number, followed by ``MOMENT_BITS`` bits for a moment. LSN ``number << MOMENT_BITS`` is the record's own.
A reader's next LSN ``(number << MOMENT_BITS) + 1 + ms`` says that the record was read, and that the shard had
no later record ``ms`` milliseconds after 1970 (0: not known). So a checkpoint proves that no record was lost
from a quiet shard, although its last record was dropped long ago.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cfetch.base.errors import HostileFeed
from cfetch.manifest.fields import FieldError
from cfetch.plugins.follow.protocol import check_id
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range, Span

MOMENT_BITS = 43  # milliseconds until the year 2248
_MOMENTS = (1 << MOMENT_BITS) - 1
MAX_SEQUENCE_DIGITS = 128  # the limit in the service's own model; real numbers have 56


class Shard(NamedTuple):
    """``first`` and ``last`` are sequence numbers; ``last`` None: the shard is open."""

    id: str
    keys: KeyRange
    parents: tuple[str, ...]
    first: int
    last: int | None


class ShardPosition(NamedTuple):
    """The meaning of a next LSN: ``sequence`` is the next record, or, if ``is_behind``, the last one read.

    ``caught_up_ms``: a time at which no later record was there; 0: not known.
    """

    sequence: int
    is_behind: bool
    caught_up_ms: int


def lsn_of_record(sequence: int) -> int:
    """The LSN of a record."""
    return sequence << MOMENT_BITS


def decode_place(next_lsn: int) -> ShardPosition:
    """Decode a next LSN."""
    low = next_lsn & _MOMENTS
    return ShardPosition(next_lsn >> MOMENT_BITS, low > 0, max(low - 1, 0))


def encode_place(place: ShardPosition) -> int:
    """Encode a place as a next LSN."""
    return lsn_of_record(place.sequence) + (min(1 + place.caught_up_ms, _MOMENTS) if place.is_behind else 0)


def key_of_record(partition_key: str) -> int:
    """The key of a record without an explicit hash key: MD5, as the service computes it."""
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest())


class Shards(NamedTuple):
    """All shards that the service lists: open ones, and closed ones until their records are dropped."""

    by_id: Mapping[str, Shard]

    def ranges(self) -> tuple[Range, ...]:
        """The open shards."""
        return tuple(
            Range(shard.id, shard.keys, self.ancestors(shard.id))
            for shard in self.by_id.values()
            if shard.last is None
        )

    def ancestors(self, name: str) -> frozenset[str]:
        """All shards from which a shard descends, as far as they are listed."""
        ancestors: set[str] = set()
        rest = [name]
        while rest:
            for parent in self.by_id[rest.pop()].parents:
                if parent in self.by_id and parent not in ancestors:
                    ancestors.add(parent)
                    rest.append(parent)
        return frozenset(ancestors)

    def has_children(self, name: str) -> bool:
        """Whether a shard was split or merged, and the outcome is listed."""
        return any(name in shard.parents for shard in self.by_id.values())

    def span(self, name: str) -> Span:
        """The LSNs of a shard. A child's begin right behind its parents', though its numbers are far above.

        All shards begin below the number that the service states, so that a place before any record exists.

        Raises:
            HostileFeed: a child's numbers are not above its parents'.
        """
        shard = self.by_id[name]
        ends = [parent.last for parent_id in shard.parents if (parent := self.by_id.get(parent_id))]
        first = max((end + 1 for end in ends if end is not None), default=shard.first - 1)
        if first >= shard.first:
            raise HostileFeed(f"shard {name} begins before its parents ended")
        last = None if shard.last is None else lsn_of_record(shard.last + 1) - 1
        return Span(lsn_of_record(first), last)


def read_shards(listing: Iterable[Mapping[str, Any]]) -> Shards:
    """Check the shards that the service lists.

    Raises:
        HostileFeed: an id, a key or a number cannot be read.
    """
    try:
        shards = [_read_shard(row) for row in listing]
    except (FieldError, KeyError, ValueError, TypeError):
        raise HostileFeed(
            "the stream lists a shard with an id, a hash key or a number that cannot be read"
        ) from None
    return Shards({shard.id: shard for shard in shards})


def _read_shard(row: Mapping[str, Any]) -> Shard:
    hashes, numbers = row["HashKeyRange"], row["SequenceNumberRange"]
    keys = KeyRange(parse_sequence(hashes["StartingHashKey"]), parse_sequence(hashes["EndingHashKey"]) + 1)
    if not keys.low < keys.high <= ALL_KEYS.high:
        raise ValueError(keys)
    parents = [row.get("ParentShardId"), row.get("AdjacentParentShardId")]
    end = numbers.get("EndingSequenceNumber")
    return Shard(
        check_id(row["ShardId"]),
        keys,
        tuple(check_id(parent) for parent in parents if parent is not None),
        max(parse_sequence(numbers["StartingSequenceNumber"]), 2),  # LSN 0 has a special meaning
        None if end is None else parse_sequence(end),
    )


def parse_sequence(text: str) -> int:
    """Parse a sequence number of the service. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_SEQUENCE_DIGITS):
        raise ValueError(text)
    return int(text)
