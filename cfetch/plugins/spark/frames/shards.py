"""Shards of a training set: tar files for WebDataset, or Parquet files, with a table of results beside each.

A task writes its shards to a stage in the state, and the driver gives all of them their names when all tasks
are over. A whole shard stays in the stage if the job dies, and the next job finds it there by its rows.
"""

import io
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cfetch.manifest.urls import strip_secrets
from cfetch.plugins.spark.frames.frame import KEEP_S
from cfetch.plugins.spark.frames.once import hold_lock
from cfetch.plugins.spark.frames.pieces import PieceWork, bring_to_scratch, join_results, require_on_executor
from cfetch.plugins.spark.frames.shard_names import refuse_gone
from cfetch.plugins.spark.frames.url_rows import UrlRows, list_cells, make_document, read_url_rows
from cfetch.storage.files import STATE_NAME, make_private, on_disk, replace_file
from cfetch.tasks.hub.receipts import ShareResult

if TYPE_CHECKING:
    from cfetch.plugins.spark.frames.shard_store import ShardStore

STAGE = "shards"
TAR, PARQUET = ".tar", ".parquet"
_SHARD = re.compile(r"[0-9]{5,}(?=\.tar\Z|\.parquet\Z)")
_SAMPLE = re.compile(r"(?P<key>(?:.*/)?[^./]+)\.(?P<ending>[^/]+)\Z")  # webdataset's own rule


class ShardJob(NamedTuple):
    """The work of all tasks of a write. ``is_tar``: files go into tar files, else into a column.

    ``store``: the shards become objects there, and ``root`` is the directory in which a task makes them.
    """

    work: PieceWork
    root: Path
    is_tar: bool
    store: "ShardStore | None" = None

    @property
    def stage(self) -> Path:
        """The directory in which tasks write."""
        return self.root / STATE_NAME / STAGE


def open_stage(job: ShardJob) -> None:
    """Make the stage, and remove the shards of jobs that died more than a month ago.

    Raises LocalFault; UsageError: a library for the store is missing.
    """
    if job.store is not None:
        job.store.check()
        return
    now_s = time.time()
    with on_disk(job.stage):
        make_private(job.stage)
        for path in list(job.stage.iterdir()):
            if now_s - path.stat().st_mtime > KEEP_S:
                path.unlink(missing_ok=True)


def stage_shard(job: ShardJob, table: pa.Table, *, place: str, task: int) -> str:
    """Bring the files of ``table`` and write their shard to the stage, on an executor; its name there.

    ``place``: a name for this part of the frame. A shard without failures that is there already is taken.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    if job.store is None:
        require_on_executor(job.stage)
    settings = job.work.options.settings
    rows = read_url_rows(table, job.work.columns, make_document(settings.reading, settings.base_url))
    shown = _hide_secrets(table, job.work.columns)
    samples = _list_samples(shown, rows)
    digest = sha256(f"{rows.number} {json.dumps(samples)} {sorted(rows.faults.values())}".encode())
    name = f"{place}-{digest.hexdigest()[:32]}"
    if job.store is not None:
        _put_shard(job, job.store, shown, rows, samples, task, name)
        return name
    with hold_lock(job.stage / f"{name}.lock"), on_disk(job.stage):
        if not _is_complete(job.stage / f"{name}{PARQUET}"):
            with bring_to_scratch(job.work, rows, task) as (receipt, scratch):
                _write_shard(job, shown, rows, samples, receipt, scratch, name)
    return name


def _put_shard(
    job: ShardJob,
    store: "ShardStore",
    shown: pa.Table,
    rows: UrlRows,
    samples: Mapping[str, Sequence[str]],
    task: int,
    name: str,
) -> None:
    """Make a shard in the task's own directory and put it into the store, unless it is there."""
    if store.is_complete(name):
        return
    with bring_to_scratch(job.work, rows, task) as (receipt, scratch), on_disk(scratch):
        own = job._replace(root=scratch / STATE_NAME / "made")
        own.stage.mkdir(parents=True)
        _write_shard(own, shown, rows, samples, receipt, scratch, name)
        has_all = _is_complete(own.stage / f"{name}{PARQUET}")
        store.stage(name, [*own.stage.iterdir()], has_all=has_all)


def publish_shards(job: ShardJob, names: Sequence[str], *, overwrite: bool, key: str | None = None) -> None:
    """Give shards of the stage their final names, in order, on the driver. Raises LocalFault.

    Two jobs may write at once: numbers are given under a lock. A shard that both have made is in the stage
    once; the second job then publishes nothing. ``key``: the job's; which shards get which numbers is noted
    under it first, so that ``finish_publishing`` can end what was interrupted.
    """
    if job.store is not None:
        job.store.publish(names, overwrite=overwrite, key=key)
        return
    with hold_lock(job.stage.with_suffix(".lock")), on_disk(job.root):
        gone = [name for name in names if not (job.stage / f"{name}{PARQUET}").exists()]
        refuse_gone(gone, names, job.root)
        old = [path for path in job.root.iterdir() if _SHARD.match(path.name)]
        if overwrite:
            for path in old:
                path.unlink()
        next_number = 0 if overwrite else max((int(path.stem) for path in old), default=-1) + 1
        pairs = [(name, number) for number, name in enumerate(names, next_number)]
        if key is not None:
            make_private(_find_journal(job, key).parent)
            replace_file(_find_journal(job, key), msgspec.json.encode(pairs))
        _rename_all(job, pairs)


