"""The directory of the metrics tables: its lock, and how the rows of a load get there.

A run's files are named ``<run>-<load>.parquet``. Its row, ``runs/day=…/<run>.parquet``, names the load that
counts, so the rename of that row replaces all rows of the run at once.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.columns import TABLES
from cfetch.plugins.spark.tables.writing import RunCopy, SourceReport
from cfetch.storage.files import USERS, flush_names, open_replacement, remove_temporaries, writing
from cfetch.storage.locks import need_lock

_MARK = "_tables.json"
_FORMAT = b'{"schema":"cfetch.tables/1"}\n'
_LOADING = "_loading"
_LOCK = "_lock"


@contextmanager
def open_tables(root: Path) -> Iterator[Path]:
    """Make the tables if there are none, and keep other writers out; yield a folder for a load's new files.

    The folder of a load that died is removed first.

    Raises:
        UsageError: something else is there.
        Held: another load writes there.
        LocalFault: the directory cannot be written, now or within the ``with``.
    """
    shown = printable(str(root), 1000)
    held = f"another load is writing the tables in {shown} ({{holder}}); run this again when it has ended"
    loading = root / _LOADING
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        refuse_foreign_directory(root)
        with (root / _LOCK).open("ab") as lock:
            need_lock(lock.fileno(), held, name=root, remedy="name a directory on another file system")
            _make_tables(root)
            folder = loading / uuid4().hex[:12]  # of its own: a task of a dead load may still be writing
            shutil.rmtree(loading, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(loading, ignore_errors=True)


def refuse_foreign_directory(root: Path) -> None:
    """Raise UsageError if something else than tables is there. Raises OSError."""
    if (root / _MARK).exists():
        is_ours = (root / _MARK).read_bytes() == _FORMAT
    else:
        is_ours = all(path.name == _LOCK or path.name.startswith(f".{_MARK}.") for path in root.iterdir())
    if not is_ours:
        raise UsageError(
            f"{printable(str(root), 1000)} holds something else than metrics tables of this version; "
            "name a new or an empty directory"
        )


def _make_tables(root: Path) -> None:
    remove_temporaries(root / _MARK)
    if not (root / _MARK).exists():
        with open_replacement(root / _MARK, mode=USERS) as file:
            file.write(_FORMAT)
    for table in TABLES:
        (root / table).mkdir(exist_ok=True)


def put_run(root: Path, folder: Path, copy: RunCopy) -> bool:
    """Make the rows of ``copy`` the current ones of its run; true if the run was there before."""
    day = f"day={copy.start.date()}"
    for table in copy.tables:
        _move(folder / f"{copy.load}.{table}", root / table / day / f"{copy.key}-{copy.load}.parquet")
    row = root / "runs" / day / f"{copy.key}.parquet"
    is_known = row.exists()
    _move(folder / f"{copy.load}.runs", row)
    return is_known


def put_rejected(root: Path, folder: Path, report: SourceReport) -> None:
    """Make the bad lines of the report, or none, those of its source."""
    path = root / "rejected" / f"{hashlib.sha256(report.source.encode()).hexdigest()[:20]}.parquet"
    if report.rejected:
        _move(folder / f"{report.load}.rejected", path)
    else:
        path.unlink(missing_ok=True)


def _move(new: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    new.replace(to)
    flush_names(to.parent)


def remove_replaced(root: Path, copies: Iterable[RunCopy]) -> None:
    """Remove the files of former loads of the runs, also of loads that died."""
    current = {copy.key: copy for copy in copies}
    for day in {copy.start.date() for copy in current.values()}:
        for path in root.glob(f"*/day={day}/*-*.parquet"):
            key, _, load = path.stem.partition("-")
            if key in current and load != current[key].load:
                path.unlink(missing_ok=True)
