"""What the options of reading do: columns, names, faulty rows, notes, several manifests."""

import io
import json
import sys
from contextlib import nullcontext

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError, UsageError
from cfetch.manifest.freezing import ManifestPart, Opened, freeze
from cfetch.manifest.reading import Reading, read_entries
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import encode_url
from tests.manifest.frozen import freeze as freeze_one

BASE = "https://h.example/d/"


def paths(text, **options):
    data = text if isinstance(text, bytes) else text.encode()
    entries = read_entries(io.BytesIO(data), name="m", options=ReadingOptions(**options))
    return [entry.path for entry in entries]


def test_faulty_rows_are_reported_and_skipped(tmp_path):
    """The good rows make the plan; each fault goes to the report with its line."""
    reported = []
    text = b"http://h/a\nhttp://[b\nhttp://h/c\nhttp://h:0/d\n"
    options = ReadingOptions(bad_rows="skip")
    with freeze_one(
        io.BytesIO(text),
        name="m",
        directory=tmp_path,
        options=options,
        report=lambda *fault: reported.append(fault),
    ) as plan:
        assert [(entry.id, entry.path) for entry in plan.entries()] == [(0, "a"), (1, "c")]
        assert plan.skipped == 2
    assert [line for line, _ in reported] == [2, 4]


@pytest.mark.parametrize("odd", [b"\xff", b"\0"])
@pytest.mark.parametrize(
    "text",
    [
        b"http://h/a\nhttp://h/b*\nhttp://h/c\n",
        b"url,note\nhttp://h/a,1\nhttp://h/b,*\nhttp://h/c,3\n",
        b'url,note\nhttp://h/a,1\nhttp://h/b,"\n*\n"\nhttp://h/c,3\n',
        b"url\tnote\nhttp://h/a\t1\nhttp://h/b\t*\nhttp://h/c\t3\n",
        b'{"url": "http://h/a"}\n{"url": "http://h/b", "batch": "*"}\n{"url": "http://h/c"}\n',
        b'{"files": [{"url": "http://h/a"}, {"url": "http://h/b", "batch": "*"}, {"url": "http://h/c"}]}',
        b'["http://h/a", "http://h/b*", "http://h/c"]',
        pytest.param(
            b"http://h/a\n  out=a\nhttp://h/b\n  out=*\nhttp://h/c\n  out=c\n",
            marks=pytest.mark.needs_plugins,
        ),
        pytest.param(
            b"http://h/a\n  out=a\nhttp://h/b\n  out=b\n  checksum=crc=*\nhttp://h/c\n  out=c\n",
            marks=pytest.mark.needs_plugins,
        ),
        pytest.param(b"http://h/a 1 a\nhttp://h/b 1 *\nhttp://h/c 1 c\n", marks=pytest.mark.needs_plugins),
    ],
)
def test_a_byte_that_no_text_has_spoils_its_row_alone(text, odd):
    """A NUL, or a byte that is not UTF-8, is a fault of its row; rows before and behind it are read."""
    assert paths(text.replace(b"*", odd), bad_rows="skip") == ["a", "c"]


def test_what_holds_for_all_rows_is_not_left_out():
    """Without a header with a damaged byte, the rows would be asked for without what it states."""
    with pytest.raises(ManifestError):
        paths(b'{"version": 1, "headers": {"a": "\xff"}}\n{"url": "http://h/a"}\n', bad_rows="skip")


@pytest.mark.parametrize("text", ["http://[b\n", '{"files": [{"url": "http://h/a"}, {"url": 7}, }'])
def test_nothing_is_skipped_where_nothing_is_good_or_the_document_is_broken(text):
    """A list without a single good row was misread, and nobody knows what follows a break."""
    with pytest.raises(ManifestError):
        paths(text, bad_rows="skip")


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 2, "files": [{"url": "http://h/a"}]}',
        '{"version": 1, "files": [{"url": "http://h/a"}], "headers": {"a b": "c"}}',
        '{"version": 1, "haeders": {}}\n{"url": "http://h/a"}\n',
    ],
)
def test_what_a_document_states_for_all_rows_is_never_skipped(text):
    """Its rows would be asked for without their headers, or read by the rules of another version."""
    with pytest.raises(ManifestError):
        paths(text, bad_rows="skip")


