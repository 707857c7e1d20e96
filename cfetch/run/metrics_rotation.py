"""Keeps the metrics of the latest runs of a destination (``--keep-metrics``), and compresses them."""

import shutil
from pathlib import Path

from cfetch.base.errors import UsageError
from cfetch.manifest.decompression import import_zstd
from cfetch.show.metrics import PACKED
from cfetch.show.metrics_reading import order_of_runs
from cfetch.storage.files import open_replacement
from cfetch.timeline.states import is_instant

MOST_LINE_BYTES = 2 << 20  # a row is at most 1 MiB


def rotate_metrics(state: Path, keep: int) -> None:
    """Keep the metrics in ``state`` of the ``keep`` latest runs; compress earlier ones, if zstd is there.

    Files of other names stay as they are, and so do those of runs under way. Raises OSError.
    """
    folder = state / "metrics"
    own = [
        path
        for path in (*folder.glob("*.jsonl"), *folder.glob(f"*.jsonl{PACKED}"))
        if is_instant(path.name.partition(".")[0])
    ]
    own.sort(key=order_of_runs)
    for path in own[:-keep]:
        path.unlink(missing_ok=True)
    for path in own[-keep:-1]:
        if path.suffix != PACKED and _has_end(path):
            _compress(path)


def _has_end(path: Path) -> bool:
    """Whether the last line of metrics is the end of the run: nothing more will be written."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_LINE_BYTES))
        return b'"schema":"cfetch.end/1"' in file.read().rstrip(b"\n").rpartition(b"\n")[2]


def _compress(path: Path) -> None:
    try:
        zstd = import_zstd()
    except UsageError:
        return
    target = path.with_name(path.name + PACKED)
    with path.open("rb") as plain, open_replacement(target) as file, zstd.ZstdFile(file, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    path.unlink(missing_ok=True)
