"""What a manifest may not say: each rule's message has the line and the key, and never a secret."""

import io
import json
import tracemalloc

import pytest

from cfetch.base.errors import ManifestError
from cfetch.manifest.faults import MAX_KEPT
from cfetch.manifest.reading import read_entries
from cfetch.manifest.source import MAX_ROW_CHARS
from tests.needs import case

CANARY = "CANARY5ecret"
SHA = "0" * 64


def one(**fields):
    """A document whose second line holds the entry."""
    return '{"files":[\n' + json.dumps({"url": "http://h/a", **fields}) + "]}"


def raw(members):
    return '{"files":[\n{"url":"http://h/a",' + members + "}]}"


NAN = float("nan")
NO_SIZES: list[object] = [-2, 2**63, 10**30, 1.0, 1.5, True, "7k", [], {}, NAN, float("inf")]
NO_MOMENTS: list[object] = [
    *(True, [], "", "2026-01-01", "2026-01-01T00:00:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"),
    *("soon", -1, 1e999, NAN, 10**15, 10**19),
]
OURS = (
    *("Host", "RANGE", "if-range", "Accept-Encoding"),
    *("Content-Length", "Connection", "Transfer-Encoding"),
)
NO_HEADERS: list[object] = [
    *([], "a", {"X": 1}, {"X": None}, {"": "v"}, {"a b": "v"}, {"a:": "v"}, {"é": "v"}),
    *({"X": "a\r\nb"}, {"X": "a\0"}, {"X": "\ud800"}, {"X": "1", "x": "2"}),
    *({name: "v"} for name in OURS),
]
WRONG: dict[str, list[object]] = {
    "size": NO_SIZES,
    "offset": NO_SIZES,
    "url": [None, 7, [], True],
    "path": [7, [], "", "/a", "a//b", "a/"],
    "sha256": [7, "", "0" * 63, "0" * 65, "g" * 64, SHA + "\n"],
    "batch": [7, "", "x" * 201, "a\nb", "\ud800"],
    "expires_at": NO_MOMENTS,
    "mirrors": ["http://h/b", {}, [7], ["b"], ["sftp://h/b"], ["http://h/b"] * 101],
    "headers": NO_HEADERS,
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_bad_value(error_of, key, value):
    """A value that its key does not take is one fault, on its line, with the key's name."""
    error = error_of(one(**{key: value}))
    assert [(problem.line, error.total) for problem in error.problems] == [(2, 1)]
    assert f"files[0]: {key}: " in error.problems[0].message


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "empty"),
        ("a", "base_url"),
        ("//h/a", "base_url"),
        ("?x", "base_url"),
        ("sftp://h/a", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("javascript:x", "scheme"),
        ("http:a", "no host"),
        ("http:///a", "no host"),
        ("http://", "no host"),
        ("http://:80/a", "no host"),
        ("http://h:0/a", "port"),
        ("http://h:65536/a", "port"),
        ("http://h:x/a", "port"),
        ("http://h:999999/a", "port"),
        ("http://h\\@evil/a", "percent-encode it as %5C"),
        ("http://u:p@h:0/a", "port"),
        ("http://u:p@/a", "no host"),
        ("http://h\\evil/a", "host"),
        ("http://[::g]/a", "host"),
        ("http://[1:2]/a", "IPv6"),
        ("http://127.0.65536/a", "IPv4"),
        ("http://4294967296/a", "IPv4"),
        ("http://08/a", "IPv4"),
        ("http://1.2.3.256:80/a", "IPv4"),
        ("http://h../a", "ends with two"),
        ("http://./a", "nothing but a dot"),
        ("http://h%2f/a", "host"),
        ("http://h/a b?sig=1", "whitespace"),
        ("http://h/a\n", "control"),
        (" http://h/a?X-Token=1", "whitespace"),
        ("http://h/\0", "control"),
        ("http://hé/a?Signature=1", "ASCII"),
        ("http://h/é?a=1&x-amz-credential=2", "ASCII"),
        ("http://h/\ud800", "ASCII"),
    ],
)
def test_bad_url(error_of, url, word):
    """A URL that cannot be sent as it stands is refused, with the reason."""
    error = error_of(one(url=url, path="a"))
    assert error.total == 1
    assert error.problems[0].message.startswith("files[0]: url: ")
    assert word in error.problems[0].message


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "HTTPS://H.example:65535?a=%2F&b=+|{}#f",
        "http://u@h/a",
        "http://u:p@ss;word%40@h/a",
        "http://[fe80::1%25eth0]:80/a",
        "http://127.1/a",
        "http://h:/a",
        "http://0/a",
        "http://2130706433/a",
        "http://127.0.0.1.1184/a",
        "http://.h..x./a",
        "http://[::1]:8080/a%2Fb;c=d,e",
        "http://xn--caf-dma.example/a",
        "http://h_1.x/'a'(b)*$!~",
        "http://127.0.0.1:1/a",
        "http://h.2x/a",
        "http://h.x.:1/a",
    ],
)
def test_url_is_kept_as_written(frozen, url):
    """A URL is never quoted, folded or shortened."""
    assert frozen(one(url=url, path="a")).entry(0).url.reveal() == url


