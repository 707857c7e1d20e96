"""A manifest of any size, validated by Spark and frozen as batches in Parquet files.

The driver cuts manifests into units; tasks check their rows by the code of the reader on one machine and stage
them in files; hashes of paths find what may collide; and the driver deals pieces of hosts out to batches
(``prepare_lanes``). Nothing that the driver collects grows with the entries, only with units and batches.
All of it works on Spark Connect too. All files are their owner's alone: they hold signed links.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from cfetch.errors import LocalFault, ManifestError, Problem, UsageError
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.reading import checked_base_url
from cfetch.pipeline.prepare_judge import judge, rewrite
from cfetch.pipeline.prepare_lanes import GIANT, LANE, SMALL, Dealt, Piece, buckets, dealt, target
from cfetch.pipeline.prepare_rows import Read, Table, Unit, count_lines, read_unit, units_of
from cfetch.pipeline.receipts import on_disk
from cfetch.pipeline.shares import MICRO, MOST_FILES, Pace
from cfetch.pipeline.work_file import Batch
from cfetch.secret import printable

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Floor", "PreparedPlan", "RejectedRow", "load_prepared", "manifests_of", "prepare"]

T = TypeVar("T")

UNIT_BYTES = 32 << 20  # some 100,000 rows and a few seconds of a task, which itself costs 50 ms
MOST_FILES_A_TASK = 256  # opening so many takes a second on a network disk
ROWS_A_TASK = 200_000
KEPT = 100  # as many faults as a person reads
MOST_FLOORS = 20
ABOUT = "about.msgpack"


class RejectedRow(msgspec.Struct, frozen=True):
    """A fault of a manifest. ``line`` 0: the manifest as a whole, or a row of a table that ``reason`` names."""

    source: str
    line: int
    reason: str


class Floor(msgspec.Struct, frozen=True):
    """Seconds that a host's files take however many slots there are."""

    host: str
    seconds: float


class PreparedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What ``prepare`` has found; it can be downloaded if nothing was ``rejected``.

    ``directory`` has ``plan/`` (batch, id, entry as msgpack, host, size, sharers; a row group for each batch)
    and ``rejected/`` (source, line, reason). ``cost_s``, ``files_of`` and ``sharers`` are of each batch.
    ``digest`` is that of the same manifests, one behind the other, as one machine freezes them. ``headers`` go
    with every request. ``merged`` is how many repeated entries were dropped. Bytes are of known sizes.
    """

    directory: str
    rejected: int
    first_rejected: list[RejectedRow] = []
    files: int = 0
    total_bytes: int = 0
    sizes_unknown: int = 0
    merged: int = 0
    hosts: int = 0
    digest: str = ""
    headers: Headers = ()
    expires_at: float | None = None
    cost_s: list[float] = []
    files_of: list[int] = []
    sharers: list[int] = []
    floors: list[Floor] = []

    def batch(self, number: int) -> Batch:
        """The entries of a batch. Raises LocalFault: it cannot be read here."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(self.directory) / "plan" / part_name(number // BATCHES_A_FILE)
        try:
            with on_disk(path), path.open("rb") as file:
                table = pq.ParquetFile(file).read_row_group(number % BATCHES_A_FILE, use_threads=False)
        except pa.ArrowInvalid:
            raise LocalFault(f"{path} cannot be read as it was written; prepare the manifest again") from None
        decode = msgspec.msgpack.Decoder(Entry).decode
        entries = [decode(one) for one in table.column("entry").to_pylist()]
        return Batch(entries, table.column("sharers")[0].as_py())

    def raise_if_rejected(self, sources: Sequence[Path]) -> None:
        """Raises: ManifestError: with the first faults in the order of sources and lines."""
        if not self.rejected:
            return
        if len(sources) == 1:
            problems = tuple(Problem(one.line, one.reason) for one in self.first_rejected)
            raise ManifestError(printable(str(sources[0])), problems, self.rejected)
        problems = tuple(
            Problem(0, f"{one.source}:{one.line}: {one.reason}" if one.line else f"{one.source}: {one.reason}")
            for one in self.first_rejected
        )
        raise ManifestError(f"the set of {len(sources)} manifests", problems, self.rejected)


