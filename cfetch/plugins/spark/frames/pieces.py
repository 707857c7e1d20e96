"""Rows with URLs, brought on an executor in pieces; each row is returned with its results.

A piece is a share. If its files stay in a directory, ``once.py`` brings it once: its receipt answers when
Spark evaluates the same rows again. If they become objects of a store, the store answers by the objects that
are in place. If only contents are wanted, the files go to a directory of the task's own.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cfetch.base.errors import Clashing, Expired, Held, LocalFault, ManifestError, Refused, UsageError
from cfetch.base.records import FileRecord
from cfetch.base.secret import printable
from cfetch.manifest.entry import Digest, Entry
from cfetch.plugins.spark.frames.frame import make_frame_directory
from cfetch.plugins.spark.frames.frame_hub import LinkAddress
from cfetch.plugins.spark.frames.frame_words import CALL_WORDS, OPTION_WORDS, put_into_frame_words
from cfetch.plugins.spark.frames.once import EPOCH, find_or_bring
from cfetch.plugins.spark.frames.options import Options
from cfetch.plugins.spark.frames.renewing import LinkSource
from cfetch.plugins.spark.frames.rows import cut_batches, find_size, read_content
from cfetch.plugins.spark.frames.task_log import TaskLog, TaskTally
from cfetch.plugins.spark.frames.url_rows import SAME_PATH, UrlRows, make_document, read_url_rows
from cfetch.plugins.spark.job import name_executor
from cfetch.plugins.spark.schemas import arrow_schema
from cfetch.plugins.spark.work import current_task
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME, make_private, on_disk
from cfetch.storage.locks import need_lock
from cfetch.tasks.hub.receipts import ShareResult, read_result, share_receipt_name
from cfetch.tasks.shares.task import Beside, bring_share
from cfetch.tasks.shares.task_destination import TaskDestination, directory_destination, store_destination
from cfetch.tasks.shares.work import RunSpec, Share, Turn

if TYPE_CHECKING:
    from pyspark import Accumulator

RESULTS = {
    "status": "string",
    "path": "string",
    "bytes": "bigint",
    "hash": "string",
    "error": "string",
    "attempts": "int",
    "executor": "string",
    "error_kind": "string",
    "http_status": "int",
    "content_type": "string",
}
"""The columns that ``download`` adds, and their types as Spark names them."""

_TEXTS = ("string", "char", "varchar", "void")  # void: all of it is null
_SIZES = ("bigint", "int", "smallint", "tinyint", "double", "float", *_TEXTS)
_KEY_TYPES = {"size": _SIZES, "headers": ("map", "struct", *_TEXTS)}

NO_RENEWAL = "download(renew=…) takes a function or a manifest that has fresh links"
SCRATCH = "/cfetch"  # stands for a directory of each executor's own
_SCRATCH = "cfetch-"
PIECE_ROWS = 20_000  # as many files as a share has at most: they are in the memory of a task
PIECE_BYTES = 128 << 20  # of the rows of a piece, with all columns of the user's
SCRATCH_BYTES = 1 << 30  # of files that an executor holds at a time, when only their contents are wanted


class PieceWork(NamedTuple):
    """The work of all tasks. It holds secrets, so it travels in the job and nowhere else.

    ``columns``: a manifest's key -> the frame's column. ``is_scratch``: files go to a directory of the task's
    own, and only their contents are kept. ``makes``: tasks make the frame's directory, as the driver may not
    see it. ``sharers``: how many tasks at a time may ask the same host.
    ``prefix``: before the names of results. ``names``: of the user's columns, which Spark has by places.
    ``links``: where fresh links come from: from the driver, or, where it cannot be asked, from the source.
    """

    options: Options
    spec: RunSpec
    columns: dict[str, str]
    is_scratch: bool
    makes: bool
    sharers: int
    links: LinkAddress | LinkSource | None = None
    totals: "Accumulator[TaskTally] | TaskTally | None" = None
    prefix: str = ""
    names: tuple[str, ...] = ()

    @contextmanager
    def logging(self) -> Iterator[Beside]:
        """What goes beside the pool of a piece: its log, and the source of fresh links.

        At its end the totals are added, which go to the driver with the end of the task.
        """
        log = TaskLog()
        yield Beside(None if self.links is None else self.links.open, log)
        self.add(log.sum_up())

    def add(self, tally: TaskTally) -> None:
        """Add to the totals."""
        if self.totals is not None:
            self.totals.add(tally)


def open_row_directory(options: Options, spec: RunSpec) -> None:
    """Make the directory of a frame and that of its receipts. Raises LocalFault."""
    make_frame_directory(options, Path(spec.receipts).parent)
    with on_disk(Path(spec.receipts)):
        make_private(Path(spec.receipts))


def require_on_executor(directory: Path) -> None:
    """Raise LocalFault if this executor does not see a directory that the driver has made."""
    if not directory.is_dir():
        raise LocalFault(
            f"{directory}, which the driver has made, is not there on {os.uname().nodename}: driver and all "
            "executors must see the directory under the same name"
        )


def make_task(work: PieceWork) -> Any:  # noqa: ANN401 - what mapInArrow takes
    """The function that brings the rows of a partition; Spark's pages show its name in the plan."""

    def cfetch_download(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table in cut_pieces(batches, _count_piece_rows(work)):
                named = table.rename_columns(list(work.names))
                yield from bring_rows(work, named, task=current_task().taskAttemptId())
        except LocalFault as fault:
            raise LocalFault(f"{name_executor()}: {fault}") from None
        work.add(TaskTally(tasks=1))

    return cfetch_download


def _count_piece_rows(work: PieceWork) -> int:
    if not work.is_scratch:
        return PIECE_ROWS
    assert work.options.content_bytes is not None
    return min(PIECE_ROWS, max(1, SCRATCH_BYTES // max(1, work.options.content_bytes)))


def cut_pieces(batches: Iterator[pa.RecordBatch], most_rows: int) -> Iterator[pa.Table]:
    """The rows in pieces that end at ``most_rows``, or after ``PIECE_BYTES``."""
    waiting: list[pa.RecordBatch] = []
    rows = held_bytes = 0  # kept as sums: a batch may be one row
    for batch in batches:
        rest = batch
        while len(rest):
            part = rest.slice(0, most_rows - rows)
            waiting.append(part)
            rows += len(part)
            held_bytes += part.nbytes
            rest = rest.slice(len(part))
            if rows == most_rows or held_bytes >= PIECE_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, held_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def bring_rows(work: PieceWork, table: pa.Table, *, task: int) -> Iterator[pa.RecordBatch]:
    """Bring the files of a piece, on an executor, and return its rows with the results.

    Raises:
        LocalFault: this executor cannot do the work.
    """
    settings = work.options.settings
    document = make_document(settings.reading, settings.base_url)
    rows = read_url_rows(table, work.columns, document)
    work.add(TaskTally(failed=len(rows.faults)))
    if work.options.is_store:
        yield from join_results(work, table, rows, _bring_to_store(work, rows, task), None)
        return
    if not work.is_scratch:
        yield from join_results(
            work, table, rows, _bring_shared(work, rows), Path(work.spec.destination.root)
        )
        return
    with bring_to_scratch(work, rows, task) as (receipt, root):
        work.add(count_too_large(work, rows, receipt))
        yield from join_results(work, table, rows, receipt, root)


def _bring_shared(work: PieceWork, rows: UrlRows) -> ShareResult:
    spec, number = work.spec, rows.number
    if work.makes:
        open_row_directory(work.options, spec)
    else:
        require_on_executor(Path(spec.receipts))
        with suppress(OSError):  # a stream may last longer than a frame is kept that was not loaded again
            os.utime(Path(spec.receipts).parent)
    share = Share(rows.entries, work.sharers)
    with work.logging() as beside:
        return find_or_bring(spec, share, Turn(number, number, 0, name_executor()), beside)


def list_wanted(work: PieceWork, rows: UrlRows) -> list[Entry]:
    """The entries without those that are stated to be larger than the limit of contents, if there is one."""
    limit = work.options.content_bytes
    return [entry for entry in rows.entries if limit is None or (entry.size_bytes or 0) <= limit]


@contextmanager
def bring_to_scratch(work: PieceWork, rows: UrlRows, task: int) -> Iterator[tuple[ShareResult, Path]]:
    """Bring files to a directory of this task's own, for as long as the ``with`` lasts.

    Files that are stated to be larger than the limit of contents, if there is one, are left out.

    Raises LocalFault.
    """
    wanted = list_wanted(work, rows)
    with make_scratch() as root:
        destination = directory_destination(root, work.spec.instant, EPOCH)
        yield _bring_alone(work, wanted, task, destination, root / STATE_NAME / "receipts"), root


def count_too_large(work: PieceWork, rows: UrlRows, receipt: ShareResult) -> TaskTally:
    """The files that came, or were not asked for, and are failures as they have more than the limit."""
    if (limit := work.options.content_bytes) is None:
        return TaskTally()
    came = sum(record.is_in_place and record.bytes > limit for record in receipt.records)
    return TaskTally(files=-came, failed=came + len(rows.entries) - len(receipt.records))


def _bring_to_store(work: PieceWork, rows: UrlRows, task: int) -> ShareResult:
    """Bring files to an object store, where an object in destination is left as it is. Raises LocalFault."""
    with make_scratch() as own:
        destination = store_destination(work.options.settings.to[0], own, work.spec.instant, EPOCH)
        return _bring_alone(work, rows.entries, task, destination, own / "receipts")


def _bring_alone(
    work: PieceWork, entries: list[Entry], task: int, destination: TaskDestination, receipts: Path
) -> ShareResult:
    """Bring entries with a fence and receipts that no other task sees."""
    spec = msgspec.structs.replace(work.spec, destination=destination, receipts=str(receipts))
    for directory in (receipts, Path(destination.fence)):
        with on_disk(directory):
            make_private(directory)
    turn = Turn(0, task, 0, name_executor())
    with work.logging() as beside:
        bring_share(spec, Share(entries, work.sharers), turn, beside=beside)
    receipt = read_result(receipts / share_receipt_name(EPOCH, 0))
    assert receipt is not None
    return receipt


@contextmanager
def make_scratch() -> Iterator[Path]:
    """A directory of this task's own, for as long as the ``with`` lasts. Raises LocalFault.

    It is in Spark's directory for temporary files, which goes with the executor. Spark kills a task that has
    returned as many rows as a query wants, as ``show()``: so directories that no task has locked are removed.
    """
    first = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if not os.path.isdir(first):  # no task of Spark
        with tempfile.TemporaryDirectory(prefix=_SCRATCH) as name:
            yield Path(name)
        return
    with on_disk(Path(first)):
        gate = _lock_directory(first, waits=True)  # others wait: a directory is locked before it is seen
        for left in Path(first).glob(f"{_SCRATCH}*"):
            with suppress(OSError, Held):
                os.close(_lock_directory(left))
                shutil.rmtree(left)
        own = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=first))
        lock = _lock_directory(own, waits=True)
        os.close(gate)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def _lock_directory(path: str | Path, *, waits: bool = False) -> int:
    """A descriptor that holds the lock of a directory until it is closed.

    Raises Held; LocalFault: there are no locks, so nobody can tell whose directory it is; OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        remedy = "let spark.local.dir be on a local disk"
        need_lock(descriptor, f"{{holder}} uses {path}", name=Path(path), remedy=remedy, waits=waits)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


ReadContent = Callable[[FileRecord | None, int], bytes | None]
"""The bytes of a file in place, if it has no more than so many."""


def join_results(
    work: PieceWork,
    table: pa.Table,
    rows: UrlRows,
    receipt: ShareResult,
    root: Path | None,
    read: ReadContent | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``table`` with their results, in batches of at most about ``rows.CONTENT_BYTES``.

    ``root``: the directory of the files; None: they are elsewhere, and ``read`` has their contents.
    """
    records = {record.path: record for record in receipt.records}
    digests: dict[str, Digest | None] = {entry.path: entry.digest for entry in rows.entries}
    words = OPTION_WORDS if work.options.own else CALL_WORDS

    def make_result(index: int, path: str | None, volume: Directory | None) -> dict[str, Any]:
        record = None if path is None else records.get(path)
        fault = rows.faults.get(index)
        result: dict[str, Any] = {"error": fault, "status": "failed", "path": path, "attempts": 0}
        if fault is not None:
            result["error_kind"] = Clashing.kind if SAME_PATH in fault else ManifestError.kind
        if path is not None:
            result |= _describe(record, volume, receipt.executor)
            can_renew = work.links is None and words is CALL_WORDS
            if record is not None and record.error_kind == Expired.kind and can_renew:
                result["error"] = f"{record.error}; {NO_RENEWAL}"
            digest = digests[path]
            if record is not None and digest is not None and record.verified == digest.algorithm:
                result["hash"] = f"{digest.algorithm}:{digest.hex}"
        if result["error"]:
            result["error"] = put_into_frame_words(result["error"], words)
        if work.options.content_bytes is not None:
            reads = read or (partial(read_content, volume) if volume is not None else None)
            assert reads is not None
            _add_content(result, record, reads, work)
        return result

    with nullcontext() if root is None else closing(Directory(root)) as volume:
        begin = 0
        for part in cut_batches(make_result(index, path, volume) for index, path in enumerate(rows.paths)):
            yield _make_batch(table.slice(begin, len(part)), part, work)
            begin += len(part)


def _describe(record: FileRecord | None, volume: Directory | None, executor: str) -> dict[str, Any]:
    if record is None:  # the frame states that it is too large
        return {}
    return {
        "status": record.status,
        "bytes": find_size(volume, record) if record.is_in_place else None,
        "error": record.error,
        "attempts": len(record.attempts),
        "executor": executor,
        "error_kind": record.error_kind,
        "http_status": record.http_status,
        "content_type": next(
            (attempt.content_type for attempt in reversed(record.attempts) if attempt.content_type), None
        ),
    }


def _add_content(
    result: dict[str, Any], record: FileRecord | None, read: ReadContent, work: PieceWork
) -> None:
    """Add the content of a row. Without a directory, a file without content is none."""
    limit = work.options.content_bytes
    assert limit is not None
    content = result["content"] = read(record, limit)
    if work.is_scratch and content is None and result["error"] is None:
        result |= {
            "status": "failed",
            "bytes": None,
            "hash": None,
            "error_kind": Refused.kind,
            "error": f"it has more than the {limit:,} bytes of content_limit",
        }


def list_results(*, content: bool) -> dict[str, str]:
    """The columns of results, and their types as Spark names them."""
    return RESULTS | ({"content": "binary"} if content else {})


def refuse_unfit_columns(
    columns: Mapping[str, str], fields: Sequence[tuple[str, str]], names_other: str
) -> None:
    """Raise UsageError if the frame lacks the column of a key, or each row of it would fail by its type.

    ``names_other``: how a user names another column for the key ``{0}``. ``fields``: the frame's columns with
    their types, as Spark names them; a join may leave two of one name. A row's own faults are that row's
    result.
    """
    names, types = Counter(name for name, _ in fields), dict(fields)
    for key, name in columns.items():
        if names[name] > 1:
            raise UsageError(
                f"the frame has {names[name]} columns {printable(name)!r}, and one is wanted for {key}; "
                "drop or rename the others before"
            )
        if name not in types:
            raise UsageError(
                f"there is no column {printable(name)!r} for {key}; the frame has {', '.join(types)}: "
                f"{names_other.format(key)} names another"
            )
        words = _KEY_TYPES.get(key, _TEXTS)
        if re.split(r"\W", types[name])[0] not in words:
            raise UsageError(
                f"column {printable(name)!r} for {key} is {types[name]}, which {key} cannot be; "
                f"make it {words[0]}"
            )


def refuse_taken_names(names: Sequence[str], results: Iterable[str], remedy: str = "") -> None:
    """Raise UsageError if a column of the user's has the name of a result. ``remedy``: another way out."""
    words = set(results)
    for name in names:
        if name.lower() in words:
            raise UsageError(
                f"the frame has a column {name!r} already, which is the name of a result; rename it before: "
                f'df.withColumnRenamed("{name}", "my_{name}"){remedy}'
            )


def _make_batch(table: pa.Table, results: Sequence[dict[str, Any]], work: PieceWork) -> pa.RecordBatch:
    for field in arrow_schema(list_results(content=work.options.content_bytes is not None)):
        column, name = pa.array([result.get(field.name) for result in results], field.type), field.name
        if name == "path" and work.columns.get("path") == "path" and not work.prefix:
            column = pc.coalesce(column, table.column("path"))  # a row with a fault has no other
            table = table.set_column(table.column_names.index("path"), "path", column)
        else:
            table = table.append_column(work.prefix + name, column)
    (batch,) = table.combine_chunks().to_batches()
    return batch
