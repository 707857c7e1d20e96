"""``--query``: rows of any JSON by an expression of JMESPath, and refusals that name one."""

import json
import re

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import UsageError
from tests.manifest.sample import MD5, H
from tests.plugins.formats.test_lists_outside import entries_of

COCO = {
    "info": {"url": H + "about"},
    "licenses": [{"url": H + "licence", "id": 1}],
    "images": [{"coco_url": H + "1.jpg", "bytes": 7, "id": 1}, {"coco_url": H + "2.jpg", "id": 2}],
}


def query(expression):
    return ReadingOptions(query=expression)


def read(frozen, document, expression):
    text = document if isinstance(document, str) else json.dumps(document)
    return entries_of(frozen(text, "x.json", options=query(expression)))


@pytest.mark.parametrize(
    ("document", "expression", "expected"),
    [
        (COCO, "images[].{url: coco_url, size: bytes}", [("1.jpg", 7), ("2.jpg", None)]),
        (COCO, "images[*].coco_url", [("1.jpg", None), ("2.jpg", None)]),
        (COCO, "images[?id > `1`].{url: coco_url}", [("2.jpg", None)]),
        (COCO, "images[:1].coco_url | [0]", [("1.jpg", None)]),
        ([{"a": {"link": H + "x"}}], "[].a.{url: link}", [("x", None)]),
        ({"a": {"b": [{"c": [H + "x"]}, {"c": [H + "z"]}]}}, "a.b[].c[]", [("x", None), ("z", None)]),
        (f'{{"u": ["{H}x"]}}\n{{"u": ["{H}y"]}}\n', "u[]", [("x", None), ("y", None)]),
        ({"p": {"a": {"n": 3}}}, f"p.*.{{url: join('', ['{H}', \"@key\"]), size: n}}", [("a", 3)]),
    ],
)  # fmt: skip
def test_an_expression_makes_rows_of_any_json(frozen, document, expression, expected):
    """Of arrays, objects and lines, by the names of columns."""
    assert [entry[1:3] for entry in read(frozen, document, expression)] == expected


def test_a_large_array_is_read_as_a_stream(frozen, monkeypatch):
    """Only one element has to be in memory; an expression that needs all of a document has a limit."""
    monkeypatch.setattr("cfetch.plugins.formats.json_query.MAX_ELEMENT_BYTES", 300_000)
    monkeypatch.setattr("cfetch.plugins.formats.json_query.MAX_DOCUMENT_BYTES", 300_000)
    rows = [{"url": f"{H}{n}.bin", "pad": "x" * 1000} for n in range(1000)]
    assert len(read(frozen, {"data": {"rows": rows}}, "data.rows[].{url: url}")) == 1000
    with pytest.raises(Exception, match=re.escape("begin --query with the path")):
        read(frozen, {"data": {"rows": rows}}, "sort_by(data.rows, &url)[].{url: url}")


@pytest.mark.parametrize(
    ("expression", "words"), [("images[", "is no expression of JMESPath"), ("images[].{url: ", "JMESPath")]
)
def test_a_wrong_expression_is_refused_as_such(frozen, expression, words):
    """It is a fault of the command and not of the document."""
    with pytest.raises(UsageError, match=words):
        read(frozen, COCO, expression)


@pytest.mark.parametrize(
    ("document", "expression"),
    [
        (COCO, "images[].{url: coco_url, size: bytes}"),
        ({"urls": [H + "a", H + "b"]}, "urls[]"),
        ({"r": {"rows": [{"md5sum": MD5, "file-url": H + "a"}]}}, 'r.rows[].{url: "file-url", md5: md5sum}'),
        ({"a.bin": H + "d/1", "b.bin": H + "d/2"}, "*"),
        ({"p": {"a-1.0.whl": {"u": H + "a"}}}, "p.*.{url: u}"),
        ([{"a": {"link": H + "x"}}], "[].a.{url: link}"),
        ({"files": [{"name": "a", "links": {"dl": H + "x"}}]}, "files[].links.{url: dl}"),
        ({"data": "x" * 3_000_000, "rows": [{"u": H + "a"}]}, "rows[].{url: u}"),
        ({"m": {"1.0": {"g": {"s": {"u": H + "a"}}}}}, "m.*[].g.s.{url: u}"),
        ({"m": {"a.b": {"s": {"u": H + "a"}}, "c.d": {"s": {}}}}, "m.*[].s.{url: u} | [?url]"),
        ({"n": {k: {"src": {"url": f"{H}{k}"}} for k in "abc"}}, "n.*[].src.{url: url} | [?url]"),
        ({"s": [{"url": H + "a"}, {"type": "script"}]}, "s[?url].{url: url}"),
        ({"p": [{"git": {"url": H + "a.git"}, "dist": {"url": H + "z"}}]}, "p[].dist.{url: url}"),
        ([{"url": H + "page", "files": [{"dl": H + "a.zip"}]}], "[].files[].{url: dl}"),
    ],
)
def test_the_refusal_of_unknown_json_names_an_expression_that_reads_it(
    error_of, frozen, document, expression
):
    """Links to licences and the like come last."""
    message = error_of(json.dumps(document), "x.json").problems[0].message
    assert f"--query '{expression}'" in message
    assert "licence" not in message
    assert read(frozen, document, expression)


def test_an_expression_that_finds_nothing_is_an_error(error_of):
    """An empty list would look like one that is done."""
    message = error_of(json.dumps(COCO), "x.json", options=query("image[].url")).problems[0].message
    assert "--query finds nothing in it; links stand at .images[].coco_url" in message


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            {"$schema": H + "s"},
            'its only links by themselves look like pages about it; they stand at ."$schema"',
        ),
        (
            {"cells": [{"source": [f"!wget {H}a.zip\n"]}]},
            "it has 1 link within it, which --from-format links reads",
        ),
        ({"p": [{"u": H + "a.zip", "hash": "x"}]}, "if hash holds hashes, add for example sha256: hash"),
    ],
)
def test_a_refusal_says_what_its_links_are(error_of, document, words):
    """Links about the document are no files, and those within texts are read in another way."""
    assert words in error_of(json.dumps(document), "x.json").problems[0].message


def test_what_is_json_only_nearly_is_refused_with_the_way_of_texts(error_of):
    """A lock file with a conflict of a merge has its links all the same."""
    text = f'{{"p": [\n<<<<<<< HEAD\n{{"u": "{H}a"}},\n=======\n{{"u": "{H}b"}}\n>>>>>>> x\n]}}'
    message = error_of(text, "x.json", options=query("p[].u")).problems[0].message
    assert message.startswith("it is not JSON")
    assert message.endswith(
        "it has 2 links within it, which --from-format links reads; what follows was not read"
    )
