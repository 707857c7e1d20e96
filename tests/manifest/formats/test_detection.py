"""Each format reads, and is known by its content before its ending."""

import io
import json
import time

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import LocalFault, UsageError
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.formats.table import find_reader
from cfetch.manifest.reading import read_entries
from cfetch.manifest.rows import Document
from cfetch.manifest.source import HEAD_BYTES, MAX_DOCUMENT_BYTES, Source
from tests.needs import case

FULL = {
    "url": "https://h.example/d/part-0.arrow?sig=1",
    "size": 7,
    "offset": 3,
    "path": "a/part-0.arrow",
    "sha256": "AB" * 32,
    "expires_at": "2026-01-01T01:00:00+01:00",
    "batch": "shard-7",
    "headers": {"X-Key": "k"},
    "mirrors": ["http://m.example/part-0"],
}


def document(files, **top):
    return json.dumps({"version": 1, **top, "files": files})


def rows_of(kind, data, window_bytes):
    doc, faults = Document(), Faults()
    source = Source(io.BytesIO(data), window_bytes=window_bytes)
    return list(find_reader(kind)(source, doc, faults)), doc, faults.total


def assert_full(entry):
    assert entry.url.reveal() == FULL["url"]
    assert (entry.size_bytes, entry.offset, entry.path) == (7, 3, "a/part-0.arrow")
    assert (entry.digest.algorithm, entry.digest.hex) == ("sha256", "ab" * 32)
    assert entry.expires_at == 1767225600.0
    assert entry.batch == "shard-7"
    assert [(name, value.reveal()) for name, value in entry.headers] == [("X-Key", "k")]
    assert [mirror.reveal() for mirror in entry.mirrors] == ["http://m.example/part-0"]


def test_json_reads_every_key(frozen):
    """The native document gives an entry all that it states, and the plan its headers."""
    plan = frozen(document([FULL], headers={"X-All": "v"}))
    assert_full(plan.entry(0))
    assert [(name, value.reveal()) for name, value in plan.headers] == [("X-All", "v")]


def test_json_lines_reads_every_key(frozen):
    """A line is an object with the same keys; blank lines and CRLF do not matter."""
    plan = frozen(f"\r\n{json.dumps(FULL)}\r\n\r\n", "m.jsonl")
    assert_full(plan.entry(0))
    assert plan.entry(0).line == 2


def test_json_lines_header(frozen):
    """A first line with version or base_url and no url holds for all lines."""
    text = '{"version":1,"base_url":"https://h/d/","headers":{"X":"v"}}\n{"url":"a"}\n{"url":"b"}'
    plan = frozen(text, "-")
    assert [plan.entry(i).url.reveal() for i in range(2)] == ["https://h/d/a", "https://h/d/b"]
    assert plan.headers[0][1].reveal() == "v"


def test_json_lines_header_only_first(error_of):
    """A header in the middle is an entry without url; unknown keys in a header are faults."""
    error = error_of('{"version":1,"bsae_url":"x"}\n{"url":"http://h/a"}\n{"version":1}', "m.jsonl")
    assert [problem.line for problem in error.problems] == [1, 3]
    assert "'base_url'" in error.problems[0].message


def test_csv_reads_every_column(frozen):
    """Columns are the native keys, in any order, cells with JSON for headers and mirrors."""
    cells = {k: json.dumps(v) if k in ("headers", "mirrors") else str(v) for k, v in FULL.items()}
    quoted = ",".join('"' + cell.replace('"', '""') + '"' for cell in reversed(cells.values()))
    plan = frozen(",".join(reversed(cells)) + "\r\n" + quoted + "\r\n", "m.csv")
    assert_full(plan.entry(0))
    assert plan.entry(0).line == 2


