"""Plain rows are read many at once, and nothing but the time tells it."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest import plain_rows, reading
from cfetch.manifest.faults import Faults
from cfetch.manifest.reading import Reading
from cfetch.manifest.rows import PlainRows
from cfetch.manifest.source import Source

HOSTS = (
    "h.example", "a-b.c_d.example:8080", "127.0.0.1:59999", "localhost", "1.example", "h.example.", "127.1",
    "256.0.0.1", "h.example:0", "h.example:65536", "h.example:60000", "me:pw@h", "[::1]", "h..example", "é.example", "",
)  # fmt: skip
TAILS = (
    "/a", "/d/b.txt", "/c%20d", "/e?x=1&sig=a/b", "/f#md5=" + "0" * 32, "/g#x", "/", "", "?q", "//h", "/..", "/.cfetch",
    "/a,b", "/a;b|c", '/a"b', "/i\\j", "/k l", "/é", "/~m", "/n:o", "/" + "p" * 256, "/q\t", "/A", "/r'", "/s\x7f",
)  # fmt: skip
URLS = st.builds(
    "{}://{}{}".format, st.sampled_from(["http", "https"]), st.sampled_from(HOSTS), st.sampled_from(TAILS)
)
LIKELY_URLS = st.builds("https://h.example/d/{}.bin".format, st.integers(0, 99))
PLAIN = {
    "url": LIKELY_URLS,
    "path": st.builds("d{}/f".format, st.integers(0, 99)),
    "size": st.integers(0, 10**6),
    "sha256": st.sampled_from(["ab" * 32, "CD" * 32]),
    "md5": st.just("0" * 32),
    "caption": st.sampled_from(["x", "é", "", 7, -1.5e3, True, None]),
}
ODD = {
    "url": URLS
    | st.sampled_from(["s3://b/k", "HTTP://h/a", "rel/a", "", "hf://datasets/o/n/p", "# a", None, 5]),
    "path": st.sampled_from(
        ["", "/a", "a/../b", ".cfetch/x", "a\\b", "~", "é", "a/" * 20 + "b", "c" * 256, None]
    ),
    "size": st.sampled_from([-1, 2**63, 2**63 - 1, 1.0, "7", "07", "7.0", None, True, 10**18, ""]),
    "sha256": st.sampled_from(["", "sha256:" + "ab" * 32, "g" * 64, "ab", None]),
    "md5": st.sampled_from(["", "0" * 31, None]),
    "caption": st.sampled_from(['say "a"', "a,b", "c\td", "e\\f", "g\nh", [1], {"i": 1}, "\\u00e9", "j;k|l"]),
}
KEYS = st.lists(st.sampled_from(sorted(PLAIN)), max_size=4, unique=True).map(lambda keys: ["url", *keys])
OPTIONS = st.sampled_from([
    ReadingOptions(), ReadingOptions(), ReadingOptions(name_by="url-path"), ReadingOptions(bad_rows="skip"),
    ReadingOptions(keep_columns=("caption",)), ReadingOptions(url_column="url"),
    ReadingOptions(url_column="url", path_column="caption"), ReadingOptions(name_by="header"),
])  # fmt: skip


@st.composite
def tables(draw):
    """Keys and rows, most of which are plain."""
    keys = list(dict.fromkeys(draw(KEYS)))
    rows = []
    for _ in range(draw(st.integers(2, 12))):
        row = {key: draw(PLAIN[key]) for key in keys}
        if draw(st.integers(0, 3)) == 0:
            odd = draw(st.sampled_from(keys))
            row[odd] = draw(ODD[odd])
        if draw(st.integers(0, 9)) == 0:
            del row[draw(st.sampled_from(sorted(row)))]
        rows.append(row)
    return keys, rows


def write_cell(value, delimiter, quoting):
    """A cell; sometimes without the quotes that it would need."""
    text = "" if value is None else json.dumps(value) if isinstance(value, (list, dict)) else str(value)
    if quoting == "all" or (quoting == "some" and set(text) & {delimiter, '"', "\n"}):
        return '"' + text.replace('"', '""') + '"'
    return text


@st.composite
def texts(draw):
    """A name that tells the format, and a list in it, sometimes with broken lines."""
    keys, rows = draw(tables())
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    kind = draw(st.sampled_from(["txt", "csv", "jsonl", "json"]))
    noise = [
        "",
        "# a comment",
        "{",
        "\0",
        '"',
        '"a',
        "a" * 40,
        "https://h.example/x\rhttps://h.example/y",
        " ",
        ",,",
    ]
    if kind == "txt":
        lines = [str(row.get("url", "")) for row in rows]
    elif kind == "csv":
        delimiter = draw(st.sampled_from(",\t;|"))
        quoting = draw(st.sampled_from(["some", "all", "none"]))
        lines = [delimiter.join(keys)] if draw(st.integers(0, 5)) else []
        lines += [
            delimiter.join(write_cell(row.get(key), delimiter, quoting) for key in keys) for row in rows
        ]
        noise.append(lines[0])
    else:
        style = draw(st.sampled_from([{}, {"separators": (",", ":")}, {"ensure_ascii": False}]))
        lines = [json.dumps(row, **style) for row in rows]
        noise += [
            lines[0].replace("{", '{"url":"https://h.example/2",'),
            '"https://h.example/t"',
            '{"url": "http://h/\\u0061"}',
        ]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(noise)))
    if kind != "json":
        return f"m.{kind}", end.join(lines) + draw(st.sampled_from(["", end]))
    between = draw(st.sampled_from([",\n", ", ", "\n , \n\n"]))
    before, after = draw(st.sampled_from([("[", "]"), ('{"version": 1, "files": [\n', "\n]}"), ("[\n", "")]))
    return f"m.{kind}", before + between.join(lines) + after


def read(name, text, options, *, takes_plain, window_bytes=1 << 18):
    """Entries, faults as they were added, notes, and the number of rows."""
    told = []
    faults = Faults(lambda line, message: told.append((line, message)))
    source = Source(io.BytesIO(text.encode()), name, window_bytes=window_bytes)
    walk = Reading(source, options=options, faults=faults)
    walk.document.takes_plain = takes_plain
    return list(walk), told, walk.document.notes, walk.rows, faults.total


@given(texts(), OPTIONS, st.sampled_from([1 << 18, 100, 7]))
def test_plain_rows_change_nothing(named_text, options, window_bytes):
    """Entries, faults, notes and numbers of rows are the same with patterns and without, for any list."""
    alone = read(*named_text, options, takes_plain=False)
    assert read(*named_text, options, takes_plain=True, window_bytes=window_bytes) == alone
