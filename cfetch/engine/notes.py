"""Tells what a person should know of files that were taken: each kind once, and at the end how often."""

from collections import Counter

from cfetch.base.clock import RunClock
from cfetch.base.events import Listener, RunNoted
from cfetch.base.secret import printable

MAX_KINDS = 100  # texts may hold what servers say, so their number has a limit


class Notes:
    """The notes of a run about its files. The first of a kind names its file."""

    def __init__(self, clock: RunClock, emit: Listener) -> None:
        self._clock = clock
        self._emit = emit
        self._counts: Counter[str] = Counter()

    def add(self, path: str, text: str) -> None:
        """Note something about a file; ``text`` goes on from its name."""
        if text not in self._counts and len(self._counts) >= MAX_KINDS:
            return
        self._counts[text] += 1
        if self._counts[text] == 1:
            self._tell(f"{printable(path)} {text}", text, 1)

    def report(self) -> None:
        """Tell how often each kind was noted, if it was more than once."""
        for text, count in self._counts.items():
            if count > 1:
                self._tell(f"so in all for {count} files: the file {text}", text, count - 1)
        self._counts.clear()

    def _tell(self, note: str, kind: str, files: int) -> None:
        self._emit(RunNoted(t_s=self._clock.now(), note=note, kind=kind, files=files))
