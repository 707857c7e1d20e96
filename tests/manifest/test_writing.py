"""Manifests written: what a format can hold comes back from it, what it cannot is told."""

import io
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfetch.app.manifest_check import convert
from cfetch.base.errors import UsageError
from cfetch.manifest.writing import TARGETS, list_left_out, survey
from tests.manifest.frozen import freeze
from tests.needs import case

SHA = "ab" * 32
SEGMENT = st.text(alphabet="abcXYZ019-_é名 #%?&[]{}()'\"=,:;+*", min_size=1, max_size=10).filter(
    lambda text: text not in (".", "..") and text[1:2] != ":"
)
PATHS = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
NAMES = st.sampled_from(["f", "a%20b", "[1]{x}"])
URLS = st.builds("https://h.example/{}/{}?sig={}".format, st.integers(0, 9), NAMES, st.integers(0, 99))
VALUES = st.text(alphabet="abc:;\"'\\ é\t=#@", max_size=8)


def hexes(digits):
    return st.text(alphabet="0123456789abcdef", min_size=digits, max_size=digits)


HASHES = st.one_of(
    st.just({}),
    st.builds(dict, sha256=hexes(64)),
    st.builds(dict, md5=hexes(32)),
    st.builds(dict, sha512=hexes(128)),
    st.builds(dict, crc32c=hexes(8)),
    st.builds(dict, blake3=hexes(64)),
)
HEADERS = st.dictionaries(st.sampled_from(["X-A", "Authorization", "Cookie"]), VALUES, max_size=2)
FILES = st.builds(
    lambda fields, hashes: {**fields, **hashes},
    st.fixed_dictionaries(
        {"url": URLS},
        optional={
            "size": st.integers(0, 2**63 - 1),
            "offset": st.integers(0, 2**63 - 1),
            "expires_at": st.integers(0, 10**11 - 1) | st.floats(0, 10**11 - 1),
            "batch": SEGMENT,
            "headers": HEADERS,
            "mirrors": st.lists(URLS, max_size=3),
        },
    ),
    HASHES,
)
DOCUMENTS = st.builds(
    lambda files, headers: {
        "version": 1,
        "headers": headers,
        "files": [{**file, "path": f"{i}/{path}"} for i, (path, file) in enumerate(files)],
    },
    st.lists(st.tuples(PATHS, FILES), max_size=5),
    HEADERS,
)
FACTS = {
    "url": lambda e, _: e.url.reveal(),
    "path": lambda e, _: e.path,
    "size": lambda e, _: e.size_bytes,
    "offset": lambda e, _: e.offset,
    "expires_at": lambda e, _: e.expires_at,
    "batch": lambda e, _: e.batch,
    "mirrors": lambda e, _: [m.reveal() for m in e.mirrors],
    "headers": lambda e, h: {n: v.reveal() for n, v in h} | {n: v.reveal() for n, v in e.headers},
}


def frozen_text(text, name="-", **options):
    with tempfile.TemporaryDirectory() as directory:
        return freeze(io.BytesIO(text.encode()), name=name, directory=Path(directory), **options)


def entries(plan):
    return [plan.entry(i) for i in range(len(plan))]


def written(plan, kind):
    out = io.StringIO()
    found = survey(entries(plan), plan.headers)
    TARGETS[kind].write(iter(entries(plan)), found, out)
    return out.getvalue(), found


def facts(plan, holds):
    """What the entries state, as far as a format holds it."""
    rows = []
    for entry in entries(plan):
        row = {key: fact(entry, plan.headers) for key, fact in FACTS.items() if key in holds}
        if entry.digest is not None and entry.digest.algorithm in holds:
            row[entry.digest.algorithm] = entry.digest.hex
        rows.append(row)
    return rows


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
@settings(max_examples=40)
@given(document=DOCUMENTS)
def test_own_formats_hold_everything(kind, document):
    """What a manifest states comes back from each of cfetch's own formats, and nothing is reported lost."""
    with frozen_text(json.dumps(document)) as plan:
        text, found = written(plan, kind)
        with frozen_text(text, f"m.{kind}") as again:
            assert facts(again, TARGETS[kind].holds) == facts(plan, TARGETS[kind].holds)
        assert list_left_out(found, TARGETS[kind]) == []


