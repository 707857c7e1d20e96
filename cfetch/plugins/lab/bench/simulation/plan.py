"""A scenario's files as a plan in memory; entries are made on demand: a million cost some megabytes."""

import random
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from cfetch.base.schemes import HTTP
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.fields import Headers
from cfetch.plugins.lab.bench.faults import Script
from cfetch.plugins.lab.bench.network import NetworkModel, host_of
from cfetch.plugins.lab.bench.scenario import Scenario


class SimPlan:
    """A scenario's ``Entries``.

    ``faults``: the scripts of the files that have one, by index. ``true_sizes`` are known to the servers;
    ``sizes`` are -1 if the scenario's manifest states none.
    """

    headers: Headers = ()
    batch_of = None
    names_mirrors = False

    def __init__(self, scenario: Scenario) -> None:
        network = scenario.network or NetworkModel()
        self._groups = scenario.groups
        self._starts = [0, *accumulate(group.count for group in scenario.groups)]
        count = self._starts[-1]
        self._places = array("I", range(count))
        random.Random(scenario.seed).shuffle(self._places)  # noqa: S311 - as Scenario.names
        self.true_sizes: Sequence[int] = array("q", map(self._size, range(count)))
        self.sizes: Sequence[int] = self.true_sizes if network.sizes else array("q", [-1]) * count
        self.hosts = tuple(map(str, range(len(network.hosts))))
        self.host_of: Sequence[int] = array("H", (host_of(network, index) for index in range(count)))
        faults = scenario.faults
        self.faults: Mapping[int, Script] = (
            {index: faults[name] for index in range(count) if (name := self.name(index)) in faults}
            if faults
            else {}
        )

    def __len__(self) -> int:
        return len(self._places)

    def _size(self, index: int) -> int:
        return self._groups[bisect_right(self._starts, self._places[index]) - 1].size_bytes

    def name(self, index: int) -> str:
        """The file's name in the scenario."""
        place = self._places[index]
        group = bisect_right(self._starts, place) - 1
        return self._groups[group].name(place - self._starts[group])

    def block(self, first: int, end: int) -> list[Entry]:
        """Make some entries, in their order."""
        return [self.entry(index) for index in range(first, min(end, len(self)))]

    def entry(self, index: int) -> Entry:
        """Make an entry with a URL for ``SimTransport``."""
        return Entry(
            id=index,
            url=SecretUrl(f"{HTTP}://{self.hosts[self.host_of[index]]}/{index}"),
            path=SafePath(self.name(index)),
            size_bytes=self.sizes[index] if self.sizes[index] >= 0 else None,
        )
