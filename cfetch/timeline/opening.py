"""Opens a timeline that is there already, for verbs that look at plans or change them; never makes one."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault
from cfetch.timeline.full_disk_reserve import use_ballast
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.store import TIMELINE
from cfetch.timeline.table import Table, ignore_note, on_this_machine, open_table, reach_bucket, this_node

if TYPE_CHECKING:
    from cfetch.timeline.bucket_files import BucketFiles


@contextmanager
def open_existing(
    state: Path,
    volumes: Sequence[Path],
    heartbeats: Heartbeats,
    bucket: str | None = None,
    *,
    note: Callable[[str], None] = ignore_note,
) -> Iterator[Table]:
    """Open a timeline to change it, also on a full disk. Raises UsageError, LocalFault."""
    if bucket is not None:
        _require_timeline(reach_bucket(bucket))
        with open_table(state, volumes, heartbeats, bucket=bucket, note=note) as table:
            yield table
        return
    there = _require_local(state, volumes)
    with (
        open_table(state, there, heartbeats, note=note) as table,
        use_ballast(table.files, table.node.owner.token),
    ):
        yield table


def _require_local(state: Path, volumes: Sequence[Path]) -> list[Path]:
    """The volumes that are there. Raises UsageError: the directory has no timeline; LocalFault."""
    try:
        is_there = (state / TIMELINE).is_dir()
    except OSError as error:
        raise local_fault(error, f"cannot read the timeline in {state}") from None
    if not is_there:
        raise UsageError(f"there is no timeline in {state}; give the --to or --state of a download")
    return [volume for volume in volumes if os.path.isdir(volume)]


@contextmanager
def open_to_read(
    state: Path, volumes: Sequence[Path], heartbeats: Heartbeats, bucket: str | None = None
) -> Iterator[Table]:
    """Open a timeline to read it, which needs no right to write there: a bucket's by one look.

    Raises UsageError, LocalFault.
    """
    if bucket is None:
        with open_table(state, _require_local(state, volumes), heartbeats, is_view=True) as table:
            yield table
        return
    files = reach_bucket(bucket)
    with files.index.read_once():
        _require_timeline(files)
        yield Table(files, [], this_node(), heartbeats, bucket=files, is_view=True)


def _require_timeline(files: "BucketFiles") -> None:
    with on_this_machine("cannot read the timeline"):
        is_there = files.has_timeline()
    if not is_there:
        raise UsageError(
            f"there is no timeline in {printable(files.url)}; give the --to or --state of a download"
        )
