"""Cosmos DB by a stand-in: partitions that split and merge, between runs and while they are read."""

import hashlib
import json
from email.utils import parsedate_to_datetime
from itertools import count

import pytest

from cfetch.base.errors import FeedReplaced, HostileFeed, Refused, Transient, UsageError
from cfetch.plugins.follow.backends.cosmos import ContinuationToken, divide, fuse, sign
from tests.plugins.follow.upstream_site import Mirror, open_site

KEY = "ZmFrZSBrZXk="
BASE = "/dbs/db/colls/c"


class Container:
    """Items by path, with the LSN of their last change; a partition has those whose hash is in its keys."""

    def __init__(self):
        self.url, self.rid, self.lsn, self.items, self.asked = "", "rid1", 0, {}, []
        self.numbers = count(1)
        self.ranges = {"0": ("", "FF")}
        self.gone: set[str] = set()
        self.page = 1000
        self.substatus = "1002"
        self.is_split_by = None  # a request for this range splits it first

    def put(self, path, /, **more):
        self.lsn += 1
        item = {
            "id": path,
            "path": path,
            "url": f"{self.url}/files/{path}/{self.lsn}",
            "_etag": str(self.lsn),
        }
        self.items[path] = (self.lsn, item | {"_rid": "x", "_ts": 1, "_lsn": self.lsn, "who": "me"} | more)

    def split(self, of):
        low, high = self.ranges.pop(of)
        middle = f"{(int(low or '0', 16) + int(high, 16)) // 2:02X}"
        self.gone.add(of)
        for keys in ((low, middle), (middle, high)):
            self.ranges[str(next(self.numbers))] = keys

    def merge(self, one, other):
        keys = (self.ranges.pop(one)[0], self.ranges.pop(other)[1])
        self.gone |= {one, other}
        self.ranges[str(next(self.numbers))] = keys

    def answer(self, path, _query, headers):
        if path.startswith("/files/"):
            return 200, path.encode()
        kind = path.removeprefix(f"{BASE}/")
        assert headers["Authorization"] == sign(b"fake key", kind, BASE[1:], headers["x-ms-date"])
        if kind == "pkranges":
            rows = [
                {"id": name, "minInclusive": low, "maxExclusive": high, "parents": [], "status": "online"}
                for name, (low, high) in self.ranges.items()
            ]
            return 200, json.dumps(
                {"_rid": self.rid, "PartitionKeyRanges": rows, "_count": len(rows)}
            ).encode()
        assert (kind, headers["A-IM"]) == ("docs", "Incremental feed")
        return self.read(headers["x-ms-documentdb-partitionkeyrangeid"], headers)

    def read(self, name, headers):
        self.asked.append(name)
        if name == self.is_split_by:
            self.is_split_by = None
            self.split(name)
        if name in self.gone or self.substatus == "1000":
            return 410, b"{}", {"x-ms-substatus": self.substatus}
        low, high = self.ranges[name]
        low, high = headers["x-ms-start-epk"] or low, headers["x-ms-end-epk"] or high
        after = int((headers["If-None-Match"] or '"0"').strip('"'))
        since = headers["If-Modified-Since"]
        assert not (after and since), "a continuation is where to go on"
        since_s = parsedate_to_datetime(since).timestamp() if since else 0
        later = sorted(
            (lsn, json.dumps(item))
            for path, (lsn, item) in self.items.items()
            if lsn > after and low <= hash_of(path) < high and item["_ts"] > since_s
        )[: self.page]
        if not later:
            return 304, b"", {"etag": f'"{after}"'}
        documents = [json.loads(item) for _, item in later]
        body = {"_rid": self.rid, "Documents": documents, "_count": len(later)}
        return 200, json.dumps(body).encode(), {"etag": f'"{later[-1][0]}"'}


def hash_of(path):
    return f"{hashlib.sha256(path.encode()).digest()[0] % 255:02X}"


@pytest.fixture
def container(monkeypatch):
    monkeypatch.setenv("AZURE_COSMOS_KEY", KEY)
    container = Container()
    with open_site(container.answer) as url:
        container.url = url
        yield container


@pytest.fixture
def mirror(container, tmp_path):
    return Mirror(f"cosmos+{container.url}{BASE}", tmp_path)


def check(container, mirror):
    """The mirror has the last version of each item that is not deleted."""
    items = (item for _, item in container.items.values())
    files = {item["path"]: item for item in items if item["path"] and not item.get("deleted")}
    assert mirror.names() == sorted(files)
    assert all(mirror.read(path) in item["url"] for path, item in files.items())


