"""What an origin in another process is told to serve: one JSON file that the bench writes and it reads."""

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cfetch.bench.content import Content, Group, RealFile, SyntheticSet
from cfetch.bench.faults import Fault
from cfetch.bench.network import Network

__all__ = ["Asked", "OriginSpec"]


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A request as the origin's journal tells it: the ``n``-th GET of a path came over which connection.

    ``number`` counts those to the ``host``, from 1: what ``cfetch.bench.network.connection_of`` wants.
    """

    path: str
    n: int
    host: int
    number: int

    @classmethod
    def read(cls, journal: Path) -> list["Asked"]:
        """All of a journal, in order. Raises msgspec.ValidationError when the origin did not write it."""
        return msgspec.json.decode(journal.read_bytes(), type=list[cls])  # type: ignore[valid-type]


class OriginSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Synthetic groups, real files by name, and the faults, already drawn: the bench knows them too.

    ``bucket``: every file stands below that name too, where requests to S3 by path look for it. ``journal``:
    where the origin writes its list of ``Asked`` when it ends. ``seed`` is that of the network, too.
    """

    seed: int = 0
    groups: tuple[Group, ...] = ()
    files: dict[str, str] = {}
    faults: dict[str, tuple[Fault, ...]] = {}
    pace_bps: float | None = None
    bucket: str | None = None
    network: Network | None = None
    journal: str | None = None

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> "OriginSpec":
        """Raises msgspec.ValidationError when the file is not what ``write`` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def contents(self) -> Mapping[str, Content]:
        """Every file by name, real ones first."""
        real: dict[str, Content] = {name: RealFile.at(Path(path)) for name, path in self.files.items()}
        synthetic = SyntheticSet(self.groups, self.seed)
        return ChainMap(real, synthetic) if real else synthetic  # type: ignore[arg-type]  # only read from