@pytest.mark.parametrize(
    "faulty",
    [
        '[{"url": "http://h/b"},\n{"url": "http://h',
        "http://[\n",
        '{"version": 1, "headers": {"X": "1"}, "files": [{"url": "http://h/b"}]}',
    ],
)
def test_one_manifest_does_not_forgive_the_faults_of_another(tmp_path, faulty):
    """A list that is cut off, or without a good row, is refused also where others follow it."""
    parts = [part("a", "http://h/a\n"), part("b", faulty), part("c", faulty), part("d", "http://h/d\n")]
    with pytest.raises(ManifestError) as caught:
        freeze(parts, name="4 manifests", directory=tmp_path, options=ReadingOptions(bad_rows="skip"))
    assert "b" in {problem.source for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("columns", "options", "word"),
    [
        ("url,image_url", {}, "--url-column"),
        ("url,SIZE,size", {}, "two columns may hold size"),
        ("url,sizes", {}, "--size-column none"),
        ("url,filename,file_name", {}, "two columns may hold path"),
        ("a,b", {}, "--url-column"),
        ("url,x", {"path_column": "y"}, "there is no column 'y'"),
        ("url,filename,offset,length", {}, "--url-column"),
    ],
)
def test_columns_that_may_mean_two_things_are_refused(columns, options, word):
    """The message names the option that decides."""
    with pytest.raises(ManifestError) as caught:
        paths(f"{columns}\n", from_format="csv", **options)
    assert word in caught.value.problems[0].message


def entries(rows, **options):
    """The entries of rows of JSON, and the notes."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    reading = Reading(
        Source(io.BytesIO(text.encode())), options=ReadingOptions(from_format="jsonl", **options)
    )
    found = list(reading)
    reading.faults.raise_if_any("m")
    return found, reading.document.notes


def test_offset_and_length_are_a_range_of_the_url():
    """The file has the range's length; offset alone stays the position in the result."""
    url = "http://h/a.tar"
    rows = [
        {"url": url, "offset": 512, "length": 9},
        {"url": url, "path": "b", "offset": 512, "length": 9, "size": 9},
        {"url": url, "path": "c", "offset": 512, "length": None},
        {"url": url, "path": "d"},
    ]
    found, notes = entries([*rows[:2], rows[3]])
    assert [(one.path, one.range_start, one.size_bytes, one.offset) for one in found] == [
        ("512-9-a.tar", 512, 9, None),
        ("b", 512, 9, None),
        ("d", None, None, None),
    ]
    assert "byte ranges" in notes[0]
    [alone], notes = entries([{"url": url, "offset": 512}])
    assert (alone.range_start, alone.offset, alone.size_bytes, notes) == (None, 512, None, [])
    assert "look like byte ranges" in entries([{"url": url, "path": p, "offset": ord(p)} for p in "ab"])[1][0]
    with pytest.raises(ManifestError, match="length: it is missing beside offset"):
        entries(rows)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"length": 5, "offset": None}, "offset: it is missing"),
        ({"length": 2**63 - 1, "offset": 1}, "goes beyond"),
        ({"length": 5, "offset": 1, "size": 6}, "size: it is not the same as length"),
        ({"length": -5, "offset": 1}, "length: it must be an integer"),
        ({"length": "5", "offset": 1}, "length: it must be an integer"),
    ],
)
def test_what_is_no_range_is_a_fault(row, word):
    """Nothing is fetched instead of the range that was meant."""
    with pytest.raises(ManifestError) as caught:
        entries([{"url": "http://h/a", **row}])
    assert word in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("name_by", "paths_of_both"),
    [
        ("last", ["1-2-a.gz", "3-2-a.gz"]),
        ("url-path", ["x/1-2-a.gz", "x/3-2-a.gz"]),
        ("row", ["00000/000000000.gz", "00000/000000001.gz"]),
    ],
)
def test_ranges_of_one_url_have_names_of_their_own(name_by, paths_of_both):
    """By every rule."""
    rows = [{"url": "http://h/x/a.gz", "offset": start, "length": 2} for start in (1, 3)]
    assert [entry.path for entry in entries(rows, name_by=name_by)[0]] == paths_of_both
    assert len({entry.path for entry in entries(rows, name_by="hash")[0]}) == 2


