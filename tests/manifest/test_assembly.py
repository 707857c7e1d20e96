"""Entries that are pieces of one file: their places, and what does not fit together."""

import io
import json

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError
from cfetch.manifest.writing import TARGETS, survey
from tests.manifest.frozen import freeze

URL = "https://h.example/"


def piece(number, size=10, **more):
    return {"url": f"{URL}{number}", "path": "d/whole.bin", "size": size, **more}


def freeze_rows(directory, rows, **top):
    document = json.dumps({"assemble": True, "files": rows, **top}).encode()
    directory.mkdir(exist_ok=True)
    return freeze(io.BytesIO(document), name="m.json", directory=directory)


def places(plan):
    return [(entry.url.value[len(URL) :], entry.piece and entry.piece.start_byte) for entry in plan.entries()]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([piece(0), piece(1, 5), piece(2)], [("0", 0), ("1", 10), ("2", 15)]),
        ([piece(2, offset=15), piece(0, offset=0, size=15)], [("2", 15), ("0", 0)]),
        ([piece(0, offset=0), piece(1), piece(2, offset=20)], [("0", 0), ("1", 10), ("2", 20)]),
        ([piece(0), piece(0)], [("0", 0), ("0", 10)]),
        (
            [piece(0), piece("a", assemble=False) | {"path": "a"}, piece(1)],
            [("0", 0), ("a", None), ("1", 10)],
        ),
        ([piece(0)], [("0", None)]),
    ],
)
def test_places(tmp_path, rows, expected):
    """By offset, else behind the piece before it; equal pieces are two, and one alone is a file."""
    with freeze_rows(tmp_path, rows) as plan:
        assert places(plan) == expected
        pieces = [entry.piece for entry in plan.entries() if entry.piece is not None]
        assert {one.file_bytes for one in pieces} <= {25, 30, 20}
        assert len({one.source for one in pieces}) == (1 if pieces else 0)
        assert {entry.batch for entry in plan.entries() if entry.piece} <= {"d/whole.bin"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [piece(0, offset=0), piece(1, offset=12)],
            "leave a gap, as one ends at byte 10 and the next begins",
        ),
        (
            [piece(0, offset=0), piece(1, offset=8)],
            "overlap, as one ends at byte 10 and the next begins at byte 8",
        ),
        ([piece(0, offset=4), piece(1)], "the first piece of 'd/whole.bin' begins at byte 4"),
        (
            [piece(0, offset=4)],
            "the first piece of 'd/whole.bin' begins at byte 4: line 1, entry 0, counted from 0",
        ),
        ([piece(0, batch="x"), piece(1, batch="y")], "state different batches: entries 0 and 1"),
        ([piece(0, None)], "size: it is missing; a piece of a file states path and size"),
        ([{"url": URL + "a", "size": 1}], "path: it is missing; a piece of a file states path and size"),
        ([piece(0, assemble="yes")], "assemble: it must be true or false, not a string"),
        ([piece(0, 2**62), piece(1, 2**62)], "have more than 9223372036854775807 bytes together"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, rows, message):
    """With the place in the list, and with what to do."""
    with pytest.raises(ManifestError) as caught:
        freeze_rows(tmp_path, rows)
    assert message in str(caught.value)


@pytest.mark.parametrize("skips", [False, True])
def test_assemble_behind_the_files_is_told(tmp_path, skips):
    """The files have been read as files by then; forgiving bad rows does not forgive it."""
    document = json.dumps({"files": [piece(0), piece(1)], "assemble": True}).encode()
    options = ReadingOptions(bad_rows="skip" if skips else "error")
    with pytest.raises(ManifestError, match="assemble: it has to stand before 'files'"):
        freeze(io.BytesIO(document), name="m.json", directory=tmp_path, options=options)
    harmless = json.dumps({"files": [piece(0)], "assemble": False}).encode()
    with freeze(io.BytesIO(harmless), name="m.json", directory=tmp_path) as plan:
        assert places(plan) == [("0", None)]


def test_pieces_that_are_byte_ranges(tmp_path):
    """Offset and length are the range of the URL, the list's order is that of the file; a note says so."""
    rows = [piece(0, None, offset=500, length=7), piece(0, None, offset=0, length=3)]
    with freeze_rows(tmp_path, rows) as plan:
        assert places(plan) == [("0", 0), ("0", 7)]
        assert [entry.range_start for entry in plan.entries()] == [500, 0]
        assert "pieces with offset and length are byte ranges of their URLs" in plan.notes[0]


@pytest.mark.parametrize("name", ["json", "jsonl", "csv"])
def test_written_and_read_again(tmp_path, name):
    """In each of cfetch's own formats the pieces have the same places, those that are ranges too."""
    rows = [
        piece(0),
        piece(1, None, offset=500, length=7),
        piece(2),
        piece(7, assemble=False) | {"path": "a"},
    ]
    with freeze_rows(tmp_path, rows) as plan:
        text = io.StringIO()
        TARGETS[name].write(plan.entries(), survey(plan.entries(), ()), text)
        again = io.BytesIO(text.getvalue().encode())
        (tmp_path / "again").mkdir()
        with freeze(again, name=f"m.{name}", format=name, directory=tmp_path / "again") as second:
            assert places(second) == places(plan)
            assert second.digest == plan.digest