def test_csv_empty_cell_is_absent(frozen):
    """An empty cell is a key not given; a blank line is left out; lines count on."""
    plan = frozen("url,size,path,expires_at\nhttp://h/a,,,\n\nhttp://h/b,5,c,1767225600\n", "-")
    a, b = plan.entry(0), plan.entry(1)
    assert (a.size_bytes, a.path, a.expires_at) == (None, "a", None)
    assert (b.size_bytes, b.path, b.expires_at, b.line) == (5, "c", 1767225600.0, 4)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("url,size\nhttp://h/a,1.5\n", 2, "size"),
        ("url,size\nhttp://h/a,-2\n", 2, "digits"),
        ("url,size\nhttp://h/a,true\n", 2, "size"),
        ("url,size\nhttp://h/a,٣\n", 2, "digits"),
        ("url,size\nhttp://h/a\n", 2, "cells of this row: 1, columns that the first row names: 2"),
        ("url,size\nhttp://h/a,1,2\n", 2, "cells of this row: 3"),
        ("url,sise\nhttp://h/a,1\n", 1, "'size'"),
        ("url,url\nhttp://h/a,http://h/b\n", 1, "named twice"),
        ("size,path\n1,a\n", 1, "url among them"),
        ('url\n"http://h/a"x\n', 2, "not CSV"),
        ('url\nhttp://h/b\n"http://h/a\n', 3, "not CSV"),
        ("url,headers\nhttp://h/a,{\n", 2, "headers"),
    ],
)
def test_csv_faults(error_of, text, line, word):
    """Every fault of a table names its line."""
    problem = error_of(text, "m.csv").problems[0]
    assert problem.line == line
    assert word in problem.message


def test_url_list(frozen):
    """One URL a line; comments, blank lines, outer blanks and CRLF do not matter."""
    plan = frozen("# list\r\n\r\nhttp://h/a\r\n  https://h/b?x=1 \n", "-")
    assert [plan.entry(i).url.reveal() for i in range(2)] == ["http://h/a", "https://h/b?x=1"]
    assert [plan.entry(i).line for i in range(2)] == [3, 4]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("-", '{"version":1,"files":[]}', "json"),
        ("-", '{\n "files" : [{"url": "u"', "json"),
        ("-", '{"headers":{"a":"b"},\n"base_url":"x"', "json"),
        ("m.jsonl", '{"version":1,"files":[]}', "json"),
        ("m.json", '{"url":"http://h/a"}\n{"url":"http://h/b"}', "jsonl"),
        ("-", '{"version":1}\n{"url":"http://h/b"}', "jsonl"),
        ("m.ndjson", '{"version":1}', "jsonl"),
        ("-", '{"headers":{"url":"x"},"files":[', "json"),
        ("-", '{"statement_id":"1","status":{}', "databricks-sql"),
        ("m.json", '{"external_links":[]}', "databricks-sql"),
        ("-", '{"result":{"external_links":[]}}', "databricks-sql"),
        ("m.csv", "anything", "csv"),
        ("https://h/…/m.csv?<redacted 1 key>", "anything", "csv"),
        ("-", '"url","size"\r\nx', "csv"),
        ("-", "http://h/a,url\n", "csv"),
        ("-", "http://h/a\n", "urls"),
        ("m.txt", "url\n", "csv"),
        ("-", "", "urls"),
        ("-", "[]", "json"),
        ("-", '{"url":"http://h/a","resources":[]}\n{"url":"http://h/b"}', "jsonl"),
        ("m.jsonl", '{"url":"http://h/a","status":1,"data":2}', "jsonl"),
        ("-", '[{"url":"http://h/a","resources":[]}]', "json"),
        ("-", '{"type":"file","oid":"1","path":"a","url":"http://h/a"}', "jsonl"),
        ("m.txt", "http://h/a;b|c,url\n", "urls"),
        ("-", "http://h/a b\nhttp://h/c\n", "urls"),
        ("-", "http://h/a b\nhttp://h/c d\n", "url-and-more"),
        case("-", "http://h/a\thttp://h/b\n", "aria2"),
        ("-", "a\thttp://h/b\n", "csv"),
        case("-", "<!doctype HTML><title>Index of /x</title>", "html-index"),
        ("-", "<html><title>Sign in</title>", "html"),
        ("-", "<metalink>", "metalink"),
        ("m.json", "http://h/a\nhttp://h/b\n", "urls"),
        ("m.parquet", "# today\nHTTPS://h/a\n", "urls"),
    ],
)
def test_detection(name, content, kind):
    """Content decides where it can, the ending decides the rest."""
    assert detect_format(Source(io.BytesIO(content.encode()), name)) == kind