@pytest.mark.parametrize(
    ("base", "relative", "joined"),
    [
        ("https://h/d/x?q#f", "a%20b?s=%2F", "https://h/d/a%20b?s=%2F"),
        ("https://h", "a/b", "https://h/a/b"),
        ("https://h?q=/x/", "a", "https://h/a"),
        ("https://h/d/", "../a", "https://h/a"),
        ("https://h/d/", "/a", "https://h/a"),
        ("https://h/d/", "//i/a", "https://i/a"),
        ("https://h/d/", "./a:b", "https://h/d/a:b"),
        ("https://h/d/", "http://i/a", "http://i/a"),
    ],
)
def test_base_url(frozen, base, relative, joined):
    """A relative URL is joined as RFC 3986 says."""
    text = json.dumps({"base_url": base, "files": [{"url": relative, "path": "a"}]})
    assert frozen(text).entry(0).url.reveal() == joined


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://h/d/a.bin?x=/y", "a.bin"),
        ("http://h/a#f/g", "a"),
        ("http://h/caf%C3%A9%20x", "café x"),
        ("http://h/%252e%252e", "%2e%2e"),
    ],
)
def test_default_path(frozen, url, path):
    """Without a path the URL's last segment, decoded once and never again, names the file."""
    assert frozen(one(url=url)).entry(0).path == path


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "http://h/",
        "http://h/d/?x=a",
        "http://h/..",
        "http://h/%2e%2e",
        "http://h/a%2fb",
        "http://h/%ff",
        "http://h/%00",
        "http://h/~a",
    ],
)
def test_no_default_path(error_of, url):
    """Where the URL gives no safe name, the fault asks for path."""
    error = error_of(one(url=url))
    assert error.total == 1
    assert "path: " in error.problems[0].message
    assert "state path" in error.problems[0].message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-01-01T00:00:00Z", 1767225600),
        ("2026-01-01T00:00:00.250Z", 1767225600.25),
        ("2025-12-31T19:00:00-05:00", 1767225600),
        (1767225600, 1767225600),
        (1767225600.5, 1767225600.5),
        (1767225600250, 1767225600.25),
        (0, 0),
    ],
)
def test_expires_at(frozen, value, seconds):
    """ISO 8601 with a zone, seconds and milliseconds since 1970 mean the same."""
    assert frozen(one(expires_at=value)).totals.expires_at == seconds


def test_null_is_absent(frozen):
    """A null stands for a key that is not given."""
    nothing = dict.fromkeys(("size", "offset", "path", "sha256", "expires_at", "batch", "headers", "mirrors"))
    entry = frozen(one(**nothing)).entry(0)
    assert (entry.size_bytes, entry.offset, entry.path, entry.digest, entry.headers) == (
        None,
        None,
        "a",
        None,
        (),
    )


def test_largest_size(frozen):
    """2**63-1 is a size."""
    assert frozen(one(size=2**63 - 1)).sizes[0] == 2**63 - 1


def test_unknown_key_names_the_nearest(error_of):
    """A slip in a key is told with the key that was meant; something quite else with all keys."""
    message = error_of(one(Sise=1, qqq=2)).problems
    assert "unknown key 'Sise'; is it 'size'?" in message[0].message
    assert "unknown key 'qqq'; known are url, size" in message[1].message


@pytest.mark.parametrize(
    "row", ["7", '"http://h/a"', "[]", "null", "NaN", '{"url":"http://h/a","url":"http://h/b"}']
)
def test_row_that_is_no_object(error_of, row):
    """An entry must be an object, and one with each key once."""
    problem = error_of('{"files":[\n' + row + "]}").problems[0]
    assert problem.line == 2
    assert "files[0]: an entry must be an object" in problem.message