@pytest.mark.parametrize("hash_column", ["digest", "sha3=digest", "sha256="])
def test_a_hash_column_says_which_hash(hash_column):
    """Not even where its cells have as many digits as one."""
    with pytest.raises(UsageError, match="sha256=digest"):
        paths("url,digest\n", from_format="csv", hash_column=hash_column)


def test_a_column_may_be_none():
    """What the table calls a size need not be one."""
    text = "url,size,path\nhttp://h/a,large,/x\n"
    assert paths(text, size_column="none", path_column="none") == ["a"]


@pytest.mark.parametrize(
    ("name_by", "expected"),
    [
        ("last", "1 .JPG"),
        ("url-path", "x/1 .JPG"),
        ("row", "00000/000000000.jpg"),
        ("hash", ""),
    ],
)
def test_names(name_by, expected):
    """A file without a path is named by the rule."""
    [path] = paths("https://h.example/x/1%20.JPG?k=1\n", name_by=name_by)
    if name_by == "hash":
        assert len(path) == len("00/") + 40 + len(".jpg")
        assert path[:2] == path[3:5]
    else:
        assert path == expected


@pytest.mark.parametrize("path", ["..%2F..%2Fetc", "x/%2e%2e/y", "%FF", "x/../../y"])
def test_no_url_names_a_path_outside(path):
    """The whole path of a URL is checked like one that a row states."""
    with pytest.raises(ManifestError):
        paths(f"http://h/{path}\n", name_by="url-path")


def test_the_same_link_signed_anew_has_the_same_hash():
    """Or a second run would bring everything again."""
    signed = "http://h/a?X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date={0}&X-Amz-Signature={0}\n"
    assert paths(signed.format(1), name_by="hash") == paths(signed.format(2), name_by="hash")


@pytest.mark.parametrize(
    ("url", "encoded"),
    [
        ("http://h/a b?c=d e#f g", "http://h/a%20b?c=d%20e#f%20g"),
        ("http://h/%20é", "http://h/%20%C3%A9"),
        (" http://h/a ", "http://h/a"),
        ("http://BÜCHER.example:80/ä", "http://xn--bcher-kva.example:80/%C3%A4"),
        ("a ü", "a%20%C3%BC"),
        ("http://h/ä?Signature=x", "http://h/ä?Signature=x"),
        ("http://h/ä?a=1&X-Amz-Credential=x", "http://h/ä?a=1&X-Amz-Credential=x"),
        ("http://h/\n", "http://h/\n"),
        ("http://h/\ud800", "http://h/\ud800"),
    ],
)
def test_urls_are_encoded_as_browsers_do(url, encoded):
    """Only what no URL may hold, and nothing of a signed one."""
    assert encode_url(url) == encoded


def test_rows_that_look_like_ranges_are_told(tmp_path):
    """They fetch the whole file each, and somebody may have meant parts."""
    rows = "".join(
        json.dumps({"url": "http://h/a.warc", "offset": n, "path": str(n)}) + "\n" for n in range(3)
    )
    with freeze_one(io.BytesIO(rows.encode()), name="m", directory=tmp_path) as plan:
        [note] = plan.notes
    assert note.startswith("rows that state another offset in a URL of an earlier row: 2; ")


def part(name, text):
    return ManifestPart(name, lambda: nullcontext(Opened(io.BytesIO(text.encode()))))


