"""The steps of a writer of segments on a disk, one by one, so that a test can stop it anywhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfetch.base.secret import printable
from cfetch.storage.files import local_fault
from cfetch.storage.lacking import flush_directory
from cfetch.storage.locks import need_lock


class SegmentDisk:
    """The file operations. All raise LocalFault."""

    def append(self, path: Path, data: bytes) -> None:
        """Write at the end of a file, which is made if it is missing, and flush it."""
        with _map_faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            with path.open("ab", buffering=0) as file:
                self._write_all(file.fileno(), data)
            if is_new:
                for directory in list(path.parents)[:3]:  # segments/<range>/ may be new too
                    self.sync_names(directory)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a file in one step, flushed before and after."""
        hidden = path.with_name(f".{path.name}.new")
        with _map_faults(path):
            with hidden.open("wb", buffering=0) as file:
                self._write_all(file.fileno(), data)
            self.rename(hidden, path)
            self.sync_names(path.parent)

    def _write_all(self, descriptor: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.write(descriptor, view) :]
        self.sync(descriptor)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of ``data``, or all. Returns how many bytes."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Flush a file."""
        os.fsync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its name."""
        old.replace(new)

    def sync_names(self, directory: Path) -> None:
        """Flush the names in a directory."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flush_directory(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file; it may have gone already."""
        with _map_faults(path):
            path.unlink(missing_ok=True)

    def read(self, path: Path) -> bytes | None:
        """The whole file; None if it is not there."""
        with _map_faults(path):
            return path.read_bytes() if path.exists() else None

    def age(self, path: Path) -> float:
        """When the file was last written, in seconds since 1970; 0.0 if it is not there."""
        with _map_faults(path):
            return path.stat().st_mtime if path.exists() else 0.0

    def below(self, directory: Path) -> Iterator[Path]:
        """All files in the directories of a directory."""
        with _map_faults(directory):
            yield from (path for path in directory.glob("*/*") if path.is_file())

    def lock(self, path: Path) -> int:
        """Hold a file against other writers until the descriptor is closed. Raises Held."""
        with _map_faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                held = f"another process writes to {printable(str(path.parent))} ({{holder}})"
                need_lock(descriptor, held, name=path, remedy="keep the feed on a local disk")
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor


@contextmanager
def _map_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise local_fault(error, f"cannot use {printable(str(path))}") from None
