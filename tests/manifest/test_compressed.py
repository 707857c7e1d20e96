"""gzip and zstd around any format: seen by the first bytes, undone within limits."""

import gzip
import io
import sys

import pytest

from cfetch.base.errors import LocalFault, ManifestError, UsageError
from cfetch.manifest import decompression
from cfetch.manifest.reading import read_entries
from tests.needs import case

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHECKED = {int(zstd.CompressionParameter.checksum_flag): 1}  # as the command zstd writes
PACK = {"gzip": gzip.compress, "zstd": lambda data: zstd.compress(data, options=CHECKED)}
METALINK = (
    b'<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a"><url>http://h/a</url></file>'
    b'<file name="b"><url>http://h/b</url></file></metalink>'
)
LIST = b"# list\nhttp://h/a\nhttp://h/b\n"


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.txt.gz", LIST),
        ("-", b'{"base_url":"http://h/","files":[{"url":"a"},{"url":"b"}]}'),
        ("m.csv.zst", b"url\nhttp://h/a\nhttp://h/b\n"),
        case("x", METALINK),
    ],
)
def test_any_format(frozen, kind, name, content):
    """The format inside is known as if it were not compressed."""
    plan = frozen(PACK[kind](content), name)
    assert [plan.entry(i).url.reveal() for i in range(len(plan))] == ["http://h/a", "http://h/b"]


@pytest.mark.parametrize("kind", PACK)
def test_several_members(frozen, kind):
    """Compressed files that were joined are read to the end, and lines are counted in the text."""
    plan = frozen(PACK[kind](LIST) + PACK[kind](b"http://h/c\n"), "-")
    assert [plan.entry(i).line for i in range(3)] == [2, 3, 4]


@pytest.mark.parametrize("kind", PACK)
def test_cut_short(error_of, kind):
    """What was cut short is never taken for a shorter list."""
    data = PACK[kind](LIST)
    for cut in range(4, len(data)):
        assert error_of(data[:cut], "m.txt").total == 1


@pytest.mark.parametrize("kind", PACK)
def test_damaged(kind):
    """Flipped bytes are a fault, or change nothing."""
    data = PACK[kind](LIST)
    for position in range(len(data)):
        spoiled = data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :]
        try:
            entries = list(read_entries(io.BytesIO(spoiled), name="m.txt"))
        except ManifestError:
            continue
        assert [entry.path for entry in entries] == ["a", "b"]


@pytest.mark.parametrize("kind", PACK)
def test_bomb(monkeypatch, error_of, kind):
    """A few bytes that become very many are refused while they do."""
    monkeypatch.setattr(decompression, "FREE_BYTES", 1 << 20)
    error = error_of(PACK[kind](b"#" * (8 << 20)), "m.txt")
    assert "200 times its own size" in error.problems[0].message


def test_total_limit(monkeypatch, error_of):
    """However well it is packed, there is a largest size."""
    monkeypatch.setattr(decompression, "MAX_BYTES", 100)
    assert "more than 100 bytes" in error_of(gzip.compress(LIST * 9), "m.txt").problems[0].message


def test_nested(error_of):
    """Only one layer is undone."""
    assert "compressed twice" in error_of(gzip.compress(gzip.compress(LIST)), "m.txt").problems[0].message


def test_long_list_is_no_bomb(frozen):
    """A real list of many like links stays within the ratio."""
    text = "".join(
        f"https://bucket.example/shard/part-{i:05d}.arrow?X-Sig={i * 7919:032x}\n" for i in range(5000)
    )
    assert len(frozen(gzip.compress(text.encode(), 9), "-")) == 5000


def test_missing_library(monkeypatch):
    """Without a zstd library the message says what to install."""
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(UsageError, match=r"cfetch\[zstd\]"):
        list(read_entries(io.BytesIO(zstd.compress(LIST)), name="-"))


def test_no_room(monkeypatch):
    """A full temporary directory is this machine's fault."""

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(LocalFault, match="No space left"):
        list(read_entries(io.BytesIO(gzip.compress(LIST)), name="-"))
