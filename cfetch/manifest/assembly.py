"""Entries that are pieces of one file: finds the place of each piece, and checks that there is no gap.

A piece states its place by ``offset``; without ``offset`` it follows the piece before it in the manifest. The
pieces of a file are one batch, so the file is published only when all pieces are there. Pure.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from cfetch.base.secret import printable
from cfetch.manifest.entry import Collision, Entry, Piece
from cfetch.manifest.fields import MAX_BATCH_CHARS, MAX_INT
from cfetch.manifest.urls import strip_signature

_DIGEST_CHARS = 16


def name_batch(path: str) -> str:
    """The name of the batch for the pieces of the file at ``path``, if they state no batch."""
    if len(path) <= MAX_BATCH_CHARS:
        return path
    digits = hashlib.sha256(path.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{digits}…{path[_DIGEST_CHARS + 1 - MAX_BATCH_CHARS :]}"


def find_positions(pieces: Sequence[Entry]) -> list[Piece] | Collision:
    """The places of the pieces of one file, in the order of ``pieces``; or the pieces that do not fit."""
    starts, end = [], 0
    for entry in pieces:
        assert entry.piece is not None
        starts.append(end if entry.piece.start_byte < 0 else entry.piece.start_byte)
        end = starts[-1] + (entry.size_bytes or 0)
    order = sorted(range(len(pieces)), key=lambda number: (starts[number], pieces[number].size_bytes))
    placed = [(starts[number], pieces[number]) for number in order]
    if misfit := _find_gap(placed) or _find_other_batch(pieces):
        return misfit
    file_bytes = sum(entry.size_bytes or 0 for entry in pieces)
    source = _hash_sources([entry for _, entry in placed]) if len(pieces) > 1 else ""
    return [Piece(start, file_bytes, source) for start in starts]


def put_in_place(entry: Entry, piece: Piece) -> Entry:
    """The entry with its place in the file; if a file has only one piece, the entry becomes a whole file."""
    if piece.source:
        return msgspec.structs.replace(entry, piece=piece, offset=piece.start_byte)
    batch = None if entry.batch == name_batch(entry.path) else entry.batch
    return msgspec.structs.replace(entry, piece=None, batch=batch)


def _find_other_batch(pieces: Sequence[Entry]) -> Collision | None:
    """Find two pieces with different batches."""
    first = pieces[0]
    for entry in pieces:
        if entry.batch != first.batch:
            what = f"two pieces of {printable(first.path)!r} state different batches"
            return Collision(first, entry, what, "state one for both")
    return None


def _find_gap(placed: Sequence[tuple[int, Entry]]) -> Collision | None:
    """Find the first gap or overlap; ``placed`` has each piece with its first byte, in order."""
    start, first = placed[0]
    shown = printable(first.path)
    if start:
        what = f"the first piece of {shown!r} begins at byte {start:,}"
        return Collision(first, first, what, "add the piece before it, or correct its offset")
    for (begin, entry), (next_begin, after) in pairwise(placed):
        end = begin + (entry.size_bytes or 0)
        if end != next_begin:
            what = "overlap" if end > next_begin else "leave a gap"
            return Collision(
                entry,
                after,
                f"two pieces of {shown!r} {what}, as one ends at byte {end:,} and the next begins at byte "
                f"{next_begin:,}",
                "correct offset or size",
            )
    start, last = placed[-1]
    if start + (last.size_bytes or 0) > MAX_INT:
        what = f"the pieces of {shown!r} have more than {MAX_INT} bytes together"
        return Collision(first, last, what, "correct their sizes")
    return None


def _hash_sources(placed: Sequence[Entry]) -> str:
    """Hash the pieces and their sources without signatures of links; 32 hex digits."""
    running = hashlib.sha256()
    for entry in placed:
        stated = (strip_signature(entry.url.value), entry.range_start, entry.size_bytes, entry.digest)
        running.update(msgspec.json.encode(stated) + b"\n")
    return running.hexdigest()[:32]