@pytest.mark.parametrize(
    ("top", "word"),
    [
        ('"version":2,"files":[]', "version"),
        ('"version":true,"files":[]', "version"),
        ('"version":null,"files":[]', "version"),
        ('"base_url":"d/","files":[]', "base_url"),
        ('"base_url":"http://u@h:0/","files":[]', "port"),
        ('"base_url":7,"files":[]', "base_url"),
        ('"headers":{"Host":"h"},"files":[]', "headers: Host"),
        ('"headers":{"X":"1","X":"2"},"files":[]', "'X' given twice"),
        ('"files":[],"files":[]', "'files' is given twice"),
        ('"flies":[],"files":[]', "'files'"),
        ('"version":1', "'files' is missing"),
        ('"files":{}', "must be an array"),
        ('"files":null', "must be an array"),
    ],
)
def test_top_keys(error_of, top, word):
    """The document's own keys are checked as strictly as the entries'."""
    error = error_of("{" + top + "}", format="json")
    assert error.total == 1
    assert word in error.problems[0].message


def test_all_at_once(error_of):
    """Every fault is told with its line in one error, in the order of the lines."""
    rows = ["http://h/a", "nope", "http://h/b", "sftp://h/x", "http://[/c"]
    error = error_of("\n".join(rows), "m.txt")
    assert [problem.line for problem in error.problems] == [2, 4, 5]
    assert error.total == 3
    assert "m.txt:2: url: " in str(error)


def test_many_faults_of_one_row(error_of):
    """One row's faults are all told, not only the first."""
    error = error_of(raw('"size":-2,"offset":1e3,"path":"../x","nope":1'))
    assert error.total == 4


def test_only_so_many_are_kept(error_of):
    """All faults are counted, a hundred are kept."""
    error = error_of("nope\n" * 250, "m.txt")
    assert (len(error.problems), error.total) == (MAX_KEPT, 250)
    assert "and 150 more" in str(error)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{", 1),
        ('{"files":[\n{"url":"http://h/a"},\n]}', 3),
        ('{"files":[\n{"url":"http://h/a"}\n{"url":"http://h/b"}]}', 3),
        ('{"files":[\n{"url":"http://h/a"}', 2),
        ('{"files":[\n{"url":"http://h/a', 2),
        ('{"files":[]\n,}', 2),
        ('{"files":[]}\n7', 2),
        ('{"files":[]\n"version":1}', 2),
        ("{7:[]}", 1),
        ("{'files':[]}", 1),
        ('{"files":[\n{"url":"a\tb"}]}', 2),
        ('{"files":[\n{"size":007}]}', 2),
    ],
)
def test_broken_document(error_of, text, line):
    """A document that is not JSON is told once, with the line where it breaks."""
    error = error_of(text, format="json")
    assert [problem.line for problem in error.problems] == [line]
    assert "what follows was not read" in error.problems[0].message


def test_broken_document_tells_what_came_before(error_of):
    """Faults before the break are told too, and the break is kept among many."""
    rows = ",\n".join(['{"url":"nope"}'] * 150)
    error = error_of('{"files":[' + rows + ",\n{]}", format="json")
    assert error.total == 151
    assert error.problems[-1].line == 151
    assert "not JSON" in error.problems[-1].message


def test_bad_json_line_is_one_fault(error_of):
    """In JSON Lines a line that is not JSON does not hide the others."""
    error = error_of('{"url":"http://h/a"}\n{"url":\n{"url":"nope"}', "m.jsonl")
    assert [problem.line for problem in error.problems] == [2, 3]


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        ("m.txt", b"http://h/a\nhttp://h/\xff\nhttp://h/\xfe", [2, 3]),
        ("m.json", b'{"files":[\n{"url":"\xc3"},\n{"url":"\xc3"}]}', [2, 3]),
        ("m.csv", b"url\n\xe2\x82\n\xff", [2, 3]),
        ("m.csv", b"\xff,url\na,http://h/a", [1]),
        ("m.jsonl", b'{"url": "http://h/a"}\n{"url": "http://h/\xed\xa0\x80"}', [2]),
        ("m.txt", b"#" * 300_000 + b"\n\xc0\x80", [2]),
        ("m.aria2", b"http://h/a\n  out=\xff\n", [2]),
    ],
)
def test_bad_utf8(error_of, name, data, lines):
    """Every line with bytes that are not UTF-8 is told."""
    problems = error_of(data, name).problems
    assert [problem.line for problem in problems] == lines
    assert all("a byte that is not UTF-8; save the list as UTF-8" in problem.message for problem in problems)


