"""Which of the parts of dead runs an entry goes on with, and what becomes of the others."""

import asyncio

import pytest
from msgspec.structs import replace

from cfetch.manifest.entry import Piece
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.part import Part
from cfetch.storage.resume import encode_note, note_for, part_name
from cfetch.storage.salvage import Salvage
from cfetch.storage.staging import boot_id
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = bytes(range(256)) * 40
HASHED = entry_of(0, "a", BODY, digest=True)
SIZED = entry_of(0, "a", BODY)
PIECE = replace(SIZED, piece=Piece(0, 2 * len(BODY), "source"))


def leave(root, epoch, entry, size_bytes, *, noted=False):
    """What the timeline kept of a dead attempt at ``entry``; with the note of an ETag, if it is ``noted``."""
    directory = root / ".cfetch/attempts/i" / f"9-{epoch}"
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / part_name(entry, boot_id())
    part.write_bytes(BODY[:size_bytes])
    if noted:
        note = encode_note(note_for(entry, '"v1"', boot_id()))
        part.with_name(part.name + ".note").write_bytes(note)


def given(root, entry):
    """The part that an entry of a new run starts with, and the files that dead runs have left after that."""
    volume = Directory(root, "attempts/i/0")

    async def main():
        part = Part(volume, entry)
        await Salvage(volume).adopt_leftover(entry, part)
        found = part.position, part.validator
        part.discard()
        return found

    found = asyncio.run(main())
    left = [p for p in root.rglob("*") if p.is_file()]
    volume.close()
    return (*found, len(left))


@pytest.mark.parametrize(
    ("entry", "parts", "position", "validator"),
    [
        (HASHED, [(100, False)], 100, None),
        (HASHED, [(100, False), (300, False), (200, False)], 300, None),
        (HASHED, [(len(BODY), False), (200, False)], len(BODY), None),
        (SIZED, [(100, False)], 0, None),
        (SIZED, [(len(BODY), False), (100, False)], len(BODY), None),
        (SIZED, [(100, True)], 100, '"v1"'),
        (SIZED, [(100, True), (len(BODY), False)], len(BODY), None),
        (SIZED, [(100, True), (200, True), (300, False)], 200, '"v1"'),
        (PIECE, [(len(BODY), False)], 0, None),
        (PIECE, [(len(BODY), True)], len(BODY) - 1, '"v1"'),
    ],
)
def test_c92_the_longest_that_fits_is_gone_on_with(tmp_path, entry, parts, position, validator):
    """By hash any beginning, by size the whole, by note under its ETag; the others are of no use any more."""
    for epoch, (size_bytes, noted) in enumerate(parts):
        leave(tmp_path, epoch, entry, size_bytes, noted=noted)
    assert given(tmp_path, entry) == (position, validator, 0)


@pytest.mark.parametrize(
    "other", [entry_of(0, "b", BODY, digest=True), entry_of(0, "a", BODY + b"x", digest=True)]
)
def test_c92_parts_of_other_entries_are_left_alone(tmp_path, other):
    """Another manifest may want them."""
    leave(tmp_path, 1, other, 100)
    assert given(tmp_path, HASHED) == (0, None, 1)


def test_a_part_of_what_is_in_place_already_is_removed(tmp_path):
    """Two runs were at it, one published and the other died."""

    def before(root):
        (root / "a").write_bytes(BODY)
        leave(root, 1, SIZED, 100, noted=True)
        leave(root, 2, SIZED, len(BODY))

    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [SIZED], before=before)
    assert outcome.statuses == ["skipped"]
    assert [p for p in (outcome.root / ".cfetch").rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(("entry", "asked"), [(HASHED, ["bytes=100-"]), (SIZED, [None])])
def test_c92_a_small_part_is_gone_on_with_where_a_hash_will_prove_it(tmp_path, entry, asked):
    """Not under a size alone: the object may have changed."""

    def before(root):
        leave(root, 1, entry, 100)

    outcome = drive(tmp_path, {"a": Reply(body=BODY)}, [entry], before=before)
    assert outcome.tree == {"a": BODY}
    assert [request.range for request in outcome.transport.opens] == asked
    assert [p for p in (outcome.root / ".cfetch").rglob("*") if p.is_file()] == []


def test_what_dead_runs_have_left_counts_as_free_until_it_is_gone_on_with(tmp_path):
    """It takes the room already that its entry asks for once more."""
    leave(tmp_path, 1, HASHED, 100)
    volume = Directory(tmp_path, "attempts/i/0")
    vars(volume)["free_bytes"] = lambda: 1000

    async def main():
        directory = DirectoryVolume(volume, durable=False)
        before = await directory.free_bytes()
        await directory.open()
        opened = await directory.free_bytes()
        part = directory.new_part(HASHED)
        await directory.adopt_leftover(HASHED, part)
        return before, opened, await directory.free_bytes()

    assert asyncio.run(main()) == (1000, 1100, 1000)
    volume.close()
