"""The tasks of a run as their beats report them, and the hub's answer to each beat. Pure.

Beats go in and orders come out. A task's last beat states all about it, so nothing depends on an earlier
beat; a task that has been silent for ``SILENT_S`` seconds no longer counts.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.config.wire import ALL_HOSTS, NO_LIMITS, RateLimits
from cfetch.base.events import ActiveAttempt, BaselineView, ExecutorView
from cfetch.straggler.merged import Merged, SpeedSample
from cfetch.tasks.hub.learned_limits import LearnedLimits
from cfetch.tasks.hub.leases import Leases
from cfetch.tasks.hub.messages import MOST_DEMANDS, SILENT_S, Orders, TaskBeat

COMPARED_S = 2.0  # how often executors are compared with each other
SURE_S = 2.0  # a beat has the bytes of a second; by then they have come after the failure
YOUNG_S = 2.0  # the speed of a younger attempt shows little
MOST_ENDED = 256  # tasks whose last report may not have been read yet
SPEED_WEIGHT = 0.3  # of the newest beat


class ClusterView(NamedTuple):
    """All that tasks do now, by their last beats; ``unshown`` attempts are under way besides.

    ``brought``: by task, the files that have come whole, and the bytes of all that it has brought.
    ``resetting``: the connections of all tasks that hosts bore when they last reset further ones.
    """

    executors: list[ExecutorView]
    active: list[ActiveAttempt]
    unshown: int
    baseline: BaselineView
    resetting: Mapping[str, int] = MappingProxyType({})
    brought: Mapping[int, tuple[int, int]] = MappingProxyType({})


EMPTY_VIEW = ClusterView([], [], 0, BaselineView(median_bps=None, finished=0, required=0))


class _Task:
    def __init__(self, beat: TaskBeat, heard_s: float) -> None:
        self.beat = beat
        self.heard_s = heard_s
        self.rate_bps = 0.0

    def update(self, beat: TaskBeat, now_s: float) -> None:
        before, since_s = self.beat, now_s - self.heard_s
        received = beat.size_bytes + beat.active_bytes - before.size_bytes - before.active_bytes
        if since_s > 0:
            self.rate_bps += SPEED_WEIGHT * (max(0, received) / since_s - self.rate_bps)
        self.beat, self.heard_s = beat, now_s


class _Executor:
    def __init__(self) -> None:
        self.files = 0
        self.tasks: set[int] = set()
        self.heard_s = 0.0


class TaskRegistry:
    """``per_host``: connections to a host for all tasks together; None: only hosts that throttle are limited.

    ``rates``: the same for bytes a second.

    Times are seconds on one monotonic clock.
    """

    def __init__(self, config: StragglerConfig, per_host: int | None, rates: RateLimits = NO_LIMITS) -> None:
        self._per_host = per_host
        self._learned = LearnedLimits()
        self._leases = Leases(self._limit_of)
        self._rates = Leases(lambda name, _: rates.total_bps if name == ALL_HOSTS else rates.per_host_bps)
        self._pauses: dict[str, float] = {}  # when they end, by host
        self._failing: dict[str, tuple[int, float]] = {}  # which task cannot reach a host, and since when
        self._merged = Merged(config)
        self._tasks: dict[int, _Task] = {}
        self._ended: dict[int, tuple[int, int]] = {}  # what tasks had brought that are over
        self._executors: dict[str, _Executor] = {}
        self._slow: dict[str, float] = {}
        self._compared_s: float | None = None
        self._under_way = 0
        self.stopping = False

    def answer(self, beat: TaskBeat, now_s: float) -> Orders:
        """Take in the beat of a task. Returns the orders for it."""
        self._compare(now_s)
        resetting = [*beat.resetting, *self._find_resetting(beat, now_s)]
        self._record(beat, now_s)
        if beat.over:
            self.forget(beat.task)
            self._ended[beat.task] = beat.in_place, beat.size_bytes
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
            return Orders(stop=self.stopping)
        pauses = self._merge_pauses(beat.pauses, now_s)  # first: this beat has no longer what was refused
        for host in resetting:
            has = beat.demands[host].has if host in beat.demands else 0
            others = self._leases.count_used(host, without=beat.task)
            self._learned.note_reset(host, others + has, now_s)
        leases = self._leases.take_demands(beat.task, beat.demands, now_s)
        return Orders(
            stop=self.stopping,
            leases=leases,
            rates=self._rates.take_demands(beat.task, beat.rates, now_s),
            pauses=pauses,
            alive=sorted(self._learned.resetting.keys() & beat.demands.keys()),
            median_bps=None if beat.executor in self._slow else self._merged.in_force_bps(self._under_way),
        )

    def view(self, now_s: float) -> ClusterView:
        """The present view of the run."""
        self._compare(now_s)
        beats = [task.beat for task in self._tasks.values()]
        active = [
            msgspec.structs.replace(attempt, executor=beat.executor or None)
            for beat in beats
            for attempt in beat.active
        ]
        return ClusterView(
            executors=[
                self._view_executor(name, executor)
                for name, executor in sorted(self._executors.items())
                if name  # processes of one machine have no executor's name
            ],
            active=active,
            unshown=self._under_way - len(active),
            baseline=BaselineView(
                median_bps=self._merged.median_bps,
                finished=self._merged.finished,
                required=self._merged.count_required(self._under_way),
            ),
            resetting=dict(self._learned.resetting),
            brought=self._ended
            | {
                beat.task: (beat.in_place + beat.whole, beat.size_bytes + beat.active_bytes) for beat in beats
            },
        )

    def _record(self, beat: TaskBeat, now_s: float) -> None:
        task = self._tasks.get(beat.task)
        if task is None:
            task = self._tasks[beat.task] = _Task(beat, now_s)
            self._under_way += beat.under_way
            ended = beat.files
        else:
            ended = beat.files - task.beat.files
            self._under_way += beat.under_way - task.beat.under_way
            task.update(beat, now_s)
        executor = self._executors.setdefault(beat.executor, _Executor())
        executor.tasks.add(beat.task)
        executor.files += max(0, ended)
        executor.heard_s = now_s
        self._merged.add(beat.executor, beat.samples, beat.finished)

    def forget(self, number: int) -> None:
        """Forget a task, if it is known."""
        if number not in self._tasks:
            return
        beat = self._tasks.pop(number).beat
        self._under_way -= beat.under_way
        self._executors[beat.executor].tasks.discard(number)
        self._rates.forget(number)
        self._leases.forget(number)

    def _limit_of(self, host: str, now_s: float) -> int | None:
        """The connections of all tasks to a host: the stated limit, or the learned one if it is lower."""
        limits = (self._per_host, self._learned.find_limit(host, self._leases.count_used(host), now_s))
        return min((limit for limit in limits if limit is not None), default=None)

    def _merge_pauses(self, new: dict[str, float], now_s: float) -> dict[str, float]:
        """Note the pauses that a task was asked for. Returns all that last, with the seconds left."""
        for host, pause_s in new.items():
            self._learned.note_pause(host, self._leases.count_used(host), pause_s, now_s)
            self._pauses[host] = max(self._pauses.get(host, 0.0), now_s + pause_s)
        lasting = [(host, until_s - now_s) for host, until_s in self._pauses.items() if until_s > now_s]
        self._pauses = {host: now_s + left_s for host, left_s in lasting[-MOST_DEMANDS:]}
        return dict(lasting)

    def _find_resetting(self, beat: TaskBeat, now_s: float) -> set[str]:
        """Find the hosts that bring this task bytes while another task gets no answer from them.

        Such a host is not dead: others of the run have all the connections that it allows. Bytes count only
        if they came after the failure.
        """
        resetting: set[str] = set()
        if self._failing:
            task = self._tasks.get(beat.task)
            known = {} if task is None else {attempt.id: attempt.bytes for attempt in task.beat.active}
            served = {sample.host for sample in beat.samples}
            served |= {attempt.host for attempt in beat.active if attempt.bytes > known.get(attempt.id, 0)}
            for host in served & self._failing.keys():
                failing, since_s = self._failing[host]
                if failing != beat.task and now_s - since_s >= SURE_S:
                    resetting.add(host)
                    del self._failing[host]
        for host in beat.failing:
            if self._learned.find_limit(host, 0, now_s) is None:
                self._failing.setdefault(host, (beat.task, now_s))
        return resetting

    def _compare(self, now_s: float) -> None:
        """At most every ``COMPARED_S``: forget silent tasks, and find out which executors are slow."""
        if self._compared_s is not None and now_s - self._compared_s < COMPARED_S:
            return
        self._compared_s = now_s
        self._failing = {
            host: failing for host, failing in self._failing.items() if now_s - failing[1] < SILENT_S
        }
        silent = [number for number, task in self._tasks.items() if now_s - task.heard_s > SILENT_S]
        for number in silent:
            self.forget(number)
        for name in [
            name
            for name, executor in self._executors.items()
            if not executor.tasks
            and now_s - executor.heard_s > SILENT_S  # otherwise it may just be between two tasks
        ]:
            del self._executors[name]
            self._merged.forget(name)
        self._slow = self._merged.slow(self._sample_attempts())

    def _sample_attempts(self) -> Iterator[tuple[str, SpeedSample]]:
        for task in self._tasks.values():
            for attempt in task.beat.active:
                if attempt.elapsed_s >= YOUNG_S and attempt.size_bytes:
                    sample = SpeedSample(attempt.host, attempt.size_bytes, attempt.rate_bps)
                    yield task.beat.executor, sample

    def _view_executor(self, name: str, executor: _Executor) -> ExecutorView:
        return ExecutorView(
            name=name,
            tasks=len(executor.tasks),
            files=executor.files,
            rate_bps=sum(self._tasks[number].rate_bps for number in executor.tasks),
            fraction=self._slow.get(name),
        )