def test_several_manifests_are_one_plan(tmp_path):
    """Of any formats, numbered through; repeats are merged."""
    parts = [part("a.txt", "http://h/a\nhttp://h/b\n"), part("b.csv", "url,x\nhttp://h/b,1\nhttp://h/c,2\n")]
    with freeze(parts, name="2 manifests", directory=tmp_path) as plan:
        assert [(entry.id, entry.path) for entry in plan.entries()] == [(0, "a"), (1, "b"), (2, "c")]
        assert (plan.merged, plan.notes) == (1, ("b.csv: columns that are left out: 'x'",))


def test_faults_of_several_manifests_name_the_manifest(tmp_path):
    """A line alone would not say where."""
    parts = [part("a.txt", "http://h/a\nnope:\n"), part("b.txt", "http://[\n")]
    with pytest.raises(ManifestError) as caught:
        freeze(parts, name="2 manifests", directory=tmp_path)
    assert [(problem.source, problem.line) for problem in caught.value.problems] == [
        ("a.txt", 2),
        ("b.txt", 1),
    ]


def test_a_collision_of_several_manifests_names_both(tmp_path):
    """With their lines; faulty rows do not count. The later one is left out with faulty rows."""
    parts = [part("a", "#\nhttp://h/x\nhttp://h/a\n"), part("b", "http://h/b\nhttp://h/1/a\n")]
    fails = tmp_path / "fails"
    fails.mkdir()
    with freeze(parts, name="2 manifests", directory=fails) as plan:
        [clash] = [entry.clash for entry in plan.entries() if entry.clash is not None]
    assert "a:3 and b:2;" in clash.message
    parts[0] = part("a", "http://[\nhttp://h/x\nhttp://h/a\n")
    options = ReadingOptions(bad_rows="skip")
    with freeze(parts, name="2 manifests", directory=tmp_path, options=options) as plan:
        assert ([entry.path for entry in plan.entries()], plan.skipped) == (["x", "a", "b"], 2)


def test_headers_of_several_manifests_must_agree(tmp_path):
    """Or those of one would go to the servers of another."""
    other = json.dumps({"version": 1, "headers": {"X": "1"}, "files": [{"url": "http://h/b"}]})
    with pytest.raises(ManifestError, match="its headers are not those"):
        freeze([part("a", "http://h/a\n"), part("b", other)], name="2 manifests", directory=tmp_path)


# since Python 3.13 the error is the comma, before it was the bracket behind it
AT_THE_COMMA = 22 if sys.version_info >= (3, 13) else 23


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n "version": 1,\n "files": [\n  {"url": x}\n ]\n}\n', 4, 11),
        ('[\n {"url": "http://h/a"},\n {"url": "http://h/b",}\n]\n', 3, AT_THE_COMMA),
        ('{"version" 1}', 1, 12),
    ],
)
@pytest.mark.parametrize("spaces", [0, 300_000])
def test_an_error_in_json_has_its_true_line_and_column(text, line, column, spaces):
    """Also behind the first window of the text, and where the rest of it has been read meanwhile."""
    with pytest.raises(ManifestError) as caught:
        paths("\n" * spaces + text, from_format="json")
    [problem] = caught.value.problems
    assert problem.line == line + spaces
    assert f"(column {column}, character " in problem.message