def stripped(document):
    """Blanks around header values and names are not data on the wire, and aria2 has no way to write them."""
    for file in document["files"]:
        file["path"] = file["path"].strip() + "z"
    for headers in (document["headers"], *(f.get("headers", {}) for f in document["files"])):
        for name in headers:
            headers[name] = headers[name].strip()
    return document


@settings(max_examples=40)
@given(document=DOCUMENTS.map(stripped))
@pytest.mark.needs_plugins
def test_aria2_holds_what_it_says(document):
    """URLs, names, mirrors, headers and the hashes that aria2 knows come back from its input file."""
    with frozen_text(json.dumps(document)) as plan:
        text, _ = written(plan, "aria2")
        with frozen_text(text, format="aria2") as again:
            assert facts(again, TARGETS["aria2"].holds) == facts(plan, TARGETS["aria2"].holds)


@settings(max_examples=40)
@given(document=DOCUMENTS)
@pytest.mark.needs_plugins
def test_checksum_list_holds_names_and_hashes(document):
    """Names and SHA-256 come back; files without one are left out and counted."""
    with frozen_text(json.dumps(document)) as plan:
        text, found = written(plan, "sha256sum")
        kept = [row for row in facts(plan, {"path", "sha256"}) if "sha256" in row]
        with frozen_text(text, format="sha256sum", base_url="http://h/") as again:
            assert facts(again, {"path", "sha256"}) == kept
        lost = [phrase for phrase in list_left_out(found, TARGETS["sha256sum"]) if "without" in phrase]
        assert bool(lost) == (len(kept) < len(plan))


@settings(max_examples=40)
@given(document=DOCUMENTS)
def test_url_list_holds_urls(document):
    """The URLs come back in order."""
    with frozen_text(json.dumps(document)) as plan:
        text, _ = written(plan, "urls")
        assert text.splitlines() == [entry.url.reveal() for entry in entries(plan)]


def curl_config(text):
    """Read a configuration as curl's manual says: an option a line, ``next`` between requests."""
    requests: list[list[tuple[str, str]]] = [[]]
    for line in text.splitlines():
        if line == "next":
            requests.append([])
            continue
        name, _, value = line.partition(" = ")
        value = re.sub(r"\\(.)", lambda m: {"t": "\t"}.get(m[1], m[1]), value[1:-1])
        requests[-1].append((name, value))
    return [request for request in requests if request]


@settings(max_examples=40)
@given(document=DOCUMENTS)
def test_curl_config_holds_urls_names_headers(document):
    """Each request has its own URL, name and headers, and curl is told to take the URL as it stands."""
    with frozen_text(json.dumps(document)) as plan:
        text, _ = written(plan, "curl")
        requests = curl_config(text)
        expected = facts(plan, {"url", "path", "headers"})
        assert len(requests) == len(expected)
        for request, row in zip(requests, expected, strict=True):
            assert [value for name, value in request if name in ("url", "output")] == [
                row["url"],
                row["path"],
            ]
            headers = [value for name, value in request if name == "header"]
            expected_headers = [f"{n}: {v}" if v.strip() else f"{n};" for n, v in row["headers"].items()]
            assert sorted(headers) == sorted(expected_headers)
            assert {"globoff", "path-as-is", "create-dirs", "fail"} <= {name for name, _ in request}


def test_left_out_is_counted():
    """Every fact that a format has no place for is named with the number of files."""
    files = [
        {"url": "http://h/a", "size": 1, "sha256": SHA, "expires_at": 5, "batch": "b", "offset": 0},
        {"url": "http://h/b", "path": "other", "blake3": SHA, "headers": {"X": "1"}},
    ]
    with frozen_text(json.dumps({"files": files})) as plan:
        _, found = written(plan, "json")
    assert list_left_out(found, TARGETS["urls"]) == [
        *("size of 1 file", "offset of 1 file", "path of 1 file", "sha256 of 1 file", "blake3 of 1 file"),
        *("expires_at of 1 file", "batch of 1 file", "headers of 1 file"),
    ]
    assert list_left_out(found, TARGETS["sha256sum"])[0] == "1 file without sha256"
    assert "sha256 of 1 file" not in list_left_out(found, TARGETS["aria2"])
    assert "blake3 of 1 file" in list_left_out(found, TARGETS["aria2"])


