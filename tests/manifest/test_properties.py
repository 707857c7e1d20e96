"""What holds for any manifest: what goes in comes out, and garbage is a ManifestError or works."""

import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfetch.base.errors import ManifestError
from cfetch.manifest.formats.table import FORMATS
from tests.manifest.frozen import freeze
from tests.needs import case, case_of_format

NAMES = st.text(alphabet="abcXYZ019-_é名", min_size=1, max_size=12)
FILES = st.fixed_dictionaries(
    {"url": st.builds("https://h.example/{}?sig={}".format, st.integers(0), st.integers(0))},
    optional={
        "size": st.none() | st.integers(0, 2**63 - 1),
        "offset": st.integers(0, 2**63 - 1),
        "sha256": st.text(alphabet="0123456789abcdef", min_size=64, max_size=64),
        "expires_at": st.integers(0, 10**11 - 1),
        "batch": NAMES,
        "headers": st.dictionaries(st.sampled_from(["X-A", "Authorization"]), NAMES, max_size=2),
        "mirrors": st.lists(st.just("http://m.example/f"), max_size=3),
    },
)
PIECES = st.sampled_from(
    [
        *(
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b'"',
            b"\n",
            b"\r\n",
            b"\\u00e9",
            b"\\ud800",
            b"\xff",
            b"\xc3\xa9",
            b"\0",
        ),
        *(
            b'"files"',
            b'"url"',
            b'"size"',
            b'"version"',
            b'"base_url"',
            b'"headers"',
            b'"path"',
            b'"http://h/a"',
        ),
        *(
            b"null",
            b"NaN",
            b"1",
            b"-1",
            b"1e999",
            b"true",
            b"url,size\n",
            b"http://h/a",
            b"http://[",
            b'"external_links"',
        ),
        *(
            b'"chunk_index"',
            b'"next_chunk_index"',
            b'"result"',
            b'{"files":[{"url":"http://h/',
            b'"expires_at":"2026',
        ),
        *(
            b'<metalink xmlns="urn:ietf:params:xml:ns:metalink">',
            b'<file name="a">',
            b"<url>http://h/a</url>",
            b"<size>",
            b"</size>",
            b"</file>",
            b"</metalink>",
            b"<!DOCTYPE a [",
            b"&a;",
        ),
        *(
            b"\t",
            b"  out=",
            b"  checksum=sha-256=",
            b"ab" * 32,
            b"  ",
            b" *a\n",
            b"MD5 (a) = ",
            b"TsvHttpData-1.0\n",
            b"http://h/a 5 data/a\n",
        ),
        *(b"PAR1", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd"),
    ]
)


def frozen(data, **options):
    with tempfile.TemporaryDirectory() as directory:
        return freeze(io.BytesIO(data), name="m", directory=Path(directory), **options)


@given(st.lists(FILES, max_size=6))
def test_round_trip(files):
    """Every entry of the plan states what the manifest stated."""
    stated = [{**file, "path": f"d/{number}"} for number, file in enumerate(files)]
    with frozen(json.dumps({"version": 1, "files": stated}).encode()) as plan:
        assert len(plan) == len(stated)
        for number, file in enumerate(stated):
            entry = plan.entry(number)
            assert (entry.id, entry.url.reveal(), entry.path) == (number, file["url"], file["path"])
            assert (entry.size_bytes, entry.offset) == (file.get("size"), file.get("offset"))
            assert (entry.digest.hex if entry.digest else None) == file.get("sha256")
            assert (entry.expires_at, entry.batch) == (file.get("expires_at"), file.get("batch"))
            assert {name: value.reveal() for name, value in entry.headers} == file.get("headers", {})
            assert [mirror.reveal() for mirror in entry.mirrors] == file.get("mirrors", [])
            assert plan.sizes[number] == (-1 if entry.size_bytes is None else entry.size_bytes)
            assert plan.find(entry.path) == number


@pytest.mark.parametrize("kind", [case(None), *map(case_of_format, FORMATS)])
@given(data=st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=14).map(b"".join)))
@settings(max_examples=25)  # scripts/fuzz plays thousands
def test_garbage(kind, data):
    """Any bytes are a plan or a ManifestError, nothing else."""
    try:
        frozen(data, format=kind).close()
    except ManifestError:
        return