LONG = {"text": "x" * (1 << 17)}
FILES = [{"filename": f"{n}.whl", "url": f"http://h/{n}.whl", "hashes": {}} for n in range(2000)]
NATIVE = [{"url": f"http://h/{n}.bin", "path": f"{n}.bin"} for n in range(2000)]
RECORDED = [{"key": f"{n}.bin", "size": 1, "links": {"self": f"http://h/{n}"}} for n in range(2000)]
DEPOSITED = [{"filename": "a", "checksum": "0", "links": {"download": "http://h/a"}}]
ARTICLE = [{"name": "a", "download_url": "http://h/a", "computed_md5": "0"}]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"alternate-locations": [], "files": FILES, "meta": {}, "name": "n"}, "package-index"),
        ({"files": FILES, "meta": {}, "name": "n"}, "package-index"),
        ({"type": "Feature", "properties": LONG, "assets": {}, "stac_version": "1.0.0"}, "stac"),
        ({"description": LONG["text"], "resources": []}, "datapackage"),
        ({"@context": {}, "recordSet": [LONG], "distribution": []}, "croissant"),
        ({"version": 1, "headers": LONG, "files": []}, "json"),
        ({"odd": LONG, "even": 1}, "foreign-json"),
        ({"files": RECORDED, "conceptrecid": "1", "recid": "2"}, "zenodo"),
        ({"files": [{"id": n} for n in range(9000)], "recid": "2"}, "zenodo"),
        ({"files": [{"id": n} for n in range(9000)], "custom_fields": [], "figshare_url": "x"}, "figshare"),
        ({"authors": [{"url": "x"}], "files": RECORDED, "recid": "2"}, "zenodo"),
        ({"files": [], "metadata": LONG, "recid": "2"}, "zenodo"),
        ({"files": NATIVE, "version": 1}, "json"),
    ],
)
def test_what_tells_a_kind_may_stand_far_behind(value, kind):
    """Beyond the beginning that is looked at first."""
    assert detect_format(Source(io.BytesIO(json.dumps(value).encode()), "m.json")) == kind


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (RECORDED, "zenodo"),
        (DEPOSITED, "zenodo"),
        (ARTICLE, "figshare"),
        (FILES, "package-index"),
        ([{"url": "u", "path": "p"}, *FILES], "json"),
        ([{}, *ARTICLE], "figshare"),
        ([{"links": {"url": "u", "hashes": 1, "filename": 1}}], "json"),
        (["u"], "json"),
    ],
)
def test_what_its_first_file_tells(files, kind):
    """Where the document has no other keys; unless the user names the columns of its files."""
    source = Source(io.BytesIO(json.dumps({"files": files}).encode()), "m.json")
    assert detect_format(source) == kind
    assert detect_format(source, ReadingOptions(url_column="download_url")) == "json"


@pytest.mark.parametrize(
    ("write", "wanted_bytes"),
    [
        (lambda: json.dumps({"files": NATIVE * 100, "recid": "2"}), 2 * HEAD_BYTES),
        (lambda: json.dumps({"files": RECORDED * 200, "recid": "2"}), 2 * HEAD_BYTES + MAX_DOCUMENT_BYTES),
        (lambda: "\n".join(map(json.dumps, NATIVE * 100)), 2 * HEAD_BYTES),
    ],
    ids=["native", "zenodo", "lines"],
)
def test_how_much_is_read(write, wanted_bytes):
    """Of a native manifest the beginning, whatever its size; of another one as much as its reader takes."""
    content = write()
    counted = []

    class Counting(io.BytesIO):
        def read(self, size=-1):
            data = super().read(size)
            counted.append(len(data))
            return data

    file = Counting(content.encode())
    assert detect_format(Source(file, "m.json")) in ("json", "zenodo", "jsonl")
    assert sum(counted) == min(wanted_bytes, 2 * HEAD_BYTES + len(content))


