"""Tests in forked processes: which process runs what, what a death costs, and what is shown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = """
import os, pytest
from tests.forked import GROUP, pytest_addoption, pytest_runtestloop

def pytest_collection_modifyitems(items):
    for item in items:
        if "together" in item.nodeid:
            item.stash[GROUP] = "together"

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    print("a server starts")
    yield os.getpid()
    with open(os.environ["ENDED"], "a") as file:
        print(os.getpid(), file=file)
"""
TESTS = """
import os, pytest

def write(name, what):
    with open(os.environ["WRITTEN"], "a") as file:
        print(name, what, file=file)

def test_that_dies(): os._exit(3)  # the first test of its process, which has no fixture to end

@pytest.mark.parametrize("number", range(3))
def test_of_one_function(number, server, tmp_path):
    assert server == os.getpid()
    write("function", os.getpid())
    write("directory", tmp_path.parent)

def test_together_a(server): write("together", os.getpid())
def test_that_fails():
    print("what", "this test said")
    os.write(1, b"what " + b"its commands said")
    assert 1 == 2
@pytest.mark.skip(reason="for a reason")
def test_that_is_left_out(): pass
def test_together_b(server): write("together", os.getpid())
"""


def run(place, tests, *words):
    """Run pytest on a module of tests; its output, and its exit code."""
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_it.py").write_text(tests)
    files = {"WRITTEN": str(place / "written"), "ENDED": str(place / "ended"), "PYTHONPATH": str(ROOT)}
    files |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=place, env=os.environ | files, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return result.stdout + result.stderr, result.returncode


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    place = tmp_path_factory.mktemp("mixed")
    output, code = run(place, TESTS, "--processes", "3", "-rs")
    written = [line.split() for line in (place / "written").read_text().splitlines()]
    return output, code, written, (place / "ended").read_text().split()


def test_all_but_the_one_that_dies_are_run(mixed):
    output, code, *_ = mixed
    assert "2 failed, 5 passed, 1 skipped" in output, output
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "ended with status 3 while it ran this test" in output
    assert "for a reason" in output


def test_a_function_and_a_group_run_in_one_process_each(mixed):
    _, _, written, _ = mixed
    for name, count in ("function", 3), ("together", 2):
        processes = [what for kind, what in written if kind == name]
        assert len(processes) == count
        assert len(set(processes)) == 1


def test_each_process_has_a_directory_and_ends_its_fixtures(mixed):
    _, _, written, ended = mixed
    assert all(Path(what).name.startswith("process-") for kind, what in written if kind == "directory")
    assert set(ended) == {what for kind, what in written if kind in ("function", "together")}


def test_a_test_is_shown_with_its_own_output(mixed):
    output, *_ = mixed
    assert output.count("what this test said") == 1
    assert output.count("what its commands said") == 1
    assert "assert 1 == 2" in output


def test_the_first_failure_ends_a_run_that_is_told_so(tmp_path):
    tests = """
import time

def test_that_fails(): assert 0
def test_that_takes_for_ever(): time.sleep(300)
"""
    output, code = run(tmp_path, tests, "--processes", "2", "-x")
    assert "1 failed" in output, output
    assert "stopping after 1 failures" in output
    assert code == pytest.ExitCode.TESTS_FAILED


def test_an_error_outside_of_tests_is_shown(tmp_path):
    tests = """
import atexit, os

def test_of_a_process(): atexit.register(os._exit, 7)
"""
    output, code = run(tmp_path, tests, "--processes", "2")
    assert "process-0 ended with status 7 after its tests" in output, output
    assert code == pytest.ExitCode.INTERNAL_ERROR
