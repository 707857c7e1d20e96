"""What a part begins with that has something on its own volume, and may have more from the volume left."""

import asyncio
import errno
import os
import time
from contextlib import closing

import pytest
from msgspec.structs import replace

from cfetch.base.errors import VolumeFault
from cfetch.manifest.entry import Piece
from cfetch.storage.directory import Directory
from cfetch.storage.disk import INLINE
from cfetch.storage.guarded_disk import GuardedDisk
from cfetch.storage.lent_parts import LentParts
from cfetch.storage.part import Part
from cfetch.storage.part_file import PartFile
from cfetch.storage.resume import encode_note, in_ranges, note_for, part_name
from cfetch.storage.salvage import Salvage
from cfetch.storage.staging import boot_id
from tests.engine.drive import entry_of

BODY = bytes(range(256)) * 40
SIZE = len(BODY)
OTHER = bytes(SIZE)  # of another version
HASHED = entry_of(0, "a", BODY, digest=True)
SIZED = entry_of(0, "a", BODY)
PIECE = replace(SIZED, piece=Piece(0, 2 * SIZE, "source"))
OWN = ((0, 1000), (5000, 6000))
LENT = ((0, 4000), (5500, 9000))
BOTH = ((0, 4000), (5000, 9000))


def leave(root, entry, held, etag):
    """What a dead run has left: these ranges, or so many bytes from the first on."""
    directory = root / ".cfetch/attempts/i/9-0"
    directory.mkdir(parents=True)
    part, body = directory / part_name(entry, boot_id()), BODY if etag == '"v1"' else OTHER
    if isinstance(held, int):
        part.write_bytes(body[:held])
        note = note_for(entry, etag, boot_id())
    else:
        part = part.with_name(in_ranges(part.name))
        spread = bytearray(held[-1][1])
        for start, end in held:
            spread[start:end] = body[start:end]
        part.write_bytes(spread)
        note = note_for(entry, etag, boot_id(), held=held, total_bytes=SIZE)
    part.with_name(part.name + ".note").write_bytes(encode_note(note))


def borrow(tmp_path, entry):
    """The ranges that a part on the one volume begins with, its bytes, and the other's files after that."""
    own, other = (Directory(tmp_path / name, "attempts/i/0") for name in ("own", "other"))

    async def main():
        part = Part(own, entry)
        await Salvage(own).adopt_leftover(entry, part)
        await LentParts(other, INLINE, Salvage(other)).lend(entry, part)
        held = ((0, part.position),) if part.ranges is None else part.ranges.held
        part.close()
        (path,) = (path for path in (own.root / ".cfetch/attempts/i/0").iterdir() if not path.suffix)
        return held, path.read_bytes()

    with closing(own), closing(other):
        held, data = asyncio.run(main())
    left = [path for path in (tmp_path / "other").rglob("*") if path.is_file()]
    return held, all(data[start:end] == BODY[start:end] for start, end in held), left


@pytest.mark.parametrize("entry", [HASHED, SIZED])
@pytest.mark.parametrize(
    ("own", "lent", "held"),
    [
        (OWN, LENT, BOTH),
        (1000, LENT, LENT),
        (OWN, 5500, ((0, 6000),)),
        (1000, 5500, ((0, 5500),)),
        (OWN, 900, OWN),
        (OWN, ((0, 1000), (5100, 5900)), OWN),
        (5500, 1000, ((0, 5500),)),
    ],
)
def test_c92_bytes_on_two_volumes_are_joined(tmp_path, entry, own, lent, held):
    """A run that was killed while it copied, with several streams or one, has left some on each."""
    leave(tmp_path / "own", entry, own, '"v1"')
    leave(tmp_path / "other", entry, lent, '"v1"')
    assert borrow(tmp_path, entry) == (held, True, [])


@pytest.mark.parametrize("lent", [LENT, 9000])
@pytest.mark.parametrize("own", [OWN, 1000])
def test_bytes_of_two_versions_are_never_joined(tmp_path, own, lent):
    """No hash would tell them apart."""
    leave(tmp_path / "own", SIZED, own, '"v1"')
    leave(tmp_path / "other", SIZED, lent, '"v2"')
    held = own if isinstance(own, tuple) else ((0, own),)
    assert borrow(tmp_path, SIZED) == (held, True, [])


def test_the_last_byte_of_a_piece_is_the_servers(tmp_path):
    """It alone is a range here, and is not copied."""
    (tmp_path / "own").mkdir()
    leave(tmp_path / "other", PIECE, ((0, 1000), (SIZE - 1, SIZE)), '"v1"')
    assert borrow(tmp_path, PIECE) == (((0, 1000),), True, [])


async def test_what_the_next_volume_did_not_take_stays_here(tmp_path, monkeypatch):
    """Its thread learns only after the last byte was copied that it is full too."""

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(PartFile, "_write", refuse)
    (tmp_path / "own").mkdir()
    leave(tmp_path / "other", HASHED, 5000, '"v1"')
    own, other = (Directory(tmp_path / name, "attempts/i/0") for name in ("own", "other"))
    disk = GuardedDisk("own", time.monotonic)
    with closing(own), closing(other):
        part = Part(own, HASHED, disk)
        loans = LentParts(other, INLINE, Salvage(other))
        with pytest.raises(VolumeFault):
            await loans.lend(HASHED, part)
        part.discard()
        await disk.close()
        monkeypatch.undo()
        third = Part(own, HASHED)
        await loans.lend(HASHED, third)
        assert third.position == 5000
        third.discard()
