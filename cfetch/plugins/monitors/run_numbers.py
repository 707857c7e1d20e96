"""The numbers of runs for monitoring systems, whichever library takes them. Pure.

Names follow Prometheus's rules: base units at the end; counters get ``_total`` there. Counters add up over
the runs of one process, such as those of ``cfetch follow``.
"""

from typing import Protocol

from cfetch.base.events import (
    EntriesFinished,
    EntryFinished,
    Event,
    Progress,
    RunExplained,
    RunFinished,
    RunStarted,
)
from cfetch.base.records import FileRecord
from cfetch.base.secret import printable
from cfetch.show.counts import count_received, retries
from cfetch.show.wasted_bytes import received_bytes, wasted_bytes

HOSTS = 50  # with histograms of their own; a label with thousands of values harms a Prometheus server
OTHERS = "other"
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)  # steps of a half decade
COUNTERS = {  # by name: help, and the label if there is one
    "cfetch_files": ("Files that have ended, by outcome.", "outcome"),
    "cfetch_received_bytes": ("Bytes that came over the wire, also of attempts under way.", ""),
    "cfetch_wasted_bytes": ("Bytes that came and are in no file.", ""),
    "cfetch_attempts": ("Attempts, by outcome.", "outcome"),
    "cfetch_retries": ("Attempts after a failed one.", ""),
    "cfetch_stragglers": ("Attempts that were cancelled as slow.", ""),
    "cfetch_failures": ("Failed files, by kind.", "kind"),
}
HISTOGRAMS = {  # of seconds, by host
    "cfetch_file_seconds": "Time from the first attempt at a file to its end.",
    "cfetch_first_byte_seconds": "Time from a request to its first byte.",
}
GAUGES = {
    "cfetch_run_files": "Files of the latest run.",
    "cfetch_run_files_in_place": "Files of the latest run in place.",
    "cfetch_active_attempts": "Attempts under way.",
    "cfetch_run_saved_seconds": "Time that mitigation saved the latest run that ended.",
    "cfetch_run_duration_seconds": "Duration of the latest run that ended.",
    "cfetch_run_exit_code": "Exit code of the latest run that ended.",
}
_OUTCOMES = ("done", "skipped", "failed", "cancelled")


class Meters(Protocol):
    """The port to a library with the metrics of COUNTERS, HISTOGRAMS and GAUGES."""

    def add(self, name: str, number: int, label: str = "") -> None:
        """Add to a counter; ``label`` is the value of its label."""

    def observe(self, name: str, seconds: float, host: str) -> None:
        """Add a value to a histogram."""

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""


class RunNumbers:
    """A listener that gives the numbers of runs to ``meters``."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._hosts: set[str] = set()
        self._counted_bytes = self._ended_bytes = self._skipped_bytes = 0  # of the present run
        meters.add("cfetch_received_bytes", 0)
        for outcome in _OUTCOMES:
            meters.add("cfetch_files", 0, outcome)  # a series that begins at 0 shows its first increase

    def __call__(self, event: Event) -> None:
        """Count an event."""
        set_ = self._meters.set
        if isinstance(event, EntryFinished):
            self._add(event.record)
        elif isinstance(event, EntriesFinished):
            for record in event.block.read_records():
                self._add(record)
        elif isinstance(event, Progress):
            self._count_received(count_received(event, self._skipped_bytes))
            set_("cfetch_active_attempts", len(event.active) + event.unshown)
            set_("cfetch_run_files_in_place", event.done + event.skipped)
        elif isinstance(event, RunStarted):
            self._counted_bytes = self._ended_bytes = self._skipped_bytes = 0
            set_("cfetch_run_files", event.files)
            set_("cfetch_run_files_in_place", 0)
        elif isinstance(event, RunExplained):
            set_("cfetch_run_saved_seconds", event.record.saved_s)
        elif isinstance(event, RunFinished):
            summary = event.summary
            set_("cfetch_active_attempts", 0)
            set_("cfetch_run_files_in_place", summary.files.done + summary.files.skipped)
            set_("cfetch_run_duration_seconds", summary.elapsed_s)
            set_("cfetch_run_exit_code", summary.exit_code)

    def _add(self, record: FileRecord) -> None:
        meters = self._meters
        meters.add("cfetch_files", 1, record.status)
        self._ended_bytes += received_bytes(record)
        self._skipped_bytes += record.bytes * (record.status == "skipped")
        self._count_received(self._ended_bytes)
        meters.add("cfetch_wasted_bytes", wasted_bytes(record))
        meters.add("cfetch_retries", retries(record))
        if record.status == "failed":
            meters.add("cfetch_failures", 1, printable(record.error_kind or "unknown", 40))
        host = self._label_of(record.host)
        for attempt in record.attempts:
            meters.add("cfetch_attempts", 1, attempt.outcome)
            meters.add("cfetch_stragglers", int(attempt.outcome == "straggler"))
            if attempt.first_byte_s is not None:
                meters.observe("cfetch_first_byte_seconds", attempt.first_byte_s - attempt.start_s, host)
        if record.status == "done" and record.attempts:
            meters.observe("cfetch_file_seconds", record.end_s - record.start_s, host)

    def _count_received(self, total: int) -> None:
        """Let the counter grow to the run's ``total``. A file that takes an hour counts all the time."""
        if total > self._counted_bytes:
            self._meters.add("cfetch_received_bytes", total - self._counted_bytes)
            self._counted_bytes = total

    def _label_of(self, host: str) -> str:
        if host not in self._hosts:
            if len(self._hosts) >= HOSTS:
                return OTHERS
            self._hosts.add(host)
        return printable(host, 80)
