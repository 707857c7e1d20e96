"""The entries of a run that failed, written as a manifest that another run reads (``--failures``).

Beside an entry that failed as its name is another entry's, the list has that other one too: its file is in
place, so the next run only looks at it. Without it nobody could tell that the later file must not replace it.
"""

from pathlib import Path

import msgspec

from cfetch.base.errors import ConfigError
from cfetch.base.events import EntryFinished, Event
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entries import Frozen
from cfetch.storage.files import local_fault
from cfetch.storage.outputs import find_output, open_output

FORMAT = "jsonl"
MOST_LINE_BYTES = 2 << 20  # a row is at most 1 MiB


class FailedEntries:
    """A listener that notes which entries fail; ``write`` makes the manifest."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def __call__(self, event: Event) -> None:
        """Note the entry if it has failed."""
        if isinstance(event, EntryFinished) and event.record.status == "failed":
            self._ids.add(event.record.id)

    def write(self, path: Path, plan: Frozen) -> None:
        """Write the failed entries of ``plan`` with all their fields, secrets too, for its owner only.

        The file is empty if none failed. Raises LocalFault.
        """
        from cfetch.manifest.writing import TARGETS, Survey  # most runs write none

        with open_output(path, private=True) as file:
            if self._ids:
                others = {
                    entry.clash.other
                    for entry in plan.entries()
                    if entry.id in self._ids and entry.clash is not None
                }
                entries = (
                    entry
                    for entry in plan.entries()
                    if entry.id in self._ids or (entry.path in others and entry.clash is None)
                )
                TARGETS[FORMAT].write(entries, Survey(plan.headers), file)


def find_failures_path(name: str, manifest: str) -> Path:
    """Return the path of the manifest of failures; it may replace an older one.

    Raises:
        ConfigError: something else is there.
        LocalFault: the file there cannot be read.
    """
    try:
        path = find_output(Path(name).absolute())
        if path.is_file():
            if Path(manifest).is_file() and path.samefile(manifest):
                raise ConfigError(f"failures is {path}, the manifest itself; name another file")
            with path.open("rb") as file:
                line = file.readline(MOST_LINE_BYTES)
            if line and not _is_row(line):
                raise ConfigError(f"failures is {path}, which holds something else; name another file")
    except OSError as error:
        raise local_fault(error, f"cannot write the failures to {name}") from None
    return path


def _is_row(line: bytes) -> bool:
    """Whether a manifest of failures may begin with this line."""
    try:
        row = msgspec.json.decode(line)
    except NOT_DECODED:
        return False
    return isinstance(row, dict) and not {"url", "version"}.isdisjoint(row)
