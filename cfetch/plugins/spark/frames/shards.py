"""Shards of a training set: tar files for WebDataset, or Parquet files, with a table of results beside each.

A task writes its shards to a stage in the state, and the driver gives all of them their names when all tasks
are over. A whole shard stays in the stage if the job dies, and the next job finds it there by its rows.
"""

import json
import os
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cfetch.base.events import fan_out
from cfetch.base.records import FileRecord
from cfetch.manifest.signatures import strip_secrets
from cfetch.plugins.spark.frames.frame import KEEP_S
from cfetch.plugins.spark.frames.once import HeldLock, hold_lock, hold_renewed_lock
from cfetch.plugins.spark.frames.pieces import (
    PIECE_BYTES,
    PIECE_ROWS,
    PieceWork,
    count_too_large,
    join_results,
    list_wanted,
    make_scratch,
    require_on_executor,
)
from cfetch.plugins.spark.frames.shard_names import (
    EMPTY,
    PUBLISHED,
    Published,
    name_published,
    refuse_gone,
)
from cfetch.plugins.spark.frames.shard_spool import Spool
from cfetch.plugins.spark.frames.shard_stream import ShardStream, StreamedShard
from cfetch.plugins.spark.frames.task_log import TaskTally
from cfetch.plugins.spark.frames.url_rows import UrlRows, list_cells, make_document, read_url_rows
from cfetch.storage.files import STATE_NAME, make_private, on_disk, replace_file
from cfetch.tasks.hub.receipts import ShareResult
from cfetch.tasks.shares.task import Apart, bring_apart
from cfetch.tasks.shares.work import Share, Turn

if TYPE_CHECKING:
    from cfetch.plugins.spark.frames.shard_store import ShardStore

STAGE = "shards"
TAR, PARQUET = ".tar", ".parquet"
_SAMPLE = re.compile(r"(?P<key>(?:.*/)?[^./]+)\.(?P<ending>[^/]+)\Z")  # webdataset's own rule


Planned = tuple[str, pa.Table]
"""A name for a part of the frame, and its rows."""


class ShardJob(NamedTuple):
    """The work of all tasks of a write. ``is_tar``: files go into tar files, else into a column.

    ``store``: the shards become objects there, and ``root`` is the directory in which a task makes them.
    ``begun_ns``: when the write began, by the clock of the directory.
    """

    work: PieceWork
    root: Path
    is_tar: bool
    store: "ShardStore | None" = None
    begun_ns: int = 0

    @property
    def stage(self) -> Path:
        """The directory in which tasks write."""
        return self.root / STATE_NAME / STAGE


def open_stage(job: ShardJob) -> ShardJob:
    """Make the stage, and remove the shards of jobs that died more than a month ago; the job with its time.

    Raises LocalFault; UsageError: a library for the store is missing.
    """
    if job.store is not None:
        job.store.check()
        return job
    now_s = time.time()
    with on_disk(job.stage):
        for directory in (job.stage, _find_marks(job)):
            make_private(directory)
            for path in list(directory.iterdir()):
                if now_s - path.stat().st_mtime > KEEP_S:
                    path.unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=job.stage) as file:
            return job._replace(begun_ns=os.fstat(file.fileno()).st_mtime_ns)


def group_shards(shards: Iterator[Planned]) -> Iterator[list[Planned]]:
    """The shards in groups, each of which one pool brings: of some thousand rows, which are in memory."""
    group: list[Planned] = []
    rows = held_bytes = 0
    for place, table in shards:
        group.append((place, table))
        rows, held_bytes = rows + len(table), held_bytes + table.nbytes
        if rows >= PIECE_ROWS or held_bytes >= PIECE_BYTES:
            yield group
            group, rows, held_bytes = [], 0, 0
    if group:
        yield group


