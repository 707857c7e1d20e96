"""Other tools beside cfetch: fair lists, checked files, honest tables."""

import shutil
import sys

import pytest

from cfetch.bench.peers import PEERS, Peer, installed, race
from cfetch.bench.scenario_file import load_scenario

QUIET = lambda _: None  # noqa: E731


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text("concurrency: 3\nfiles: [{count: 5, size: 2KiB}]")
    return load_scenario(path)


def fake(tmp_path, name, code):
    """A tool whose command line has all lists."""
    script = tmp_path / f"{name}.py"
    script.write_text(code)
    return Peer(name, f"{sys.executable} {script} {{L}} {{N}} {{K}} {{O}} {{C}}")


GOOD = """
import sys, urllib.request
urls, names, curl, out, connections = sys.argv[1:]
urls, names = open(urls).read().split(), open(names).read().split()
assert [url.rsplit("/", 1)[1] for url in urls] == names and connections == "3"
assert open(curl).read().count("output=") == len(names)
for url, name in zip(urls, names):
    open(f"{out}/{name}", "wb").write(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url).read())
"""


def test_contenders_run_in_turn_are_checked_and_sorted(scenario, tmp_path):
    """A right one, a wrong one and a hanging one: whole sets first, each trial counted, the killed one marked."""
    peers = [
        fake(tmp_path, "good", GOOD),
        fake(tmp_path, "bad", "print('nothing done')"),
        fake(tmp_path, "hangs", "import time; time.sleep(60)"),
    ]
    said = []
    table = race(scenario, peers, tmp_path, rounds=2, limit_s=4.0, say=said.append)
    by_name = {one.name: one for one in table}
    assert [trial.right for trial in by_name["good"].trials] == [5, 5]
    assert [trial.right for trial in by_name["cfetch"].trials] == [5, 5]
    assert [trial.right for trial in by_name["bad"].trials] == [0, 0]
    assert [trial.killed for trial in by_name["hangs"].trials] == [True, True]
    assert {table[0].name, table[1].name} == {"good", "cfetch"}
    assert len(said) == 8


def test_commands_are_shown_without_this_machine_s_paths(scenario, tmp_path):
    """Letters stand for files, the number of connections is stated."""
    (cfetch,) = race(scenario, [], tmp_path, rounds=1, limit_s=30, say=QUIET)
    assert cfetch.command == "cfetch download M --to O --quiet --concurrency 3"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_installed_peer_brings_every_file(peer, scenario, tmp_path):
    """Its command line is right: all files, by their names, byte for byte."""
    if shutil.which(peer.command.split()[0]) is None:
        pytest.skip(f"{peer.command.split()[0]} is not installed on this machine")
    table = race(scenario, [peer], tmp_path, rounds=1, limit_s=30, say=QUIET)
    (mine,) = (one for one in table if one.name == peer.name)
    assert [(trial.right, trial.exit_code) for trial in mine.trials] == [(5, 0)]
    assert mine.version[0].isdigit()


def test_only_installed_tools_run(monkeypatch):
    """A machine with curl alone runs both of curl's lines and nothing else."""
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/curl" if name == "curl" else None)
    assert [peer.name for peer in installed()] == ["curl -Z", "curl -Z, limits by hand"]