def finish_publishing(job: ShardJob, key: str) -> bool:
    """Whether a job with this key has published; if it was interrupted, its shards get their names now.

    Raises LocalFault.
    """
    if job.store is not None:
        return job.store.finish(key)
    with hold_lock(job.stage.with_suffix(".lock")), on_disk(job.root):
        journal = _find_journal(job, key)
        if not journal.exists():
            return False
        _rename_all(job, msgspec.json.decode(journal.read_bytes(), type=list[tuple[str, int]]))
        return True


def _find_journal(job: ShardJob, key: str) -> Path:
    return job.stage.with_name("shard-keys") / key


def _rename_all(job: ShardJob, pairs: Sequence[tuple[str, int]]) -> None:
    """Rename what is in the stage; the rest has its name already."""
    for name, number in pairs:
        for ending in (TAR, PARQUET):
            with suppress(FileNotFoundError):  # a shard of Parquet has no tar file
                (job.stage / f"{name}{ending}").replace(job.root / f"{number:05d}{ending}")
        (job.stage / f"{name}.lock").unlink(missing_ok=True)
    (job.root / "_SUCCESS").touch()


def _hide_secrets(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """The table without headers, and with links as others may see them: a shard is given away."""
    if "headers" in columns:
        table = table.drop_columns(columns["headers"])
    links = [link and strip_secrets(link) for link in list_cells(table[columns["url"]], None)]
    return table.set_column(
        table.column_names.index(columns["url"]), columns["url"], pa.array(links, pa.string())
    )


def _list_samples(shown: pa.Table, rows: UrlRows) -> dict[str, list[str]]:
    """The user's columns as JSON, by path: one text for each row that has the file."""
    samples: dict[str, list[str]] = {}
    columns = [list_cells(column, "a value that JSON cannot hold") for column in shown.columns]
    for path, *values in zip(rows.paths, *columns, strict=True):
        if path is not None:
            named = dict(zip(shown.column_names, values, strict=True))
            samples.setdefault(path, []).append(json.dumps(named, default=str))
    return samples


def _is_complete(results: Path) -> bool:
    if not results.exists():
        return False
    return "failed" not in pq.read_table(results, columns=["status"])["status"].to_pylist()


def _write_shard(
    job: ShardJob,
    shown: pa.Table,
    rows: UrlRows,
    samples: Mapping[str, Sequence[str]],
    receipt: ShareResult,
    scratch: Path,
    name: str,
) -> None:
    """Write the tar file, if any, then the table: the shard is whole when the table is there."""
    if job.is_tar:
        there = sorted((record.path for record in receipt.records if record.is_in_place), key=_split_name)
        temporary = job.stage / f"{name}{TAR}.new"
        with tarfile.open(temporary, "w") as tar:
            for member, content in _list_members(there, samples, scratch):
                _add_member(tar, member, content)
        temporary.replace(job.stage / f"{name}{TAR}")
    temporary = job.stage / f"{name}{PARQUET}.new"
    _write_table(temporary, join_results(job.work, shown, rows, receipt, scratch))
    temporary.replace(job.stage / f"{name}{PARQUET}")


def _list_members(
    paths: Sequence[str], samples: Mapping[str, Sequence[str]], scratch: Path
) -> Iterator[tuple[str, Path | bytes]]:
    """The names of a tar file and their contents: the files of a key one after the other, then its JSON.

    Each further row with the same file is a sample of its own, with the file and that row's JSON.
    """
    keys = {_split_name(path)[0] for path in paths}
    for key, group in groupby(paths, lambda path: _split_name(path)[0]):
        files = list(group)
        yield from _list_sample(key, files, samples, 0, scratch)
        for n in range(1, max(len(samples[path]) for path in files)):
            own_key = next(name for number in count(n) if (name := f"{key}_{number}") not in keys)
            keys.add(own_key)
            again = [path for path in files if len(samples[path]) > n]
            yield from _list_sample(own_key, again, samples, n, scratch)


def _list_sample(
    key: str, paths: Sequence[str], samples: Mapping[str, Sequence[str]], n: int, scratch: Path
) -> Iterator[tuple[str, Path | bytes]]:
    """The members of one sample: the files, and the JSON of the first one's row ``n``."""
    endings: set[str] = set()  # in lower case, as readers take them; they refuse a repeated one
    for path in paths:
        ending = _split_name(path)[1]
        while ending.lower() in endings:
            ending = f"{len(endings)}.{ending}"
        endings.add(ending.lower())
        yield f"{key}.{ending}", scratch / path
    about = "row.json" if "json" in endings else "json"
    yield f"{key}.{about}", samples[paths[0]][n].encode()


def _split_name(path: str) -> tuple[str, str]:
    """Key and ending, split at the first dot of the last segment; readers skip names without an ending."""
    match = _SAMPLE.match(path)
    return (match["key"], match["ending"]) if match else (path.replace(".", "_"), "bin")


def _add_member(tar: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    info = tarfile.TarInfo(name)  # without times and owners: equal rows are equal bytes
    info.mode = 0o644
    if isinstance(content, bytes):
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
        return
    with content.open("rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        tar.addfile(info, file)


def _write_table(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
