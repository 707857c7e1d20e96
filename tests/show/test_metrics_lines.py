"""Metrics files line by line: the same lines from each form of a file, and one for what is wrong."""

import gzip
import json
import os
from pathlib import Path

import pytest

from cfetch.base.errors import UsageError
from cfetch.manifest.decompression import import_zstd
from cfetch.show import metrics_reading
from cfetch.show.metrics_reading import read_lines, read_metrics
from tests.plugins.lab.tuning.records import metrics_file


def read(path):
    """What each line holds."""
    return [line.content for line in read_lines(path)]


def test_an_array_and_a_compressed_file_hold_the_same(tmp_path):
    """One element a line, an array on one line or indented, gzip or zstd around it: the same documents."""
    lines = metrics_file(tmp_path / "m.jsonl")
    array = metrics_file(tmp_path / "m.json")
    wanted = read(lines)
    assert len(wanted) == 6
    assert read(array) == wanted
    for number, indent in enumerate((None, 2)):
        foreign = tmp_path / f"{number}.json"
        foreign.write_text(json.dumps(json.loads(array.read_text()), indent=indent))
        assert read(foreign) == wanted
    for path in (lines, array, foreign):
        for ending, compress in ((".gz", gzip.compress), (".zst", import_zstd().compress)):
            packed = tmp_path / f"{path.name}{ending}"
            packed.write_bytes(compress(path.read_bytes()))
            assert read(packed) == wanted


@pytest.mark.parametrize("cut", [5, 30, 200])
def test_a_compressed_file_that_was_cut_is_torn_as_a_plain_one_is(tmp_path, cut):
    """What can be read is read: its writer was killed."""
    data = gzip.compress(metrics_file(tmp_path / "m.jsonl").read_bytes())
    path = tmp_path / "cut.gz"
    path.write_bytes(data[:-cut])
    *whole, last = read_lines(path)
    assert (last.content, last.is_torn) == ("the compressed data ends too early", True)
    assert len(list(next(read_metrics([path])).records)) == len(whole) - 1


@pytest.mark.parametrize("filling", [b"\n", b" " * 99 + b"\n", b"[0,0,0,0]\n", b'[{"a":1},\n', b"["])
def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch, filling):
    """Compressed metrics that hold far more than their size end with a line that says so."""
    monkeypatch.setattr(metrics_reading, "FREE_BYTES", 1 << 10)
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(filling * (400_000 // len(filling))))
    assert "times its own size" in str(read(path)[-1])


def test_a_pipe_has_no_size_and_is_read(tmp_path, monkeypatch):
    """How much it may hold is not known."""
    monkeypatch.setattr(metrics_reading, "FREE_BYTES", 10)
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(metrics_file(tmp_path / "m.jsonl").read_bytes()))
    os.close(writing)
    assert len(read(Path(f"/dev/fd/{reading}"))) == 6
    os.close(reading)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_line_without_end(tmp_path, monkeypatch, compress):
    """A line longer than any record is a fault, and is not held."""
    monkeypatch.setattr(metrics_reading, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "m.jsonl"
    path.write_bytes(compress(b"{" * 5000 + b"\n"))
    assert "longer than 1000 bytes" in read(path)[0]


def test_an_empty_file_and_none(tmp_path):
    """The one holds nothing, the other is an error that names it."""
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") == []
    with pytest.raises(UsageError, match=r"gone\.jsonl: cannot read"):
        read(tmp_path / "gone.jsonl")
