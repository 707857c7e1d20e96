"""The record of where a published file came from, by which a later run recognises the file.

A file without a stated hash has only its size as proof, and another link may lead to another file of that
size; a file without a stated size has no proof. So the record is written before such a file gets its name.
It is an extended attribute of the file and stays with it through renames, so no separate list can disagree
with the file. It is lost when another tool replaces or copies the file, and then the source is unknown. It
stays if a tool writes into the file: the record tells the source of the file, not its present contents.

If an ETag has more than 64 characters, the record keeps only its hash (``etags``). Then the server is asked
by the file's time of change, and the ETag in the answer is compared (``volume.unless_changed``); if the
server knows no times, the file is fetched again.

If the file system has no extended attributes, the records are in the state directory (``sources_in_state``).
"""

import base64
import errno
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import SafePath
from cfetch.storage.descriptors import HeldDirectories
from cfetch.storage.etags import is_hash, keep_etag
from cfetch.storage.lacking import ATTRIBUTES
from cfetch.storage.volume_values import SourceRecord

if TYPE_CHECKING:
    from cfetch.storage.sources_in_state import SourcesInState

ATTRIBUTE = "user.cfetch.source"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
                return self._in_state.find(path, os.fstat(descriptor))
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
                self._in_state.note(path, source, os.fstat(descriptor).st_mtime_ns)

    def changed_s(self, path: SafePath) -> float:
        """The time of the last change of the file at ``path``, in seconds since 1970; 0: not known."""
        parent, _, leaf = path.rpartition("/")
        with suppress(OSError), self._held.lock:
            directory = self._held.directory(parent, create=False)
            return os.stat(leaf.encode(), dir_fd=directory, follow_symlinks=False).st_mtime
        return 0.0

    @cached_property
    def _in_state(self) -> "SourcesInState":
        from cfetch.storage.sources_in_state import SourcesInState  # few file systems have no attributes

        return SourcesInState(self._held)
