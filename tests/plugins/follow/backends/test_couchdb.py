"""CouchDB and npm's registry: attachments, tarballs of packages, deletes, a database made anew."""

import base64
import hashlib
import json

import pytest

from cfetch.base.errors import Refused, StaleAnswer, Transient
from tests.plugins.follow.upstream_site import Mirror, open_site


def digest(data, algorithm, mark="-"):
    return f"{algorithm}{mark}{base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


class Database:
    """Documents by id. Sequences are opaque, as those of a cluster."""

    def __init__(self):
        self.changes = {}  # by id: number and document
        self.number = 0
        self.includes = True
        self.asked = []
        self.is_there = True
        self.missing = b'{"error":"not_found","reason":"Database does not exist."}'

    def put(self, name, **document):
        self.number += 2
        self.changes[name] = (self.number, document | {"_id": name, "_rev": f"{self.number}-abc"})

    def delete(self, name):
        self.number += 2
        self.changes[name] = (self.number, None)

    def answer(self, path, query, _headers):
        self.asked.append(path)
        if not self.is_there:
            return 404, self.missing
        if path == "/db/_changes":
            return 200, json.dumps(self.list_changes(query)).encode()
        if (name := path.removeprefix("/docs/")) in self.changes:
            document = self.changes[name][1]
            return (404, b"{}") if document is None else (200, json.dumps(document).encode())
        return 200, path.encode()

    def list_changes(self, query):
        assert ("include_docs" in query) == self.includes
        since, limit = int(query["since"].partition("-")[0]), int(query["limit"])
        later = sorted((n, name, document) for name, (n, document) in self.changes.items() if n > since)
        rows = [
            {"seq": f"{n}-g1AAAA", "id": name, "changes": [{"rev": f"{n}-abc"}]}
            | ({"deleted": True} if document is None else {})
            | ({"doc": document or {"_id": name, "_deleted": True}} if self.includes else {})
            for n, name, document in later[:limit]
        ]
        end = later[:limit][-1][0] if rows else self.number
        return {"results": rows, "last_seq": f"{end}-g1AAAA", "pending": max(0, len(later) - limit)}


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def url(database):
    with open_site(database.answer) as url:
        yield url


@pytest.fixture
def mirror(url, tmp_path):
    return Mirror(f"couchdb+{url}/db", tmp_path)


def attachment(path):
    data = path.encode()
    return {"content_type": "text/plain", "length": len(data), "digest": digest(data, "md5"), "stub": True}


def test_attachments_come_and_go_with_their_documents(database, mirror):
    """An id with a slash is a directory of its own, so that no document's files are below another's."""
    database.put("a", _attachments={"x.txt": attachment("/db/a/x.txt"), "y.txt": attachment("/db/a/y.txt")})
    database.put("a/b", _attachments={"z.txt": attachment("/db/a/b/z.txt")})
    database.put("plain", text="no files")
    assert mirror.follow().files.done == 3
    assert mirror.names() == ["a%2Fb/z.txt", "a/x.txt", "a/y.txt"]
    database.put("a", _attachments={"y.txt": attachment("/db/a/y.txt")})
    database.delete("a/b")
    found = mirror.follow()
    assert (mirror.names(), found.feed.deletes) == (["a/y.txt"], 2)
    database.asked.clear()
    mirror.follow()
    assert set(database.asked) == {"/db/_changes"}


def test_packages_of_npm(database, mirror, url):
    """Their documents are asked for by themselves; each version has a tarball and its hash."""
    database.includes = False
    mirror.feed += f"?documents={url}/docs"
    path = "/tarballs/pkg-1.0.0.tgz"
    database.put(
        "@scope/pkg",
        versions={
            "1.0.0": {
                "name": "@scope/pkg",
                "dist": {"tarball": url + path, "integrity": digest(path.encode(), "sha512")},
            },
            "0.9.0": {
                "dist": {
                    "tarball": f"{url}/tarballs/pkg-0.9.0.tgz",
                    "shasum": hashlib.sha1(b"/tarballs/pkg-0.9.0.tgz").hexdigest(),
                }
            },
        },
    )
    found = mirror.follow()
    assert (found.files.done, found.exit_code) == (2, 0)
    assert mirror.names() == ["@scope%2Fpkg/pkg-0.9.0.tgz", "@scope%2Fpkg/pkg-1.0.0.tgz"]


