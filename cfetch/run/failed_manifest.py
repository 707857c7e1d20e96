"""The entries of a run that failed, written as a manifest that another run reads (``--failures``).

Beside an entry that failed as its name is another entry's, the list has that other one too: its file is in
place, so the next run only looks at it. Without it nobody could tell that the later file must not replace it.
"""

from pathlib import Path

from cfetch.base.events import EntryFinished, Event
from cfetch.manifest.entries import Frozen
from cfetch.storage.outputs import open_output

FORMAT = "jsonl"


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
