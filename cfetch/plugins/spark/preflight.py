"""The check of all executors before the first share.

A task for each slot looks at its executor: its Python and cfetch, the directories that it has to share with
the driver, the network, the clock, the free space. It takes a second or two. Without it, an executor that
cannot work fails task after task, and Spark waits two minutes before it ends the job.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cfetch.base.errors import CfetchError, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.spark.job import (
    EXECUTORS_COME_S,
    cancel_jobs,
    count_executors,
    find_context,
    find_task_error,
    is_one_machine,
    name_executor,
    start_thread,
)
from cfetch.plugins.spark.work import explain_python, run_tasks
from cfetch.show.format import size
from cfetch.storage.buckets.object_store import ObjectStore
from cfetch.storage.hanging_calls import call_within

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


VOLUME_S = 10.0  # for one call, on a volume that may hang
STORE_S = 20.0  # for one listing, with retries
CONNECT_S = 5.0  # for a connection to a source; a firewall that drops packets answers never
MOST_SKEW_S = 5.0  # clocks that NTP keeps differ by milliseconds
SAME_DISK = 0.5  # the least part of the driver's free space that an executor sees on the same disk
MOST_NAMED = 5  # executors in one message
LOOK_S = 0.5


class Look(NamedTuple):
    """A look at an executor. ``directories``: paths that it has to share, by the options that name them.

    ``source``: host and port of one file's source; None: it is not known, or a proxy stands before it.
    ``store``: the URL of the object store of ``--to``, and the driver's login; if empty, the executor's own.
    ``volumes``: if there are several, those that the driver sees, each with a directory in it.
    """

    directories: tuple[tuple[str, str], ...]
    source: tuple[str, int] | None
    store: tuple[str, dict[str, str]] | None = None
    volumes: tuple[tuple[str, str], ...] = ()


class SeenExecutor(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one executor. ``faults`` say why it cannot work; ``wall_s`` is in seconds since 1970."""

    executor: str
    version: str
    wall_s: float
    faults: list[str]
    unreachable: str | None = None
    free_bytes: int | None = None


class ExecutorVerdict(NamedTuple):
    """The executors that cannot work, with the reasons, and notes about others; all for a person."""

    faults: list[str]
    notes: list[str]


def probe_executor(look: Look) -> SeenExecutor:
    """Look at this executor."""
    tried = [_try_directory(option, path) for option, path in look.directories]
    free_bytes = None
    tried += [_try_volume(root, path) for root, path in look.volumes]
    if look.store is not None:
        tried.append(_try_store(*look.store))
    elif not look.volumes:
        with suppress(OSError):
            free_bytes = disk_usage(look.directories[0][1]).free
    return SeenExecutor(
        executor=name_executor(),
        version=__version__,
        wall_s=time.time(),
        faults=list(dict.fromkeys(fault for fault in tried if fault is not None)),
        unreachable=None if look.source is None else _try_source(*look.source),
        free_bytes=free_bytes,
    )


def _try_directory(option: str, path: str) -> str | None:
    """Try to write there: why it cannot be done, or None."""
    probe = Path(path, f"look-{os.getpid()}-{time.monotonic_ns()}")
    try:
        probe.mkdir(0o700)
        probe.rmdir()
    except FileNotFoundError:
        return f"does not see the directory of {option}: mount it there under the name that it has here"
    except OSError as error:
        return f"cannot write to the directory of {option} ({error.strerror}): let its user write there"
    return None


def _try_volume(root: str, path: str) -> str | None:
    """Look for one of several volumes: a run does without one that refuses, or does not answer."""
    try:
        call_within(VOLUME_S, root, Path(path).stat)
    except FileNotFoundError:
        return f"does not see the volume {root}: mount it there under the name that it has here"
    except OSError:
        pass
    return None


def _try_store(url: str, login: dict[str, str]) -> str | None:
    try:
        store = ObjectStore(url, timeout_s=STORE_S, config=login)
        asyncio.run(store.read_first())
    except CfetchError as error:
        return f"cannot use the object store of --to: {error}"
    return None


