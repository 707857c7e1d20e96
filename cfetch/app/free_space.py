"""The space that a plan needs, against the space that its volumes have, before anything is downloaded."""

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from cfetch.app.prepared import join_roots
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.run.volumes import Volumes

if TYPE_CHECKING:
    from cfetch.manifest.entries import Frozen

DISK_RESERVE_BYTES = 16 << 20  # metrics, plan and directories need room too
RECORD_BYTES = 768  # of a file in the metrics: measured 670 for files of 1 KB, 770 of 1 MiB


def count_record_bytes(files: int, volumes: Volumes, settings: Settings) -> int:
    """The room that the records of so many files take on the disk with the state, if files go there too.

    The frozen plan has its room already, and all else in the state is small: most of it is the metrics.
    """
    return files * RECORD_BYTES if volumes.have_state and settings.metrics is None else 0


def fit_to_room(plan: "Frozen", volumes: Volumes, settings: Settings) -> Settings:
    """Return the settings, with smaller batches if the volumes will be nearly full.

    The files in place are looked up only if the space is scarce. Parts of dead runs count as space, since the
    run continues them. A file that comes in pieces is copied while they are there. How many files are at that
    at a time depends on the run, so the smallest alone is counted twice; a batch that does not fit is refused
    when it arrives.

    Raises:
        LocalFault: the missing files do not fit.
    """
    free_bytes = volumes.free_bytes()
    count = len(volumes.roots)
    fraction = settings.batch_share if count > 1 else 0.0
    most_bytes = plan.total_bytes * (1 + max(fraction * count, plan.names_batches))  # pieces are a batch
    record_bytes = count_record_bytes(len(plan), volumes, settings)
    reserve_bytes = max(DISK_RESERVE_BYTES, record_bytes)
    if free_bytes is None or most_bytes <= free_bytes - reserve_bytes:
        return settings
    missing_bytes, joined_bytes = 0, inf
    for entry in plan.entries():
        if entry.clash is None and volumes.existing(entry.path) != (entry.file_bytes or 0):
            missing_bytes += entry.size_bytes or 0
            if entry.piece is not None:
                joined_bytes = min(joined_bytes, entry.piece.file_bytes)
    room_bytes = max(0, free_bytes - reserve_bytes) + volumes.kept_bytes()
    more_bytes = 0 if joined_bytes == inf else int(joined_bytes)
    spare_bytes = room_bytes - missing_bytes - more_bytes
    if spare_bytes < 0:
        joined = f", and {more_bytes:,} more while the pieces of a file are joined" if more_bytes else ""
        records = " for the metrics, which --metrics puts elsewhere" if reserve_bytes == record_bytes else ""
        raise LocalFault(
            f"the plan needs {missing_bytes:,} more bytes{joined}, and {join_roots(volumes.roots)} has room "
            f"for {room_bytes:,} (a reserve of {reserve_bytes:,} set aside{records}); free some space or "
            "choose another --to. Nothing was downloaded"
        )
    from cfetch.engine.placement.batches import fit_fraction  # only where the space is scarce

    fitting = fit_fraction(settings.batch_share, plan.total_bytes, spare_bytes, count)
    return replace(settings, batch_share=fitting) if count > 1 else settings
