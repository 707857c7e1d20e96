"""Other tools beside cfetch: fair lists, checked files, honest tables."""

import shutil
import sys

import pytest

from cfetch.plugins.lab.bench.child import Outcome
from cfetch.plugins.lab.bench.peers import PEERS, Peer, find_installed, find_program, race
from cfetch.plugins.lab.bench.scenario_file import load_scenario
from cfetch.plugins.lab.views.bench_document import Trial

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
    open(f"{out}/{name}", "wb").write(urllib.request.urlopen(url).read())
"""


def test_contenders_run_in_turn_are_checked_and_sorted(scenario, tmp_path):
    """Whole sets come first however fast the others were, and every trial counts."""
    peers = [fake(tmp_path, "bad", "print('nothing done')"), fake(tmp_path, "good", GOOD)]
    said: list[str] = []
    table = race(scenario, peers, tmp_path, rounds=2, limit_s=60, say=said.append)
    assert {contender.name: [trial.right for trial in contender.trials] for contender in table} == {
        "good": [5, 5],
        "cfetch": [5, 5],
        "bad": [0, 0],
    }
    assert table[-1].name == "bad"
    assert table[0].wall_s <= table[1].wall_s
    assert len(said) == 6


def test_a_killed_contender_is_reported_as_such(scenario, tmp_path, monkeypatch):
    """Its time is the time it was given, and what it left is still counted."""
    killed = Outcome(wall_s=9.0, cpu_s=1.0, exit_code=-9, killed=True, output=b"", error="")
    monkeypatch.setattr("cfetch.plugins.lab.bench.peers.run_child", lambda *_, **__: killed)
    (contender,) = race(scenario, [], tmp_path, rounds=1, limit_s=9, say=QUIET)
    assert contender.trials == [Trial(wall_s=9.0, cpu_s=1.0, exit_code=-9, killed=True, right=0)]


def test_commands_are_shown_without_this_machine_s_paths(scenario, tmp_path):
    """Letters stand for files, the number of connections is stated."""
    (cfetch,) = race(scenario, [], tmp_path, rounds=1, limit_s=30, say=QUIET)
    assert cfetch.command == "cfetch download M --to O --quiet --concurrency 3"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_installed_peer_brings_every_file(peer, scenario, tmp_path):
    """Its command line is right: all files, by their names, byte for byte."""
    if find_program(peer) is None:
        pytest.skip(f"{peer.command.split()[0]} is not installed on this machine")
    table = race(scenario, [peer], tmp_path, rounds=1, limit_s=30, say=QUIET)
    (mine,) = (contender for contender in table if contender.name == peer.name)
    assert [(trial.right, trial.exit_code) for trial in mine.trials] == [(5, 0)]
    assert mine.version[0].isdigit()


def test_only_installed_tools_run(monkeypatch):
    """A machine with curl alone runs both of curl's lines and nothing else."""
    monkeypatch.setattr(shutil, "which", lambda name, **_: "/bin/curl" if name == "curl" else None)
    assert [peer.name for peer in find_installed()] == ["curl -Z", "curl -Z, tuned"]
