"""Scenarios: what they say, what they refuse, and those that come with cfetch."""

import json
from typing import Any

import msgspec
import pytest

from cfetch.base.errors import ConfigError
from cfetch.plugins.lab.bench.network import HostShare, NetworkChange, NetworkModel, Slow, Stall, host_of
from cfetch.plugins.lab.bench.scenario_file import find_scenario, load_scenario, scenario_names

FULL = """
description: all keys
seed: 9
concurrency: 4
files:
  - {count: 30, size: 1KiB}
  - {count: 20, size: 2KiB}
faults:
  - {kind: slow, fraction: 10%, rate: 16KiB/s, first: 2}
  - {kind: status, fraction: 0.02, status: 503, retry_after: 2s}
options:
  padding: 1s
  sequential-fallback: yes
"""


@pytest.fixture
def write_scenario(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def test_every_key_arrives(write_scenario):
    """A scenario with all keys reads as written; its name is the file's."""
    scenario = load_scenario(write_scenario(FULL))
    assert (scenario.name, scenario.description, scenario.seed) == ("mine", "all keys", 9)
    assert [(group.count, group.size_bytes) for group in scenario.groups] == [(30, 1024), (20, 2048)]
    slow, status = (rule.fault for rule in scenario.rules)
    assert (slow.kind, slow.rate_bps, slow.first) == ("slow", 16384, 2)
    assert (status.status, status.retry_after_s, status.first) == (503, 2, 1)
    assert scenario.arguments() == ["--concurrency", "4", "--padding", "1s", "--sequential-fallback"]
    assert scenario.size_bytes == 70 * 1024


def test_the_manifest_names_every_file_once_with_its_size(write_scenario):
    """The manifest is the native one, shuffled, and agrees with what the origin is told."""
    scenario = load_scenario(write_scenario(FULL))
    document = json.loads(scenario.manifest("http://x/"))
    rows = {row["url"]: row["size"] for row in document["files"]}
    assert document["base_url"] == "http://x/"
    assert rows == {
        name: content.size_bytes for name, content in scenario.spec(faulty=True).contents().items()
    }
    assert list(rows) != sorted(rows)


def test_files_of_further_hosts_are_asked_for_there(write_scenario):
    """As the network's rule shares them out, by their places in the manifest."""
    scenario = load_scenario(write_scenario(FULL))
    hosts = (HostShare(), HostShare(share=2))
    network = NetworkModel(hosts=hosts)
    scenario = msgspec.structs.replace(scenario, network=network)
    document = json.loads(scenario.manifest("http://a/", "http://b/"))
    assert document["base_url"] == "http://a/"
    for index, (row, name) in enumerate(zip(document["files"], scenario.names, strict=True)):
        assert row["url"] == ("http://b/" if host_of(network, index) else "") + name
    assert {row["url"].startswith("http://b/") for row in document["files"]} == {True, False}


def test_the_ideal_network_has_no_bad_connections_but_all_else(write_scenario):
    """What no client can do anything about stays: rates, link, changes, hosts."""
    bad: dict[str, Any] = {"slow": Slow(fraction=0.5, rate_bps=1), "stalls": Stall(fraction=0.5)}
    change = NetworkChange(at_s=1, factor=2)
    stays: dict[str, Any] = {"rate_bps": 5.0, "link_bps": 9.0, "changes": (change,), "requests": 3}
    scenario = msgspec.structs.replace(
        load_scenario(write_scenario(FULL)), network=NetworkModel(**bad, **stays)
    )
    assert scenario.spec(faulty=True).network == scenario.network
    assert scenario.spec(faulty=False).network == NetworkModel(**stays)
    assert scenario.spec(faulty=False).faults == {}


def test_a_manifest_without_sizes(write_scenario):
    """Where the network's servers tell none either."""
    scenario = load_scenario(write_scenario(FULL))
    scenario = msgspec.structs.replace(scenario, network=NetworkModel(sizes=False))
    assert {tuple(row) for row in json.loads(scenario.manifest("http://x/"))["files"]} == {("url",)}


def test_faults_are_exact_and_left_out_of_the_ideal(write_scenario):
    """Five slow, one refused; the ideal run's origin is told of none."""
    scenario = load_scenario(write_scenario(FULL))
    kinds = [fault.kind for script in scenario.spec(faulty=True).faults.values() for fault in script]
    assert sorted(kinds) == ["slow"] * 5 + ["status"]
    assert scenario.spec(faulty=False).faults == {}


def test_the_same_file_makes_the_same_workload(write_scenario):
    """Manifest and faults follow from the text alone."""
    first, second = load_scenario(write_scenario(FULL)), load_scenario(write_scenario(FULL))
    assert first.manifest("http://x/") == second.manifest("http://x/")
    assert first.faults == second.faults
    assert first.faults != load_scenario(write_scenario(FULL.replace("seed: 9", "seed: 8"))).faults


FILES = "files: [{count: 2, size: 1KiB}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1", "'files' is missing"),
        ("files: []", "'files' is missing"),
        ("files: 3", "'files'.*must be a list"),
        ("files: [{count: 2}]", "'files\\[0\\]' must have both count and size"),
        ("files: [{count: 2, size: 1KiB, sise: 3}]", "unknown key 'files\\[0\\].sise'"),
        ("files: [{count: 0, size: 1KiB}]", "'files\\[0\\].count' is '0'.*from 1 to"),
        ("files: [{count: 1.5, size: 1KiB}]", "'files\\[0\\].count'"),
        ("files: [{count: 2, size: [1]}]", "'files\\[0\\].size'"),
        ("files: [5]", "'files\\[0\\]' must be a mapping"),
        (FILES + "sede: 1", "unknown key 'sede'; known keys: description, seed"),
        (FILES + "seed: -1", "'seed' is '-1'"),
        (FILES + "concurrency: 0", "'concurrency' is '0'"),
        (FILES + "description: [a]", "'description'"),
        (FILES + "faults: [{kind: slow, fraction: 1%}]", "needs 'rate_bps'"),
        (FILES + "faults: [{kind: odd, fraction: 1%}]", "'faults\\[0\\].kind' is 'odd'.*one of slow, stall"),
        (FILES + "faults: [{kind: slow, rate: 1KiB}]", "'faults\\[0\\]' must have both kind and fraction"),
        (FILES + "faults: [{kind: slow, fraction: 2, rate: 1}]", "'fraction'.*not between 0 and 1"),
        (FILES + "faults: [{kind: slow, fraction: many, rate: 1}]", "'faults\\[0\\].fraction'"),
        (FILES + "faults: [{kind: slow, fraction: nan, rate: 1}]", "'fraction'"),
        (FILES + "options: {padding: soon}", "'options.padding' is 'soon'"),
        (
            FILES + "options: {paddin: 1s}",
            "'options.paddin' cannot be set: cfetch download has no such option",
        ),
        (FILES + "options: {metrics: x}", "'options.metrics' cannot be set: the bench sets it itself"),
        (FILES + "options: [padding]", "'options'.*must be a mapping"),
    ],
)
def test_a_wrong_scenario_is_refused_by_file_and_key(write_scenario, text, message):
    """The error names the file, the key and what is allowed."""
    with pytest.raises(ConfigError, match=message) as caught:
        load_scenario(write_scenario(text))
    assert "mine.yaml" in str(caught.value)


