"""A cluster in virtual time, with the real cut, schedule, detector and hub: laws that hold for every seed.

Ten million files on a thousand executors: ``python benchmarks/scale_simulation.py`` and docs/scale.md.
"""

import gc
import sys
from array import array
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from scale_engine import ROWS, play
from scale_model import Cluster
from scale_paper import limits_of, paper
from scale_world import ALL, World, clean, job_of

from cfetch.plugins.lab.bench.simulation import exchange
from cfetch.tasks.shares.cut import SharesCut

WORLD = World(
    files=6_000,
    executors=10,
    slots=2,
    concurrency=8,
    hosts=40,
    slow_executors=0.1,
    lost_an_hour=2.0,
)


def run(world, rules, cut=None, *, watched=False):
    return Cluster(world, ALL[rules], job_of(world, cut=cut), watched=watched).run()


@pytest.mark.parametrize("rules", ALL)
def test_every_file_stands_in_the_end(rules):
    """Whatever is slow, lost or done twice: what stands is not fetched again but for what was in hand."""
    world = WORLD._replace(seed=3, lost_an_hour=30.0)
    result = run(world, rules)
    assert np.isfinite(result.end_s).all()
    assert result.end_s.max() <= result.makespan_s
    assert result.fetched.min() == 1
    assert (result.fetched > 1).sum() <= result.copies * world.concurrency
    assert result.lost > 0
    assert result.skipped > 0


def test_one_seed_is_one_story():
    """With the hub, copies and lost executors in it."""
    first, again, other = (run(WORLD._replace(seed=seed, per_host=8), "both and hub") for seed in (1, 1, 2))
    assert (first.end_s == again.end_s).all()
    assert first.makespan_s == again.makespan_s != other.makespan_s


def test_what_is_done_about_stragglers_helps():
    """The detector against slow connections, copies against a slow executor, the hub against both."""
    connections = WORLD._replace(slow_executors=0.0, lost_an_hour=0.0)
    assert run(connections, "detector").until(0.99) < 0.8 * run(connections, "none").until(0.99)
    assert run(connections, "detector").makespan_s < 0.5 * run(connections, "none").makespan_s
    executors = WORLD._replace(slow_connections=0.0, lost_an_hour=0.0)
    assert run(executors, "speculation").makespan_s < 0.7 * run(executors, "none").makespan_s
    assert run(executors, "both").makespan_s < 0.7 * run(executors, "detector").makespan_s


def test_the_hub_knows_normal_speed_where_a_task_does_not():
    """A share of a single file has nothing to compare it with."""
    world = WORLD._replace(
        files=400, slow_executors=0.0, lost_an_hour=0.0, slow_connections=0.1, median_bytes=2e8, sigma=0.1
    )
    alone = SharesCut(array("I", range(world.files)), [7.0] * world.files)
    assert run(world, "detector", alone).rescues == 0
    with_hub = run(world, "both and hub", alone)
    assert with_hub.rescues > 20
    assert with_hub.makespan_s < 0.8 * run(world, "both", alone).makespan_s


@pytest.mark.parametrize("rules", ["both", "both and hub"])
def test_the_limit_of_a_host_is_kept(rules):
    """By fixed shares where there is one for each task and nothing is done twice, by leases always."""
    world, per_host = clean(WORLD)._replace(files=3_000, hosts=3), 48
    if rules == "both and hub":
        world, per_host = world._replace(slow_executors=0.1, slow_connections=0.02), 9
    most = run(world._replace(per_host=per_host), rules, watched=True).most_at_host
    assert per_host // 2 < max(most.values()) <= per_host


def test_the_cut_keeps_all_slots_at_work():
    """A few shares each, none much longer than the others. Worse cuts of the same files are seen."""
    world = clean(WORLD)._replace(files=12_000, largest_bytes=16 << 20, hosts=7)
    cut = job_of(world).cut
    assert run(world, "none").ratio < 1.3
    uneven = SharesCut(array("I", [max(0, share - 8) for share in cut.share_of]), cut.cost_s[8:])
    assert run(world, "none", uneven).ratio > 1.6


def test_the_paper():
    """More executors never make the network's part longer; docs/scale.md has the table as it is."""
    assert limits_of(10**6, 64 << 10, 10).gives_way == ()
    assert "driver's disk" in limits_of(10**9, 64 << 10, 1000).gives_way
    for files in (10**6, 10**9):
        times = [limits_of(files, 16 << 20, executors).network_s for executors in (10, 100, 1000)]
        assert times == sorted(times, reverse=True)
    assert paper() in (Path(__file__).parents[3] / "docs/scale.md").read_text()


@pytest.mark.parametrize("rules", ["policy, speculation, hub", "policy and speculation"])
def test_tasks_with_the_real_engine_keep_to_what_a_host_bears(rules):
    """A few hosts refuse most tasks: with the hub no file is lost to 429s, and few requests are refused."""
    world = WORLD._replace(files=1_500, executors=5, slots=2, hosts=4, lost_an_hour=0.0, seed=4)
    before = (exchange.QUANTUM_S, gc.get_threshold())
    result = play(rules, world, 6)
    assert (exchange.QUANTUM_S, gc.get_threshold()) == before  # other simulations are finer
    assert result["at_host"] <= 6
    assert result["makespan"] < 3.0
    if ROWS[rules][1].hub:
        assert result["failed"] == 0
        assert result["refused"] < 150
    else:
        assert result["refused"] > 300
