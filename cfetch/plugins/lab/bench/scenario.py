"""A bench's workload as a value: the files, how many at a time, the faults, and cfetch's own options.

The faulty files, like everything else, follow from the seed alone: equal scenarios make equal manifests.
"""

import random
from functools import cached_property
from pathlib import Path

import msgspec

from cfetch.base.config.option_table import SLOTS
from cfetch.base.config.settings import KINDS as OPTIONS
from cfetch.plugins.lab.bench.content import Group, SyntheticSet
from cfetch.plugins.lab.bench.faults import Fault, FaultRule, draw
from cfetch.plugins.lab.bench.network import NetworkModel, host_of
from cfetch.plugins.lab.bench.spec import OriginSpec

BUCKET = "bench"  # the bucket's name for tools that speak S3


class Scenario(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One workload. ``options`` are those of ``cfetch download``, by name, as text.

    ``network`` None: a network without limits. ``volumes_bps``: how fast each volume takes bytes, for the
    simulator only; empty: one volume without a limit.
    """

    name: str
    description: str = ""
    seed: int = 0
    concurrency: int = 16
    groups: tuple[Group, ...]
    rules: tuple[FaultRule, ...] = ()
    options: dict[str, str] = {}
    network: NetworkModel | None = None
    volumes_bps: tuple[float, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(group.count * group.size_bytes for group in self.groups)

    @cached_property
    def files(self) -> SyntheticSet:
        """Every file by name."""
        return SyntheticSet(self.groups, self.seed)

    @cached_property
    def names(self) -> list[str]:
        """Every name, sizes mixed, in the order of the manifest."""
        names = list(self.files)
        random.Random(self.seed).shuffle(names)  # noqa: S311 - reproducible, not secret
        return names

    @cached_property
    def faults(self) -> dict[str, tuple[Fault, ...]]:
        """The faults by file name."""
        return draw(self.names, self.rules, self.seed) if self.rules else {}

    def ideal(self) -> "Scenario":
        """The scenario without the troubles that a client can avoid: faults, slow and stalling connections.

        Changes of the network, slow hosts, the spread of rates and the link's limit stay.
        """
        network = self.network and msgspec.structs.replace(self.network, slow=None, stalls=None)
        return msgspec.structs.replace(self, network=network, rules=())

    def spec(self, *, faulty: bool, journal: Path | None = None) -> OriginSpec:
        """The origin's part of the scenario; ``faulty`` False: that of ``ideal``."""
        scenario = self if faulty else self.ideal()
        return OriginSpec(
            seed=self.seed,
            groups=self.groups,
            faults=scenario.faults,
            bucket=BUCKET,
            network=scenario.network,
            journal=None if journal is None else str(journal),
        )

    def manifest(self, base_url: str, *other_hosts: str) -> bytes:
        """The native manifest: names and sizes, but no hashes, as the other tools get none either.

        ``other_hosts`` are the URLs of the network's further hosts, in their order.
        """
        hosts, network = ("", *other_hosts), self.network or NetworkModel()
        files: list[dict[str, object]] = [
            {"url": hosts[host_of(network, index)] + name, "size": self.files[name].size_bytes}
            for index, name in enumerate(self.names)
        ]
        if not network.sizes:
            for file in files:
                del file["size"]
        return msgspec.json.encode({"version": 1, "base_url": base_url, "files": files})

    def arguments(self) -> list[str]:
        """The flags of ``cfetch download`` for this scenario."""
        number = [] if self.concurrency == SLOTS else ["--concurrency", str(self.concurrency)]
        return [*number, *self.flags()]

    def flags(self) -> list[str]:
        """The flags for ``options`` only, so that cfetch begins with its default number of downloads."""
        flags = []
        for key, text in self.options.items():
            flag = key.replace("_", "-")
            if OPTIONS[key].is_flag:
                flags.append(f"--{flag}" if OPTIONS[key].parse(text) else f"--no-{flag}")
            else:
                flags += [f"--{flag}", text]
        return flags
