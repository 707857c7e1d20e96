"""The line formats of other tools: what they state is read, what cannot be read is a fault of its line."""

import io

import pytest

from cfetch.base.errors import ManifestError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.formats.table import find_reader
from cfetch.manifest.reading import read_entries
from cfetch.manifest.source import Source
from tests.manifest.frozen import with_format

BASE = "https://h.example/d/"
SHA = "ab" * 32
MD5_HEX = "5d41402abc4b2a76b9719d911017c592"
MD5_BASE64 = "XUFAKrxLKna5cZ2REBfFkg=="
CANARY = "CANARY5ecret"

ARIA2 = f"""# a comment
https://h.example/x?sig=1\thttps://m.example/x\thttp://n.example/y
  out=a/x.bin
\tchecksum=sha-256={SHA}
  header=X-Key: k
  header=Accept: */*
  split=5
https://h.example/y
  dir=b

  referer=https://h.example/
https://h.example/z
"""
SUMS = f"""# made by sha256sum
{SHA}  a/b c.txt
{SHA.upper()} *bin 50%.dat
{MD5_HEX}  ./m.txt

SHA512 (p (1).txt) = {"cd" * 64}
BLAKE3 (q) = {SHA}
"""
FETCH = "https://h.example/x 12 data/x y.bin\nhttp://h.example/y\t-\tdata/50%25%0D.bin\n"
TSV = f"TsvHttpData-1.0\nhttps://h.example/x\t5\t{MD5_BASE64}\nhttps://h.example/y\t\t\nhttps://h.example/z\n"


def faults(content, name="-", **options):
    """The problems of a text, as (line, message)."""
    with pytest.raises(ManifestError) as caught:
        list(read_entries(io.BytesIO(content.encode()), name=name, **with_format(**options)))
    return list(caught.value.problems)


def test_aria2(frozen):
    """URLs, mirrors and the options that say what a file is; the rest of aria2's options is left out."""
    plan = frozen(ARIA2, "-")
    x, y, z = (plan.entry(i) for i in range(3))
    assert (x.url.reveal(), x.path, x.line) == ("https://h.example/x?sig=1", "a/x.bin", 2)
    assert [m.reveal() for m in x.mirrors] == ["https://m.example/x", "http://n.example/y"]
    assert (x.digest.algorithm, x.digest.hex) == ("sha256", SHA)
    assert {n: v.reveal() for n, v in x.headers} == {"X-Key": "k", "Accept": "*/*"}
    assert (y.path, y.headers[0][0], y.line) == ("b/y", "Referer", 8)
    assert (z.path, z.digest, z.headers, z.line) == ("z", None, (), 12)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("out=/etc/passwd", "absolute"),
        ("out=../x", "component"),
        ("dir=/tmp", "absolute"),
        ("checksum=sha-256=abc", "64 hexadecimal"),
        ("checksum=adler32=abc", "checksum: cfetch knows md5, sha-1"),
        ("checksum=" + SHA, "checksum: cfetch knows"),
        ("header=NoColon" + CANARY, "NAME: VALUE"),
        ("header=Range: bytes=0-", "Range is set by cfetch"),
        ("http-passwd=" + CANARY, "http-passwd: cfetch has no such option"),
        ("load-cookies=c.txt", "load-cookies"),
        ("not an option " + CANARY, "not an option"),
    ],
)
def test_aria2_faults(line, word):
    """An option that cannot be taken as it stands is a fault, and no secret of it is shown."""
    [problem] = faults(f"# c\nhttp://h/a\n  {line}\n", format="aria2")
    assert problem.line in (2, 3)
    assert word in problem.message
    assert CANARY not in problem.message


def test_aria2_option_twice_and_first():
    """Two values for one option, and an option before any URL, are faults of their lines."""
    found = faults("  out=x\nhttp://h/a\n  out=x\n  out=y\n  header=A: 1\n  header=A: 2\n", format="aria2")
    assert [problem.line for problem in found] == [1, 4, 6]


def test_checksum_list(frozen):
    """GNU and BSD lines; the algorithm by length or tag; names become percent-encoded URLs."""
    plan = frozen(SUMS, "SHA256SUMS", base_url=BASE)
    entries = [plan.entry(i) for i in range(5)]
    assert [e.path for e in entries] == ["a/b c.txt", "bin 50%.dat", "m.txt", "p (1).txt", "q"]
    assert [e.url.reveal().removeprefix(BASE) for e in entries] == [
        "a/b%20c.txt", "bin%2050%25.dat", "m.txt", "p%20(1).txt", "q",
    ]  # fmt: skip
    assert [e.digest.algorithm for e in entries] == ["sha256", "sha256", "md5", "sha512", "blake3"]
    assert entries[1].digest.hex == SHA
    assert [e.line for e in entries] == [2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (f"{SHA}  ../x", "component"),
        (f"{SHA}  /etc/passwd", "absolute"),
        (f"\\{SHA}  a\\nb", "control"),
        (f"\\{SHA}  a\\\\b", "backslash"),
        (f"{SHA}x", "not a line of a checksum list"),
        (f"{SHA[:-2]}  x", "not a line of a checksum list"),
        ("CRC16 (x) = abcd", "not a line of a checksum list"),
        (f"MD5 (x) = {SHA}", "md5: it must be 32"),
    ],
)
def test_checksum_list_faults(line, word):
    """A line that is none, or a name that leads elsewhere, is a fault of that line."""
    [problem] = faults(f"{SHA}  good\n{line}\n", format="sha256sum", base_url=BASE)
    assert problem.line == 2
    assert word in problem.message


