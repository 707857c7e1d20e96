"""The directory of the metrics tables: its lock, the current load of each run, and the removal of debris.

A run's files are named ``<run>-<command>-<source>-<line>-<chunk>.parquet``: the run's key, then the load that
wrote them, then the chunk. The run's row, ``runs/day=…/<run>.parquet``, names the load that counts.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.columns import TABLES, table_schema
from cfetch.plugins.spark.tables.writing import open_table
from cfetch.storage.locks import need_lock

_MARK = "_tables.json"
_FORMAT = b'{"schema":"cfetch.tables/1"}\n'
_LOADING = "_loading"
_LOCK = "_lock"


class TableStore:
    """The tables below ``root``, for their only writer (``open_exclusively``)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    @contextmanager
    def open_exclusively(cls, root: Path) -> Iterator["TableStore"]:
        """Make the tables if there are none, and keep other writers out of them.

        The files of a load that died are removed first.

        Raises:
            UsageError: something else is there.
            Held: another load writes there.
            LocalFault: the directory cannot be written, now or within the ``with``.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            refuse_foreign_directory(root)
            with (root / _LOCK).open("ab") as lock:
                _take_lock(lock, root)
                _make_tables(root)
                store = cls(root)
                store._remove_debris()
                yield store
        except OSError as error:
            name = printable(str(error.filename or root), 1000)
            reason = error.strerror or type(error).__name__
            raise LocalFault(
                f"cannot write the tables: {name}: {reason}; load again when that is mended"
            ) from None

    @contextmanager
    def begin_load(self, command: str) -> Iterator[Path]:
        """A folder in which a load's tasks mark their progress; if the load dies, it is the load's mark."""
        folder = self._root / _LOADING / command
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            self.sweep((), [command])
        shutil.rmtree(folder)  # stays after a failure: a task may still write, and the next load sweeps again

    def put_run(self, day: str, key: str, row: Mapping[str, object]) -> bool:
        """Make the load that ``row`` names the current one of the run; true if the run was there before."""
        path = self._root / "runs" / f"day={day}" / f"{key}.parquet"
        is_known = path.exists()
        _write_table(path, "runs", [row])
        return is_known

    def put_rejected(self, key: str, rows: list[dict[str, object]]) -> None:
        """Make ``rows`` the bad lines of a source."""
        path = self._root / "rejected" / f"{key}.parquet"
        if rows:
            _write_table(path, "rejected", rows)
        else:
            path.unlink(missing_ok=True)

    def sweep(self, keys: Iterable[str], commands: Iterable[str] = ()) -> None:
        """Remove the files that loads wrote for runs ``keys``, or in ``commands``, unless current."""
        wanted, written = set(keys), set(commands)
        current: dict[str, str | None] = {}
        for table in ("files", "attempts", "events"):
            for path in self._root.glob(f"{table}/day=*/*"):
                key, _, load = path.name.lstrip(".").partition("-")
                load = "-".join(load.split("-")[:3])
                if key not in wanted and load.partition("-")[0] not in written:
                    continue
                if key not in current:
                    current[key] = self._find_current_load(key)
                if path.name.startswith(".") or load != current[key]:
                    path.unlink(missing_ok=True)

    def _find_current_load(self, key: str) -> str | None:
        import pyarrow.parquet as pq

        for path in self._root.glob(f"runs/day=*/{key}.parquet"):
            with path.open("rb") as file:
                load: str = pq.read_table(file, columns=["load"])["load"][0].as_py()
                return load
        return None

    def _remove_debris(self) -> None:
        folder = self._root / _LOADING
        dead = [path.name for path in folder.iterdir()] if folder.exists() else []
        if not dead:
            return
        self.sweep((), dead)
        for pattern in ("runs/day=*/.*", "rejected/.*"):  # temporary files, written only under the lock
            for path in self._root.glob(pattern):
                path.unlink(missing_ok=True)
        for name in dead:
            shutil.rmtree(folder / name)


def refuse_foreign_directory(root: Path) -> None:
    """Raise UsageError if something else than tables is there. Raises OSError."""
    try:
        mark = (root / _MARK).read_bytes()
    except FileNotFoundError:
        if all(path.name == _LOCK or path.name.startswith(f".{_MARK}.") for path in root.iterdir()):
            return
        raise UsageError(
            f"{printable(str(root), 1000)} holds something else than metrics tables; "
            "name a new or an empty directory"
        ) from None
    if mark != _FORMAT:
        raise UsageError(
            f"{printable(str(root), 1000)} holds tables of another format than this version writes; "
            "name another directory and load the metrics into it"
        )


def _make_tables(root: Path) -> None:
    for debris in root.glob(f".{_MARK}.*"):
        debris.unlink()
    if not (root / _MARK).exists():
        with open_table(root / _MARK) as file:
            file.write(_FORMAT)
    for table in TABLES:
        (root / table).mkdir(exist_ok=True)


def _take_lock(lock: Any, root: Path) -> None:  # noqa: ANN401
    shown = printable(str(root), 1000)
    held = f"another load is writing the tables in {shown} ({{holder}}); run this again when it has ended"
    need_lock(lock.fileno(), held, name=root, remedy="name a directory on another file system")


def _write_table(path: Path, table: str, rows: list[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_table(path) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=table_schema(table)), file)
