"""The orders of an origin in another process: one line of JSON that the bench sends to it."""

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.content import Content, Group, RealFile, SyntheticSet
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.network import NetworkModel


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """One GET in the origin's journal: the ``n``-th of its path, and the connection that it came over.

    ``number`` counts the connections to ``host``, from 1, as ``connection_of`` in ``network.py`` does.
    """

    path: str
    n: int
    host: int
    number: int

    @classmethod
    def read(cls, journal: Path) -> list["JournalEntry"]:
        """Read a journal, in order. Raises msgspec.ValidationError when the origin did not write it."""
        return msgspec.json.decode(journal.read_bytes(), type=list[cls])  # type: ignore[valid-type]


class OriginSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Synthetic groups, real files by name, and the faults, drawn already because the bench needs them too.

    ``bucket``: every file is served below that name too, for S3 requests by path. ``journal``: the file for
    the ``JournalEntry`` list when the origin ends. ``seed`` is the network's, too.
    """

    seed: int = 0
    groups: tuple[Group, ...] = ()
    files: dict[str, str] = {}
    faults: dict[str, tuple[Fault, ...]] = {}
    pace_bps: float | None = None
    bucket: str | None = None
    network: NetworkModel | None = None
    journal: str | None = None

    def contents(self) -> Mapping[str, Content]:
        """Every file by name, real ones first."""
        real: dict[str, Content] = {name: RealFile.at(Path(path)) for name, path in self.files.items()}
        synthetic = SyntheticSet(self.groups, self.seed)
        return ChainMap(real, synthetic) if real else synthetic  # type: ignore[arg-type]  # only read from