def test_a_name_that_no_scenario_has(tmp_path):
    """The known ones are listed; a file that is not there is named."""
    with pytest.raises(ConfigError, match=r"no scenario 'nope'.*clean-16k.*stragglers"):
        find_scenario("nope")
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        find_scenario(str(tmp_path / "gone.yaml"))


def test_a_scenario_may_be_given_by_its_file(write_scenario):
    """A path is a scenario too."""
    assert find_scenario(str(write_scenario(FULL))).seed == 9


@pytest.mark.parametrize("name", scenario_names())
def test_each_scenario_that_comes_with_cfetch_reads(name):
    """It reads, has files, says what it shows, and a clean one has no faults."""
    scenario = find_scenario(name)
    assert scenario.names
    assert scenario.description
    assert bool(scenario.rules or scenario.network) != name.startswith("clean")


def test_the_promised_scenarios_are_there():
    """The work that the project is measured by, to the letter."""
    assert scenario_names() == [
        "clean-16k",
        "clean-1m",
        "clean-huge",
        "clean-large",
        "clean-medium",
        "clean-small",
        "million",
        "mixed-sizes",
        "resets",
        "stragglers",
        "stragglers-quick",
    ]
    scenario = find_scenario("stragglers")
    assert (len(scenario.names), scenario.size_bytes, len(scenario.faults)) == (500, 500 << 20, 10)
    assert {script[0].rate_bps for script in scenario.faults.values()} == {16 << 10}
    assert scenario.arguments() == []  # nothing is set by hand
