"""A bar in a notebook's cell, made from the events of a run."""

from html import escape
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.base.events import Event, Progress, RunFinished, RunStarted
from cfetch.show.format import duration, plural, size


class NotebookBar:
    """A listener that shows a bar below the cell: ``cfetch.download(…, on_event=cfetch.NotebookBar())``.

    It counts bytes once all sizes are known, and until then files. It is redrawn four times a second.

    Raises:
        UsageError: IPython is not installed.
    """

    def __init__(self) -> None:
        try:
            from IPython.display import display
        except ImportError:
            raise UsageError("a bar in a notebook needs IPython; pip install ipython") from None
        self._done, self._total = 0, 1
        self._files = 1
        self._words = "starting"
        show: Any = display  # it has no types
        self._handle = show(self, display_id=True)

    def __call__(self, event: Event) -> None:
        """Show what the event changes."""
        if isinstance(event, RunStarted):
            self._files = self._total = event.files
        elif isinstance(event, Progress):
            self._done, self._total = event.done + event.skipped + event.failed, self._files
            in_place = f"{event.done + event.skipped:,} of {plural(self._files, 'file')} in place"
            self._words = f"{in_place}, {size(event.bytes_in_hand)}"
            if event.bytes_total:
                self._done, self._total = event.bytes_in_hand, event.bytes_total
                self._words += f" of {size(event.bytes_total)}"
            self._words += f", {event.failed:,} failed" if event.failed else ""
        elif isinstance(event, RunFinished):
            files = event.summary.files
            self._done, self._total = files.done + files.skipped + files.failed, files.total
            in_place = f"{files.done + files.skipped:,} of {plural(files.total, 'file')} in place"
            received = f"{size(event.summary.bytes.fetched)} in {duration(event.summary.elapsed_s)}"
            self._words = f"{event.summary.status}: {in_place}, {received}"
        else:
            return
        if self._handle is not None:  # None where there is no notebook
            self._handle.update(self)

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._done}" max="{max(1, self._total)}" style="width:20em"></progress>'
        return f"<div>{bar} {escape(self._words)}</div>"

    def __repr__(self) -> str:
        return self._words