METALINK = (
    '<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a"><url>http://h/a</url></file></metalink>'
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.json", '{"files":[{"url":"http://h/a"}]}'),
        ("m.jsonl", '{"url":"http://h/a"}\n'),
        ("m.csv", "url,size\nhttp://h/a,1\n"),
        ("m.txt", "http://h/a\n"),
        case("m.meta4", METALINK),
    ],
)
def test_byte_order_mark(name, text):
    """The mark that spreadsheets put before the text is no part of it."""
    plain, marked = (
        list(read_entries(io.BytesIO(mark + text.encode()), name=name)) for mark in (b"", b"\xef\xbb\xbf")
    )
    assert [entry.url.reveal() for entry in plain] == ["http://h/a"]
    assert marked == plain


@pytest.mark.parametrize(("text", "sizes"), [
    ("url,size\nhttp://h/a,7.0\nhttp://h/b,\nhttp://h/c, 8 \n", [7, None, 8]),
    ("sep=;\r\nurl;size\r\nhttp://h/a;7\r\n", [7]),
    ("sep=\t\nurl\tsize\nhttp://h/a\t7\n", [7]),
])  # fmt: skip
def test_tables_of_pandas_and_spreadsheets(text, sizes):
    """Whole numbers in a column with gaps, spaces around digits, and the line that names the separator."""
    entries = read_entries(io.BytesIO(text.encode()), name="m.csv")
    assert [entry.size_bytes for entry in entries] == sizes


@pytest.mark.parametrize(("text", "word"), [
    ("url,size\nhttp://h/a,7.5\n", "not a cell with other characters than digits"),
    ("url,size\nhttp://h/a,1e3\n", "not a cell with other characters than digits"),
    ("url,size\rhttp://h/a,7\r", "a line ends with a lone CR"),
    ("~ of today\nurl,size\nhttp://h/a,7\n", "its columns: one of 10 characters that is no plain word"),
])  # fmt: skip
def test_faults_of_tables(error_of, text, word):
    """What a person did who wrote the table, in words that lead to the remedy."""
    assert word in error_of(text, "m.csv").problems[0].message


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("name", ["m.json", "m.jsonl"])
def test_deep_nesting(error_of, name, opening):
    """A row nested a hundred thousand deep is a fault, not a crash."""
    deep = '{"url":"http://h/a","x":' + opening * 100_000
    text = '{"files":[\n' + deep if name == "m.json" else deep
    assert "nested too deeply" in str(error_of(text, name))


@pytest.mark.parametrize("name", ["m.json", "m.jsonl"])
def test_long_integer(error_of, name):
    """An integer of 5,000 digits is a fault of its key."""
    row = '{"url":"http://h/a","size":' + "9" * 5000 + "}"
    error = error_of('{"files":[' + row + "]}" if name == "m.json" else row, name)
    assert error.total == 1
    assert "an integer of 5000 digits" in error.problems[0].message


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_not_a_number(error_of, literal):
    """What Python's decoder takes for a number is none here."""
    error = error_of(raw(f'"size":{literal},"offset":{literal},"expires_at":{literal}'))
    assert error.total == 3


@pytest.mark.parametrize("name", ["m.json", "m.jsonl", "m.txt", "m.csv"])
def test_huge_row(error_of, name):
    """A row over the cap is a fault; in line formats the lines after it are still read."""
    row = '{"url":"http://h/' + "a" * 2 * MAX_ROW_CHARS + '"}'
    text = {"m.json": '{"files":[\n' + row + "]}", "m.csv": f"url\n{row}\nhttp://h/a\tb"}.get(
        name, f"{row}\nnope"
    )
    error = error_of(text, name)
    assert "longer than 1048576 characters" in str(error)
    assert error.total == (1 if name == "m.json" else 2)
    assert ("longer" in error.problems[-1].message) == (name == "m.json")


class Endless(io.RawIOBase):
    """A file of an opening and then ``a`` without end; remembers how far it was read."""

    def __init__(self, opening, size_bytes):
        self.opening, self.size_bytes, self.position, self.furthest = opening, size_bytes, 0, 0

    def seek(self, offset, whence=0):
        self.position = offset
        return offset

    def read(self, size=-1):
        size = max(0, min(size, self.size_bytes - self.position))
        data = (self.opening[self.position :] + b"a" * size)[:size]
        self.position += size
        self.furthest = max(self.furthest, self.position)
        return data