def _try_source(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        return f"{host} ({error.strerror or type(error).__name__})"
    return None


def judge(seen: Sequence[SeenExecutor], began_s: float, ended_s: float, free_bytes: int) -> ExecutorVerdict:
    """Judge executors by the driver's version, its clock during the look, and its free space. Pure."""
    faults: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    reached = [state for state in seen if state.unreachable is None]
    for state in seen:
        for fault in state.faults:
            faults.setdefault(fault, []).append(state.executor)
        if state.version != __version__:
            text = f"has cfetch {state.version}, and the driver {__version__}: install the same version"
            faults.setdefault(text, []).append(state.executor)
        if state.unreachable is not None:
            text = f"cannot reach {state.unreachable}; others can: open its network" if reached else ""
            text = text or f"cannot reach {state.unreachable}"
            (faults if reached else notes).setdefault(text, []).append(state.executor)
        if state.wall_s < began_s - MOST_SKEW_S or state.wall_s > ended_s + MOST_SKEW_S:
            away_s = state.wall_s - (began_s if state.wall_s < began_s else ended_s)
            text = "has a clock {:.0f} s {} the driver's: signed links may be refused, and times are wrong"
            text = text.format(abs(away_s), "before" if away_s > 0 else "behind")
            notes.setdefault(text, []).append(state.executor)
        if state.free_bytes is not None and not state.faults and state.free_bytes < SAME_DISK * free_bytes:
            text = f"sees only {size(state.free_bytes)} free at --to, and the driver {size(free_bytes)}"
            notes.setdefault(text, []).append(state.executor)
    return ExecutorVerdict(_name_culprits(faults), _name_culprits(notes))


def _name_culprits(said: dict[str, list[str]]) -> list[str]:
    texts = []
    for text, names in said.items():
        distinct = sorted(set(names))
        more = f" and {len(distinct) - MOST_NAMED} more" if len(distinct) > MOST_NAMED else ""
        who = printable(", ".join(distinct[:MOST_NAMED]) + more)
        texts.append(f"{who} {text}")
    return texts


def check_planning_python(spark: "SparkSession") -> None:
    """Check that Spark can start a Python with cfetch here: it plans the reads of data sources.

    Raises UsageError.
    """
    from pyspark.sql.utils import is_remote

    if not is_remote() and spark.sparkContext.pythonExec == sys.executable:
        return
    try:
        spark.read.format("cfetch").load()
    except Exception as error:  # noqa: BLE001 - without options it always fails; py4j has a tree of its own
        _refuse_python(error)


_CHECKED: set[str] = set()  # the sessions whose executors have a Python that works


def check_task_python(spark: "SparkSession") -> None:
    """Check, once for each session, that the Python of executors has what a task of a frame needs.

    It takes a job of one task, which is left out where the driver's own Python runs the tasks, and where
    there is no executor yet. Raises UsageError.
    """
    context = find_context(spark)
    session = f"connect {id(spark)}" if context is None else str(context.applicationId)
    is_own = context is not None and is_one_machine(spark) and context.pythonExec == sys.executable
    if is_own or session in _CHECKED or count_executors(spark) == 0:
        return
    try:
        spark.range(1).mapInArrow(_import_libraries, "id long").collect()
    except Exception as error:  # noqa: BLE001 - py4j, gRPC and Spark each have a tree of their own
        _refuse_python(error)
        return  # of another fault the query itself tells
    _CHECKED.add(session)


def _import_libraries(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
    """Fail in a task whose Python lacks a library; cfetch itself is needed to get here."""
    import cfetch.plugins.spark.frames.pieces  # noqa: F401 - it imports what tasks need

    yield from batches


def _refuse_python(error: Exception) -> None:
    """Raise UsageError if Spark's error tells of a Python that cannot work."""
    if cause := explain_python(str(error)):
        here = f"on one machine that is {sys.executable}, set before the session is made"
        raise UsageError(f"{cause}; {here}") from None


def check_executors(
    spark: "SparkSession",
    look: Look,
    slots: int,
    tag: str,
    *,
    tell: Callable[[str], None],
    is_stopping: Callable[[], bool],
) -> bool:
    """Look at all executors of the session, in jobs with ``tag``. Returns False if the run is stopping.

    ``tell`` gets notes for a person, also while the look waits for the first executor.

    Raises:
        LocalFault: an executor cannot work; it says which, why, and what to do. Also Spark's own errors.
    """
    free_bytes = disk_usage(look.directories[0][1]).free
    began_s, is_told = time.time(), False
    look_at_all = partial(run_tasks, spark, [look] * slots, probe_executor, SeenExecutor)
    seen = start_thread(spark, look_at_all, tag, "cfetch: look at the executors")
    while not wait([seen], LOOK_S).done:
        said = find_task_error(spark, tag)
        cause = None if said is None else explain_python(said)
        if cause is not None or is_stopping():
            cancel_jobs(spark, tag)
            if cause is not None:
                raise LocalFault(cause)
            return False
        if not is_told and time.time() - began_s > EXECUTORS_COME_S and count_executors(spark) == 0:
            is_told = True
            tell(
                "no executors yet: the cluster has no free cores or memory, or its workers cannot start "
                "them; its page says which. This run waits"
            )
    verdict = judge(seen.result(), began_s, time.time(), free_bytes)
    if verdict.faults:
        raise LocalFault("; ".join(verdict.faults))
    for note in verdict.notes:
        tell(note)
    return True