@pytest.mark.parametrize(
    "text",
    [
        'url,caption,n,link\nhttp://h/a,"a, b",7,see http://u:p@h/x?sig=S3 now\nhttp://h/b,,,\n',
        json.dumps(
            [
                {"url": "http://h/a", "caption": "a, b", "n": 7, "link": "see http://u:p@h/x?sig=S3 now"},
                {"url": "http://h/b", "caption": None},
            ]
        ),
    ],
)
def test_kept_columns(text):
    """They are in the entry as the metrics show them, without secrets; others are left out."""
    read = read_entries(
        io.BytesIO(text.encode()), name="m", options=ReadingOptions(keep_columns=("caption", "n", "link"))
    )
    link = "see http://h/x?<redacted 1 key> now"
    assert [entry.kept for entry in read] == [(("caption", "a, b"), ("n", "7"), ("link", link)), ()]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 300, f"{'x' * 99}…{'x' * 100}"),
        ("?sv=1&sig=S3", "?<redacted>"),
        ("sv=1&sig=S3", "sv=1&sig=<redacted>"),
        ("api_key=S3 rest", "api_key=<redacted> rest"),
        ("what? a=b", "what? a=b"),
        ('{"a": "https://h/?token=S3"}', '{"a": "https://h/?<redacted 1 key>"}'),
        ("https://h/a?x='S3'&y=\"S3\" b", "https://h/a?<redacted 1 key><redacted> b"),
        ("at //me:S3@h/a", "at //<redacted>@h/a"),
        ("https%3A%2F%2Fh%2Fa%3Fsig%3DS3 b", "<redacted> b"),
        ("a sig%3DS3 b", "a sig%3D<redacted> b"),
        ("curl --password S3 x", "curl --password <redacted> x"),
        ("u:S3@h/a, a:b c@d", "<redacted>@h/a, a:b c@d"),
        ("by ghp_0123456789abcdefghij.", "by <redacted>."),
        ("https://h/a;jsessionid=S3", "https://h/a;jsessionid=<redacted>"),
        ('{"token":"S3", "n": 1}', '{"token":<redacted>, "n": 1}'),
        (r"{\"token\": \"S3 S3\"}", r"{\"token\": <redacted>}"),
        ("Authorization: Bearer S3S3S3 x", "Authorization: <redacted> <redacted> x"),
    ],
)
def test_values_of_kept_columns_are_short_and_redacted(value, shown):
    """A query, a login, and what looks like a signature."""
    text = json.dumps([{"url": "http://h/a", "c": value}])
    [entry] = read_entries(io.BytesIO(text.encode()), name="m", options=ReadingOptions(keep_columns=("c",)))
    assert entry.kept == (("c", shown),)


def test_a_column_that_an_option_names_needs_no_note():
    """Only the choice that cfetch has made by itself does."""
    rows = [{"link": "http://h/a", "other": "http://g/b", "name": "x", "md5sum": "0" * 32}]
    _, notes = entries(rows, url_column="link", path_column="name")
    assert notes == ["column 'md5sum' is read as md5", "columns that are left out: 'other'"]
    _, notes = entries(
        [{"link": "http://h/a", "other": "http://g/b"}], url_column="link", more_url_columns=("other",)
    )
    assert notes == []
    assert entries([{"link": "http://h/a"}])[1] == ["column 'link' is read as url"]


def test_kept_columns_that_are_not_there_or_of_use_are_told():
    """By a note, and by a fault."""
    text = b"url,sha256\nhttp://h/a,\n"
    reading = Reading(Source(io.BytesIO(text), "m"), options=ReadingOptions(keep_columns=("capt",)))
    list(reading)
    assert "columns that are to be kept and are not there: 'capt'" in reading.document.notes
    with pytest.raises(ManifestError, match="column 'sha256' is read as sha256; --keep-columns is for"):
        paths(text.decode(), keep_columns=("sha256",))
    with pytest.raises(UsageError, match="takes 20 columns at most"):
        paths(text.decode(), keep_columns=tuple(map(str, range(21))))


@pytest.mark.parametrize(
    "base_url", ["h.example/d/", "sftp://h/", "https://h/d", "https://h/?a=/", "https://u@h\\@i/", ""]
)
def test_base_url_that_is_none(base_url):
    """The caller's base URL is absolute and ends with a slash; without one its last word would be dropped."""
    with pytest.raises(UsageError, match="base URL"):
        list(read_entries(io.BytesIO(b""), name="-", base_url=base_url))


@pytest.mark.parametrize(
    "text",
    [
        '{"base_url":"https://own/","files":[{"url":"a"}]}',
        '{"files":[{"url":"a"}],"base_url":"https://own/"}',
    ],
)
def test_base_url_outweighs_the_document(frozen, text):
    """What the caller gives counts more than what the document says."""
    assert frozen(text, base_url=BASE).entry(0).url.reveal() == BASE + "a"
