"""Decides by name and note whether a run may continue a part of an earlier run. Pure.

A part's name is a hash over its entry: path, size, and the manifest's hash or the link. So a later run finds
the part of its own entry by name, and the manifest's hash, or the size of a whole part, proves it. If neither
can prove a part, there is a note beside it with the strong ETag of its bytes; only bytes with the same ETag
may follow them. A part that several streams have written has holes, and its note says which bytes it holds.
A link that was signed anew still names the same file, so signatures do not count; names and notes hold a
hash of the rest, never the URL.

The timeline moves the files that ``useful_parts`` selects from a dead run's directory to
``attempts/<instant>/<epoch>-<old epoch>/``, and removes all others. The name alone tells the entry of a part,
so a part that can be proved needs no note: files are published in groups, and a note for each small file that
waits would cost more than the file.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.errors import Corrupt
from cfetch.base.records import NOT_DECODED
from cfetch.base.schemes import DEFAULT_PORTS
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Digest, Entry
from cfetch.manifest.urls import strip_signature

if TYPE_CHECKING:
    from cfetch.manifest.hashing import Hash

WORTH_KEEPING_BYTES = 1 << 20  # fewer bytes are fetched in 0.1 s at 100 Mbit/s; a note would cost more

SHOWN_DIGITS = 16  # digits of a hash in a message: as many as a person compares
NOTE_SUFFIX = ".note"
PROVED_BY_HASH = "h"  # first letter of a part's name: the manifest has a hash for it
PROVED_BY_SIZE = "s"  # no hash: without a note, only a whole part is of use, and only on the same boot
IN_RANGES = "r"  # the part has holes: only its note tells where they are, so without it the part is of no use
SECOND = "2"  # a second request for an entry that has a part already: of no use to a later run
BATCH = "b"  # an empty file: the batch of that id is being staged here
PART_NAME = re.compile(f"[{PROVED_BY_HASH}{PROVED_BY_SIZE}{IN_RANGES}{BATCH}][0-9a-f]{{32}}")


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The note beside a part (``cfetch.part/1``). ``boot_id`` tells whether the machine has restarted.

    The note of a part in ranges has ``held``, pairs of first byte and end, of the file's ``total_bytes``.
    ``path`` is its ``owner_of``. ``check`` is a checksum of all other fields: if the disk changed a digit,
    zeros might be published in place of bytes.
    """

    schema: str = "cfetch.part/1"
    path: str
    size_bytes: int | None
    digest: str | None
    identity: str
    validator: str | None
    boot_id: str
    held: tuple[tuple[int, int], ...] | msgspec.UnsetType = msgspec.UNSET
    total_bytes: int | msgspec.UnsetType = msgspec.UNSET
    check: str = ""


def identity(url: SecretUrl) -> str:
    """A hash of a link without its signature: it is the same for two links to one object."""
    return _hash_source(url, "")


def identity_of(entry: Entry, source: SecretUrl | None = None) -> str:
    """The ``identity`` of an entry's source: two ranges of one object have different identities.

    ``source``: a mirror; None: the entry's own URL.
    """
    start, url = entry.range_start, entry.url if source is None else source
    return _hash_source(url, "" if start is None else f" {start}+{entry.size_bytes}")


def _hash_source(url: SecretUrl, part: str) -> str:
    text = strip_signature(url.value)
    end = text.find("/", text.find("://") + 3)
    origin, tail = (text, "") if end < 0 else (text[:end], text[end:])
    text = _spell_origin(origin) + tail + part  # a URL has no space
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=256)  # nearly all links of a manifest have one of few origins
def _spell_origin(origin: str) -> str:
    scheme, _, authority = origin.partition("://")
    port = DEFAULT_PORTS.get(scheme.lower())
    return f"{scheme}://{authority.removesuffix(f':{port}')}".lower()


def owner_of(entry: Entry) -> str:
    """The owner of a part: the entry's path, and for a piece its place, as other pieces have the same path.

    Empty pieces may share a place, so their id is added.
    """
    if entry.piece is None:
        return entry.path
    return f"{entry.path}\0{entry.piece.start_byte}" + ("" if entry.size_bytes else f"\0{entry.id}")


def must_ask(entry: Entry) -> bool:
    """Whether the server has to confirm even a whole part of an earlier run.

    Pieces of one file that came in two runs may belong to two versions, and no hash would detect that.
    """
    return entry.piece is not None and entry.digest is None


def part_name(entry: Entry, boot_id: str, link: str | None = None) -> str:
    """The name of every part of ``entry``, in this run and others; 33 characters.

    ``link`` is its ``identity_of``, if that is known already. Without a hash in the manifest, the boot counts
    too: after a restart of the machine, unflushed bytes may be lost although the size looks right.
    """
    if entry.digest is not None:
        kind, proof = PROVED_BY_HASH, f"{entry.digest.algorithm}:{entry.digest.hex}"
    else:
        kind, proof = PROVED_BY_SIZE, f"{link or identity_of(entry)} {boot_id}"
    text = f"{owner_of(entry)}\0{entry.size_bytes}\0{proof}"
    return kind + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def in_ranges(name: str) -> str:
    """The name of a part when its bytes come out of order."""
    return IN_RANGES + name[1:]


