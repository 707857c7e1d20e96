"""A package index in the form of PEP 691: new files, files and projects that have gone, caches."""

import hashlib
import json
from collections.abc import Callable

import pytest

from cfetch.base.errors import Interrupted, Refused, StaleAnswer, Transient, UsageError
from tests.plugins.follow.follow_world import PollClock
from tests.plugins.follow.upstream_site import Mirror, open_site


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
    monkeypatch.setattr("cfetch.plugins.follow.backends.package_index.PROJECTS", 2)
    for name in "abcde":
        index.publish(name, f"{name}.whl")
    index.projects["c"] = (index.projects["b"][0], ("c.whl",))
    assert mirror.follow().files.done == 5
    order = [path for path in index.asked if path.startswith("/simple/") and path != "/simple/"]
    assert [sorted(order[:3]), sorted(order[3:])] == [
        [f"/simple/{name}/" for name in names] for names in ("abc", "de")
    ]


def test_some_projects_by_name(index, mirror):
    """The index, which is 40 MB, is asked for only to see whether one has really gone."""
    for name in "abc":
        index.publish(name, f"{name}.whl")
    mirror.feed += "?project=a&project=c&project=never"
    assert mirror.follow().files.done == 2
    index.publish("a", "a.whl", "a2.whl")
    mirror.follow()
    assert (mirror.names(), "/simple/" in index.asked) == (["a/a.whl", "a/a2.whl", "c/c.whl"], False)
    index.publish("c")
    mirror.follow()
    assert mirror.names() == ["a/a.whl", "a/a2.whl"]


@pytest.mark.parametrize("listed", ["A-B", "a_b"])
def test_a_404_of_a_named_project_is_no_delete_while_the_index_names_it(index, mirror, monkeypatch, listed):
    """In whatever form of its name."""
    index.publish("a.b", "a.whl")
    mirror.feed += "?project=a.b"
    mirror.follow()
    index.projects[listed] = index.projects.pop("a.b")
    with pytest.raises(Transient, match=r"a\.b of .* is not there, but the index names it"):
        mirror.follow()
    assert mirror.names() == ["a.b/a.whl"]


def test_an_old_index_does_not_say_that_a_named_project_has_gone(index, mirror):
    old = index.list_projects()
    index.serial = 10
    index.publish("a", "a.whl")
    mirror.feed += "?project=a"
    mirror.follow()
    index.publish("a")
    index.list_projects = lambda: old
    with pytest.raises(StaleAnswer, match=r"the index .* has gone back, from serial 13 to 0"):
        mirror.follow()
    assert mirror.names() == ["a/a.whl"]


def test_an_old_index_that_was_seen_before_does_not_say_it_either(index, mirror):
    """Its 304 is as old as itself."""
    index.publish("a", "a.whl")
    mirror.feed += "?project=a&project=c"

    def go_back():
        del index.projects["c"]
        index.serial = 6

    steps: list[Callable[[], None]] = [
        lambda: index.publish("a"),  # so that the index is asked for
        lambda: index.publish("c", "c.whl"),
        go_back,
    ]

    def polled(number):
        has_come = index.serial != 9 or "c/c.whl" in mirror.names()  # the clock leaps, so a try may fail
        if (not steps and has_come) or number > 50:
            raise Interrupted(2)
        if has_come:
            steps.pop(0)()

    with pytest.raises(Interrupted):
        mirror.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
    assert mirror.names() == ["c/c.whl"]
    assert any("the index" in line and "has gone back, from serial 9 to 6" in line for line in mirror.lines)


def test_an_old_page_of_a_named_project_is_not_taken(index, mirror):
    """It would bring back what has gone, and delete what is new."""
    index.publish("a", "a.whl")
    old = index.projects["a"]
    index.publish("a", "b.whl")
    mirror.feed += "?project=a"
    mirror.follow()
    new, index.projects["a"] = index.projects["a"], old
    with pytest.raises(StaleAnswer, match=r"the project a of .* has gone back, from serial 6 to 3"):
        mirror.follow()
    index.projects["a"] = new
    mirror.follow()
    assert mirror.names() == ["a/b.whl"]


def test_an_old_index_is_not_taken(index, mirror):
    """It lacks new projects, which have not gone. A follower without --once waits for the new one."""
    index.publish("a", "a.whl")
    old = index.list_projects(), index.serial
    index.publish("b", "b.whl")
    mirror.follow()
    index.list_projects, index.serial = (lambda: old[0]), old[1]
    with pytest.raises(StaleAnswer, match=r"the index .* has gone back, from serial 6 to 3; with --resync"):
        mirror.follow()

    def polled(number):
        if number == 1:
            del index.list_projects
            index.serial = 6
            index.publish("b", "b.whl", "b2.whl")
        elif "b/b2.whl" in mirror.names() or number > 50:
            raise Interrupted(2)

    with pytest.raises(Interrupted):
        mirror.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
    assert mirror.names() == ["a/a.whl", "b/b.whl", "b/b2.whl"]


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


@pytest.mark.parametrize("whose", ["the projects'", "its own"])
def test_an_index_without_serials_is_refused(index, mirror, whose):
    index.publish("a", "a.whl")
    index.states_serials = whose == "its own"
    if index.states_serials:
        index.serial = None
    with pytest.raises(Refused, match=r"states no serials.*\?project=NAME"):
        mirror.follow()


def test_an_unknown_option_is_named(mirror):
    mirror.feed += "?projects=a"
    with pytest.raises(UsageError, match=r"projects is no option of pypi\+…; known is project="):
        mirror.follow()
