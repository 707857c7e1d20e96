"""What an origin in another process is told to serve: one JSON file that the bench writes and it reads."""

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cfetch.bench.content import Content, Group, RealFile, SyntheticSet
from cfetch.bench.faults import Fault

__all__ = ["OriginSpec"]


class OriginSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Synthetic groups, real files by name, and the faults, already drawn: the bench knows them too.

    ``bucket``: every file stands below that name too, where requests to S3 by path look for it.
    """

    seed: int = 0
    groups: tuple[Group, ...] = ()
    files: dict[str, str] = {}
    faults: dict[str, tuple[Fault, ...]] = {}
    pace_bps: float | None = None
    bucket: str | None = None

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
