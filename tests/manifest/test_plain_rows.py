"""Plain rows are read many at once, and nothing but the time tells it."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest import reading, source
from cfetch.manifest.entry import Digest, SafePath
from cfetch.manifest.faults import Faults
from cfetch.manifest.plan_file import PlanFile, identities_of, identity_of
from cfetch.manifest.reading import Reading
from cfetch.manifest.rows import PlainRows, check_row
from cfetch.manifest.source import Source

HOSTS = (
    "h.example", "a-b.c_d.example:8080", "127.0.0.1:59999", "localhost", "1.example", "h.example.", "127.1",
    "256.0.0.1", "h.example:0", "h.example:65536", "h.example:60000", "me:pw@h", "[::1]", "h..example",
    "é.example", "",
)  # fmt: skip
TAILS = (
    "/a", "/d/b.txt", "/c%20d", "/e?x=1&sig=a/b", "/f#md5=" + "0" * 32, "/g#x", "/", "", "?q", "//h", "/..",
    "/.cfetch", "/a,b", "/a;b|c", '/a"b', "/i\\j", "/k l", "/é", "/~m", "/n:o", "/" + "p" * 256, "/q\t", "/A",
    "/r'", "/s\x7f",
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
    "caption": st.sampled_from(
        ['say "a"', "a,b", "c\td", "e\\f", "g\nh", "l\udcff", [1], {"i": 1}, "\\u00e9", "j;k|l"]
    ),
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
        "\udcff",
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
    reported = []
    faults = Faults(lambda line, message: reported.append((line, message)))
    opened = Source(io.BytesIO(text.encode("utf-8", "surrogateescape")), name, window_bytes=window_bytes)
    walk = Reading(opened, options=options, faults=faults)
    walk.document.takes_plain = takes_plain
    return list(walk), reported, walk.document.notes, walk.rows, faults.total


@given(texts(), OPTIONS, st.sampled_from([1 << 18, 100, 7]))
def test_plain_rows_change_nothing(named_text, options, window_bytes):
    """Entries, faults, notes and numbers of rows are the same with patterns and without, for any list."""
    name, text = named_text
    alone = read(name, text, options, takes_plain=False)
    assert read(name, text, options, takes_plain=True, window_bytes=window_bytes) == alone


def write_long_list(kind, rows=3000):
    """A list of files whose second column stays out, long enough that plain rows are looked for."""
    urls = [f"https://h.example/{number % 7}/{number:06d}.jpg?v=1" for number in range(rows)]
    objects = [
        json.dumps({"url": url, "note": f"nr {number}", "size": number}) for number, url in enumerate(urls)
    ]
    return {
        "m.txt": "\n".join(urls),
        "m.csv": "url,note,size\n" + "\n".join(f'{url},"a ""note"", {n}",{n}' for n, url in enumerate(urls)),
        "m.tsv": "url\tnote\tsize\n" + "\n".join(f"{url}\ta note\t{n}" for n, url in enumerate(urls)),
        "n.csv": "\n".join(f"a note,{url},{n}" for n, url in enumerate(urls)),
        "m.jsonl": "\n".join(objects),
        "m.json": "[" + ",\n".join(objects) + "]",
    }[kind]


def note_checks(monkeypatch):
    """The rows that are checked one by one, as they come."""
    checked = []

    def note(row, *more):
        checked.append(row)
        return check_row(row, *more)

    monkeypatch.setattr(reading, "check_row", note)
    return checked


@pytest.mark.parametrize("kind", ["m.txt", "m.csv", "m.tsv", "n.csv", "m.jsonl", "m.json"])
def test_nearly_all_rows_of_a_long_list_are_plain(kind, monkeypatch):
    """Of 3,000 rows that are alike, at most ten go through the checks of a single row; all come in order."""
    checked = note_checks(monkeypatch)
    walk = Reading(Source(io.BytesIO(write_long_list(kind).encode()), kind))
    paths = [entry.path for entry in walk]
    assert paths == [f"{number:06d}.jpg" for number in range(3000)]
    assert len(checked) <= 10
    assert walk.faults.total == 0


def test_rows_of_another_form_teach_another_pattern(monkeypatch):
    """A list whose second half has other keys is plain in both halves."""
    checked = note_checks(monkeypatch)
    first = write_long_list("m.jsonl")
    second = "\n".join(f'{{"path": "d/{n}", "url": "https://h.example/{n}"}}' for n in range(3000))
    assert len(list(Reading(Source(io.BytesIO(f"{first}\n{second}".encode()), "m.jsonl")))) == 6000
    assert len(checked) < source.BLOCK_LINES + 10


def test_a_row_after_a_line_that_is_too_long_has_its_own_line():
    """The line of an entry in a table is that of its record, also behind lines that were left out."""
    table = f"url,note\nhttps://h.example/a,b\n{'x' * (source.MAX_ROW_CHARS + 1)}\nhttps://h.example/c,d\n"
    walk = Reading(Source(io.BytesIO(table.encode()), "m.csv"))
    assert [entry.line for entry in walk] == [2, 4]


def test_identities_of_many_entries_are_those_of_each():
    """The bytes by which plans are equal do not depend on how many entries are noted together."""
    rows = [
        {"url": "https://h.example/a?X-Amz-Signature=1&id=2#x", "size": 5, "sha256": "ab" * 32, "batch": "b"},
        {"url": "https://h.example/b", "offset": 7, "path": "é"},
        {"url": "s3://bucket/why?.jpg"},
        {"url": "https://h.example/c", "mirrors": ["https://m.example/c"]},
        {"url": "https://h.example/d", "offset": 7, "length": 8},
    ]
    lines = "\n".join(map(json.dumps, rows))
    *plain, mirrored, ranged = Reading(Source(io.BytesIO(lines.encode()), "m.jsonl"))
    for entries in (plain * 20, [*plain * 20, mirrored], [*plain * 20, ranged], plain, []):
        assert identities_of(entries) == b"".join(map(identity_of, entries))


@pytest.mark.parametrize("has_more", [False, True])
def test_plain_rows_are_sealed_as_their_entries(tmp_path, has_more):
    """A plan of the columns of plain rows has the entries and the digest of a plan of those entries."""
    urls = [f"https://{host}/f?x={host}" for host in ("h.example", "h.example", "i.example")]
    sizes, digests = ([5, None, 7], [Digest("md5", "0" * 32), None, None]) if has_more else (None, None)
    plain = PlainRows(range(3, 6), urls, [SafePath(name) for name in "abc"], sizes, digests).make_entries(40)
    plans = [PlanFile(tmp_path / name) for name in ("columns", "entries")]
    for plan, entries in zip(plans, (plain, list(plain)), strict=True):
        plan.extend(entries)
        plan.seal()
    states = [
        (plan.block(0, 3), plan.digest, plan.hosts, list(plan.host_of), list(plan.sizes), plan.totals)
        for plan in plans
    ]
    assert states[0] == states[1]
    assert [(each.id, each.line) for each in states[0][0]] == [(40, 3), (41, 4), (42, 5)]
    for plan in plans:
        plan.discard()
