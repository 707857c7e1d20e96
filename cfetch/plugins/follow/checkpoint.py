"""The position of a follower, as a file (``cfetch.checkpoint/1``): reading can continue from there.

It holds the lineage too, so that the keys and ends of ranges need not be asked again. Keys are hex, and LSNs
decimal text: neither fits a JSON number that all programs read alike. Only the file's owner can read it, as
links of changes that wait may be signed.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from cfetch.base.errors import FeedError, HostileFeed
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import Entry, SafePath, UnsafePathError, safe_path
from cfetch.plugins.follow.lineage import Closed, Lineage, check_ranges
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Range
from cfetch.plugins.follow.route import Token
from cfetch.plugins.follow.source import Change, FeedId
from cfetch.storage.files import on_disk, replace_file

MAX_PENDING = 200_000  # some 100 MB, written again at each commit; later deletes make many of them obsolete
MAX_BYTES = 1 << 28  # a hundred thousand ranges take 60 MB
_KEYS = re.compile(r"([0-9a-f]{32})-([0-9a-f]{32,33})", re.ASCII)
_LSN = re.compile(r"-1|0|[1-9][0-9]{0,99}", re.ASCII)  # Kinesis has 56 digits; -1: ended before LSN 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``tokens``, by key, hold each of ``keys`` exactly once; ``pending`` changes failed, and wait.

    ``starts``: the oldest LSNs that were kept of some closed ranges when reading began. Ranges that merged
    later were no ancestors of each other, so each had its own oldest entry.

    Raises:
        ValueError: the tokens leave a gap or overlap, or name ranges that the lineage does not know.
    """

    lineage: Lineage
    keys: KeyRange
    tokens: tuple[Token, ...]
    pending: tuple[Change, ...] = ()
    starts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        edges = [self.keys.low, *(edge for token in self.tokens for edge in token.keys), self.keys.high]
        if not self.tokens or any(end != begin for end, begin in zip(edges[::2], edges[1::2], strict=True)):
            raise ValueError("its tokens do not have each key once")
        if any(low >= high for low, high in (self.keys, *(token.keys for token in self.tokens))):
            raise ValueError("a token has no keys")
        known = {*self.lineage.closed, *(live.id for live in self.lineage.live)}
        if any(token.position.range not in known for token in self.tokens):
            raise ValueError("a token stands in a range that its lineage does not know")
        if len(self.pending) > MAX_PENDING:
            raise ValueError(f"more than {MAX_PENDING} changes wait")

    @property
    def feed(self) -> FeedId:
        """The feed to which the checkpoint belongs."""
        return self.lineage.feed


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    keys: str
    range: str
    next_lsn: str
    is_new: bool
    mark: str = ""


