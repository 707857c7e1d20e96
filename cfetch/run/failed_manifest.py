"""The entries of a run that failed, written as a manifest that another run reads (``--failures``)."""

from pathlib import Path

from cfetch.base.events import EntryFinished, Event
from cfetch.manifest.entries import Frozen
from cfetch.storage.outputs import open_output

FORMAT = "jsonl"


class FailedEntries:
    """A listener that notes which entries fail; ``write`` makes the manifest."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Note the entry if it has failed."""
        if isinstance(event, EntryFinished) and event.record.status == "failed":
            self._paths.add(event.record.path)

    def write(self, path: Path, plan: Frozen) -> None:
        """Write the failed entries of ``plan`` with all their fields, secrets too, for its owner only.

        The file is empty if none failed. Raises LocalFault.
        """
        from cfetch.manifest.writing import TARGETS, Survey  # most runs write none

        entries = (entry for entry in plan.entries() if entry.path in self._paths)
        with open_output(path, private=True) as file:
            if self._paths:
                TARGETS[FORMAT].write(entries, Survey(plan.headers), file)