def test_a_document_that_is_not_there_has_not_gone(database, mirror, url, monkeypatch):
    """Only the list of changes says so; a document that was deleted after the list is in the next one."""
    database.includes = False
    mirror.feed += f"?documents={url}/docs"
    database.put("a", _attachments={"x": attachment("/docs/a/x")})
    mirror.follow()
    database.put("a", _attachments={"x": attachment("/docs/a/x")})
    listed = database.list_changes({"since": "2", "limit": "9"})
    database.delete("a")
    with monkeypatch.context() as patch:
        patch.setattr(database, "list_changes", lambda _: listed)
        assert mirror.follow().feed.deletes == 0
    assert mirror.names() == ["a/x"]
    assert mirror.follow().feed.deletes == 1


def test_an_old_copy_of_a_document_is_asked_for_again(database, mirror, url, monkeypatch):
    """Its list of files would be taken for the new one's, and what came since would be missing for good."""
    database.includes = False
    mirror.feed += f"?documents={url}/docs"
    database.put("a", _attachments={"x": attachment("/docs/a/x")})
    old = database.changes["a"]
    database.put("a", _attachments={"y": attachment("/docs/a/y")})
    listed = database.list_changes({"since": "0", "limit": "9"})
    with monkeypatch.context() as patch:
        patch.setattr(database, "list_changes", lambda _: listed)
        patch.setitem(database.changes, "a", old)
        with pytest.raises(StaleAnswer, match=r"document a of .* old copy: it has revision 2-abc, .* 4-abc"):
            mirror.follow()
    mirror.follow()
    assert mirror.names() == ["a/y"]


@pytest.mark.parametrize("body", [b"<html>", b""])
def test_a_404_of_somebody_else_ends_nothing(database, mirror, body):
    """A proxy says nothing about the database; the follower without --once asks again."""
    database.put("a", _attachments={"x": attachment("/db/a/x")})
    mirror.follow()
    database.is_there, database.missing = False, body
    with pytest.raises(Transient, match="something other than"):
        mirror.follow()


def test_a_wrong_hash_is_noticed(database, mirror, url):
    database.put(
        "p", versions={"1": {"dist": {"tarball": f"{url}/p-1.tgz", "integrity": digest(b"else", "sha512")}}}
    )
    assert mirror.follow().exit_code == 1
    assert mirror.names() == []


def test_a_long_list_is_read_in_pieces(database, mirror, monkeypatch):
    monkeypatch.setattr("cfetch.plugins.follow.backends.couchdb.CHANGES", 2)
    for number in range(5):
        database.put(f"d{number}", _attachments={"f": attachment(f"/db/d{number}/f")})
    assert mirror.follow().files.done == 5
    assert database.asked.count("/db/_changes") >= 3


def test_a_database_made_anew_is_another_one(database, mirror):
    """Its first changes would be taken for old ones."""
    for number in range(3):
        database.put(f"d{number}", _attachments={"f": attachment(f"/db/d{number}/f")})
    mirror.follow()
    database.changes, database.number = {}, 0
    database.put("new", _attachments={"f": attachment("/db/new/f")})
    says = r"has gone back: it is at 2-g1AAAA, and was at 6-g1AAAA; an old .* made anew; with --resync"
    with pytest.raises(StaleAnswer, match=says):
        mirror.follow()
    mirror.follow(resync=True)
    assert mirror.names() == ["new/f"]


def test_no_database(database, mirror):
    database.is_there = False
    with pytest.raises(Refused, match="there is no database at http"):
        mirror.follow()