@pytest.mark.parametrize("name", ["-", "m.jsonl"])
def test_json_within_a_row_that_the_beginning_cuts(name):
    """Takes a millisecond; half a minute, if each escaped quote were tried as the begin of a string."""
    row = json.dumps({"url": "http://h/a", "meta": '"' * 200_000})
    before_s = time.process_time()
    assert detect_format(Source(io.BytesIO(f"{row}\n{row}\n".encode()), name)) == "jsonl"
    assert time.process_time() - before_s < 5


def test_format_by_name(frozen):
    """A stated format is used whatever the content looks like; an unknown one is told with the known ones."""
    assert frozen("http://h/url,x\n", "m.csv", format="urls").entry(0).path == "url,x"
    with pytest.raises(UsageError, match=r"'yaml'; docs/manifests.md lists all"):
        frozen("", format="yaml")


@pytest.mark.parametrize(
    ("name", "content"),
    [("m.json", '{"files":[]}'), ("m.jsonl", ""), ("m.csv", "url\n"), ("m.csv", ""), ("m.txt", "# none\n")],
)
def test_no_entries(frozen, name, content):
    """A manifest without entries is a plan of length 0."""
    plan = frozen(content, name)
    assert (len(plan), plan.total_bytes, plan.hosts, plan.totals.expires_at) == (0, 0, (), None)


@pytest.mark.parametrize(
    "order", [("base_url", "headers", "version", "files"), ("files", "version", "headers", "base_url")]
)
def test_order_of_top_keys(frozen, order):
    """The keys of the document may stand before or after the entries."""
    top = {
        "version": 1,
        "base_url": "https://h/d/",
        "headers": {"X": "v"},
        "files": [{"url": "a"}, {"url": "b"}],
    }
    plan = frozen(json.dumps({key: top[key] for key in order}))
    assert [plan.entry(i).url.reveal() for i in range(2)] == ["https://h/d/a", "https://h/d/b"]
    assert plan.headers[0][0] == "X"


DOCUMENT = (
    '{"base_url": "https://h/",\n "files": '
    '[ {"url": "ä\\u00e9", "size": 12} ,\n{"url":"b"}, 123 ]\n, "version":1}'
)


@pytest.mark.parametrize("window_bytes", range(1, len(DOCUMENT.encode()) + 1))
def test_windows_of_json(window_bytes):
    """Whatever byte the window's edge falls on, rows, their lines and the top keys are the same."""
    rows, doc, total = rows_of("json", DOCUMENT.encode(), window_bytes)
    assert [(row.line, row.fields) for row in rows] == [
        (2, {"url": "äé", "size": 12}),
        (3, {"url": "b"}),
        (3, 123),
    ]
    assert (doc.base_url, total) == ("https://h/", 0)


LINES = {
    "jsonl": ('{"url":"ä"}\r\n\n{"url":"b"}', [(1, {"url": "ä"}), (3, {"url": "b"})]),
    "urls": ("ä\r\n#x\nb", [(1, {"url": "ä"}), (3, {"url": "b"})]),
    "csv": ('url,batch\r\nä,"x\n""y"""\nb,', [(2, {"url": "ä", "batch": 'x\n"y"'}), (4, {"url": "b"})]),
}


@pytest.mark.parametrize("window_bytes", range(1, 20))
@pytest.mark.parametrize("kind", LINES)
def test_windows_of_lines(kind, window_bytes):
    """The line formats do not depend on the window's edge either."""
    text, expected = LINES[kind]
    rows, _, total = rows_of(kind, text.encode(), window_bytes)
    assert [(row.line, row.fields) for row in rows] == expected
    assert total == 0


def test_read_entries_streams():
    """Entries come one by one, before the source is read to its end."""
    file = io.BytesIO(b"http://h/a\n" * 100_000)
    entries = read_entries(file, name="m.txt")
    assert next(entries).path == "a"
    assert file.tell() < len(file.getvalue())


def test_source_that_cannot_be_read():
    """A read error is this machine's fault, and names the manifest."""

    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(LocalFault, match=r"m\.txt: Input/output error"):
        list(read_entries(Broken(), name="m.txt"))
