"""Where a run's files and cfetch's own are, with one destination and with several."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.run.directories import find_destinations, find_roots, find_timeline, is_shared
from tests.crash.test_real_faults import namespaces


def found(*to, state=None):
    return find_destinations(Settings(to=to, state=state))


def test_one_directory_holds_its_own_state(tmp_path, monkeypatch):
    """The destination is absolute from the start: whoever changes directory later changes nothing."""
    monkeypatch.chdir(tmp_path)
    here = found("to")
    assert here == ((tmp_path / "to",), tmp_path / "to/.cfetch", None)
    assert not is_shared(Settings(to=("to",)))


@pytest.mark.parametrize(("to", "state"), [("to", None), ("/to", "state")])
def test_a_working_directory_that_cannot_be_used_is_named(tmp_path, monkeypatch, to, state):
    """No plan could hold a name that is not UTF-8; one that was removed has no name."""
    broken = tmp_path / "\udcff"
    broken.mkdir()
    monkeypatch.chdir(broken)
    with pytest.raises(ConfigError, match="must be UTF-8"):
        found(to, state=state)
    broken.rmdir()
    with pytest.raises(ConfigError, match="has been removed"):
        found(to, state=state)


def test_the_first_directory_holds_the_state(tmp_path):
    """An object store cannot; attempts lie on every directory, and the order given is kept."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    here = found("s3://bucket/prefix/", b, a)
    assert here.roots == ("s3://bucket/prefix", Path(b), Path(a))
    assert here.directories == (Path(b), Path(a))
    settings = Settings(to=("s3://bucket", b, a), heartbeat_interval=10.0, heartbeat_misses=1)
    state, volumes, heartbeats, bucket = find_timeline(settings)
    assert bucket is None
    assert (state, volumes) == (Path(b, ".cfetch"), [Path(b, ".cfetch"), Path(a, ".cfetch")])
    assert (heartbeats.interval_s, heartbeats.misses) == (10.0, 1)
    assert not is_shared(settings)


def test_state_in_a_place_of_its_own_is_shared(tmp_path):
    """Wherever it is but in one of the destinations: others may have plans there."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    state = str(tmp_path / "state")
    assert found(a, b, state=state).state == Path(state)
    assert is_shared(Settings(to=(a, b), state=state))
    assert not is_shared(Settings(to=(a, b), state=f"{b}/.cfetch"))
    assert not is_shared(Settings(to=(a, b), state=f"{a}/.cfetch"))
    assert is_shared(Settings(to=("s3://bucket",), state=state))
    with_fences = [Path(state)]  # a store has no directory for those of attempts
    assert find_timeline(Settings(to=("s3://bucket",), state=state))[:2] == (Path(state), with_fences)


def test_the_timeline_is_found_in_whichever_order_the_destinations_are_given(tmp_path):
    """The first directory gets it; later it is where it was, so that two orders do not make two timelines."""
    a, b = tmp_path / "a", tmp_path / "b"
    assert found(str(b), str(a)).state == b / ".cfetch"
    (b / ".cfetch/timeline").mkdir(parents=True)
    assert found(str(a), str(b)).state == b / ".cfetch"


def test_a_store_may_have_the_timeline(tmp_path, monkeypatch):
    """If all destinations are stores; what is this machine's own stays here, apart for each such state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    where = find_destinations(Settings(to=("s3://b/c",), state="gs://a/"))
    assert where.bucket == "gs://a"
    assert where.state.parent == tmp_path / "cfetch/stores"
    assert where.state != find_destinations(Settings(to=("s3://b/c",), state="gs://b")).state
    with pytest.raises(ConfigError, match="is a directory: only plans for object stores"):
        find_destinations(Settings(to=("s3://b/c", str(tmp_path)), state="gs://a"))


def test_a_store_as_the_state_needs_a_home_for_what_stays_here(monkeypatch):
    """The error names what was given and the option that helps."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    with pytest.raises(ConfigError, match=r"state is gs://a, .* name a directory with --state"):
        find_destinations(Settings(to=("s3://b/c",), state="gs://a"))


def test_object_stores_alone_need_a_state():
    """The error names what was given and the option that helps."""
    with pytest.raises(ConfigError, match=r"to is s3://a, gs://b/c, .* name a directory with --state"):
        found("s3://a", "gs://b/c")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("a", "a", "names a and a, which are the same"),
        ("a", "./b/../a/", "which are the same"),
        ("a", "link", "names a and link, which are the same"),
        ("a", "a/below/it", "names a/below/it, which lies in a;"),
        ("link/below", "a", "names link/below, which lies in a;"),
        (".", "a", "names a, which lies in .;"),
        ("s3://b/p", "s3://b/p/", "which are the same"),
        ("s3://b/p", "s3://b/p/q", "names s3://b/p/q, which lies in s3://b/p;"),
        ("s3://b/p", "s3://b", "names s3://b/p, which lies in s3://b;"),
    ],
)
def test_destinations_that_are_not_apart(tmp_path, monkeypatch, one, other, words):
    """The same place twice, or one within another, through links too: both are named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(ConfigError) as caught:
        found(one, other)
    assert words in str(caught.value)


def test_destinations_that_only_look_alike(tmp_path, monkeypatch):
    """A name that begins like another's is another; so is a bucket of another store."""
    monkeypatch.chdir(tmp_path)
    assert len(find_roots(("a", "ab", "s3://a", "s3://ab", "gs://a", "s3:/a"))) == 6


@namespaces
def test_one_directory_under_two_names(tmp_path):
    """A bind mount has another path, and yet it is the same place."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ask = "import sys; from cfetch.run.directories import find_roots; find_roots(sys.argv[1:])"
    words = shlex.join([sys.executable, "-c", ask, str(tmp_path / "a"), str(tmp_path / "b")])
    script = f"mount --bind {shlex.quote(str(tmp_path))}/a {shlex.quote(str(tmp_path))}/b && {words}"
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "which are the same" in done.stderr