def test_checksum_list_needs_a_base():
    """Without a base URL the list says nothing of where its files are."""
    [problem] = faults(f"{SHA}  x\n")
    assert "base_url" in problem.message


def test_bagit_fetch(frozen):
    """A length may be unknown; a path may hold spaces, and its encoded percent is decoded once."""
    plan = frozen(FETCH.replace("%0D", "%41"), "fetch.txt")
    x, y = plan.entry(0), plan.entry(1)
    assert (x.url.reveal(), x.size_bytes, x.path) == ("https://h.example/x", 12, "data/x y.bin")
    assert (y.size_bytes, y.path, y.line) == (None, "data/50%%41.bin", 2)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("http://h/a 12", "not a line of fetch.txt"),
        ("http://h/a -1 data/a", "size"),
        ("http://h/a 1.0 data/a", "digits"),
        ("http://h/a 1 data/a%0Ab", "control"),
        ("http://h/a 1 ../a", "component"),
        ("file:///etc/passwd 1 data/a", "scheme"),
    ],
)
def test_bagit_faults(line, word):
    """What is not URL, length and a safe path is a fault of its line."""
    [problem] = faults(f"\n{line}\n", format="bagit")
    assert problem.line == 2
    assert word in problem.message


def test_tsv_http_data(frozen):
    """Size and MD5 are read where they are stated; a path is the URL's last segment."""
    plan = frozen(TSV, "-")
    x, y, z = (plan.entry(i) for i in range(3))
    assert (x.path, x.size_bytes, x.digest.algorithm, x.digest.hex) == ("x", 5, "md5", MD5_HEX)
    assert [(e.size_bytes, e.digest, e.line) for e in (y, z)] == [(None, None, 3), (None, None, 4)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("http://h/a\tx", "size"),
        ("http://h/a\t1\tnot base64", "a cell that is not base64"),
        ("http://h/a\t1\tYWI=", "md5: it must be 32"),
        ("http://h/a\t1\té", "md5"),
        ("http://h/a\t1\t\tmore", "4 cells"),
        ("\t1", "url"),
    ],
)
def test_tsv_faults(line, word):
    """A cell that its column does not take is a fault of its line."""
    [problem] = faults(f"TsvHttpData-1.0\n{line}\n")
    assert problem.line == 2
    assert word in problem.message


def test_tsv_without_its_first_line():
    """The first line is the format's name."""
    [problem] = faults("http://h/a\t1\n", format="tsv-http-data")
    assert "TsvHttpData-1.0" in problem.message


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("-", ARIA2, "aria2"),
        ("x.txt", "http://h/a\n out=b", "aria2"),
        ("-", "http://h/a\thttp://m/a", "aria2"),
        ("-", "http://h/a\n  https://h/b?x=1\n", "urls"),
        ("x.txt", SUMS, "sha256sum"),
        ("SHA256SUMS", SUMS, "sha256sum"),
        ("x.sha256", "", "sha256sum"),
        ("x.txt", FETCH, "bagit"),
        ("x.tsv", TSV, "tsv-http-data"),
        ("-", "<?xml version='1.0'?><metalink", "metalink"),
        ("x.meta4", "", "metalink"),
        ("x.parquet", "", "parquet"),
        ("x.csv.gz", "", "csv"),
        ("x.jsonl.zst", "", "jsonl"),
    ],
)
def test_detection(name, content, kind):
    """Each format is known by its content, else by its ending, compressed or not."""
    assert detect_format(Source(io.BytesIO(content.encode()), name)) == kind


@pytest.mark.parametrize("window_bytes", range(1, 40))
@pytest.mark.parametrize(
    ("kind", "text"), [("aria2", ARIA2), ("sha256sum", SUMS), ("bagit", FETCH), ("tsv-http-data", TSV)]
)
def test_windows(kind, text, window_bytes):
    """Rows do not depend on where the window's edge falls."""

    def rows(window):
        from cfetch.manifest.faults import Faults
        from cfetch.manifest.rows import Document

        source = Source(io.BytesIO(text.encode()), window_bytes=window)
        return list(find_reader(kind)(source, Document(), Faults()))

    assert rows(window_bytes) == rows(1 << 16)


def test_what_stands_around_a_url_of_a_plain_list_is_no_part_of_it(frozen):
    """A comment behind a URL, and blanks that a web page puts around links; a hash is no comment."""
    lines = ["http://h/a # the latest one of all of them", f"http://h/b #sha256={SHA}", "http://h/c#x"]
    for name in ("list.txt", "list"):
        plan = frozen("\n".join([*lines, "\u00a0http://h/d\u200b"]) + "\n", name)
        assert [entry.url.reveal().partition("#")[0] for entry in plan.entries()] == [
            f"http://h/{name}" for name in "abcd"
        ]
        assert [entry.digest is not None for entry in plan.entries()] == [False, True, False, False]


def test_urls_that_all_have_comments_are_a_plain_list(frozen):
    """No other reading of such lines makes sense."""
    assert [entry.path for entry in frozen("http://h/a # x\nhttp://h/b # y\n", "l").entries()] == ["a", "b"]