@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({}, False),
        ({"url": "http://h/a?sig=1"}, True),
        ({"mirrors": ["http://m/a?sig=1"]}, True),
        ({"headers": {"X": "1"}}, True),
    ],
)
def test_secrets_are_seen(fields, secret):
    """A query, in a mirror too, and a header make a manifest one that others must not read."""
    with frozen_text(json.dumps({"files": [{"url": "http://h/a", **fields}]})) as plan:
        assert survey(entries(plan), plan.headers).has_secrets is secret
    with frozen_text(json.dumps({"headers": {"X": "1"}, "files": [{"url": "http://h/a"}]})) as plan:
        assert survey(entries(plan), plan.headers).has_secrets


def test_chunks_of_a_statement_are_told():
    """That a link of a SQL result could be refreshed is lost in every format, and told."""
    reply = {"external_links": [{"external_link": "http://h/a", "chunk_index": 0, "row_count": 1}]}
    with frozen_text(json.dumps(reply)) as plan:
        _, found = written(plan, "json")
    assert list_left_out(found, TARGETS["json"]) == ["chunk of 1 file"]


def test_aria2_cannot_name_it():
    """aria2 drops blanks around a name: it is told to the user rather than written wrongly."""
    with (
        frozen_text(json.dumps({"files": [{"url": "http://h/a", "path": "a "}]})) as plan,
        pytest.raises(UsageError, match="aria2 drops the blanks"),
    ):
        written(plan, "aria2")


@pytest.mark.parametrize("kind", ["curl", "sha256sum"])
def test_a_dash_is_a_file(kind):
    """A file called - is written so that no tool takes it for a stream."""
    with frozen_text(json.dumps({"files": [{"url": "http://h/-", "sha256": SHA}]})) as plan:
        assert "./-" in written(plan, kind)[0]


def test_own_headers_win_over_the_documents():
    """Where headers become the entry's own, its value replaces the document's, whatever the case."""
    document = {
        "headers": {"X-Key": "all", "Y": "y"},
        "files": [{"url": "http://h/a", "headers": {"x-key": "own"}}],
    }
    with frozen_text(json.dumps(document)) as plan:
        text, _ = written(plan, "aria2")
    assert text.splitlines()[2:] == ["  header=Y: y", "  header=x-key: own"]


RANGES = "url,path,offset,length\nhttp://h/a.tar,b,512,9\nhttp://h/a.tar,c,0,7\n"


@pytest.mark.parametrize("target", ["json", "jsonl", "csv", case("curl")])
def test_byte_ranges_come_back_from_every_format_that_has_them(target, tmp_path):
    """Also by way of curl's own option."""
    (tmp_path / "m").mkdir()
    written = io.StringIO()
    with freeze(io.BytesIO(RANGES.encode()), name="m", directory=tmp_path) as plan:
        contents = survey(plan.entries(), ())
        assert list_left_out(contents, TARGETS[target]) == []
        TARGETS[target].write(plan.entries(), contents, written)
        text = io.BytesIO(written.getvalue().encode())
        with freeze(text, name="m", directory=tmp_path / "m") as back:
            assert back.digest == plan.digest
            assert [(one.range_start, one.size_bytes) for one in back.entries()] == [(512, 9), (0, 7)]


@pytest.mark.parametrize("target", ["urls", "aria2"])
def test_byte_ranges_are_not_written_as_whole_files(target, tmp_path):
    """The other tool would fetch the whole object for each."""
    (tmp_path / "m.csv").write_text(RANGES)
    with pytest.raises(UsageError, match="2 files are byte ranges"):
        convert(str(tmp_path / "m.csv"), target, tmp_path / "out")
    assert not (tmp_path / "out").exists()
