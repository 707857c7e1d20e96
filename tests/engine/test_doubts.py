"""Errors that servers send as 200, where neither size nor hash is stated. On virtual time."""

import pytest

from cfetch.base.events import RunNoted
from cfetch.engine.error_bodies import find_document
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

PAGE = Reply(b"<html>Quota exceeded</html>", headers={"Content-Type": "text/html; charset=utf-8"})
BINARY = Reply(b"PK\x03\x04" + bytes(900), headers={"Content-Type": "application/octet-stream"})
JSON = Reply(b'{"quota": 5}')


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


NO_KEY = b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code><Message>No such key.</Message></Error>'
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 1048576\n"


XML_ERROR, JSON_ERROR = "an error document in XML", "an error document in JSON"
POINTER = "the pointer of Git LFS to a file of 1,048,576 bytes (sha256:0123456…)"


@pytest.mark.parametrize(("path", "body", "kind", "found"), [
    ("a.mp4", NO_KEY, "", XML_ERROR), ("a.csv", b"\xef\xbb\xbf" + NO_KEY, "", XML_ERROR),
    ("a.nc", b"<ows:ExceptionReport version='1'/>", "", XML_ERROR), ("a.xml", NO_KEY, "", None),
    ("a.mp4", b"<Errors-of-measurement/>", "", None), ("a.mp4", b"<Errors/>", "", None),
    ("a.mp4", b'{"error": "quota"}', "", JSON_ERROR), ("a.mp4", b'{"error": null, "x": 1}', "", None),
    ("a.mp4", b'{"code": 404, "msg": "gone"}', "", JSON_ERROR), ("a.b", b'{"message": "", "x": 1}', "", None),
    ("a.mp4", b'{"detail": "Not found."}', "", JSON_ERROR), ("a.bin", b'{"title": "Faust"}', "", None),
    ("a.mp4", b'{"success": false}', "", JSON_ERROR), ("a.bin", b'{"error": "cut', "", None),
    ("a.geojson", b'{"error": "quota"}', "", None), ("a.ipynb", b'{"error": "quota"}', "", None),
    ("a.csv", b'{"error": "a"}\n{"error": "b"}', "", None), ("a.csv", b'["error"]', "", None),
    ("a.pt", LFS, "", POINTER), ("a.pt", LFS + b"more", "", None), ("a", LFS, "", POINTER),
    ("a", b"/annex/objects/SHA256E-s5--ab.nc\n", "", "the pointer of git-annex"),
    ("a.iso", b" <!DOCTYPE HTML><html>", "application/octet-stream", "a web page"),
    ("a.iso", b"<html lang=de>", "", "a web page"), ("a.iso", b"<htmlish>", "", None),
    ("a.py", b"<html>", "text/plain", None), ("a.tmpl", b"<!doctype html>", "", None),
])  # fmt: skip
def test_a_document_in_the_place_of_a_file_says_what_it_is(path, body, kind, found):
    """What may by its name be such a document is none, nor data that only has a word of it."""
    document = find_document(path, kind, body)
    assert (document and document.name) == found


@pytest.mark.parametrize(("path", "body", "mode", "status", "said"), [
    ("a.mp4", NO_KEY, "note", "failed", "its place, with status 200, NoSuchKey: No such key; if it is meant"),
    ("a.mp4", NO_KEY, "accept", "done", ""), ("a.mp4", LFS, "note", "failed", "ask for the file itself"),
    ("a", NO_KEY, "note", "done", "a is an error document in XML, with status 200, NoSuchKey: No such key; "),
    ("a", NO_KEY, "fail", "failed", "or give --doubtful accept"),
    ("a.mp4", PAGE.body, "note", "failed", "sends a web page (without a type) in its place: a login page"),
    ("a", PAGE.body, "note", "done", ""),
])  # fmt: skip
def test_an_error_of_another_type_is_refused_with_its_reason(tmp_path, path, body, mode, status, said):
    """As a page is; a name without an ending may be anything's, and is noted. It comes in pieces."""
    scripts = {path: Reply(body, at_s=(0.1, 0.2, 0.3))}
    outcome = drive(tmp_path, scripts, [entry_of(0, path, body, size=False)], doubtful=mode)
    record = outcome.records[path]
    error = record.attempts[-1].error or ""
    assert record.status == status
    assert said in "".join([error, *(event.note for event in outcome.of(RunNoted))])
    assert bool(said) == bool(error or outcome.of(RunNoted))


def test_an_error_that_says_later_is_tried_again(tmp_path):
    """A store that has no time says so in a document; the file comes at the second try."""
    busy = Reply(b"<Error><Code>SlowDown</Code><Message>Slow down.</Message></Error>")
    outcome = drive(tmp_path, {"a.mp4": [busy, BINARY]}, [entry_of(0, "a.mp4", b"", size=False)])
    record = outcome.records["a.mp4"]
    assert (record.status, len(record.attempts)) == ("done", 2)
