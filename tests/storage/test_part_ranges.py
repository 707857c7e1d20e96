"""Parts that several streams write in place: the same file comes of it, and none is mistaken for a whole."""

import asyncio
import errno
import hashlib
import itertools
import os
import random
from typing import Any

import msgspec
import pytest

from cfetch.base.errors import Corrupt, LocalFault, VolumeFault
from cfetch.manifest.entry import Digest, Piece
from cfetch.storage import file_hash
from cfetch.storage import part as part_module
from cfetch.storage.directory import Directory
from cfetch.storage.disk import INLINE
from cfetch.storage.guarded_disk import GuardedDisk
from cfetch.storage.held_ranges import Segment
from cfetch.storage.part import Part
from cfetch.storage.resume import encode_note, read_note, useful_parts
from cfetch.storage.salvage import Salvage
from tests.engine.drive import entry_of, split, tree

DATA = random.Random("ranges").randbytes(100_000)
SHA = Digest("sha256", hashlib.sha256(DATA).hexdigest())
TAG = '"v1"'


@pytest.fixture
async def disk():
    """What volumes of several have; for tests with an event loop."""
    return GuardedDisk("disk", lambda: 0.0)


def staged(root):
    return {path.name: path for path in (root / ".cfetch/attempts/i/0").iterdir()}


def begun(volume, held=1000, *, digest=False, disk=INLINE, path="a"):
    """A part of which so many bytes came in order."""
    part = Part(volume, entry_of(0, path, DATA, digest=digest), disk)
    part.validator = TAG
    part.write(DATA[:held])
    return part


def bring(part, segment, end=None):
    """What a stream brings of a segment, up to ``end``."""
    end = segment.end if end is None else end
    part.write_at(segment, DATA[segment.position : end])


def note_in(path) -> Any:
    return read_note(path.read_bytes())


def told(note):
    return note.held


def note_of(root):
    (found,) = [read_note(path.read_bytes()) for name, path in staged(root).items() if name.endswith(".note")]
    return found


