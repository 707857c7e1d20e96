"""Sums up a follower's work: the changes that it read, and the results of its plans."""

from collections.abc import Collection, Iterable

import msgspec

from cfetch.base.errors import CfetchError
from cfetch.base.events import Event
from cfetch.base.records import Summary
from cfetch.plugins.follow.source import Change
from cfetch.show.counts import Counts
from cfetch.show.summary import MAX_FAILURES, exit_code, status, summary_of


class FollowTally:
    """Counts ``upserts`` and ``deletes`` read. A file that failed first and came later has not failed.

    It listens to the plans while they run, and gets the summary of each.
    """

    def __init__(self) -> None:
        self.upserts = 0
        self.deletes = 0
        self._counts = Counts()
        self._last: Summary | None = None
        self._total_bytes = 0
        self._saved_s = 0.0
        self._fallback = Summary.Fallback(triggered=False, restored=False)
        self._failures: dict[str, Summary.Failure] = {}

    def __call__(self, event: Event) -> None:
        """Count an event of a plan."""
        self._counts.note(event)

    def read(self, changes: Iterable[Change]) -> None:
        """Count the changes of a step."""
        for change in changes:
            if change.entry is None:
                self.deletes += 1
            else:
                self.upserts += 1

    def add(self, plan: Summary) -> None:
        """Note how a plan has ended."""
        self._last = plan
        self._total_bytes += plan.bytes.total
        self._saved_s += plan.stragglers.saved_s  # plans run one after the other, so their times add up
        self._fallback = Summary.Fallback(
            triggered=self._fallback.triggered or plan.fallback.triggered,
            restored=self._fallback.restored or plan.fallback.restored,
        )
        for failure in plan.failures:
            self._failures.pop(failure.path, None)
            self._failures[failure.path] = failure
        while len(self._failures) > MAX_FAILURES:
            del self._failures[next(iter(self._failures))]

    def summary(
        self,
        elapsed_s: float,
        pending: Collection[str],
        error: CfetchError | None,
        metrics: str,
        feed: Summary.Feed,
    ) -> Summary:
        """Make the summary. ``pending``: paths that failed; ``metrics``: the directory of plans' files."""
        last, failed = self._last, len(pending)
        counts = msgspec.structs.replace(self._counts, failed=failed)  # the latest state of each path counts
        code, word = exit_code(failed, error), status(counts.in_place, failed, error)
        if error is None and last is not None and last.exit_code > 1:  # this plan ended the follower
            code, word = last.exit_code, last.status
        waiting = frozenset(pending)
        summary = summary_of(
            counts,
            instant=last.instant if last is not None else "",
            status=word,
            exit_code=code,
            total=counts.settled,
            total_bytes=self._total_bytes,
            elapsed_s=elapsed_s,
            fallback=self._fallback,
            failures=[failure for path, failure in self._failures.items() if path in waiting],
            metrics=metrics,
            saved_s=self._saved_s,
        )
        return msgspec.structs.replace(summary, feed=feed)
