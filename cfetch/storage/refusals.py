"""What it means that the system refuses a call for one file: only that file fails, or the whole volume does.

::

    something stands in its place                        Blocked: the user can move it away
    a name or a size that the file system does not take  Unstorable: the other files are not affected
    a permission or a quota                              Unstorable; at the third file in a row, VolumeFault
    no space, read-only, a disk that fails, others       VolumeFault at once: no file can be written

A permission may be that of one directory, and a quota that of one project: so the first refusals say nothing
about the other files. But a run in which nothing can be written must end, and not fail file by file.
"""

import errno

from cfetch.base.errors import Blocked, LocalFault, Unstorable
from cfetch.base.secret import printable
from cfetch.manifest.entry import SafePath
from cfetch.storage.files import volume_fault

IN_A_ROW = 3  # files that are refused one after the other, before the volume counts as failed
_OBSTACLES = {
    errno.EISDIR: "a directory stands in its place",
    errno.EEXIST: "a directory stands in its place",
    errno.ENOTEMPTY: "a directory stands in its place",
    errno.ENOTDIR: "a file or a symlink stands where one of its directories should be",
    errno.ELOOP: "a symlink stands where one of its directories should be",
}
_NAMES = {
    errno.ENAMETOOLONG: "its name is too long for this file system",
    errno.EINVAL: "this file system takes no such name",
    errno.EILSEQ: "this file system takes no such name",
}
_WAY_OUT = "give it another name, or another --to"
_RIGHTS = {errno.EDQUOT, errno.EACCES, errno.EPERM}


class NameRefusals:
    """Decides what the refusals of one volume mean; it remembers which files were refused in a row.

    ``spares_entries``: False where other volumes may take the file, so that a fault is always the volume's.
    """

    def __init__(self, *, spares_entries: bool) -> None:
        self._spares_entries = spares_entries
        self._in_a_row: set[SafePath] = set()

    def note_success(self) -> None:
        """Note that a file was put in place: the refusals before it were those files' own."""
        if self._in_a_row:
            self._in_a_row.clear()

    def judge_name(
        self, error: OSError, path: SafePath, what: str, *, beneath: int | None = None
    ) -> Blocked | LocalFault:
        """Make the error of a call that had the file's own name: Blocked, Unstorable or VolumeFault.

        ``what`` is the action that failed, ``beneath`` as in ``volume_fault``.
        """
        number = error.errno or 0
        if number in _OBSTACLES:
            return Blocked(f"{_OBSTACLES[number]} ({printable(path)}); move it away")
        if number in _NAMES:
            return Unstorable(f"{what}: {_NAMES[number]}; {_WAY_OUT}")
        return self._judge_rights(error, path, what, beneath)

    def judge_bytes(self, error: OSError, path: SafePath, what: str) -> LocalFault:
        """Make the error of a call that wrote bytes of the file: Unstorable or VolumeFault."""
        if error.errno == errno.EFBIG and self._spares_entries:
            return Unstorable(str(volume_fault(error, what)))
        return self._judge_rights(error, path, what, None)

    def _judge_rights(self, error: OSError, path: SafePath, what: str, beneath: int | None) -> LocalFault:
        fault = volume_fault(error, what, beneath=beneath)
        if error.errno not in _RIGHTS or not self._spares_entries:
            return fault
        self._in_a_row.add(path)
        return fault if len(self._in_a_row) >= IN_A_ROW else Unstorable(str(fault))


def means_no_file(error: OSError) -> bool:
    """Whether the error of a look-up says that there is no file of that name, and can be none now."""
    return error.errno == errno.ENOENT or error.errno in _OBSTACLES or error.errno in _NAMES
