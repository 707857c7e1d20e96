"""Plug-ins of another distribution, by the real command: nothing of cfetch knows any of them."""

import json
import os
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.plugins.outside.distribution import write_distribution

PROJECT = Path(__file__).parents[3]
BODY = b"a" * 100_000


class Quiet(SimpleHTTPRequestHandler):
    """Serves a directory and writes no log."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the distribution."""
    folder = tmp_path_factory.mktemp("site-packages")
    write_distribution(folder)
    return folder


@pytest.fixture
def cfetch(installed, tmp_path):
    """The command in a process of its own, which finds the distribution on Python's path."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
    env |= {
        "PYTHONPATH": f"{PROJECT}{os.pathsep}{installed}",
        "OUTSIDE_LOG": str(tmp_path / "log"),
        "COLUMNS": "200",
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "cfetch", *map(str, words)],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


def test_a_format_a_scheme_a_listener_and_a_policy_in_one_run(cfetch, tmp_path):
    """The format is recognised by its sign, the scheme is downloaded, and the others are told of it."""
    (tmp_path / "list").write_text("== pairs ==\nx/one.bin <- mem://here/a.bin\ntwo.bin <- mem://here/gone\n")
    words = ("--listener", "diary", "--policy", "lenient", "--check-interval", "100ms")
    ran = cfetch("download", "list", "--to", "to", *words)
    assert ran.returncode == 1, ran.stderr
    assert "there is no /gone in memory" in ran.stderr
    assert (tmp_path / "to" / "x" / "one.bin").read_bytes() == BODY
    noted = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(noted) == [["two.bin", "failed"], ["x/one.bin", "done"]]
    assert (tmp_path / "log.policy").exists()


def test_a_list_and_a_file_at_an_address_of_the_scheme(cfetch, tmp_path):
    """Such an address is the name of a manifest too, and of a file for get; a login has to be allowed."""
    ran = cfetch("download", "mem://here/list.pairs", "--to", "to")
    assert (ran.returncode, (tmp_path / "to" / "of-list.bin").read_bytes()) == (0, BODY), ran.stderr
    ran = cfetch("get", "mem://here/a.bin", "--to", "to")
    assert (ran.returncode, (tmp_path / "to" / "a.bin").read_bytes()) == (0, BODY), ran.stderr
    ran = cfetch("get", "mem://user:secret@here/a.bin", "--to", "to")
    assert (ran.returncode, "userinfo" in ran.stderr, "secret" in ran.stderr) == (2, True, False)


def test_a_feed(cfetch, tmp_path):
    """Cfetch follow opens it by its name, and keeps its log."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "names.txt").write_text("a.bin\n")
    (tmp_path / "site" / "a.bin").write_bytes(BODY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site"))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"lines+http://127.0.0.1:{server.server_port}/names.txt"
        ran = cfetch("follow", address, "--to", "to", "--once")
        assert (ran.returncode, (tmp_path / "to" / "a.bin").read_bytes()) == (0, BODY), ran.stderr
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    unknown = cfetch("follow", "nothing+http://h/", "--to", "to", "--once")
    assert "lines+http://…" in unknown.stderr


def test_a_verb(cfetch):
    """It is one of the commands; the help names it, and a broken one beside it hides none."""
    assert cfetch("greet", "you").stdout == "hello you\n"
    shown = cfetch("--help")
    assert "greet" in shown.stdout
    assert "the plug-in broken (verbs) of the package outside-things 0.7 failed" in shown.stderr


def test_an_installed_listener_gets_nothing_unasked(cfetch, tmp_path):
    """What stands on the path is not yet wanted; the setting or its variable names it."""
    (tmp_path / "list").write_text("== pairs ==\na <- mem://here/a.bin\n")
    assert cfetch("download", "list", "--to", "to").returncode == 0
    assert not (tmp_path / "log").exists()
    (tmp_path / "mine.yaml").write_text("listener: diary\n")
    assert cfetch("download", "list", "--to", "to", "--config", "mine.yaml").returncode == 0
    assert "skipped" in (tmp_path / "log").read_text()


def test_a_listener_that_fails_ends_no_run(cfetch, tmp_path):
    """It is named once with its package, the others go on, and the file is in place."""
    (tmp_path / "list").write_text("== pairs ==\na <- mem://here/a.bin\n")
    ran = cfetch("download", "list", "--to", "to", "--listener", "failing", "--listener", "diary")
    assert (ran.returncode, (tmp_path / "to" / "a").read_bytes()) == (0, BODY), ran.stderr
    said = "the plug-in failing (listeners) of the package outside-things 0.7 failed with ValueError"
    assert ran.stderr.count(said) == 1
    assert (tmp_path / "log").read_text().count("done") == 1


def test_the_suites_are_run_over_classes_of_somebody_else(installed, tmp_path):
    """With nothing of this project's tests, and no help of its configuration."""
    path = f"{PROJECT}{os.pathsep}{installed}"
    env = os.environ | {"PYTHONPATH": path, "OUTSIDE_LOG": str(tmp_path / "log")}
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", installed]
    ran = subprocess.run(
        [sys.executable, *command, installed / "test_outside_things.py"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "9 passed" in ran.stdout


LACKS = (
    "the plug-in lost (sources) of the package outside-things 0.7 needs the library nobody_has_it, which is "
    "not installed: pip install 'outside-things[fancy]'"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["broken"], "the plug-in broken (verbs) of the package outside-things 0.7 failed with ImportError"),
        (
            ["download", "list", "--listener", "broken"],
            "the plug-in broken (listeners) of the package outside-things 0.7 failed with ImportError",
        ),
        (["download", "list", "--listener", "none"], "must be one of broken, diary, failing"),
        (
            ["download", "list", "--engine", "broken"],
            "the plug-in broken (engines) of the package outside-things 0.7 failed with ImportError",
        ),
        (
            ["follow", "torn+http://h/", "--to", "x", "--once"],
            "the plug-in torn (feeds) of the package outside-things 0.7 failed with ImportError",
        ),
        (["get", "lost://h/a"], LACKS),
        (
            ["download", "bad"],
            "the plug-in pairs (formats) of the package outside-things 0.7 failed with ZeroDivisionError",
        ),
    ],
)
def test_what_does_not_load_is_named_with_its_package(cfetch, tmp_path, words, said):
    """It is no bug in cfetch, so the exit code is that of a wrong use; an extra that is missing is named."""
    (tmp_path / "list").write_text("== pairs ==\na <- mem://here/a.bin\n")
    (tmp_path / "bad").write_text("== pairs ==\nboom <- mem://here/a.bin\n")
    ran = cfetch(*words)
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
