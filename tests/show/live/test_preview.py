"""What a dry run tells a person."""

from typing import Any

from cfetch.show.live.preview import SHOWN_HOSTS, preview_lines
from cfetch.show.plan_view import Preview
from tests.show.live.replay import HOSTILE

PREVIEW: dict[str, Any] = {
    "files": 20,
    "in_place": 5,
    "bytes_known": 3 << 20,
    "sizes_unknown": 2,
    "merged": 0,
    "hosts": {"a.example": 7, "b.example": 13},
    "destination": "/data",
    "free_bytes": 5 << 30,
}


def show_preview(**fields):
    return preview_lines(Preview(**fields))


def test_a_preview_in_words():
    """How much, from where, where to, and that nothing happened yet; the busiest host first."""
    assert show_preview(**PREVIEW) == [
        "     files  20, 5 in place already",
        "      size  3.0 MiB and 2 of unknown size",
        "      from  b.example (13)",
        "            a.example (7)",
        "        to  /data",
        "free there  5.0 GiB",
        "nothing was downloaded",
    ]


def test_several_volumes_have_a_line_each():
    """With the room on each; an object store has no bound that is known."""
    words = show_preview(**PREVIEW | {"volumes": {"/data1": 5 << 30, "/data2\x1b": 0, "s3://b/x": None}})
    assert words[4:] == [
        "        to  /data1 (5.0 GiB free)",
        "            /data2\\x1b (0 B free)",
        "            s3://b/x",
        "nothing was downloaded",
    ]


def test_repeated_entries_are_told():
    """A manifest that names a file twice has fewer files than rows."""
    assert "20 (1 repeated entry merged), 5" in show_preview(**PREVIEW | {"merged": 1})[0]


def test_many_hosts_are_counted():
    """The largest are named, the rest is a number of hosts and of files."""
    hosts = {f"h{i:02}": 100 - i for i in range(SHOWN_HOSTS + 3)}
    manifest = PREVIEW | {"hosts": hosts, "files": sum(hosts.values())}
    words = [line.strip() for line in show_preview(**manifest)]
    assert words[11:13] == ["h09 (91)", "3 more hosts (267)"]


def test_a_manifest_that_spark_has_prepared():
    """It names few of its hosts; how many tasks there are, and which hosts take longest."""
    floors = {"b\x1b": 60.0, "a": 7200.0, "c": 61.0, "d": 59.0, "e": 60.0}
    more = {"more_hosts": 3, "batches": 2472, "floors": floors}
    assert show_preview(**PREVIEW | more | {"files": 30})[2:10] == [
        "      from  b.example (13)",
        "            a.example (7)",
        "            3 more hosts (10)",
        "   batches  2,472",
        "  at least  a takes 2h 00m",
        "            c takes 1m 01s",
        "            b\\x1b takes 1m 00s",
        "        to  /data",
    ]


def test_an_empty_manifest():
    """There is nothing to tell of it but that."""
    assert show_preview(**PREVIEW | {"files": 0}) == [
        "the manifest has no entries",
        "nothing was downloaded",
    ]


def test_hostile_names_are_printable():
    """Neither a host nor a directory can drive the terminal."""
    words = "".join(show_preview(**PREVIEW | {"hosts": {HOSTILE: 1}, "destination": HOSTILE}))
    assert not set(words) & set("\x1b\x07\x9b\u202e\n")
