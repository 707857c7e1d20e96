"""The record of where a published file came from, by which a later run recognises the file.

A file without a stated hash has only its size as proof, and another link may lead to another file of that
size; a file without a stated size has no proof. So the record is written before such a file gets its name.
It is an extended attribute of the file and stays with it through renames, so no separate list can disagree
with the file. It is lost when another tool replaces or copies the file, and then the source is unknown. It
stays if a tool writes into the file: the record tells the source of the file, not its present contents.

If an ETag has more than 64 characters, the record keeps only its hash (``etags``). Then the server is asked
by the file's time of change, and the ETag in the answer is compared (``volume.unless_changed``); if the
server knows no times, the file is fetched again.

If the file system has no extended attributes, the records of a directory's files are in one file of the
state directory, ``sources/<hash of the directory's name>``, a line each; the last line counts. Such a record
is valid only for a file of its size and time of change, as it does not stay with the file.
"""

import base64
import errno
import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import SafePath
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.etags import is_hash, keep_etag
from cfetch.storage.files import STATE_NAME
from cfetch.storage.group_rights import create_file
from cfetch.storage.lacking import ATTRIBUTES

ATTRIBUTE = "user.cfetch.source"
SOURCES = "sources"  # below the volume's state directory
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SourceRecord(msgspec.Struct, frozen=True):
    """``identity`` is a hash of the link; ``etag`` is the kept form of the bytes' strong ETag.

    ``size_bytes`` is the size of the file when it was published. None: not known.
    """

    identity: str
    etag: str | None = None
    size_bytes: int | None = None


# A byte for the form, 16 for the identity, 6 for the size, and the ETag without its quotes, or its hash. Up
# to 56 bytes fit in an inode of ext4, which has 256; for more bytes a file gets its own block, which doubles
# the time to create a small file. An MD5 as an ETag, in hex, needs 55 bytes.
_FORM, _FORM_OF_HASH = b"\x01", b"\x02"
_FORMS = (_FORM, _FORM_OF_HASH)
_IDENTITY_BYTES, _SIZE_BYTES = 16, 6
_HEAD_BYTES = 1 + _IDENTITY_BYTES + _SIZE_BYTES
SUPERSEDED = SourceRecord("0" * 2 * _IDENTITY_BYTES)
"""The record of a file that is an older version, even if it has the right size."""


class _Earlier(msgspec.Struct, forbid_unknown_fields=True):
    identity: str
    validator: str | None


# Earlier versions wrote JSON: an object, or a pair with the identity in base64; a hash in place of the ETag.
_OBJECT = msgspec.json.Decoder(_Earlier)
_PAIR = msgspec.json.Decoder(tuple[str, str | None])
_LINE = msgspec.json.Decoder(tuple[str, int, int, str, str | None])


def _encode_source(source: SourceRecord) -> bytes:
    """The bytes of the attribute. ``identity`` is 32 hex digits, and the size is known."""
    size = (source.size_bytes or 0).to_bytes(_SIZE_BYTES)
    head = bytes.fromhex(source.identity) + size
    etag = keep_etag(source.etag) or '""'
    return _FORM_OF_HASH + head + bytes.fromhex(etag) if is_hash(etag) else _FORM + head + etag[1:-1].encode()


def _decode_source(raw: bytes) -> SourceRecord | None:
    """Decode the attribute; None if cfetch did not write it."""
    try:
        if raw[:1] in _FORMS and len(raw) >= _HEAD_BYTES:
            size_bytes, kept = int.from_bytes(raw[1 + _IDENTITY_BYTES : _HEAD_BYTES]), raw[_HEAD_BYTES:]
            etag = kept.hex() if raw[:1] == _FORM_OF_HASH else f'"{kept.decode("ascii")}"'
            return SourceRecord(raw[1 : 1 + _IDENTITY_BYTES].hex(), etag if kept else None, size_bytes)
        if raw[:1] == b"{":
            return SourceRecord(_OBJECT.decode(raw).identity)
        text, _ = _PAIR.decode(raw)
        return SourceRecord(base64.b64decode(text + "==", validate=True).hex())
    except (ValueError, *NOT_DECODED):
        return None


def set_source(descriptor: int, source: SourceRecord) -> None:
    """Write the attribute of an open file. Raises OSError."""
    try:
        os.setxattr(descriptor, ATTRIBUTE, _encode_source(source))
    except AttributeError:  # some systems have no such call
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None


