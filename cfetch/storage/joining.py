"""Joins the pieces of one file, each brought as its own part, to that file.

The copy writes all bytes once more, and needs their space twice until the file is published. In return, a
piece is fetched, verified, helped, and continued by a later run like any file.
"""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Sequence
from io import FileIO
from typing import ClassVar, Literal

from cfetch.base.errors import Blocked, LocalFault, VolumeFault
from cfetch.base.secret import printable
from cfetch.storage.directory import Directory, spare_foreign
from cfetch.storage.files import volume_fault
from cfetch.storage.part import Part
from cfetch.storage.volume_values import SourceRecord

JOINED = "j"  # prefix of the names of such files among the parts; they are of no use to a later run
COPY_BYTES = 128 << 10  # at a time: four times as fast as 1 MiB, which leaves the processor's cache
NO_SUCH_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class JoinedFile:
    """The file made of ``pieces``, which are whole and verified. The publisher treats it like a part.

    All methods except ``position`` are steps, or are called where a part's methods are called.
    """

    is_in_memory = False
    is_joined: ClassVar[Literal[True]] = True

    def __init__(self, volume: Directory, pieces: Sequence[Part]) -> None:
        self._volume = volume
        self._pieces = sorted(pieces, key=lambda part: part.entry.position)
        self._path = pieces[0].entry.path
        self._name = JOINED + hashlib.blake2b(self._path.encode(), digest_size=16).hexdigest()

    @property
    def position(self) -> int:
        """The number of bytes held."""
        return sum(part.position for part in self._pieces)

    def finish(self) -> None:
        """Note that the pieces are whole and verified. Raises LocalFault."""
        for part in self._pieces:
            part.finish()

    def join(self) -> None:
        """Write the file; this may take long.

        Raises:
            Blocked: pieces are missing.
            LocalFault: the file cannot be written.
        """
        piece = self._pieces[0].entry.piece
        assert piece is not None
        if self.position != piece.file_bytes:  # some pieces were in place at first, and others were not
            raise Blocked("its file was changed by others during this run; run the same command again")
        staging = self._volume.staging
        staging.discard_part(self._name)
        try:
            with os.fdopen(staging.create_part(self._name), "wb", buffering=0) as joined:
                for part in self._pieces:
                    with os.fdopen(part.file.reader(0), "rb", buffering=0) as source:
                        _append(source, joined)
                    part.file.check()
                if joined.tell() != piece.file_bytes:
                    raise VolumeFault(f"the disk has lost bytes of {printable(self._path)}")
                self._volume.sources.note(joined.fileno(), self._path, SourceRecord(piece.source))
        except OSError as error:
            raise volume_fault(error, f"cannot join the pieces of {printable(self._path)}") from None

    def publish(self) -> None:
        """Give the file its final name, and remove the pieces. Raises LocalFault, Blocked."""
        for part in self._pieces:
            part.file.check()
            part.check()
        spare_foreign(self._volume, self._pieces[0].entry)
        self._volume.publish(self._name, self._path)
        for part in self._pieces:
            part.file.remove()

    def unpublish(self) -> None:
        """Undo ``publish``. Raises LocalFault."""
        self._volume.unpublish(self._name, self._path)

    def keep_pieces(self) -> None:
        """Keep the pieces for a later run, as the file cannot be made now."""
        self._remove()
        for part in self._pieces:
            part.keep_leftover(whole=True)

    def discard(self) -> None:
        """Remove the file and the pieces, if possible."""
        self._remove()
        for part in self._pieces:
            part.discard()

    def _remove(self) -> None:
        with contextlib.suppress(LocalFault):
            self._volume.staging.discard_part(self._name)


def _append(source: FileIO, joined: FileIO) -> None:
    """Append the rest of ``source``, within the file system if possible, which may then share the blocks."""
    try:
        while os.copy_file_range(source.fileno(), joined.fileno(), COPY_BYTES):
            pass
    except AttributeError:  # another system than Linux
        pass
    except OSError as error:
        if error.errno not in NO_SUCH_COPY:
            raise
    shutil.copyfileobj(source, joined, COPY_BYTES)


Publishable = Part | JoinedFile


def join_pieces(volume: Directory, parts: Sequence[Part]) -> list[Publishable]:
    """The files to publish for ``parts``: whole files as they are, and the pieces of each file as one."""
    files: list[Publishable] = []
    pieces: dict[str, list[Part]] = {}
    for part in parts:
        if part.entry.piece is None:
            files.append(part)
        else:
            pieces.setdefault(part.entry.path, []).append(part)
    return files + [JoinedFile(volume, together) for together in pieces.values()]
