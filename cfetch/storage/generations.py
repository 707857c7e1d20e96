"""Publishes a tree as it is at one moment, while the tree itself goes on.

A *generation* is a directory of hard links to all files of the tree. It is made whole beside the older ones;
then the symlink ``current`` is replaced in one step. Files of the tree are only ever replaced by renames, so
a link keeps its bytes. The generation before stays too, for programs that are still reading it, until the
next one is the present one.
"""

import errno
import os
import re
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable
from cfetch.storage.files import STATE_NAME, on_disk
from cfetch.storage.group_rights import for_group, is_for_group
from cfetch.storage.group_sharing import give_destination_to_group
from cfetch.storage.lacking import LINKS, flush_file_system
from cfetch.storage.tree import ReadOnlyTree

CURRENT = "current"
_NEXT = ".current.next"
_GENERATION = re.compile(r"generation-(\d{1,18})-([0-9a-f-]+)")  # no directory of the user has such a name


class Generations:
    """The generations of the tree at ``root``, in ``directory``, which is made if there is none.

    A version is a text of hex digits and dashes that differs whenever the tree may differ.
    """

    def __init__(self, root: Path, directory: Path) -> None:
        """Only look. Raises ConfigError: the places do not fit; LocalFault: they cannot be read."""
        self._root, self._directory = root, directory.absolute()
        self._shown = printable(str(directory))
        with on_disk(self._directory):
            real = Path(os.path.realpath(self._directory))
            tree = Path(os.path.realpath(root))
            if real.is_relative_to(tree) or tree.is_relative_to(real):
                both = f"{self._shown} and {printable(str(root))}"
                raise ConfigError(f"of {both} one lies in the other; give each a place of its own")
            self._read_current()
            if _device_of(self._directory) != _device_of(root.absolute()):
                raise self._make_device_error("it is on another file system")

    def has_current(self, version: str) -> bool:
        """Whether the present generation is of this version. Raises LocalFault."""
        with on_disk(self._directory):
            present = self._read_current()
            match = _GENERATION.fullmatch(present or "")
            return bool(match and match[2] == version and (self._directory / match[0]).is_dir())

    def publish(self, version: str) -> int:
        """Make the tree as it is the present generation; return the number of its files.

        Raises:
            ConfigError: hard links from the tree to the directory are impossible.
            LocalFault: a file cannot be linked. The generation before stays the present one.
        """
        with on_disk(self._directory):
            if self._is_shared():
                give_destination_to_group(self._directory)
            self._directory.mkdir(parents=True, exist_ok=True)
            present = self._read_current()
            if present is not None:
                self._remove_all_but({present, _find_previous(self._list_generations(), present)})
            number = max(map(_number_of, (present or "", *self._list_generations()))) + 1
            name = f"generation-{number}-{version}"
            files = self._link_files(self._directory / name)
            self._flush()
            following = self._directory / _NEXT
            following.unlink(missing_ok=True)
            following.symlink_to(name, target_is_directory=True)
            following.replace(self._directory / CURRENT)
            self._flush()
            if present is not None:  # else somebody has removed it, and it is unknown which one is being read
                self._remove_all_but({present, name})
        return files

    def _flush(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flush_file_system(descriptor)
        finally:
            os.close(descriptor)

    def _link_files(self, generation: Path) -> int:
        files, made, is_shared = 0, {""}, self._is_shared()
        with for_group(is_shared=is_shared):
            generation.mkdir()
        with ReadOnlyTree(self._root) as tree:
            for path, status, _ in tree.regular_files(leave_out=(STATE_NAME,)):
                if status is None:
                    continue
                parent = path.rpartition("/")[0]
                if parent not in made:
                    with for_group(is_shared=is_shared):
                        (generation / parent).mkdir(parents=True, exist_ok=True)
                    made.add(parent)
                try:
                    os.link(self._root / path, generation / path, follow_symlinks=False)
                except OSError as error:
                    if error.errno not in LINKS.errors:
                        raise
                    raise self._make_device_error(error.strerror or "they are refused") from None
                files += 1
        return files

    def _is_shared(self) -> bool:
        """Whether the tree is a group's (``--group``): then another member replaces the generations too."""
        state = self._root / STATE_NAME
        return state.is_dir() and is_for_group(state.lstat())

    def _make_device_error(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self._shown} can have no hard links to files of {printable(str(self._root))}: {why}; give a "
            "directory on the same file system"
        )

    def _read_current(self) -> str | None:
        """The name of the present generation; None: there is none. Raises ConfigError: it is no such link."""
        try:
            present = os.readlink(self._directory / CURRENT)  # noqa: PTH115 - the text as it is
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise ConfigError(
                f"{self._shown} has a {CURRENT} that is no symlink; give another directory"
            ) from None
        if not _GENERATION.fullmatch(present):
            raise ConfigError(
                f"{self._shown} has a {CURRENT} that leads to {printable(present)}, which is no generation; "
                "give another directory"
            )
        return present

    def _list_generations(self) -> list[str]:
        return [name for name in os.listdir(self._directory) if _GENERATION.fullmatch(name)]  # noqa: PTH208

    def _remove_all_but(self, kept: Collection[str | None]) -> None:
        """Remove older generations, and those that dead followers had begun."""
        for name in self._list_generations():
            if name not in kept:
                shutil.rmtree(self._directory / name)


def _device_of(path: Path) -> int:
    """The file system of a path, or of the directory in which it will be made."""
    while not path.exists():
        path = path.parent
    return path.stat().st_dev


def _number_of(generation: str) -> int:
    match = _GENERATION.fullmatch(generation)
    return int(match[1]) if match else 0


def _find_previous(generations: Iterable[str], present: str) -> str | None:
    """The generation before the present one: programs read it until the next one is there."""
    older = [name for name in generations if _number_of(name) < _number_of(present)]
    return max(older, key=_number_of, default=None)
