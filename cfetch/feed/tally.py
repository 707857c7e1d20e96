"""What a follower did, out of what it read and the summaries of its plans."""

from collections.abc import Collection, Iterable

from cfetch.errors import CfetchError
from cfetch.feed.source import Change
from cfetch.records import Summary
from cfetch.report.summary import MAX_FAILURES, exit_code, status

__all__ = ["FollowTally"]


class FollowTally:
    """``upserts`` and ``deletes`` that were read. A file that failed and came later has not failed."""

    def __init__(self) -> None:
        self.upserts = 0
        self.deletes = 0
        self._last: Summary | None = None
        self._done = 0
        self._skipped = 0
        self._total_bytes = 0
        self._fetched = 0
        self._wasted = 0
        self._retries = 0
        self._detected = 0
        self._cancelled = 0
        self._saved_s = 0.0
        self._wasted_by_cancels = 0
        self._triggered = False
        self._restored = False
        self._failures: dict[str, Summary.Failure] = {}

    def read(self, changes: Iterable[Change]) -> None:
        """Count what a step has brought."""
        for one in changes:
            if one.entry is None:
                self.deletes += 1
            else:
                self.upserts += 1

    def add(self, plan: Summary) -> None:
        """Count what a plan has done."""
        self._last = plan
        self._done += plan.files.done
        self._skipped += plan.files.skipped
        self._total_bytes += plan.bytes.total
        self._fetched += plan.bytes.fetched
        self._wasted += plan.bytes.wasted
        self._retries += plan.retries
        self._detected += plan.stragglers.detected
        self._cancelled += plan.stragglers.cancelled
        self._saved_s += plan.stragglers.saved_s
        self._wasted_by_cancels += plan.stragglers.wasted_bytes
        self._triggered |= plan.fallback.triggered
        self._restored |= plan.fallback.restored
        for one in plan.failures:
            self._failures.pop(one.path, None)
            self._failures[one.path] = one
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
        """``pending``: the paths that could not be had. ``metrics``: the directory of the plans' files."""
        in_place, failed = self._done + self._skipped, len(pending)
        code, said = exit_code(failed, error), status(in_place, failed, error)
        if error is None and self._last is not None and self._last.exit_code > 1:  # it ended the follower
            code, said = self._last.exit_code, self._last.status
        waiting = frozenset(pending)
        return Summary(
            instant=self._last.instant if self._last is not None else "",
            status=said,
            exit_code=code,
            files=Summary.Files(
                total=in_place + failed, done=self._done, skipped=self._skipped, failed=failed
            ),
            bytes=Summary.Bytes(total=self._total_bytes, fetched=self._fetched, wasted=self._wasted),
            elapsed_s=elapsed_s,
            rate_bps=self._fetched / elapsed_s if elapsed_s > 0 else 0.0,
            retries=self._retries,
            stragglers=Summary.Stragglers(
                detected=self._detected,
                cancelled=self._cancelled,
                saved_s=round(self._saved_s, 3),
                wasted_bytes=self._wasted_by_cancels,
            ),
            fallback=Summary.Fallback(triggered=self._triggered, restored=self._restored),
            failures=[one for path, one in self._failures.items() if path in waiting],
            metrics=metrics,
            feed=feed,
        )