def source_of(descriptor: int) -> SourceRecord | None:
    """Read the attribute of an open file; None if there is none, or if cfetch did not write it.

    Raises OSError if the file system has no attributes.
    """
    try:
        return _decode_source(os.getxattr(descriptor, ATTRIBUTE))
    except AttributeError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    except OSError as error:
        if error.errno in ATTRIBUTES.errors:
            raise
        return None


class SourceRecords:
    """The records of the files beneath ``root``. Raises VolumeFault: the root is another directory now."""

    def __init__(self, root: Path, held: HeldDirectories) -> None:
        self._name = os.fsencode(root) + b"/"
        self._held = held
        self._parent: str | None = None  # without attributes: the directory whose records were read last
        self._records: dict[str, tuple[int, SourceRecord]] = {}

    def find(self, path: SafePath) -> SourceRecord | None:
        """The source of the file at ``path``, as noted by ``note``; None: it is not known.

        This takes one system call. The attribute is read by the file's name, which the caller has just
        checked beneath the held directory; nothing is written.
        """
        try:
            raw = os.getxattr(self._name + path.encode(), ATTRIBUTE, follow_symlinks=False)
        except OSError as error:
            return None if error.errno == errno.ENODATA else self._find_beneath(path)
        except AttributeError:
            return self._find_beneath(path)
        return _decode_source(raw)

    def _find_beneath(self, path: SafePath) -> SourceRecord | None:
        """Find the source if the attribute cannot be read by name: no file, or no attributes at all."""
        with suppress(OSError), self._held.lock:
            parent, _, leaf = path.rpartition("/")
            descriptor = os.open(leaf.encode(), _FILE, dir_fd=self._held.directory(parent, create=False))
            try:
                return source_of(descriptor)
            except OSError:
                return self._find_in_state(path, os.fstat(descriptor))
            finally:
                os.close(descriptor)
        return None

    def note(self, descriptor: int, path: SafePath, source: SourceRecord) -> None:
        """Note the source of an open file that is, or will be, at ``path``, if possible.

        A source without ``size_bytes`` gets the size of the file, which must not be changed afterwards.
        """
        try:
            if source.size_bytes is None:
                source = msgspec.structs.replace(source, size_bytes=os.fstat(descriptor).st_size)
            set_source(descriptor, source)
        except OSError:
            with suppress(OSError):
                self._note_in_state(path, source, os.fstat(descriptor).st_mtime_ns)

    def changed_s(self, path: SafePath) -> float:
        """The time of the last change of the file at ``path``, in seconds since 1970; 0: not known."""
        parent, _, leaf = path.rpartition("/")
        with suppress(OSError), self._held.lock:
            directory = self._held.directory(parent, create=False)
            return os.stat(leaf.encode(), dir_fd=directory, follow_symlinks=False).st_mtime
        return 0.0

    def _note_in_state(self, path: str, source: SourceRecord, changed_ns: int) -> None:
        parent, _, leaf = path.rpartition("/")
        etag = keep_etag(source.etag)
        line = msgspec.json.encode((leaf, changed_ns, source.size_bytes or 0, source.identity, etag))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = self._held.open_below(f"{STATE_NAME}/{SOURCES}", mode=0o700)
        try:
            descriptor = create_file(_name_of(parent), flags, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            os.write(descriptor, b"\n" + line)  # the line break first: the line before may be torn
        finally:
            os.close(descriptor)
        self._parent = None

    def _find_in_state(self, path: str, status: os.stat_result) -> SourceRecord | None:
        """The record of the file that has this ``status`` now."""
        parent, _, leaf = path.rpartition("/")
        if parent != self._parent:
            self._records = self._read(parent)
            self._parent = parent
        changed_ns, source = self._records.get(leaf, (0, None))
        fits = source is not None and (changed_ns, source.size_bytes) == (status.st_mtime_ns, status.st_size)
        return source if fits else None

    def _read(self, parent: str) -> dict[str, tuple[int, SourceRecord]]:
        records: dict[str, tuple[int, SourceRecord]] = {}
        with suppress(OSError):
            descriptor = os.open(
                f"{STATE_NAME}/{SOURCES}/{_name_of(parent)}",
                os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=self._held.root_fd,
            )
            with os.fdopen(descriptor, "rb") as file:
                for line in file:
                    with suppress(*NOT_DECODED):  # torn by a crash
                        leaf, changed_ns, size_bytes, identity, etag = _LINE.decode(line)
                        records[leaf] = changed_ns, SourceRecord(identity, etag, size_bytes)
        return records


def _name_of(parent: str) -> str:
    return hashlib.blake2b(parent.encode(), digest_size=16).hexdigest()