class _Live(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    keys: str
    ancestors: list[str]


class _Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    keys: str
    first: str
    last: str


class ChangeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change as it is stored: numbers are text, and the path is not trusted yet."""

    lsn: str
    key: str
    path: str
    entry: Entry | None
    waits: bool = False


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    schema: Literal["cfetch.checkpoint/1"]
    account: str
    feed: str
    generation: str
    keys: str
    tokens: list[_Token]
    live: list[_Live]
    closed: list[_Closed]
    pending: list[ChangeRow]
    starts: dict[str, str] = {}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file in one step; it is on disk when this returns. Raises LocalFault."""
    replace_file(path, encode_checkpoint(checkpoint))


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read the checkpoint of a file; None if there is no file.

    Raises:
        FeedError: it is damaged, or it is no checkpoint of this version.
        LocalFault: it cannot be read.
    """
    with on_disk(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    try:
        return decode_checkpoint(data)
    except ValueError as error:
        raise FeedError(
            f"cannot go on from the checkpoint {path}: {error}; put back a copy of it, or move it away to "
            "read the feed from its beginning"
        ) from None


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode the file's bytes: JSON, with links in clear text."""
    lineage = checkpoint.lineage
    document = _Document(
        schema="cfetch.checkpoint/1",
        account=lineage.feed.account,
        feed=lineage.feed.id,
        generation=lineage.generation,
        keys=_format_keys(checkpoint.keys),
        tokens=[
            _Token(_format_keys(keys), name, str(next_lsn), is_new, mark)
            for keys, (name, next_lsn, mark), is_new in checkpoint.tokens
        ],
        live=[_Live(leaf.id, _format_keys(leaf.keys), sorted(leaf.ancestors)) for leaf in lineage.live],
        closed=[
            _Closed(name, _format_keys(closed.keys), str(closed.first), str(closed.last))
            for name, closed in sorted(lineage.closed.items())
        ],
        pending=[make_row(change) for change in checkpoint.pending],
        starts={name: str(lsn) for name, lsn in sorted(checkpoint.starts.items())},
    )
    return msgspec.json.encode(document)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode the bytes of ``encode_checkpoint``. Raises ValueError, which names the fault."""
    if len(data) > MAX_BYTES:
        raise ValueError("it is too large")
    try:
        return _build_checkpoint(msgspec.json.decode(data, type=_Document))
    except NOT_DECODED:
        raise ValueError("it is not what cfetch writes (cfetch.checkpoint/1)") from None
    except UnsafePathError:
        raise ValueError("a change that waits has a path that is not allowed") from None
    except HostileFeed as error:
        raise ValueError(str(error)) from None


def _build_checkpoint(document: _Document) -> Checkpoint:
    live = tuple(Range(row.id, _parse_keys(row.keys), frozenset(row.ancestors)) for row in document.live)
    if check_ranges(live) != live:
        raise ValueError("its live ranges are not in order")
    closed = {
        row.id: Closed(_parse_keys(row.keys), _parse_lsn(row.first), _parse_lsn(row.last))
        for row in document.closed
    }
    for name, ended in closed.items():
        if ended.last < ended.first - 1:
            raise ValueError(f"range {name!r} ends before it begins")
    if not frozenset[str]().union(*(leaf.ancestors for leaf in live)) <= closed.keys():
        raise ValueError("its lineage names ranges that it does not describe")
    tokens = tuple(
        Token(_parse_keys(row.keys), Position(row.range, _parse_lsn(row.next_lsn), row.mark), row.is_new)
        for row in document.tokens
    )
    for token in tokens:
        end = closed.get(token.position.range)
        if token.position.next_lsn < 0 or (end and token.position.next_lsn > end.last + 1):
            raise ValueError("a token stands beyond the end of its range")
    lineage = Lineage(FeedId(document.account, document.feed), document.generation, live, closed)
    pending = tuple(restore_change(row) for row in document.pending)
    starts = {name: _parse_lsn(lsn) for name, lsn in document.starts.items()}
    return Checkpoint(lineage, _parse_keys(document.keys), tokens, pending, starts)


def make_row(change: Change) -> ChangeRow:
    """Turn a change into a row for a file."""
    return ChangeRow(str(change.lsn), f"{change.key:032x}", change.path, change.entry, change.waits)


def restore_change(row: ChangeRow) -> Change:
    """Turn a row back into its change. Raises ValueError: ``make_row`` did not make it."""
    path: SafePath = safe_path(row.path)
    key = int(row.key, 16) if re.fullmatch(r"[0-9a-f]{32}", row.key, re.ASCII) else -1
    if key < 0 or (row.entry and row.entry.path != path):
        raise ValueError("a change that waits contradicts itself")
    return Change(_parse_lsn(row.lsn), key, path, row.entry, row.waits)


def _format_keys(keys: KeyRange) -> str:
    return f"{keys.low:032x}-{keys.high:032x}"


def _parse_keys(text: str) -> KeyRange:
    match = _KEYS.fullmatch(text)
    keys = KeyRange(int(match[1], 16), int(match[2], 16)) if match else KeyRange(0, 0)
    if not keys.low < keys.high <= ALL_KEYS.high:
        raise ValueError("keys are not what cfetch writes")
    return keys


def _parse_lsn(text: str) -> int:
    if not _LSN.fullmatch(text):
        raise ValueError("an LSN is not what cfetch writes")
    return int(text)
