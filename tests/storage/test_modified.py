"""The time that a file bears: its server's, as far as that states one in HTTP's own form."""

import os
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.storage.part_file import parse_http_date
from cfetch.storage.source_records import ATTRIBUTE

ENTRY = Entry(id=0, url=SecretUrl("http://h.test/a"), path=safe_path("a"))
DATE, DATE_S = "Sun, 06 Nov 1994 08:49:37 GMT", 784111777


def publish(root, modified, **how):
    volume = Directory(root, "staging")
    part = Part(volume, ENTRY, **how)
    part.last_modified = modified
    part.write(b"1")
    part.verify(1, None)
    part.finish()
    part.publish()
    source = volume.sources.find(ENTRY.path)
    volume.close()
    return int(os.stat(root / "a").st_mtime), source


def test_a_file_bears_the_time_of_its_server(tmp_path):
    """It stays known by its record; without the option, or without a date, the time is the download's."""
    assert publish(tmp_path, DATE)[0] == DATE_S
    for modified, how in ((DATE, {"keeps_time": False}), (None, {}), ("yesterday", {})):
        changed_s, source = publish(tmp_path, modified, **how)
        assert changed_s > DATE_S
        assert source is not None


def test_the_record_in_the_state_fits_the_file(tmp_path, monkeypatch):
    """Where a file system has no attributes, the record speaks for this time only."""
    monkeypatch.delattr(os, "setxattr")
    monkeypatch.delattr(os, "getxattr")
    assert ATTRIBUTE
    changed_s, source = publish(tmp_path, DATE)
    assert (changed_s, source is not None) == (DATE_S, True)


@given(st.integers(1, 253402300799))
def test_every_date_of_http_is_read(seconds):
    """Up to the year 9999."""
    assert parse_http_date(formatdate(seconds, usegmt=True)) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 +0100",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Abc 1994 08:49:37 GMT",
        "Sun, 0٦ Nov 1994 08:49:37 GMT",
    ],
)
def test_other_dates_are_none(text):
    """The file then bears the time of the download."""
    assert parse_http_date(text) is None