def faults_of_endless(file):
    with pytest.raises(ManifestError) as caught:
        list(read_entries(file, name="m"))
    return caught.value


def test_unclosed_string_is_given_up():
    """A JSON string that is never closed is given up after the cap, however long the document is."""
    file = Endless(b'{"files":[{"url":"', 100 << 20)
    assert faults_of_endless(file).total == 1
    assert file.furthest < 8 * MAX_ROW_CHARS


def test_endless_line_needs_little_memory():
    """A line without end is read through in bounded memory."""
    tracemalloc.start()
    try:
        error = faults_of_endless(Endless(b"http://h/", 24 << 20))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "longer than" in str(error)
    assert peak_bytes < 8 * MAX_ROW_CHARS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.txt", f"http://h/?x={CANARY}\nhttp://{CANARY}@h/a\nhttp://h/a b?{CANARY}\n"),
        ("m.txt", f"rel?{CANARY}\nsftp://h/?{CANARY}\nhttp://h:{CANARY}/\nhttp://h\\{CANARY}"),
        ("m.csv", f"http://h/a?sig={CANARY},http://h/b?sig={CANARY}\n"),
        ("m.csv", f'url,size,headers\nhttp://h/a,{CANARY},"{{""X"": ""{CANARY}\\n""}}"\n'),
        ("m.json", one(size=CANARY, offset=[CANARY], headers={"Range": CANARY, "X": CANARY + "\n"})),
        ("m.json", one(headers={"X y " + CANARY + "=": "v"})),
        ("m.json", one(expires_at=CANARY, sha256=CANARY, batch=CANARY * 50, mirrors=[f"http://{CANARY}@h/"])),
        ("m.json", one(**{f"http://h/?{CANARY}": 1})),
        ("m.json", f'{{"files":[{{"url":"http://h/?{CANARY}",]}}'),
        ("m.json", f'{{"base_url":"http://h/?{CANARY}@\\n","headers":{{"X":"{CANARY}\\n"}},"files":[]}}'),
        ("m.jsonl", f'{{"url":"http://h/a?{CANARY}"'),
    ],
)
def test_no_secret_in_messages(error_of, name, text):
    """No message holds a URL's query, userinfo, or a value that stands in the wrong place."""
    error = error_of(text, name)
    assert CANARY not in str(error)
    assert CANARY not in repr(error.problems)
    assert error.__cause__ is None


@pytest.mark.parametrize(("name", "text", "leads_out"), [
    ("m.txt", "http://h/a\nmailto:a@h\n", True), ("m.txt", "http://h/a\nfile:///b\n", True),
    ("m.jsonl", '{"url": "http://h/a"}\n{"url": ""}\n', True), ("m.csv", "url,size\nhttp://h/a,1\nb,-5", 1),
    ("m.txt", "mailto:a@h\n", False), ("m.json", '{"files": [{"url": "http://h/a"}, {"url": "ht', False),
])  # fmt: skip
def test_faulty_rows_among_good_rows_name_the_way_out(error_of, name, text, leads_out):
    """It is named once, and not where it would not help: of no good row, of a list that breaks off."""
    error = error_of(text, name)
    assert str(error).count("--bad-rows skip leaves such rows out") == leads_out
    assert str(error.with_effect("")).count("--bad-rows skip") == leads_out


@pytest.mark.parametrize(("name", "text", "size"), [
    ("m.json", '{"files":[{"url":"http://h/a","size":"1024"}]}', 1024),
    ("m.jsonl", '{"url":"http://h/a","size":-1}', None),
    ("m.jsonl", '{"url":"http://h/a","size":"-1"}', None), ("m.csv", "url,size\nhttp://h/a,-1\n", None),
])  # fmt: skip
def test_sizes_as_other_programs_write_them(name, text, size):
    """Digits in a text are a number, and -1 is not known."""
    assert [entry.size_bytes for entry in read_entries(io.BytesIO(text.encode()), name=name)] == [size]


@pytest.mark.parametrize(
    "size", ['"1e3"', '"+1"', '""', "-2", "-1.0", "1.0", "true", f'"{2**63}"', '"\u0661"']
)
def test_sizes_whose_meaning_is_not_plain_are_faults(error_of, size):
    """They are no whole number of bytes."""
    assert "size: it must be an integer" in error_of(raw(f'"size":{size}')).problems[0].message
