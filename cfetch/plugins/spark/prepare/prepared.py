"""A plan that Spark has prepared: its description, its place, and its shares. Uses no Spark."""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault, ManifestError, Problem
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan import PREPARED_NAME
from cfetch.plugins.spark.share_files import ShareFiles
from cfetch.storage.files import on_disk, replace_file
from cfetch.storage.group_rights import make_directory

PLAN = "plan"


class RejectedRow(msgspec.Struct, frozen=True):
    """A fault of a manifest. ``line`` 0: the manifest as a whole, or a row that ``reason`` names."""

    source: str
    line: int
    reason: str


class PreparedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``prepare``; it can be downloaded if nothing was ``rejected``.

    ``directory`` has ``folder`` (share, id, entry as msgpack, host, size, sharers, own_headers; a row group
    for each share, ``shares_per_file`` of them a file) and ``rejected/`` (source, line, reason). ``cost_s``
    has the expected seconds of each share. ``digest`` is the same that one machine would compute for
    the manifests joined in order. ``headers`` go with every request; ``own_headers`` are lists to which
    entries refer by number. ``merged``: how many repeated entries were dropped. ``total_bytes`` counts known
    sizes only. ``host_files``: files by host, for the hosts with most files of all ``hosts``; ``floors_s``:
    the least seconds that the slowest hosts take with any number of tasks, the slowest first. Only
    ``cost_s`` grows with the manifest.
    """

    directory: str
    folder: str = PLAN
    source: str = ""
    rejected: int = 0
    shares_per_file: int = 1
    first_rejected: list[RejectedRow] = []
    files: int = 0
    total_bytes: int = 0
    sizes_unknown: int = 0
    merged: int = 0
    names_batches: bool = False
    hosts: int = 0
    host_files: dict[str, int] = {}
    digest: str = ""
    headers: Headers = ()
    own_headers: list[Headers] = []
    cost_s: list[float] = []
    floors_s: dict[str, float] = {}

    def __len__(self) -> int:
        return self.files

    @property
    def more_hosts(self) -> int:
        """How many hosts ``host_files`` leaves out."""
        return self.hosts - len(self.host_files)

    @property
    def tasks(self) -> int:
        """How many tasks bring it: one for each share."""
        return len(self.cost_s)

    @property
    def share_files(self) -> ShareFiles:
        """The files of its shares."""
        return ShareFiles(
            directory=str(Path(self.directory, self.folder)),
            count=len(self.cost_s),
            per_file=self.shares_per_file,
            own_headers=self.own_headers,
        )

    def entries(self) -> Iterator[Entry]:
        """All entries, share by share. Raises LocalFault."""
        return self.share_files.read_entries()

    def find(self, path: str) -> int | None:
        """The number of the entry with exactly this path; reads all of the plan. Raises LocalFault."""
        return self.share_files.find(path)

    def save(self, directory: Path) -> None:
        """Put the plan into another directory of its file system as well, for ``load_prepared``.

        An older plan stays on the disk, as a run may be reading it, but is no longer named. Raises
        LocalFault.
        """
        folder = f"{PLAN}-{secrets.token_hex(4)}"
        target = directory / folder
        with on_disk(target):
            make_directory(target, 0o700)
            for part in Path(self.directory, self.folder).iterdir():
                (target / part.name).hardlink_to(part)
        save(msgspec.structs.replace(self, directory=str(directory), folder=folder))

    def forget_others(self, directory: Path) -> None:
        """Remove all plans that ``save`` left in ``directory``, except the newest and this one."""
        with suppress(LocalFault, OSError):
            wanted = {load_prepared(directory).folder} | (
                {self.folder} if Path(self.directory) == directory else set()
            )
            for folder in directory.glob(f"{PLAN}-*"):
                if folder.name not in wanted:
                    shutil.rmtree(folder, ignore_errors=True)

    def raise_if_rejected(self, sources: Sequence[Path], *, kept: Path | None = None) -> None:
        """Raise ManifestError if there are faults, with the first ones in the order of sources and lines.

        ``kept``: the path of the table of all faults.
        """
        if not self.rejected:
            return
        name = printable(str(sources[0])) if len(sources) == 1 else f"the set of {len(sources)} manifests"
        problems = tuple(Problem(row.line, row.reason, row.source) for row in self.first_rejected)
        where = None if kept is None else printable(str(kept), 1000)
        raise ManifestError(name, problems, self.rejected, table=where)


def load_prepared(directory: Path) -> PreparedPlan:
    """Load the plan that ``prepare`` or ``save`` has left in ``directory``, without rejected rows.

    Raises LocalFault.
    """
    path = directory / PREPARED_NAME
    with on_disk(path):
        data = path.read_bytes()
    try:
        plan = msgspec.json.decode(data, type=PreparedPlan)
    except NOT_DECODED:
        raise LocalFault(f"{path} is damaged; prepare the manifest again") from None
    return msgspec.structs.replace(plan, directory=str(directory))


def save(plan: PreparedPlan) -> None:
    """Save the plan, as the last step of its preparation; atomic and durable. Raises LocalFault."""
    replace_file(Path(plan.directory) / PREPARED_NAME, msgspec.json.encode(plan))