def beside(name: str) -> str:
    """The name of the part for a second request, while the first request goes on."""
    return SECOND + name[1:]


def useful_parts(names: Iterable[str]) -> list[str]:
    """Select the names of parts, and of the notes beside them, from the names in a dead run's directory."""
    present = set(names)
    parts = {name for name in present if PART_NAME.fullmatch(name)}
    return sorted(parts | {name + NOTE_SUFFIX for name in parts} & present)


def note_for(
    entry: Entry,
    validator: str | None,
    boot_id: str,
    *,
    held: tuple[tuple[int, int], ...] | msgspec.UnsetType = msgspec.UNSET,
    total_bytes: int | msgspec.UnsetType = msgspec.UNSET,
) -> Note:
    """The note for a part of ``entry`` whose bytes have the ETag ``validator``."""
    return Note(
        path=owner_of(entry),
        size_bytes=entry.size_bytes,
        digest=f"{entry.digest.algorithm}:{entry.digest.hex}" if entry.digest else None,
        identity=identity_of(entry),
        validator=validator,
        boot_id=boot_id,
        held=held,
        total_bytes=total_bytes,
    )


def proof_of(
    position: int,
    running: "Hash | None",
    size_bytes: int | None,
    digest: Digest | None,
    stated: Digest | None = None,
) -> str:
    """Verify ``position`` bytes, seen by ``running``; return the proof: a hash's name, ``size``, ``none``.

    ``size_bytes`` and ``digest`` are the manifest's. If it has no hash, ``stated`` is the server's hash, and
    the proof is ``server-…``. Raises Corrupt: the bytes are not the entry's file.
    """
    if size_bytes is not None and position != size_bytes:
        raise Corrupt(f"{position} bytes came where the manifest says {size_bytes}")
    expected = stated if digest is None else digest
    if expected is None or running is None:
        return "none" if size_bytes is None else "size"
    digits = running.hexdigest()
    if digits != expected.hex:
        who = "server" if digest is None else "manifest"
        shown, wanted = _shorten(digits), _shorten(expected.hex)
        raise Corrupt(f"the {expected.algorithm} of the bytes is {shown} where the {who} says {wanted}")
    return f"server-{expected.algorithm}" if digest is None else expected.algorithm


def _shorten(digits: str) -> str:
    return digits if len(digits) <= SHOWN_DIGITS else f"{digits[:SHOWN_DIGITS]}…"


def encode_note(note: Note) -> bytes:
    """The bytes of a note's file, with its ``check``."""
    return msgspec.json.encode(msgspec.structs.replace(note, check=_sum_up(note)))


def _sum_up(note: Note) -> str:
    text = msgspec.json.encode(msgspec.structs.replace(note, check=""))
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def read_note(data: bytes) -> Note | None:
    """Decode a note; None if it is no valid note: torn by a crash, damaged, or of another program."""
    try:
        note = msgspec.json.decode(data, type=Note)
    except NOT_DECODED:
        return None
    return note if note.schema == "cfetch.part/1" and note.check == _sum_up(note) else None


def fits(note: Note | None, entry: Entry, part_bytes: int, boot_id: str) -> bool:
    """Whether ``entry`` may continue the part; a part without a note was found by its ``part_name``.

    With a hash in the manifest, the whole file will be verified, so an equal hash is enough. Without a hash,
    bytes are joined only with a strong ETag of the same object, and only if the machine has not restarted:
    unflushed bytes may be lost although the size looks right. Without a note no bytes may be joined, and only
    a part that was whole when its run died is of use; but not a piece, see ``must_ask``.
    """
    if note is None:
        if entry.digest is None:
            return part_bytes == entry.size_bytes and not must_ask(entry)
        return entry.size_bytes is None or part_bytes <= entry.size_bytes
    mine = note_for(entry, note.validator, note.boot_id)
    if (note.path, note.size_bytes, note.digest) != (mine.path, mine.size_bytes, mine.digest):
        return False
    if entry.size_bytes is not None and part_bytes > entry.size_bytes:
        return False
    if note.held is not msgspec.UNSET and not _can_be(note, entry.size_bytes, part_bytes):
        return False
    if entry.digest is not None:
        return True
    return note.validator is not None and note.identity == mine.identity and note.boot_id == boot_id


def _can_be(note: Note, size_bytes: int | None, part_bytes: int) -> bool:
    """Whether a part of ``part_bytes`` can hold the note's ranges of a file of ``size_bytes``."""
    if not isinstance(note.held, tuple) or not isinstance(note.total_bytes, int):
        return False
    places = [place for pair in note.held for place in pair]
    in_order = (
        bool(places) and places[0] >= 0 and all(place < next_place for place, next_place in pairwise(places))
    )
    return in_order and places[-1] <= part_bytes <= note.total_bytes == (size_bytes or note.total_bytes)
