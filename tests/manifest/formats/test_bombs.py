"""Manifests of a few bytes that claim to be enormous are refused with the limit's name, in little memory."""

import json
import os
import subprocess
import sys

import pytest

from tests.manifest.formats import bombs
from tests.needs import case_of_format

WORDS = {
    "nulls": "rows and more than",
    "one_value_for_all_rows": "rows and more than",
    "long_texts": "times its own size",
    "long_value_for_many_rows": "times its own size",
    "values_of_a_list": "its lists claim more than",
    "long_value_for_a_list": "a row of more than",
    "one_page": "its pages hold more than",
    "prefixes": "times its own size",
    "wide_values": "which url cannot be",
    "columns": "more than 1000 columns",
    "csv_record": "a row is longer than",
    "csv_columns": "more than 1000 columns",
    "metalink_sources": "a file has more than",
    "aria2_headers": "one download has more than",
    "aria2_blanks": "",
    "bagit_blanks": "it is not a line of fetch.txt",
    "json_keys": "more than 100 keys",
    "statement_links": "the reply is longer than",
    "whole_document": "files[0] must be an object, not an integer",
    "longer_document": "longer than 16777216 characters",
    "unclosed_links": "",
    "unclosed_locations": "",
    "csv_quotes": "the line is longer than",
    "unclosed_string": "a value is longer than",
    "long_string": "a value is longer than",
    "brackets": "it is nested too deeply",
    "zeros": "times its own size; decompress it yourself",
}


@pytest.fixture(scope="module")
def reader():
    """The program that reads bombs, each in a child."""
    with subprocess.Popen(
        [sys.executable, bombs.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
    ) as process:
        yield process


@pytest.mark.parametrize(
    ("name", "bomb"),
    [case_of_format(name, bomb) for name, some in bombs.FORMATS.items() for bomb in some],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_bombs(reader, tmp_path, name, bomb):
    """The reader refuses a bomb by the limit that it breaks, in 500 MiB; a process shows that it ends."""
    path = tmp_path / "m"
    path.write_bytes(bomb())
    print(json.dumps([str(path), name]), file=reader.stdin, flush=True)
    code, said = json.loads(reader.stdout.readline())
    assert code == 0, said
    assert WORDS[bomb.__name__] in said