def manifests_of(names: Iterable[str | Path]) -> list[Path]:
    """Files, and those that lie directly in directories, by name; what begins with a dot or _ is passed over.

    Raises:
        UsageError: a name stands for no manifest.
    """
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        shown = printable(str(path))
        try:
            within = sorted(path.iterdir()) if path.is_dir() else [path]
            some = [one for one in within if one == path or (one.name[0] not in "._" and one.is_file())]
            found |= dict.fromkeys(one.resolve(strict=True) for one in some)
        except OSError as error:
            raise UsageError(f"cannot read the manifest {shown}: {error.strerror}") from None
        if not some:
            raise UsageError(f"there are no manifests in {shown}")
    return list(found)


def prepare(
    spark: "SparkSession",
    sources: Sequence[Path],
    directory: Path,
    *,
    base_url: str | None = None,
    headers: Headers = (),
    slots: int,
    pace: Pace = Pace(),  # noqa: B008 - a tuple
    per_host: int | None = None,
    unit_bytes: int = UNIT_BYTES,
) -> PreparedPlan:
    """Validate manifests as if they stood one behind the other, and freeze them in ``directory``.

    Args:
        spark: its executors must see ``sources`` and ``directory`` under these names.
        sources: see ``manifests_of``; JSON Lines and Parquet are read by several tasks, other formats by one.
        directory: is made, or is empty.
        base_url: what relative URLs are joined to; outweighs the documents' own.
        headers: go with every request; a document's own outweigh them.
        slots: how many tasks download at a time.
        pace: what each of them is expected to do.
        per_host: connections that a host is asked for at most; for ``floors``.
        unit_bytes: larger manifests are read by several tasks.

    Raises:
        UsageError: a source cannot be read, or ``base_url`` is none.
        LocalFault: ``directory`` cannot be written, or Spark has failed.
    """
    from pyspark.errors import PySparkException

    base_url = None if base_url is None else checked_base_url(base_url)
    preparing = _Preparing(spark, sources, directory.absolute(), base_url, headers, slots, pace, per_host)
    stage = directory / "stage"
    with on_disk(directory):
        directory.mkdir(0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        shutil.rmtree(stage, ignore_errors=True)  # of one that died
        if (directory / ABOUT).exists():
            raise UsageError(f"{printable(str(directory))} has a prepared plan already; name another directory")
        for name in ("plan", "rejected"):
            shutil.rmtree(directory / name, ignore_errors=True)
        for name in ("plan", "rejected", "stage"):
            (directory / name).mkdir(0o700)
    try:
        return preparing.run(unit_bytes)
    except PySparkException as error:
        kind = error.getCondition() or type(error).__name__
        raise LocalFault(f"Spark could not prepare the plan ({kind}); its logs say why, then try again") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def load_prepared(directory: Path) -> PreparedPlan:
    """The plan that ``prepare`` has left in ``directory``, all of it accepted. Raises LocalFault."""
    path = directory / ABOUT
    with on_disk(path):
        data = path.read_bytes()
    try:
        return msgspec.msgpack.decode(data, type=PreparedPlan)
    except msgspec.MsgspecError:
        raise LocalFault(f"{path} is damaged; prepare the manifest again") from None


class _Staged(NamedTuple):
    """A unit whose rows are staged: its number, how many rows, and the file that has them."""

    unit: int
    rows: int
    path: str


class _Preparing:
    """One ``prepare``."""

    def __init__(
        self,
        spark: "SparkSession",
        sources: Sequence[Path],
        directory: Path,
        base_url: str | None,
        headers: Headers,
        slots: int,
        pace: Pace,
        per_host: int | None,
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._directory = directory
        self._stage = directory / "stage"
        self._base_url = base_url
        self._headers = headers
        self._slots = slots
        self._pace = pace
        self._per_host = per_host

    def run(self, unit_bytes: int) -> PreparedPlan:
        """The work in its order."""
        units = self._units(unit_bytes)
        reads = self._read(units)
        repeats = self._judge(units, reads)
        rejected = self._rejected()
        if rejected.rejected:
            repeats.unpersist()
            return rejected
        kept, merged = self._merge(repeats, reads)
        repeats.unpersist()
        plan = self._freeze(units, kept)
        plan = msgspec.structs.replace(plan, merged=merged, digest=self._digest(kept))
        _write_private(self._directory / ABOUT, msgspec.msgpack.encode(plan))
        return plan
