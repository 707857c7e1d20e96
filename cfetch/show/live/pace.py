"""How many files end a second, of which sizes, at which hosts, and which kinds of failures there are. Pure.

A row for each attempt helps while rows last long enough to be read. With thousands of small files they do
not; then the hosts, the failures and the files per second tell more.
"""

from collections import Counter, deque
from typing import NamedTuple

from cfetch.base.events import ActiveAttempt, EntriesFinished, EntryFinished, Event, Progress
from cfetch.show.format import count

WINDOW_S = 5.0  # as long as that of the rate
READABLE_S = 1.0  # a row that lasts less than that cannot be read
LEAST_FILES_PER_S = 10.0  # with fewer, the rows of a run of one or two slots change slowly enough


class HostPace(NamedTuple):
    """The files of a host that are done, that failed, and that are under way."""

    name: str
    done: int
    failed: int
    active: int


class Pace:
    """Files by host, failures by kind, and files per second over the last seconds."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self.squares = 0.0  # of the sizes of done files: how far sizes differ
        self._recent: deque[tuple[float, int]] = deque([(0.0, 0)])  # (t_s, files that are done)

    def apply(self, event: Event) -> None:
        """Update the state by one event."""
        if isinstance(event, EntryFinished):
            if event.record.status == "done":
                self._done[event.record.host] += 1
                self.squares += event.record.bytes**2
            elif event.record.status == "failed":
                self._failures[event.record.error_kind or "unknown"] += 1
                self._failed[event.record.host] += 1
        elif isinstance(event, EntriesFinished):
            self._done.update(event.digest.done)
        elif isinstance(event, Progress):
            self._recent.append((event.t_s, event.done))
            while len(self._recent) > 2 and self._recent[1][0] <= event.t_s - WINDOW_S:
                self._recent.popleft()

    @property
    def files_per_s(self) -> float:
        """Files that are done per second, over the last few seconds."""
        (since_s, before), (now_s, done) = self._recent[0], self._recent[-1]
        return (done - before) / (now_s - since_s) if now_s > since_s else 0.0

    def is_too_quick(self, active: int) -> bool:
        """Whether the rows of ``active`` attempts change faster than a person reads."""
        return self.files_per_s >= max(LEAST_FILES_PER_S, active / READABLE_S)

    def failures_text(self) -> str:
        """The failures by kind, the most frequent first; empty without any."""
        return ", ".join(f"{count(files)} {kind}" for kind, files in self._failures.most_common())

    def list_hosts(self, active: list[ActiveAttempt]) -> list[HostPace]:
        """The hosts, those with most files first."""
        under_way = Counter(attempt.host for attempt in active)
        most = self._done + self._failed + under_way
        return [
            HostPace(name, self._done[name], self._failed[name], under_way[name])
            for name, _ in most.most_common()
        ]
