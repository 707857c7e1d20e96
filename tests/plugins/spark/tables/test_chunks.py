"""Metrics files in chunks: however they are cut, the same lines come out, each under its run's header."""

import gzip
import itertools
import json

import pytest

from cfetch.base.errors import UsageError
from cfetch.manifest.decompression import import_zstd
from cfetch.plugins.spark.tables import chunks
from cfetch.plugins.spark.tables.chunks import cut_chunks, read_lines
from cfetch.show.metrics import RunHeader
from tests.plugins.lab.tuning.records import FIRST, metrics_file


def read(path, chunk_bytes=1 << 20):
    """Line number, what it holds, and the line of the header in force, by way of chunks."""
    found = []
    for chunk in cut_chunks(path, chunk_bytes):
        in_force = chunk.header_line if chunk.header else None
        for line in read_lines(chunk):
            in_force = line.number if isinstance(line.content, RunHeader) else in_force
            found.append((line.number, line.content, in_force))
    return found


@pytest.fixture
def several(tmp_path):
    """Three runs one after the other, with a bad line, a blank one and a header that is none."""
    parts = [metrics_file(tmp_path / f"{n}.jsonl", f"i{n}").read_bytes() for n in range(3)]
    bad = b'{"schema":"cfetch.run/1"}\n\nnothing\n'
    path = tmp_path / "all.jsonl"
    path.write_bytes(parts[0] + bad + parts[1] + parts[2][:-1])
    return path


@pytest.mark.parametrize("chunk_bytes", [1, 100, 333, 1000, 2048, 3000, 4000])
def test_cutting_changes_nothing(several, chunk_bytes):
    """The same lines, numbers and headers for any size of a chunk."""
    whole = read(several)
    assert [number for number, _, _ in whole] == [*range(1, 8), 9, *range(10, 22)]
    assert [at for _, held, at in whole if isinstance(held, RunHeader)] == [1, 10, 16]
    assert len(list(cut_chunks(several, chunk_bytes))) > 1
    assert read(several, chunk_bytes) == whole


def test_an_array_and_a_compressed_file_hold_the_same(tmp_path):
    """One element a line, an array on one line or indented, gzip or zstd around it: the same documents."""
    lines = metrics_file(tmp_path / "m.jsonl")
    array = metrics_file(tmp_path / "m.json")
    wanted = [held for _, held, _ in read(lines)]
    assert len(wanted) == 6
    assert [held for _, held, _ in read(array, 300)] == wanted
    for number, indent in enumerate((None, 2)):
        foreign = tmp_path / f"{number}.json"
        foreign.write_text(json.dumps(json.loads(array.read_text()), indent=indent))
        assert [held for _, held, _ in read(foreign, 300)] == wanted
    for path in (lines, array, foreign):
        for ending, compress in ((".gz", gzip.compress), (".zst", import_zstd().compress)):
            packed = tmp_path / f"{path.name}{ending}"
            packed.write_bytes(compress(path.read_bytes()))
            assert [held for _, held, _ in read(packed, 300)] == wanted


@pytest.mark.parametrize("cut", [5, 30, 200])
def test_a_compressed_file_that_was_cut(tmp_path, cut):
    """What can be read is read, and one line says that there was more."""
    data = gzip.compress(metrics_file(tmp_path / "m.jsonl").read_bytes())
    (tmp_path / "cut.gz").write_bytes(data[:-cut])
    found = read(tmp_path / "cut.gz")
    assert [held for _, held, _ in found if isinstance(held, str)][-1].startswith("the compressed data ends")
    assert [held for _, held, _ in found if not isinstance(held, str)]


@pytest.mark.parametrize("wall_start", ["", "noon", "2026-03-01T10:00:00", "0001-01-01T00:00:00+23:59"])
def test_a_header_without_a_time_is_none(tmp_path, wall_start):
    """A run whose day is not known has no place in the tables."""
    path = metrics_file(tmp_path / "m.jsonl", wall_start=wall_start)
    assert "wall_start" in read(path)[0][1]


def test_numbers_that_no_table_takes(tmp_path):
    """A header with them is none."""
    path = metrics_file(tmp_path / "m.jsonl", wall_start=FIRST, planned=1 << 63)
    assert "`int` <= 9223372036854775807 - at `$.files`" in read(path)[0][1]


def test_an_empty_file_and_none(tmp_path):
    """The one holds nothing, the other is an error that names it."""
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") == []
    with pytest.raises(UsageError, match=r"gone\.jsonl: cannot read"):
        read(tmp_path / "gone.jsonl")


@pytest.mark.parametrize("filling", [b"\n", b" " * 99 + b"\n", b"[0,0,0,0]\n", b'[{"a":1},\n', b"["])
def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch, filling):
    """Compressed metrics that hold far more than their size end with a line that says so."""
    monkeypatch.setattr(chunks, "FREE_BYTES", 1 << 20)
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(filling * (4_000_000 // len(filling))))
    (chunk,) = cut_chunks(path)
    last = list(itertools.islice(read_lines(chunk), 500_000))[-1]
    assert "times its own size" in str(last.content)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end(tmp_path, monkeypatch, packed):
    """A line longer than any record is a fault, and is not held."""
    monkeypatch.setattr(chunks, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "m.jsonl"
    data = b"{" * 5000 + b"\n"
    path.write_bytes(gzip.compress(data) if packed else data)
    lines = [line for chunk in cut_chunks(path) for line in read_lines(chunk)]
    assert "longer than 1000 bytes" in str(lines[0].content)
