"""The contract of ``Entries``: whatever holds the entries of a run, the pool can rely on the same."""

import json
from typing import Any

import pytest

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entries import Entries
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.simulation.plan import SimPlan
from cfetch.tasks.shares.task import EntryList
from tests.engine.drive import ListPlan, entry_of

BODIES = [b"five!", b"", b"two", b"unknown"]
HOSTS = ["b.test", "a.test:81", "b.test", "c.test"]


def made_entries():
    """Four entries at three hosts; the last one states no size, two have a batch, one has a mirror."""
    mirrors = [(), (SecretUrl("http://m.test/f1"),), (), ()]
    return [
        entry_of(number, f"f{number}", body, host=host, size=number < 3, batch=batch, mirrors=mirrors[number])
        for number, (body, host, batch) in enumerate(zip(BODIES, HOSTS, [None, "x", "x", None], strict=True))
    ]


@pytest.fixture(params=["plan", "list of a task", "simulation", "list of the tests"])
def entries(request, frozen) -> Entries:
    """The same port, four times."""
    rows = [
        {
            "url": entry.url.value,
            "path": entry.path,
            "batch": entry.batch,
            "mirrors": [mirror.value for mirror in entry.mirrors],
            **({} if entry.size_bytes is None else {"size": entry.size_bytes}),
        }
        for entry in made_entries()
    ]
    groups = (Group("a", 3, 5), Group("b", 2, 0))
    made: dict[str, Any] = {
        "plan": lambda: frozen(json.dumps({"files": rows})),
        "list of a task": lambda: EntryList(made_entries(), ()),
        "simulation": lambda: SimPlan(Scenario(name="mine", groups=groups, network=None, concurrency=4)),
        "list of the tests": lambda: ListPlan(made_entries()),
    }
    port: Entries = made[request.param]()
    return port


def test_the_columns_are_those_of_the_entries(entries):
    """Sizes and hosts say of each index what its entry says."""
    indexes = range(len(entries))
    assert len(entries.sizes) == len(entries.host_of) == len(entries) > 3
    for index in indexes:
        entry = entries.entry(index)
        assert entries.sizes[index] == (-1 if entry.size_bytes is None else entry.size_bytes)
        assert entries.hosts[entries.host_of[index]] == entry.url.host()


def test_an_entry_reads_the_same_twice(entries):
    """It may be asked for again, as when its batch moves; paths are of one entry each."""
    indexes = range(len(entries))
    first = [entries.entry(index) for index in indexes]
    assert first == [entries.entry(index) for index in indexes]
    assert len({entry.path for entry in first}) == len(entries)


def test_hosts_are_named_once(entries):
    """Each of them has an entry."""
    assert len(set(entries.hosts)) == len(entries.hosts)
    assert set(entries.host_of) == set(range(len(entries.hosts)))


def test_batches_have_numbers_from_zero_or_there_are_none(entries):
    """Entries of one name have one number, -1 is for those without; a task's list has no batches at all."""
    if entries.batch_of is None:
        return
    numbers: dict[str | None, int] = {}
    for index, number in enumerate(entries.batch_of):
        name = entries.entry(index).batch
        assert (number == -1) == (name is None)
        assert numbers.setdefault(name, number) == number
    assert set(numbers.values()) - {-1} == set(range(len(set(numbers) - {None})))


def test_it_is_known_whether_any_entry_has_mirrors(entries):
    """Without reading one."""
    has_mirrors = any(entries.entry(index).mirrors for index in range(len(entries)))
    assert entries.names_mirrors == has_mirrors


def test_headers_are_pairs(entries):
    """They go with every request, so they can be made a mapping."""
    assert dict(entries.headers) == {}