async def finish(part, digest):
    """The owner's last steps."""
    await part.hash_rest()
    proof = part.verify(len(DATA), SHA if digest else None)
    part.publish()
    return proof


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_out_of_order_is_the_same_file(volume, root, digest, order):
    """Bytes, hash and what is left in staging."""
    part = begun(volume, digest=digest)
    ranges = part.split_into_ranges(len(DATA))
    own = part.segment
    segments = [own, split(ranges, own, 70_000), split(ranges, own, 30_000)]
    for number in order:
        bring(part, segments[number], (segments[number].position + segments[number].end) // 2)
    for number in order:
        bring(part, segments[number])
    assert ranges.is_whole
    assert part.position == len(DATA)
    assert await finish(part, digest) == ("sha256" if digest else "size")
    assert tree(root) == {"a": DATA}
    assert staged(root) == {}
    assert ranges.twice_bytes == 0


async def test_out_of_order_by_a_hash_that_the_server_states(volume):
    """Begun with the first byte, and read back for what came before its turn."""
    part = Part(volume, entry_of(0, "a", DATA))
    part.validator = TAG
    part.stated = SHA
    part.write(DATA[:1000])
    ranges = part.split_into_ranges(len(DATA))
    own = part.segment
    further = split(ranges, own, 50_000)
    bring(part, further)
    bring(part, own)
    assert await finish(part, False) == "server-sha256"


async def test_whole_it_is_an_ordinary_part_again(root):
    """One that waits for its batch: its name and its size are proof enough for the next run."""
    volume = Directory(root, "attempts/i/0")
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    part.verify(len(DATA), None)
    part.finish()
    assert part.keep_leftover(whole=True) == len(DATA)
    ((name, path),) = staged(root).items()
    assert (name[0], path.read_bytes()) == ("s", DATA)
    assert os.getxattr(path, "user.cfetch.source")
    part.discard()
    volume.close()


def test_the_note_of_a_part_in_order_goes(volume, root):
    """There is one note, and it is of the part in ranges."""
    data = DATA * 20
    part = Part(volume, entry_of(0, "a", data))
    part.validator = TAG
    part.write(data[:-1000])
    assert sorted(name[0] + name[33:] for name in staged(root)) == ["s", "s.note"]
    part.split_into_ranges(len(data))
    assert sorted(name[0] + name[33:] for name in staged(root)) == ["r", "r.note"]
    part.discard()
    assert staged(root) == {}


async def test_two_that_bring_the_same_write_it_once(volume, root, monkeypatch):
    """What the hash has seen stays what the file has, even if the second one's bytes are others."""
    part = begun(volume, digest=True)
    ranges = part.split_into_ranges(len(DATA))
    own = part.segment
    rival = ranges.join(own.position, own.end)
    bring(part, own, 50_000)
    part.write_at(rival, bytes(49_000))  # wrong, and behind: nothing of it counts
    bring(part, rival)
    assert own.left_bytes == 0
    assert ranges.twice_bytes == 49_000
    assert await finish(part, True) == "sha256"
    assert tree(root) == {"a": DATA}


async def test_short_writes_in_place_are_completed(volume, root, monkeypatch):
    """A system call that takes three bytes at a time loses none."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:4096], at))
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    await finish(part, False)
    assert tree(root) == {"a": DATA}


@pytest.mark.parametrize("closed", [False, True])
def test_a_part_that_was_closed_is_written_in_place_too(volume, root, closed):
    """It would be opened for appending else, and Linux appends then wherever one wants to write."""
    part = begun(volume)
    part.close()
    part.write(DATA[1000:2000])  # for appending now
    if closed:
        part.close()
    ranges = part.split_into_ranges(len(DATA))
    tail = split(ranges, part.segment, 90_000)
    bring(part, tail)
    part.close()
    bring(part, part.segment)
    (path,) = [path for name, path in staged(root).items() if name[0] == "r" and len(name) == 33]
    assert path.read_bytes() == DATA
    part.discard()


@pytest.mark.parametrize(
    ("validator", "digest", "size", "can"),
    [
        (TAG, False, 2000, True),
        (None, True, 2000, True),
        (None, False, 2000, False),
        (TAG, True, 1000, False),
    ],
)
def test_what_can_be_opened_up(volume, validator, digest, size, can):
    """Under a strong ETag or a hash, if something is missing; once, and not when it is given up."""
    part = begun(volume, digest=digest)
    part.validator = validator
    assert part.can_split(size) is can
    if can:
        part.split_into_ranges(size)
        assert not part.can_split(size)
    part.discard()
    assert not part.can_split(size)


def test_the_note_lies_there_before_a_byte_is_out_of_order(volume, root, monkeypatch):
    """And it never tells of more than was written, at no call to the system."""
    monkeypatch.setattr(part_module, "NOTE_EVERY_BYTES", 10_000)
    calls = 0

    def look():
        nonlocal calls
        calls += 1
        files = {name: path.read_bytes() for name, path in staged(root).items()}
        for name, data in files.items():
            if name[0] == "r" and len(name) == 33:
                note = read_note(files[name + ".note"])
                assert note is not None
                assert all(data[a:b] == DATA[a:b] for a, b in told(note))
            elif len(name) == 33:
                assert data == DATA[: len(data)]

    for call in ("pwrite", "write", "open", "close", "rename", "unlink"):
        real = getattr(os, call)

        def watched(*args, real=real, **how):
            look()
            done = real(*args, **how)
            look()
            return done

        monkeypatch.setattr(os, call, watched)
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    segments = [split(ranges, part.segment, 60_000), part.segment]
    while not ranges.is_whole:
        for segment in segments:
            bring(part, segment, min(segment.position + 3000, segment.end))
    part.verify(len(DATA), None)
    part.publish()
    monkeypatch.undo()
    assert calls > 100
    assert tree(root) == {"a": DATA}


async def test_the_note_is_renewed_as_bytes_come(volume, root, monkeypatch):
    """Not with each write: a note is a file."""
    monkeypatch.setattr(part_module, "NOTE_EVERY_BYTES", 10_000)
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    assert note_of(root).held == ((0, 1000),)
    tail = split(ranges, part.segment, 50_000)
    bring(part, tail, 59_999)
    assert note_of(root).held == ((0, 1000),)
    bring(part, tail, 60_000)
    assert note_of(root).held == ((0, 1000), (50_000, 60_000))
    bring(part, part.segment, 2000)
    assert part.keep_leftover() == 12_000
    assert note_of(root).held == ((0, 2000), (50_000, 60_000))
    assert useful_parts(staged(root)) == sorted(staged(root))


@pytest.mark.parametrize(("size_mib", "lost_kib"), [(2, 256), (4, 256), (16, 1024), (100, 2048)])
def test_a_kill_loses_a_share_of_the_file(root, size_mib, lost_kib):
    """A sixteenth of it, within bounds: a small file in several streams loses less than a large one."""
    size_bytes = size_mib << 20
    part = Part(Directory(root, "attempts/i/0"), entry_of(0, "a", b"x", size=size_bytes))
    part.validator = TAG
    part.write(b"x")
    ranges = part.split_into_ranges(size_bytes)
    tail, most_unnoted = split(ranges, part.segment, size_bytes // 2), 0
    for _ in range(size_mib * 4):
        part.write_at(tail, bytes(64 << 10))
        noted = sum(end - start for start, end in note_of(root).held)
        most_unnoted = max(most_unnoted, ranges.held_bytes - noted)
    assert most_unnoted == (lost_kib - 64) << 10
    part.discard()


def test_what_nobody_can_go_on_with_is_not_left(volume, root):
    """A mirror's ETag says nothing in a later run."""
    part = begun(volume)
    part.change_source(mirror=True)
    part.validator = TAG
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    assert part.keep_leftover() == 0
    assert staged(root) == {}


@pytest.mark.parametrize("call", ["pwrite", "rename", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_87_a_disk_that_says_no_in_a_stretch(volume, root, monkeypatch, call, number):
    """Whoever brings more is told; what could not be written is not held."""
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    tail = split(ranges, part.segment, 50_000)
    bring(part, tail, 60_000)
    if call != "pwrite":
        monkeypatch.setattr(part_module, "NOTE_EVERY_BYTES", 1)

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)
    before = ranges.held
    with pytest.raises(LocalFault, match=os.strerror(number)):
        bring(part, tail, 70_000)
    monkeypatch.undo()
    assert call != "pwrite" or ranges.held == before
    with pytest.raises(LocalFault, match=os.strerror(number)):
        bring(part, part.segment, 2000)
    if number == errno.EIO and call == "pwrite":
        assert part.keep_leftover() == 0
        assert staged(root) == {}
        return
    assert part.keep_leftover() > 0
    data = next(path for name, path in staged(root).items() if len(name) == 33).read_bytes()
    assert all(data[a:b] == DATA[a:b] for a, b in note_of(root).held)
    part.discard()


@pytest.mark.parametrize("call", ["open", "rename"])
def test_a_disk_that_says_no_to_the_first_note(volume, root, monkeypatch, call):
    """It cannot be opened up, and goes on in order."""
    part = begun(volume)

    def fails(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(VolumeFault, match="No space left"):
        part.split_into_ranges(len(DATA))
    monkeypatch.undo()
    assert part.ranges is None
    part.write(DATA[1000:])
    assert part.verify(len(DATA), None) == "size"
    part.publish()
    assert tree(root) == {"a": DATA}


@pytest.mark.parametrize("end", ["discard", "restart", "keep_leftover", "publish"])
async def test_a_stretch_writes_no_more_when_its_part_is_over(volume, root, end):
    """Whoever helps is told; what it still brings goes nowhere."""
    part = begun(volume, digest=True)
    ranges, over = part.split_into_ranges(len(DATA)), list[Segment]()
    ranges.on_over = over.append
    own = part.segment
    helper = part.open_segment(split(ranges, own, 50_000))
    helper.write(DATA[50_000:60_000])
    if end == "publish":
        bring(part, own, 50_000)
        rival = part.open_segment(ranges.join(helper.segment.position, helper.segment.end))
        helper.write(DATA[60_000:])
        helper = rival
        await finish(part, True)
    else:
        getattr(part, end)()
    was = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert over == [helper.segment]
    assert helper.segment.left_bytes == 0
    helper.write(bytes(1000))
    helper.release_segment()
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == was
    assert part.ranges is None or part.ranges.out == []
    part.discard()


async def test_begun_anew_it_is_an_ordinary_part(volume, root):
    """The file has its ordinary name again, and may be opened up again."""
    part = begun(volume, digest=True)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    part.restart()
    assert (part.position, part.validator, part.ranges, part.segment) == (0, None, None, None)
    assert staged(root) == {}
    part.write(DATA[:300])
    part.close()
    part.write(DATA[300:500])
    ((name, path),) = staged(root).items()
    assert (name[0], path.read_bytes()) == ("h", DATA[:500])
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    await finish(part, True)
    assert tree(root) == {"a": DATA}


@pytest.mark.parametrize("wrong", [10, 45_000, 99_999])
async def test_24_wrong_bytes_in_a_stretch_are_found(volume, root, wrong):
    """By the hash, wherever they are; then nothing of it is built upon."""
    part = begun(volume, 5, digest=True)
    ranges = part.split_into_ranges(len(DATA))
    segments = [split(ranges, part.segment, 70_000), split(ranges, part.segment, 30_000), part.segment]
    data = bytearray(DATA)
    data[wrong] ^= 1
    for segment in segments:
        part.write_at(segment, bytes(data[segment.position : segment.end]))
    await part.hash_rest()
    with pytest.raises(Corrupt, match="sha256"):
        part.verify(len(DATA), SHA)
    assert (part.position, part.ranges) == (0, None)
    assert staged(root) == {}


async def test_24_holes_are_no_file(volume, root):
    """Whoever takes it for whole is told how much there is."""
    part = begun(volume)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    with pytest.raises(Corrupt, match="51000 bytes came"):
        part.verify(None, None)
    assert staged(root) == {}


async def test_what_is_not_to_be_trusted_is_missing_again(volume, root):
    """The hash forgets it, too, and so does the note."""
    part = begun(volume, digest=True)
    ranges = part.split_into_ranges(len(DATA))
    tail = part.open_segment(split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    tail.write(bytes(10_000))
    assert part.position == 60_000
    tail.restart()
    assert (part.position, ranges.missing) == (50_000, [(50_000, len(DATA))])
    assert note_of(root).held == ((0, 50_000),)
    part.segment = ranges.take_first()
    part.write(DATA[50_000:])
    assert await finish(part, True) == "sha256"
    assert tree(root) == {"a": DATA}


@pytest.mark.parametrize("digest", [False, True])
async def test_on_a_disk_of_its_own(volume, root, disk, digest):
    """Steps are carried out later, in order."""
    part = begun(volume, digest=digest, disk=disk)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    await part.hash_rest()
    part.verify(len(DATA), SHA if digest else None)
    await disk.call(part.publish)
    assert tree(root) == {"a": DATA}
    assert staged(root) == {}
    await disk.close()


async def test_a_disk_that_fails_later_tells_all_streams(volume, root, disk, monkeypatch):
    """The one that wrote has gone on already."""
    part = begun(volume, disk=disk)
    ranges = part.split_into_ranges(len(DATA))
    await disk.call(lambda: None)

    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fails)
    tail = split(ranges, part.segment, 50_000)
    bring(part, tail, 60_000)
    await disk.call(lambda: None)
    monkeypatch.undo()
    with pytest.raises(VolumeFault, match="No space left"):
        bring(part, part.segment, 2000)
    assert part.keep_leftover() == 0
    await disk.close()
    assert staged(root) == {}


async def test_reading_what_the_hash_has_not_seen_can_be_stopped(volume, root, monkeypatch):
    """And done again from where it was."""
    monkeypatch.setattr(file_hash, "READ_BYTES", 1000)
    monkeypatch.setattr(file_hash, "READS_PER_TURN", 1)
    part = begun(volume, digest=True)
    ranges = part.split_into_ranges(len(DATA))
    bring(part, split(ranges, part.segment, 50_000))
    bring(part, part.segment)
    task = asyncio.create_task(part.hash_rest())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await finish(part, True) == "sha256"


# What later runs make of it


def left(root, *, digest=False, held=((0, 30_000), (60_000, 80_000)), change=None, note=True, of=DATA):
    """What the timeline kept of a dead attempt that had opened its part up."""
    volume = Directory(root, "attempts/i/0")
    part: Any = Part(volume, entry_of(0, "a", of, digest=digest))
    part.validator = TAG
    part.write(of[: held[0][1]])
    ranges = part.split_into_ranges(len(of))
    for start, end in held[1:]:
        if start == part.segment.position:
            part.write(of[start:end])
            continue
        tail = split(ranges, part.segment, start)
        part.write_at(tail, of[start:end])
    part.keep_leftover()
    part.close()
    directory = root / ".cfetch/attempts/i/9-0"
    directory.mkdir()
    for name, path in staged(root).items():
        if name.endswith(".note"):
            changed = msgspec.structs.replace(note_in(path), **(change or {}))
            path.write_bytes(encode_note(changed))
        if note or not name.endswith(".note"):
            path.rename(directory / name)
        else:
            path.unlink()
    volume.close()


async def gone_on(root, *, digest=False, entry=None):
    """What a new run finds: the part, and its volume."""
    volume = Directory(root, "attempts/i/1")
    part = Part(volume, entry or entry_of(0, "a", DATA, digest=digest))
    await Salvage(volume).adopt_leftover(entry or entry_of(0, "a", DATA, digest=digest), part)
    return volume, part


def files(root):
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("digest", [False, True])
async def test_c92_a_later_run_brings_only_what_is_missing(root, digest):
    """One hole after the other."""
    left(root, digest=digest)
    volume, part = await gone_on(root, digest=digest)
    assert part.ranges.held == ((0, 30_000), (60_000, 80_000))
    assert (part.position, part.validator, part.total_bytes) == (50_000, TAG, len(DATA))
    holes = []
    while (segment := part.ranges.take_first()) is not None:
        part.segment = segment
        holes.append((segment.position, segment.end))
        part.write(DATA[segment.position : segment.end])
    assert holes == [(30_000, 60_000), (80_000, 100_000)]
    await finish(part, digest)
    assert tree(root) == {"a": DATA}
    volume.close()
    assert len(files(root)) == 1


@pytest.mark.parametrize("digest", [False, True])
async def test_c92_whole_but_for_its_name(root, digest):
    """Killed between the last byte and the name: nothing is fetched."""
    left(root, digest=digest, held=((0, 50_000), (50_000, 100_000)))
    volume, part = await gone_on(root, digest=digest)
    assert part.position == len(DATA)
    assert part.verify(len(DATA), SHA if digest else None)  # at once, as with any part that is whole
    part.publish()
    assert tree(root) == {"a": DATA}
    volume.close()


@pytest.mark.parametrize("verified", [False, True])
async def test_of_a_whole_piece_that_an_earlier_run_has_kept_the_last_byte_is_missing(root, verified):
    """It is fetched under the ETag, which tells whether the piece is of the others' version."""
    piece = msgspec.structs.replace(entry_of(0, "a", DATA), piece=Piece(0, 2 * len(DATA), "source"))
    volume = Directory(root, "attempts/i/0")
    part: Any = Part(volume, piece)
    part.validator = TAG
    part.write(DATA[:1000])
    part.split_into_ranges(len(DATA))
    part.write(DATA[1000:])
    if verified:
        part.verify(len(DATA), None)
    part.keep_leftover(whole=verified)
    (root / ".cfetch/attempts/i/0").rename(root / ".cfetch/attempts/i/9-0")
    volume.close()
    volume, part = await gone_on(root, entry=piece)
    assert (part.position, part.validator) == (len(DATA) - 1, TAG)
    volume.close()


CHANGES = {
    "another version": ({}, {"digest": False}, entry_of(0, "a", DATA + b"x")),
    "no strong ETag": ({"validator": None}, {"digest": False}, None),
    "the machine restarted": ({"boot_id": "before"}, {"digest": False}, None),
    "more held than written": ({"held": ((0, 30_000), (60_000, 80_001))}, {}, None),
    "beyond the end": ({"total_bytes": 99_999}, {}, None),
    "of another size": ({"total_bytes": 100_001}, {}, None),
    "out of order": ({"held": ((60_000, 80_000), (0, 30_000))}, {}, None),
    "nothing": ({"held": ()}, {}, None),
    "upside down": ({"held": ((30_000, 0),)}, {}, None),
    "before the beginning": ({"held": ((-1, 30_000),)}, {}, None),
}


@pytest.mark.parametrize(("change", "how", "entry"), CHANGES.values(), ids=CHANGES)
async def test_c92_what_cannot_be_gone_on_with_is_removed(root, change, how, entry):
    """The file begins anew."""
    left(root, change=change, **how)
    volume, part = await gone_on(root, entry=entry)
    assert (part.position, part.ranges) == (0, None)
    part.discard()
    volume.close()
    assert files(root) == []


async def test_c92_after_a_restart_a_hash_proves_what_the_note_tells(root):
    """As it does for a part in order."""
    left(root, digest=True, change={"boot_id": "before"})
    volume, part = await gone_on(root, digest=True)
    assert part.position == 50_000
    part.discard()
    volume.close()


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("note", ["none", "torn", "in order"])
async def test_c92_a_full_size_file_with_holes_is_never_taken_for_whole(root, digest, note):
    """Its length is the file's, and it is not: without the note that tells the holes it is thrown away."""
    left(root, digest=digest, held=((0, 30_000), (99_999, 100_000)), note=note != "none")
    (path,) = [path for path in files(root) if len(path.name) == 33]
    assert path.stat().st_size == len(DATA)
    if note != "none":
        beside = path.with_name(path.name + ".note")
        told = msgspec.structs.replace(note_in(beside), held=msgspec.UNSET)
        beside.write_bytes(b'{"schema"' if note == "torn" else msgspec.json.encode(told))
    volume, part = await gone_on(root, digest=digest)
    assert (part.position, part.ranges) == (0, None)
    part.discard()
    volume.close()
    assert files(root) == []


async def test_c92_a_part_in_order_beside_a_note_of_ranges_is_of_no_use(root):
    """No run of ours leaves that."""
    left(root, digest=True)
    for path in files(root):
        path.rename(path.with_name("h" + path.name[1:]))
    volume, part = await gone_on(root, digest=True)
    assert part.position == 0
    part.discard()
    volume.close()
    assert files(root) == []


async def test_c92_of_several_the_one_that_holds_most(root):
    """Not the longest: that may be mostly holes."""
    left(root, digest=True)
    longer = root / ".cfetch/attempts/i/9-1"
    longer.mkdir()
    (held,) = [path for path in files(root) if len(path.name) == 33]
    (longer / ("h" + held.name[1:])).write_bytes(DATA[:70_000])
    volume, part = await gone_on(root, digest=True)
    assert (part.position, part.ranges) == (70_000, None)
    part.discard()
    volume.close()
    assert files(root) == []
