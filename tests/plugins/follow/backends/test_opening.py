"""From a feed's name to its source: each kind is opened and asked, and what is none is told what there is."""

import sys

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import UsageError
from cfetch.plugins.follow.backends.http import HttpSource
from cfetch.plugins.follow.backends.kinesis import KinesisSource
from cfetch.plugins.follow.backends.opening import open_feed
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.server.segments.writer import SegmentWriter
from cfetch.testing.feed import listed
from cfetch.wire.network import DIRECT
from tests.plugins.follow.server.segments.test_source import served


def open_(name):
    return open_feed(str(name), network=DIRECT, clock=SystemClock())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("http://h.example/feed/", HttpSource),
        ("HTTPS://h.example/feed", HttpSource),
        ("segments+http://h.example/feed?sig=1", SegmentSource),
        ("kinesis://my.stream_1?region=eu-west-1", KinesisSource),
        ("kinesis://s?region=eu-west-1&endpoint=http://127.0.0.1:4566", KinesisSource),
    ],
)
async def test_each_kind_has_its_name(name, kind):
    source = open_(name)
    assert type(source) is kind
    await source.close()


async def test_a_directory_and_its_url_are_one_feed(tmp_path):
    SegmentWriter(tmp_path / "feed").close()
    async with served(tmp_path / "feed") as (url, _):
        found = []
        for name in (tmp_path / "feed", f"segments+{url}", f"segments+{url}/"):
            source = open_(name)
            found.append(await listed(source))
            await source.close()
    assert {one.feed.id for one in found} == {found[0].feed.id}
    assert len({one.feed.account for one in found}) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ftp://h.example/", "ftp:// is not a kind of feed that cfetch knows; known are an http"),
        ("other+http://h.example/", "known are"),
        ("kinesis+http://h.example/", "known are"),
        ("file:///tmp", "known are"),
        ("", "not a directory with an index.json"),
        ("/nonexistent", "not a directory with an index.json"),
        ("http://", "no host"),
        ("+http://h.example/", "known are"),
        ("http://h.example/?sig=secret", "no query"),
        ("http://user:secret@h.example/", "userinfo"),
        ("segments+http://h.example:99999/?sig=secret", "port"),
        ("kinesis://", "not the name of a stream"),
        ("kinesis://s", "not the name of a stream"),
        ("kinesis://s?region=", "not the name of a stream"),
        ("kinesis://s?region=a&region=b", "not the name of a stream"),
        ("kinesis://s?region=eu-west-1&shards=1", "not the name of a stream"),
        ("kinesis://s/x?region=eu-west-1", "not the name of a stream"),
        ("kinesis://s?region=eu-west-1&endpoint=file:///", "scheme"),
        (
            "kinesis://AKIA:secret@stream?region=eu-west-1",
            "^kinesis://…@stream.… is not the name of a stream",
        ),
        ("kinesis://AKIA:secret/of?letters#@s?region=eu-west-1", "not the name of a stream"),
        ("kinesis://secret@s?region=eu-west-1&endpoint=http://h.example", "not the name of a stream"),
        ("kinesis://s?region=eu-west-1&endpoint=http://u:secret@h.example", "userinfo"),
        ("kinesis://s?endpoint=http://u:secret@h.example", "not the name of a stream"),
        ("kinesis://[secret@s?region=eu-west-1", "not the name of a stream"),
        ("ftp://user:secret@h.example/", "known are"),
        ("user:secret@ftp://h.example/", "known are"),
        ("user:secret@h.example/feed", "not a directory"),
        ("h.example/feed?sig=secret", "not a directory"),
        ("https:/user:secret@h.example/feed", "not a directory"),
        ("segments+http://user:secret@h.example/", "userinfo"),
        ("segments+http://user:sec/secret@h.example/", "cannot be used"),
    ],
)
async def test_what_is_no_feed_is_told_what_there_is(name, says):
    with pytest.raises(UsageError, match=says) as caught:
        open_(name)
    assert "secret" not in str(caught.value)


async def test_without_botocore_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(UsageError, match=r"install cfetch\[kinesis\]"):
        open_("kinesis://s?region=eu-west-1")


def test_botocore_is_loaded_only_for_kinesis():
    """It takes a quarter of a second."""
    import subprocess

    code = "import sys, cfetch.plugins.follow.backends.opening; print('botocore' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
