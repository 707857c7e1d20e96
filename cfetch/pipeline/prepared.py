"""A plan that Spark has prepared: what it is, and its batches read back. No Spark in it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from cfetch.errors import LocalFault, ManifestError, Problem
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.pipeline.prepare_cut import Floor
from cfetch.pipeline.prepare_tasks import part_name
from cfetch.pipeline.work_file import Batch
from cfetch.placement.private_file import replace_private
from cfetch.placement.private_file import on_disk, replace_private
from cfetch.secret import printable

__all__ = ["ABOUT", "PreparedPlan", "RejectedRow", "load_prepared", "save"]

ABOUT = "about.json"  # its numbers may be larger than msgpack's are


class RejectedRow(msgspec.Struct, frozen=True):
    """A fault of a manifest. ``line`` 0: the manifest as a whole, or a row that ``reason`` names."""

    source: str
    line: int
    reason: str


class PreparedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What ``prepare`` has found; it can be downloaded if nothing was ``rejected``.

    ``directory`` has ``plan/`` (batch, id, entry as msgpack, host, size, sharers, own_headers; a row group
    for each batch and ``batches_a_file`` of them a file) and ``rejected/`` (source, line, reason).
    ``cost_s`` and ``files_of`` are of each batch. ``digest`` is that of the same manifests, one behind the
    other, as one machine freezes them. ``headers`` go with every request; ``own_headers`` with those of the entries that
    name them by number. ``merged`` is how many repeated entries were dropped. Bytes are of known sizes.
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
    own_headers: list[Headers] = []
    expires_at: float | None = None
    batches_a_file: int = 1
    cost_s: list[float] = []
    files_of: list[int] = []
    floors: list[Floor] = []

    def batch(self, number: int) -> Batch:
        """The entries of a batch. Raises LocalFault: it cannot be read here."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(self.directory) / "plan" / part_name(number // self.batches_a_file)
        try:
            with on_disk(path), path.open("rb") as file:
                table = pq.ParquetFile(file).read_row_group(number % self.batches_a_file, use_threads=False)
        except pa.ArrowInvalid:
            raise LocalFault(f"{path} cannot be read as it was written; prepare the manifest again") from None
        decode = msgspec.msgpack.Decoder(Entry).decode
        entries = []
        columns = (table.column(name).to_pylist() for name in ("id", "entry", "own_headers"))
        for entry_id, data, own in zip(*columns, strict=True):
            entry = decode(data)
            headers = entry.headers
            if own is not None:
                headers = tuple((dict(self.own_headers[own]) | dict(headers)).items())
            entries.append(msgspec.structs.replace(entry, id=entry_id, headers=headers))
        return Batch(entries, table.column("sharers")[0].as_py())

    def raise_if_rejected(self, sources: Sequence[Path]) -> None:
        """Raises: ManifestError: with the first faults in the order of sources and lines."""
        if not self.rejected:
            return
        if len(sources) == 1:
            problems = tuple(Problem(one.line, one.reason) for one in self.first_rejected)
            raise ManifestError(printable(str(sources[0])), problems, self.rejected)
        problems = tuple(
            Problem(
                0, f"{one.source}:{one.line}: {one.reason}" if one.line else f"{one.source}: {one.reason}"
            )
            for one in self.first_rejected
        )
        raise ManifestError(f"the set of {len(sources)} manifests", problems, self.rejected)


def load_prepared(directory: Path) -> PreparedPlan:
    """The plan that ``prepare`` has left in ``directory``, all of it accepted. Raises LocalFault."""
    path = directory / ABOUT
    with on_disk(path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=PreparedPlan)
    except msgspec.MsgspecError:
        raise LocalFault(f"{path} is damaged; prepare the manifest again") from None


def save(plan: PreparedPlan) -> None:
    """The last step of preparing: in one step, and on disk. Raises LocalFault."""
    replace_private(Path(plan.directory) / ABOUT, msgspec.json.encode(plan))