def stage_shards(job: ShardJob, group: Sequence[Planned], *, turn: Turn) -> list[str]:
    """Bring the files of tables and write a shard of each to the stage, on an executor; their names there.

    Each table has a place, a name for this part of the frame. A shard without failures that is there already
    is taken. A second copy of the task begins with the last shard.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    if job.store is None:
        require_on_executor(job.stage)
    made = [_MadeShard(job, table, place) for place, table in group]
    names = [shard.name for shard in made]
    missing = _list_missing(job, made)
    taken = sum(len(shard.entries) for shard in made) - sum(len(shard.entries) for shard in missing)
    faults = sum(len(shard.rows.faults) for shard in made)
    job.work.add(TaskTally(files=taken, skipped=taken, failed=faults))
    if missing:
        with make_scratch() as scratch:
            _bring_shards(job, missing[::-1] if turn.attempt else missing, turn, scratch)
    return names


class _MadeShard:
    """The rows of a shard, and the files that it gets."""

    def __init__(self, job: ShardJob, table: pa.Table, place: str) -> None:
        settings = job.work.options.settings
        self.rows = read_url_rows(table, job.work.columns, make_document(settings.reading, settings.base_url))
        self.shown = _hide_secrets(table, job.work.columns)
        self.samples = _list_samples(self.shown, self.rows)
        faults = sorted(self.rows.faults.values())
        digest = sha256(f"{self.rows.number} {json.dumps(self.samples)} {faults}".encode())
        self.name = f"{place}-{digest.hexdigest()[:32]}"
        self.entries = list_wanted(job.work, self.rows)
        self._job = job

    def is_there(self) -> bool:
        """Whether it is in the stage, a directory, and has all of its files."""
        return _is_complete(self._job.stage / f"{self.name}{PARQUET}")

    def write(self, result: ShareResult, spool: Spool, scratch: Path) -> None:
        """Write it to the stage, by way of ``scratch`` if it becomes objects. Raises LocalFault."""
        job, store = self._job, self._job.store
        job.work.add(count_too_large(job.work, self.rows, result))
        if store is not None:
            own = job._replace(root=scratch / self.name)
            with on_disk(scratch):
                own.stage.mkdir(parents=True)
                self._write_files(own, result, spool, HeldLock())
                has_all = _is_complete(own.stage / f"{self.name}{PARQUET}")
                store.stage(self.name, [*own.stage.iterdir()], has_all=has_all)
                shutil.rmtree(own.root)
            return
        # A copy of the task may write the same shard: tar file and table of one of them belong together.
        with hold_renewed_lock(job.stage / f"{self.name}.lock") as lock, on_disk(job.stage):
            if not self.is_there():
                self._write_files(job, result, spool, lock)

    def _write_files(self, job: ShardJob, result: ShareResult, spool: Spool, lock: HeldLock) -> None:
        """Write the tar file, if any, then the table: the shard is whole when the table is there.

        A shard in which no file is has no tar file, and is no shard for those who train.
        """
        new = f".new{lock.number}"
        is_empty = not any(record.is_in_place for record in result.records)
        if job.is_tar and not is_empty:
            there = sorted((record.path for record in result.records if record.is_in_place), key=_split_name)
            with tarfile.open(job.stage / f"{self.name}{TAR}{new}", "w") as tar:
                for member, content in _list_members(there, self.samples):
                    lock.renew()
                    _add_member(tar, member, content, spool)

        def read(record: FileRecord | None, most_bytes: int) -> bytes | None:
            if record is None or not record.is_in_place or spool.size_bytes(record.path) > most_bytes:
                return None
            return b"".join(spool.read_chunks(record.path))

        table = job.stage / f"{self.name}{PARQUET}{new}"
        _write_table(table, join_results(job.work, self.shown, self.rows, result, None, read))
        if job.store is None and self.is_there():  # by a copy, as this task stood still meanwhile
            return
        if job.is_tar and not is_empty:
            (job.stage / f"{self.name}{TAR}{new}").replace(job.stage / f"{self.name}{TAR}")
        table.replace(job.stage / f"{self.name}{EMPTY if is_empty else ''}{PARQUET}")


def _list_missing(job: ShardJob, made: Sequence[_MadeShard]) -> list[_MadeShard]:
    """The shards that no task has staged with all of their files."""
    if job.store is None:
        return [shard for shard in made if not shard.is_there()]
    complete = job.store.find_complete([shard.name for shard in made])
    return [shard for shard in made if shard.name not in complete]


def _bring_shards(job: ShardJob, made: Sequence[_MadeShard], turn: Turn, scratch: Path) -> None:
    """Bring all files with one pool, and write each shard when its last file has ended."""
    numbers = count()
    streamed = [
        StreamedShard(
            [msgspec.structs.replace(entry, id=next(numbers)) for entry in shard.entries], str(scratch)
        )
        for shard in made
    ]

    def write(number: int) -> None:
        made[number].write(
            ShareResult(turn.executor, streamed[number].records), streamed[number].spool, scratch
        )

    with_files = [number for number, shard in enumerate(streamed) if shard.entries]
    for number, shard in enumerate(streamed):
        if not shard.entries:
            write(number)
    stream = ShardStream(
        [streamed[number] for number in with_files],
        lambda number: write(with_files[number]),
        lambda number: job.store is None and made[with_files[number]].is_there(),
        concurrency=job.work.options.settings.concurrency,
        directory=str(scratch),
    )
    with job.work.logging() as beside, closing(stream):
        if stream.entries:
            assert beside.listener is not None
            both = beside._replace(listener=fan_out(beside.listener, stream))
            share = Share(stream.entries, job.work.sharers)
            bring_apart(job.work.spec, share, turn, both, Apart(stream.volume, stream.commit_by))


def publish_shards(job: ShardJob, names: Sequence[str], *, overwrite: bool, key: str | None = None) -> int:
    """Give shards of the stage their final names, in order, on the driver. Raises LocalFault.

    Returns how many shards with files these are; of the others the table is published alone.

    Two jobs may write at once: numbers are given under a lock. A shard that both have made is in the stage
    once; the second job then publishes nothing. ``key``: the job's; which shards get which numbers is noted
    under it first, so that ``finish_publishing`` can end what was interrupted.
    """
    if job.store is not None:
        return job.store.publish(names, overwrite=overwrite, key=key)
    with hold_lock(job.stage.with_suffix(".lock")), on_disk(job.root):
        gone = [
            name
            for name in names
            if _was_published(job, name)
            or not any((job.stage / f"{name}{empty}{PARQUET}").exists() for empty in ("", EMPTY))
        ]
        refuse_gone(gone, names, job.root)
        old = {path: match[1] for path in job.root.iterdir() if (match := PUBLISHED.match(path.name))}
        if overwrite:
            for path in old:
                path.unlink()
        last = -1 if overwrite else max((int(number) for number in old.values() if number), default=-1)
        numbers = count(last + 1)
        pairs = [
            (name, next(numbers) if (job.stage / f"{name}{PARQUET}").exists() else None) for name in names
        ]
        if key is not None:
            make_private(_find_journal(job, key).parent)
            replace_file(_find_journal(job, key), msgspec.json.encode(pairs))
        _rename_all(job, pairs)
        return sum(number is not None for _, number in pairs)


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
        _rename_all(job, msgspec.json.decode(journal.read_bytes(), type=list[Published]))
        return True


def _find_marks(job: ShardJob) -> Path:
    """A directory with an empty file for each shard that was published, by its name in the stage."""
    return job.stage.with_name("shards-published")


def _was_published(job: ShardJob, name: str) -> bool:
    """Whether another job has published a shard of the same rows since this one began."""
    with suppress(FileNotFoundError):
        return (_find_marks(job) / name).stat().st_mtime_ns > job.begun_ns
    return False


def _find_journal(job: ShardJob, key: str) -> Path:
    return job.stage.with_name("shard-keys") / key


def _rename_all(job: ShardJob, pairs: Sequence[Published]) -> None:
    """Rename what is in the stage; the rest has its name already."""
    for name, number in pairs:
        final, empty = name_published((name, number)), job.stage / f"{name}{EMPTY}{PARQUET}"
        for ending in (TAR, PARQUET):
            with suppress(FileNotFoundError):  # a shard of Parquet has no tar file
                (job.stage / f"{name}{ending}").replace(job.root / f"{final}{ending}")
        if number is None:
            with suppress(FileNotFoundError):
                empty.replace(job.root / f"{final}{PARQUET}")
        empty.unlink(missing_ok=True)  # a copy of the task has had less than the shard
        (_find_marks(job) / name).touch(0o600)
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


def _list_members(
    paths: Sequence[str], samples: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str | bytes]]:
    """The names of a tar file and their contents: the files of a key one after the other, then its JSON.

    A content is the path of a file, or bytes.

    Each further row with the same file is a sample of its own, with the file and that row's JSON.
    """
    keys = {_split_name(path)[0] for path in paths}
    for key, group in groupby(paths, lambda path: _split_name(path)[0]):
        files = list(group)
        yield from _list_sample(key, files, samples, 0)
        for n in range(1, max(len(samples[path]) for path in files)):
            own_key = next(name for number in count(n) if (name := f"{key}_{number}") not in keys)
            keys.add(own_key)
            again = [path for path in files if len(samples[path]) > n]
            yield from _list_sample(own_key, again, samples, n)


def _list_sample(
    key: str, paths: Sequence[str], samples: Mapping[str, Sequence[str]], n: int
) -> Iterator[tuple[str, str | bytes]]:
    """The members of one sample: the files, and the JSON of the first one's row ``n``."""
    endings: set[str] = set()  # in lower case, as readers take them; they refuse a repeated one
    for path in paths:
        ending = _split_name(path)[1]
        while ending.lower() in endings:
            ending = f"{len(endings)}.{ending}"
        endings.add(ending.lower())
        yield f"{key}.{ending}", path
    about = "row.json" if "json" in endings else "json"
    yield f"{key}.{about}", samples[paths[0]][n].encode()


def _split_name(path: str) -> tuple[str, str]:
    """Key and ending, split at the first dot of the last segment; readers skip names without an ending."""
    match = _SAMPLE.match(path)
    return (match["key"], match["ending"]) if match else (path.replace(".", "_"), "bin")


def _add_member(tar: tarfile.TarFile, name: str, content: str | bytes, spool: Spool) -> None:
    """Add bytes, or the file of a path."""
    info = tarfile.TarInfo(name)  # without times and owners: equal rows are equal bytes
    info.mode = 0o644
    info.size = len(content) if isinstance(content, bytes) else spool.size_bytes(content)
    chunks = iter([content]) if isinstance(content, bytes) else spool.read_chunks(content)
    tar.addfile(info)
    assert tar.fileobj is not None
    for chunk in chunks:
        tar.fileobj.write(chunk)
    padding = -info.size % tarfile.BLOCKSIZE
    tar.fileobj.write(bytes(padding))
    tar.offset += info.size + padding


def _write_table(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
