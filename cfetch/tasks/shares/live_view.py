"""The live view of a job: shows its tasks, by their beats, like a run on one machine."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cfetch.base.events import (
    ActiveAttempt,
    ExecutorSlow,
    Listener,
    Progress,
    VolumeView,
    WidthChanged,
)
from cfetch.engine.hosts import RESETS
from cfetch.show.counts import LiveCounts, add_totals
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.registry import ClusterView


class LiveView:
    """``files`` are the plan's, ``counts`` the run's, and ``account`` knows the entries that have ended.

    ``slots``: downloads at a time at one host.
    """

    def __init__(
        self,
        files: int,
        counts: LiveCounts,
        account: Account,
        now_s: Callable[[], float],
        emit: Listener,
        *,
        slots: int,
    ) -> None:
        self._files = files
        self._counts = counts
        self._account = account
        self._now_s = now_s
        self._emit = emit
        self._slots = slots
        self._slow: set[str] = set()
        self._limits: dict[str, int] = {}

    def show(self, seen: ClusterView, volumes: Sequence[VolumeView] = ()) -> None:
        """Emit the run's numbers, from the hub's view of its tasks; ``volumes``: if there are several."""
        for executor in seen.executors:
            if executor.fraction is not None and executor.name not in self._slow:
                self._slow.add(executor.name)
                self._emit(
                    ExecutorSlow(t_s=self._now_s(), executor=executor.name, fraction=executor.fraction)
                )
        for host, slots in seen.resetting.items():
            before = self._limits.get(host, self._slots)
            if slots != before:
                self._limits[host] = slots
                now_s = self._now_s()
                self._emit(WidthChanged(t_s=now_s, host=host, slots=slots, before=before, reason=RESETS))
        self._emit(msgspec.structs.replace(self._progress(seen), volumes=list(volumes)))

    def _progress(self, seen: ClusterView) -> Progress:
        counts = self._counts.ended
        under_way = {attempt.id: attempt for attempt in seen.active}  # one of two copies is enough
        active = [attempt for attempt in under_way.values() if attempt.id not in self._account]
        whole, held_bytes = self._account.count_unreported(seen.brought)
        left = max(0, self._files - counts.ended)
        whole = min(left, whole)  # two copies of a task may have the same file
        progress = Progress(
            t_s=self._now_s(),
            done=counts.done,
            skipped=counts.skipped,
            failed=counts.failed,
            retries=counts.retries,
            bytes_done=counts.in_place_bytes,
            bytes_active=max(0, held_bytes - _count_twofold_bytes(seen.active)),
            bytes_wasted=counts.wasted_bytes,
            active=active,
            whole=whole,
            waiting=max(0, left - whole - len(active) - seen.unshown),
            baseline=seen.baseline,
            stragglers=counts.stragglers,
            sequential=False,
            executors=seen.executors,
            unshown=seen.unshown,
        )
        learned = {a.id: a.file_size_bytes or 0 for a in active if a.is_size_learned}
        return add_totals(progress, self._counts, learned)


def _count_twofold_bytes(active: Iterable[ActiveAttempt]) -> int:
    """Count the bytes of files that two executors bring at the same time, without those of the best one."""
    by_file: defaultdict[int, Counter[str | None]] = defaultdict(Counter)
    for attempt in active:  # a file may have several in one task, for its segments
        by_file[attempt.id][attempt.executor] += attempt.bytes
    return sum(held.total() - max(held.values()) for held in by_file.values() if len(held) > 1)
