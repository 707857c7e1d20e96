"""The timeline's file operations on a disk that may hang, for runs with several volumes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cfetch.storage.hanging_calls import call_within
from cfetch.timeline.files import Locked, TimelineFiles, name_disk

T = TypeVar("T")


class PatientFiles:
    """The files of ``root``, on a disk that may hang: a call is abandoned after ``limit_s``.

    ``as_absent``: files that cannot be had in time count as missing. Without it, TimeoutError is raised.
    """

    def __init__(self, files: TimelineFiles, root: Path, limit_s: float, *, as_absent: bool) -> None:
        self._files = files
        self._place = name_disk(root)
        self._limit_s = limit_s
        self._as_absent = as_absent

    def _call(self, step: Callable[[], T]) -> T:
        try:
            return call_within(self._limit_s, self._place, step)
        except TimeoutError as error:
            if self._as_absent:
                raise FileNotFoundError(*error.args) from None
            raise

    def create(self, path: str, data: bytes, *, flush: bool = False) -> None:
        """Call ``TimelineFiles.create``."""
        self._call(lambda: self._files.create(path, data, flush=flush))

    def read(self, path: str) -> bytes:
        """Call ``TimelineFiles.read``."""
        return self._call(lambda: self._files.read(path))

    def rewrite(self, path: str, head: bytes, data: bytes) -> None:
        """Call ``TimelineFiles.rewrite``."""
        self._call(lambda: self._files.rewrite(path, head, data))

    def rename(self, old: str, new: str) -> None:
        """Call ``TimelineFiles.rename``."""
        self._call(lambda: self._files.rename(old, new))

    def link(self, old: str, new: str) -> None:
        """Call ``TimelineFiles.link``."""
        self._call(lambda: self._files.link(old, new))

    def copy(self, old: str, new: str) -> None:
        """Call ``TimelineFiles.copy``, which may take minutes, and is waited for."""
        self._files.copy(old, new)

    def lock(self, path: str) -> Locked | None:
        """Call ``TimelineFiles.lock``."""
        return self._call(lambda: self._files.lock(path))

    def has_lost_lock(self, path: str, device: int) -> bool:
        """Call ``TimelineFiles.has_lost_lock``."""
        return self._call(lambda: self._files.has_lost_lock(path, device))

    def unlink(self, path: str) -> None:
        """Call ``TimelineFiles.unlink``."""
        self._call(lambda: self._files.unlink(path))

    def unlink_all(self, paths: Sequence[str]) -> None:
        """Call ``TimelineFiles.unlink`` for each that is there."""
        for path in paths:
            with suppress(FileNotFoundError):
                self.unlink(path)

    def make_directory(self, path: str) -> None:
        """Call ``TimelineFiles.make_directory``."""
        self._call(lambda: self._files.make_directory(path))

    def remove_directory(self, path: str) -> None:
        """Call ``TimelineFiles.remove_directory``."""
        self._call(lambda: self._files.remove_directory(path))

    def names(self, path: str) -> list[str]:
        """Call ``TimelineFiles.names``."""
        with suppress(FileNotFoundError):
            return self._call(lambda: self._files.names(path))
        return []

    def flush_names(self, path: str) -> None:
        """Call ``TimelineFiles.flush_names``."""
        self._call(lambda: self._files.flush_names(path))

    def modified_s(self, path: str) -> float:
        """Call ``TimelineFiles.modified_s``."""
        return self._call(lambda: self._files.modified_s(path))
