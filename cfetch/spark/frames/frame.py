"""What a data frame over a manifest keeps on disk: the batches of the frozen plan, and receipts for them.

A frame is in nobody's hands for long, for nothing lives as long as a data frame does; so it does not
stand on the timeline. Its directory in the state is named by what the manifest states and where the files
go: all frames of one manifest over one directory are one. A batch in it has a lock while it is brought,
and a receipt after that (``once``). A file is published by a rename of a whole and verified part, so
whoever else writes to the same directory at that time, be it another frame or ``cfetch download``, leaves
whole files too.
"""

import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch import __version__
from cfetch.manifest.plan import Plan
from cfetch.run.directories import places
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.open_manifest import frozen
from cfetch.spark.frames.once import EPOCH, forget_failures, locked
from cfetch.spark.frames.options import Options
from cfetch.spark.shares import Pace, sharers, shares
from cfetch.spark.task import Work, attempts_of
from cfetch.spark.work_file import write_work
from cfetch.storage.directory import STATE_NAME, Directory
from cfetch.storage.files import on_disk, replace_file
from cfetch.timeline.attempts import ATTEMPTS
from cfetch.wire.network import network_of

__all__ = ["Frame", "keep", "load_frame", "work_of"]

FRAMES = "frames"
KEEP_S = 30 * 86_400.0  # what nobody has loaded for a month goes: it holds links
SINCE_1970 = 0.0  # what the times of receipts count from: frames have no beginning


class Frame(NamedTuple):
    """What the tasks need; a partition is the number of a batch, below ``batches``."""

    work: Work
    batches: int
    content_bytes: int | None


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What the batches were cut by (``cfetch.frame/1``): the same again gives the same batches."""

    schema: str = "cfetch.frame/1"
    slots: int
    concurrency: int


def load_frame(manifest: str, options: Options, *, slots: int) -> Frame:
    """Freeze ``manifest``, or find it frozen; entries that failed before are tried again.

    Raises:
        UsageError: it cannot be had, or has faults.
        LocalFault: the destination or the state cannot be written.
    """
    settings = options.settings
    network = network_of(settings.network, options.env)
    with frozen(manifest, base_url=settings.base_url, network=network) as plan:
        directory = keep(options, FRAMES, f"{__version__} {plan.digest}")
        work = msgspec.structs.replace(
            work_of(options, directory, manifest, slots=slots), headers=plan.headers
        )
        with on_disk(directory):
            os.utime(directory)
            Path(work.receipts).mkdir(0o700, exist_ok=True)
        _sweep(directory.parent, options.root / STATE_NAME / ATTEMPTS)
        with locked(directory / "lock"):
            batches = _write(plan, Path(work.work_file), settings.concurrency, slots)
            forget_failures(Path(work.receipts))
        return Frame(work, batches, options.content_bytes)


def keep(options: Options, kind: str, identity: str) -> Path:
    """The directory in the state for one ``identity`` and destination; its parts have one too.

    Both are there afterwards. Raises LocalFault.
    """
    text = f"{identity}\0{options.root}"
    name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    volume = Directory(options.root)  # which makes the state private, and refuses a symlink for it
    try:
        directory = places(options.settings).state / kind / name
        with on_disk(directory):
            directory.mkdir(0o700, parents=True, exist_ok=True)
            attempts_of(options.root, name, EPOCH).mkdir(0o700, parents=True, exist_ok=True)
    finally:
        volume.close()
    return directory


def work_of(options: Options, directory: Path, manifest: str, *, slots: int) -> Work:
    """What tasks are told. The name of ``directory`` stands where a run has its plan's instant.

    ``manifest``: fresh links come from there, if it is a URL.
    """
    return Work(
        settings=options.settings,
        headers=(),
        env=options.env,
        origin=ManifestRef(manifest, None, options.settings.base_url),
        instant=directory.name,
        epoch=EPOCH,
        root=str(options.root),
        receipts=str(directory / "receipts"),
        work_file=str(directory / "work.parquet"),
        wall_start_s=SINCE_1970,
        part_s=float("inf"),  # nobody looks before the batch is over
        at_a_time=slots,
    )


def _write(plan: Plan, work_file: Path, concurrency: int, slots: int) -> int:
    """The number of batches. Written anew each time: the links may have been signed anew."""
    path = work_file.with_name("cut.json")
    cut = _Cut(slots=slots, concurrency=concurrency)
    with on_disk(path), suppress(FileNotFoundError, msgspec.MsgspecError):
        cut = msgspec.json.decode(path.read_bytes(), type=_Cut)
    found = shares(plan.sizes, plan.host_of, pace=Pace(concurrency=cut.concurrency), slots=cut.slots)
    batches = len(found.cost_s) if len(plan) else 0
    replace_file(path, msgspec.json.encode(cut))
    write_work(work_file, plan, range(len(plan)), found, sharers(found, plan.host_of, slots=slots))
    return batches


def _sweep(frames: Path, attempts: Path) -> None:
    """Remove frames that were not loaded for long, and what their dead tasks have left."""
    now_s = time.time()
    with suppress(OSError):
        for path in list(frames.iterdir()):
            if now_s - path.stat().st_mtime > KEEP_S:
                shutil.rmtree(attempts / path.name, ignore_errors=True)
                shutil.rmtree(path, ignore_errors=True)
