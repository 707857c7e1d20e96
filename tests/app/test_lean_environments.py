"""Environments that lack what most have: a home, a known user, standard input, memory."""

import os
import subprocess
import sys

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.run.directories import find_destinations
from cfetch.wire.network import make_network


@pytest.fixture
def homeless(monkeypatch):
    """A user without HOME whom the system does not know, as in many a container."""

    def nobody(uid):
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)


def test_what_needs_a_home_says_so(homeless):
    """Each names what to set instead; nothing ends as a bug."""
    with pytest.raises(ConfigError, match="no home directory; name the file in NETRC"):
        make_network(NetworkOptions(netrc=True), {})
    with pytest.raises(ConfigError, match="no home directory"):
        find_destinations(Settings(to=("s3://b/p",), state="s3://b/state"))


def run(*words, before="pass", after=(), **how):
    """The command in a process of its own, after ``before``; ``after``: words of the shell behind it."""
    code = f"import os, sys; {before}; sys.argv[0] = 'cfetch'; from cfetch.cli.app import main; main()"
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {" ".join(after)}', "sh", sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60, **how,
    )  # fmt: skip


@pytest.mark.parametrize("home", [None, "/dev/null/home"])
def test_completion_without_a_home_is_no_bug(home):
    """Nor is a home in which nothing can be written."""
    env = {key: value for key, value in os.environ.items() if key != "HOME"} | (
        {"HOME": home} if home else {}
    )
    nobody = "import pwd; pwd.getpwuid = {}.__getitem__"
    env |= {"SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = run("--install-completion", "bash", before=nobody, env=env)
    assert (done.returncode, "home directory" in done.stderr) == (3, True), done.stderr


def test_a_list_on_a_closed_standard_input_is_a_mistake_of_the_call(tmp_path):
    """It is not this machine's fault: the message says how to give the list."""
    done = run("download", "-", "--to", tmp_path / "to", after=["<&-"])
    assert (done.returncode, "standard input: it is closed; name a file" in done.stderr) == (2, True)
