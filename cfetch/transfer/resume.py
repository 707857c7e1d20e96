"""What a part of an earlier run may still be good for: pure.

Beside a part that is worth keeping lies a note: which file it belongs to, and the strong ETag under which its
bytes came. A later run may go on with it if its own entry is the same file. A link that was signed anew still
names that file, so signatures do not count; the note holds a hash of the rest, never the URL.
"""

import hashlib
from urllib.parse import urlsplit

import msgspec

from cfetch.manifest.entry import Entry
from cfetch.secret import SecretUrl

__all__ = ["WORTH_KEEPING_BYTES", "Note", "fits", "identity", "note_for", "read_note"]

WORTH_KEEPING_BYTES = (
    1 << 20
)  # less is fetched again in 0.1 s at 100 Mbit/s; a note for each file would cost more

_AZURE = "sv ss srt sp se st spr sig sip sr skoid sktid skt ske sks skv"  # shared access signatures
_OLDER = (
    "expires signature key-pair-id policy awsaccesskeyid googleaccessid token"  # CloudFront, S3 v2, GCS v2
)
_SIGNATURES = frozenset(f"{_AZURE} {_OLDER}".split())
_SIGNATURE_PREFIXES = ("x-amz-", "x-goog-")


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lies beside a part (``cfetch.part/1``). ``boot_id`` tells whether the machine has restarted."""

    schema: str = "cfetch.part/1"
    path: str
    size_bytes: int | None
    digest: str | None
    identity: str
    validator: str | None
    boot_id: str


def identity(url: SecretUrl) -> str:
    """The same for two links to one object, however they were signed; tells nothing about the link."""
    parts = urlsplit(url.reveal())
    kept = [pair for pair in parts.query.split("&") if not _is_signature(pair.partition("=")[0].lower())]
    text = f"{url.origin()}{parts.path}?{'&'.join(kept)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _is_signature(key: str) -> bool:
    return key in _SIGNATURES or key.startswith(_SIGNATURE_PREFIXES)


def note_for(entry: Entry, validator: str | None, boot_id: str) -> Note:
    """The note for a part of ``entry`` whose bytes came under ``validator``."""
    return Note(
        path=entry.path,
        size_bytes=entry.size_bytes,
        digest=f"{entry.digest.algorithm}:{entry.digest.hex}" if entry.digest else None,
        identity=identity(entry.url),
        validator=validator,
        boot_id=boot_id,
    )


def read_note(data: bytes) -> Note | None:
    """The note, or None for anything that is not one: torn by a crash, or somebody else's."""
    try:
        note = msgspec.json.decode(data, type=Note)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return note if note.schema == "cfetch.part/1" else None


def fits(note: Note, entry: Entry, part_bytes: int, boot_id: str) -> bool:
    """Whether ``entry`` may go on with the part.

    With a hash in the manifest the whole file will prove itself, so the same file by hash is enough. Without
    one, the bytes are joined only under a strong ETag of the same object, and only if the machine has not
    restarted: unflushed bytes may have been lost behind a size that looks right.
    """
    mine = note_for(entry, note.validator, note.boot_id)
    if (note.path, note.size_bytes, note.digest) != (mine.path, mine.size_bytes, mine.digest):
        return False
    if entry.size_bytes is not None and part_bytes > entry.size_bytes:
        return False
    if entry.digest is not None:
        return True
    return note.validator is not None and note.identity == mine.identity and note.boot_id == boot_id
