"""The faulty rows of a manifest that is read with ``bad_rows`` skip, as a file of lines and reasons."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from cfetch.base.secret import encode_json, printable
from cfetch.show.format import plural
from cfetch.storage.files import local_fault, make_private
from cfetch.storage.group_rights import create_file


def describe_skipped(faults: int) -> str:
    """A note for the user about rows that were skipped with so many faults."""
    return f"rows with {plural(faults, 'fault')} were skipped"


class RejectedRows:
    """One JSON object a line, ``{"line": …, "reason": …}``. The file is made with the first fault."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._rows = 0

    def add(self, line: int, reason: str) -> None:
        """Note one fault. Raises LocalFault."""
        try:
            if self._file is None:
                make_private(self._path.parent, state=self._path.parent.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.fdopen(create_file(self._path, flags, 0o600), "w", encoding="utf-8")
            self._file.write(encode_json({"line": line, "reason": reason}) + "\n")
            self._rows += 1
        except OSError as error:
            raise local_fault(error, f"cannot write {printable(str(self._path))}") from None

    def notes(self) -> tuple[str, ...]:
        """The notes for the user, when all rows have been read."""
        if self._file is None:
            return ()
        self._file.flush()
        return (f"{describe_skipped(self._rows)}: {printable(str(self._path))}",)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