def test_items_come_change_and_go(container, mirror):
    for name in "abcd":
        container.put(name)
    container.put("no file", url=None, path=None)
    assert mirror.follow().files.done == 4
    container.put("a")
    container.put("b", deleted=True)
    found = mirror.follow()
    assert (found.files.done, found.feed.deletes) == (1, 1)
    check(container, mirror)
    container.asked.clear()
    mirror.follow()
    assert container.asked == ["0", "0"]


def test_a_follower_begins_at_a_time(container, mirror):
    """In later runs too, whatever time they name: partitions of which nothing was read begin at the same."""
    container.split("0")
    container.put("old", _ts=1000)
    container.put("new", _ts=3000)
    assert mirror.follow(begin_s=2000.0).files.done == 1
    container.put("a", _ts=3001)
    container.put("b", _ts=3002)
    mirror.follow(begin_s=3002.0)
    assert mirror.names() == ["a", "b", "new"]
    mirror.follow(resync=True)
    assert mirror.names() == ["a", "b", "new", "old"]


def test_partitions_split_and_merge_between_runs(container, mirror):
    """Nothing is read twice, and nothing is missed."""
    for number in range(20):
        container.put(f"f{number}")
    mirror.follow()
    container.split("0")
    for number in range(0, 20, 3):
        container.put(f"f{number}")
    assert mirror.follow().files.done == 7
    container.split("1")
    container.merge("4", "2")  # cousins
    for number in range(0, 20, 4):
        container.put(f"f{number}")
    assert mirror.follow().files.done == 5
    check(container, mirror)
    container.merge("3", "5")
    container.put("new")
    assert mirror.follow().files.done == 1
    check(container, mirror)


def test_a_partition_splits_while_it_is_read(container, mirror):
    """Its heirs go on from the page that was read last."""
    container.page = 3
    for number in range(20):
        container.put(f"f{number}")
    container.split("0")
    container.is_split_by = "2"
    assert mirror.follow().files.done == 20
    check(container, mirror)
    assert {"1", "3", "4"} <= set(container.asked)


def test_a_partition_that_is_splitting_is_asked_again_later(container, mirror):
    container.put("a")
    container.gone = {"0"}
    container.substatus = "1007"
    with pytest.raises(Transient, match="is splitting"):
        mirror.follow()
    container.gone = set()
    assert mirror.follow().files.done == 1


@pytest.mark.parametrize("how", ["rid", "substatus"])
def test_a_container_made_anew_is_another_one(container, mirror, how):
    container.put("a")
    mirror.follow()
    setattr(container, how, {"rid": "rid2", "substatus": "1000"}[how])
    with pytest.raises(FeedReplaced, match=r"--resync"):
        mirror.follow()


def test_an_unknown_cause_of_a_410(container, mirror):
    container.gone, container.substatus = {"0"}, "3001"
    with pytest.raises(Refused, match="HTTP 410 with sub-status 3001"):
        mirror.follow()


def test_partitions_with_a_gap(container, mirror):
    container.ranges = {"0": ("", "7F"), "1": ("80", "FF")}
    with pytest.raises(HostileFeed, match="leave a gap"):
        mirror.follow()


def test_the_signature_of_microsofts_documentation():
    """Of "Access control in the Azure Cosmos DB REST API", for another resource: the form is the same."""
    import base64

    key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw=="
    found = sign(base64.b64decode(key), "dbs", "dbs/ToDoList", "Thu, 27 Apr 2017 00:51:12 GMT")
    assert found == "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"


def test_tokens_are_divided_and_fused():
    class Range:
        def __init__(self, low, high):
            self.min_inclusive, self.max_exclusive = low, high

    token = ContinuationToken("20", "A0", "7")
    parts = list(divide(token, [Range("", "20"), Range("20", "40"), Range("40", "FF")]))  # type: ignore[list-item]
    assert parts == [ContinuationToken("20", "40", "7"), ContinuationToken("40", "A0", "7")]
    assert fuse([ContinuationToken("", "20", "6"), *parts, ContinuationToken("B0", "FF", "7")]) == (
        ContinuationToken("", "20", "6"),
        token,
        ContinuationToken("B0", "FF", "7"),
    )


@pytest.mark.parametrize(
    ("key", "path", "says"),
    [
        (None, BASE, "put the account's key into AZURE_COSMOS_KEY"),
        ("?", BASE, "not of the form"),
        (KEY, "/dbs/x", "no container"),
    ],
)
def test_a_login_or_a_url_that_is_none(container, mirror, monkeypatch, key, path, says):
    monkeypatch.delenv("AZURE_COSMOS_KEY") if key is None else monkeypatch.setenv("AZURE_COSMOS_KEY", key)
    mirror.feed = f"cosmos+{container.url}{path}"
    with pytest.raises(UsageError, match=says):
        mirror.follow()
