"""Errors that servers send as 200, where neither size nor hash is stated. On virtual time."""

import pytest

from cfetch.base.events import RunNoted
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

PAGE = Reply(b"<html>Quota exceeded</html>", headers={"Content-Type": "text/html; charset=utf-8"})
BINARY = Reply(b"PK\x03\x04" + bytes(900), headers={"Content-Type": "application/octet-stream"})
JSON = Reply(b'{"error": "quota"}')


def bring(tmp_path, scripts, *, size=False, **settings):
    entries = [entry_of(n, path, scripts[path].body, size=size) for n, path in enumerate(scripts)]
    outcome = drive(tmp_path, scripts, entries, **settings)
    failed = [path for path, record in sorted(outcome.records.items()) if record.status == "failed"]
    return failed, [event.note for event in outcome.of(RunNoted)]


@pytest.mark.parametrize(("first", "others", "mode", "failed", "notes"), [
    (PAGE, BINARY, "note", [], 1), (PAGE, BINARY, "accept", [], 0), (PAGE, BINARY, "fail", ["a"], 0),
    (PAGE, PAGE, "note", [], 0), (BINARY, PAGE, "note", [], 0),
])  # fmt: skip
def test_one_page_among_the_files_of_a_host(tmp_path, first, others, mode, failed, notes):
    """Whichever comes first; a list of pages is what it is."""
    scripts = {"a": first} | dict.fromkeys("bcde", others)
    found, said = bring(tmp_path, scripts, doubtful=mode)
    assert (found, len(said)) == (failed, notes)
    assert not said or said[0].startswith("a is a web page, and 4 other files of origin.test are none")


@pytest.mark.parametrize(("path", "reply", "mode", "failed", "notes"), [
    ("a.zip", JSON, "note", [], 1), ("a.zip", JSON, "fail", ["a.zip"], 0), ("a.zip", JSON, "accept", [], 0),
    ("a.zip", BINARY, "fail", [], 0), ("a.json", JSON, "fail", [], 0), ("a.bin", JSON, "fail", [], 0),
    ("a.zip", Reply(bytes(50)), "fail", [], 0), ("a.gz", Reply(b"quota"), "fail", ["a.gz"], 0),
    ("a.zip", PAGE, "accept", [], 0), ("a.zip", PAGE, "note", ["a.zip"], 0),
    ("a.zip", Reply(b""), "fail", [], 0),
])  # fmt: skip
def test_text_in_the_place_of_an_archive(tmp_path, path, reply, mode, failed, notes):
    """By its first bytes; what is no text may be a form of the format that cfetch does not know."""
    found, said = bring(tmp_path, {path: reply}, doubtful=mode)
    assert (found, len(said)) == (failed, notes)
    assert not said or "text: an error that was sent as the file?" in said[0]


def test_a_stated_size_ends_all_doubt(tmp_path):
    """Somebody knows the file."""
    assert bring(tmp_path, {"a.zip": JSON}, size=True, doubtful="fail") == ([], [])
