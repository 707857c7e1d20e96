"""A package index in the form of PEP 691: new files, files and projects that have gone, caches."""

import hashlib
import json

import pytest

from cfetch.errors import Refused, Transient, UsageError
from tests.feed.upstream_site import Mirror, open_site


class Index:
    """Projects by name, each a serial and its files by name."""

    def __init__(self):
        self.projects = {}
        self.serial = 0
        self.asked = []
        self.is_stale = False
        self.states_serials = True

    def publish(self, name, *files):
        """A project has these files now; none: it is deleted."""
        self.serial += 3
        self.projects[name] = (self.serial, files)
        if not files:
            del self.projects[name]

    def answer(self, path, query, headers):
        self.asked.append(path)
        if path.startswith("/files/"):
            return 200, path.encode()
        assert headers["Accept"] == "application/vnd.{}.simple.v1+json".format("pypi")
        if path == "/simple/":
            etag = f'"{self.serial}"'
            if headers["If-None-Match"] == etag:
                return 304, b""
            return 200, self.list_projects(), {"ETag": etag}
        name = path.split("/")[2]
        if name not in self.projects:
            return 404, b""
        serial, files = self.projects[name]
        meta = {"api-version": "1.3", "_last-serial": serial - self.is_stale}
        rows = [self.describe(f"/files/{name}/{file}") for file in files]
        return 200, json.dumps({"meta": meta, "name": name, "files": rows, "versions": ["1"]}).encode()

    def list_projects(self):
        rows = [
            {"name": name} | ({"_last-serial": serial} if self.states_serials else {})
            for name, (serial, _) in self.projects.items()
        ]
        meta = {"api-version": "1.3", "_last-serial": self.serial}
        return json.dumps({"meta": meta, "projects": rows}).encode()

    def describe(self, path):
        digest = hashlib.sha256(path.encode()).hexdigest()
        return {
            "filename": path.rpartition("/")[2],
            "url": f"../..{path}#sha256={digest}",
            "hashes": {"sha256": digest},
            "requires-python": ">=3.8",
            "size": len(path),
            "yanked": False,
            "core-metadata": {"sha256": "0" * 64},
        }


@pytest.fixture
def index():
    return Index()


@pytest.fixture
def mirror(index, tmp_path):
    with open_site(index.answer) as url:
        yield Mirror(f"pypi+{url}/simple/", tmp_path)


def test_a_mirror_is_made_and_kept(index, mirror):
    index.publish("alpha", "alpha-1.tar.gz", "alpha-1-py3-none-any.whl")
    index.publish("al", "al-1.tar.gz")
    index.publish("beta", "beta-1.tar.gz")
    assert mirror.follow().files.done == 4
    assert mirror.read("alpha/alpha-1.tar.gz") == "/files/alpha/alpha-1.tar.gz"
    index.publish("alpha", "alpha-1.tar.gz", "alpha-2.tar.gz")  # a new file, and one that was deleted
    index.publish("beta")
    index.asked.clear()
    found = mirror.follow()
    assert (found.files.done, found.feed.deletes) == (1, 2)
    assert mirror.names() == ["al/al-1.tar.gz", "alpha/alpha-1.tar.gz", "alpha/alpha-2.tar.gz"]
    assert {path for path in index.asked if "/simple/" in path} == {"/simple/", "/simple/alpha/"}


def test_many_projects_are_asked_for_by_rising_serials(index, mirror, monkeypatch):
    """A first run that is interrupted goes on; projects of one serial are told together."""
    monkeypatch.setattr("cfetch.feed.backends.package_index.PROJECTS", 2)
    for name in "abcde":
        index.publish(name, f"{name}.whl")
    index.projects["c"] = (index.projects["b"][0], ("c.whl",))
    assert mirror.follow().files.done == 5
    order = [path for path in index.asked if path.startswith("/simple/") and path != "/simple/"]
    assert [sorted(order[:3]), sorted(order[3:])] == [
        [f"/simple/{name}/" for name in names] for names in ("abc", "de")
    ]


def test_some_projects_by_name(index, mirror):
    """The index is not asked for, which is 40 MB."""
    for name in "abc":
        index.publish(name, f"{name}.whl")
    mirror.feed += "?project=a&project=c"
    assert mirror.follow().files.done == 2
    index.publish("c")
    mirror.follow()
    assert (mirror.names(), "/simple/" in index.asked) == (["a/a.whl"], False)


def test_a_stale_copy_of_a_project_is_not_taken(index, mirror, monkeypatch):
    """Else the files of its last change would never come."""
    monkeypatch.setattr("cfetch.wire.document.LIMITS", monkeypatch_limits())
    index.publish("a", "a.whl")
    index.is_stale = True
    with pytest.raises(Transient, match="from a cache, at serial 2 instead of 3"):
        mirror.follow()
    index.is_stale = False
    assert mirror.follow().files.done == 1


def monkeypatch_limits():
    from cfetch.wire.retry import Limits

    return Limits(max_attempts=1, retry_budget_s=1.0)


def test_a_project_that_the_index_names_has_not_gone(index, mirror, monkeypatch):
    """A 404 of a server behind a balancer is no delete."""
    monkeypatch.setattr("cfetch.wire.document.LIMITS", monkeypatch_limits())
    index.publish("a", "a.whl")
    mirror.follow()
    index.publish("a", "a.whl", "b.whl")
    listed = index.list_projects()
    del index.projects["a"]
    with monkeypatch.context() as patch:
        patch.setattr(index, "list_projects", lambda: listed)
        with pytest.raises(Transient, match="is not there, but the index names it"):
            mirror.follow()
    assert mirror.names() == ["a/a.whl"]
    mirror.follow()
    assert mirror.names() == []  # the index does not name it any more


def test_an_index_without_serials_is_refused(index, mirror):
    index.publish("a", "a.whl")
    index.states_serials = False
    with pytest.raises(Refused, match=r"states no serials.*\?project=NAME"):
        mirror.follow()


def test_an_unknown_option_is_named(mirror):
    mirror.feed += "?projects=a"
    with pytest.raises(UsageError, match=r"projects is no option of pypi\+…; known is project="):
        mirror.follow()
