"""The report of recorded runs: which files were slow, how fast each host was, how much mitigation gained.

Pure, in one pass: memory has three numbers for each file, and of everything else only the top few.
"""

import heapq
import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from cfetch.base.records import EndRecord, EventRecord, FileRecord
from cfetch.show.causes import find_cause
from cfetch.show.counts import Counts
from cfetch.show.document import (
    Bin,
    FailureKind,
    HostLine,
    Mitigation,
    Mitigations,
    Percentiles,
    Report,
    RunLine,
)
from cfetch.show.ending import Ending, RunLimits
from cfetch.show.makespan import Makespan
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun, Record
from cfetch.show.slow_files import mitigations, slow_file

T = TypeVar("T")

MOST_CAUSES = 50  # further failures are counted by their kinds
BINS = 12  # the most rows that are readable as one picture


class Most(NamedTuple):
    """The most rows of each kind in a report; more is a job for the metrics file itself."""

    slowest: int
    mitigations: int
    events: int  # of one run
    hosts: int


FOR_TERMINAL = Most(slowest=10, mitigations=20, events=20, hosts=20)


def analyse(runs: Iterable[MetricsRun]) -> Report:
    """One report over all ``runs``, which are read to their ends."""
    builder = ReportBuilder(FOR_TERMINAL)
    lines = []
    for number, run in enumerate(runs, start=1):
        account = RunAccount(run.header, FOR_TERMINAL)
        for record in run.records:
            account.add(record)
            if isinstance(record, FileRecord):
                builder.add(record, number)
        lines.append(account.line(str(run.source)))
    return builder.report(lines)


class RunAccount:
    """The results of one run; values that an older version did not record are computed."""

    def __init__(self, header: RunHeader, most: Most) -> None:
        self._header = header
        self._most = most
        self._counts = Counts()
        self._makespan = Makespan()
        self._ending = Ending()
        self._events: list[EventRecord] = []
        self._events_total = 0
        self._end: EndRecord | None = None

    def add(self, record: Record) -> None:
        """Add a record of the run."""
        if isinstance(record, FileRecord):
            self._counts.add(record)
            self._makespan.add(record)
            self._ending.add(record)
        elif isinstance(record, EventRecord):
            self._ending.note(record)
            self._events_total += 1
            if len(self._events) < self._most.events:
                self._events.append(record)
        else:
            self._end = record

    def line(self, source: str) -> RunLine:
        """The headline of the run so far."""
        limits, end = RunLimits.of(self._header.settings, self._header.concurrency), self._end
        return msgspec.structs.replace(
            run_line(source, self._header, self._counts),
            saved_s=self._makespan.saved_s() if end is None else end.saved_s,
            exit_code=None if end is None else end.exit_code,
            policy=limits.policy,
            most=limits.most,
            widths=self._ending.widths,
            tail=self._ending.tail(limits, self._counts.end_s) if end is None else end.tail,
            events=self._events,
            events_total=self._events_total,
        )


def run_line(source: str, header: RunHeader, counts: Counts) -> RunLine:
    """The headline of one run."""
    return RunLine(
        source=source,
        instant=header.instant,
        wall_start=header.wall_start,
        version=header.version,
        host=header.host,
        concurrency=header.concurrency,
        planned=header.files,
        complete=counts.ended >= header.files,
        done=counts.done,
        skipped=counts.skipped,
        failed=counts.failed,
        cancelled=counts.cancelled,
        bytes=counts.fetched_bytes,
        wasted=counts.wasted_bytes,
        retries=counts.retries,
        stragglers=counts.stragglers,
        elapsed_s=counts.end_s,
        rate_bps=counts.fetched_bytes / max(counts.end_s, 1e-6) if counts.end_s > 0 else 0.0,
    )


class _HostRates:
    def __init__(self) -> None:
        self.rates, self.seconds, self.first = array("d"), array("d"), array("d")
        self.bytes = 0

    def line(self, name: str) -> HostLine:
        return HostLine(
            host=name,
            files=len(self.seconds),
            bytes=self.bytes,
            rate_bps=_percentiles(self.rates),
            elapsed_s=_percentiles(self.seconds),
            first_byte_s=_percentiles(self.first) if self.first else None,
        )


class ReportBuilder:
    """Everything in a report but the headlines of its runs."""

    def __init__(self, most: Most) -> None:
        self._most = most
        self.hosts: dict[str, _HostRates] = {}
        self.slowest: list[tuple[float, int, tuple[int, FileRecord]]] = []  # heaps; the number breaks ties
        self.shown: list[tuple[float, int, Mitigation]] = []
        self.failures: dict[tuple[str, int | None, str], FailureKind] = {}
        self.cancelled = self.better = self.worse = self.unknown = self.wasted_bytes = 0
        self.seen = 0

    def add(self, record: FileRecord, run: int) -> None:
        """Add the record of an entry; ``run`` is the number of its run."""
        self.seen += 1
        if record.status == "done":
            self._add_done(record)
        elif record.status == "failed":
            self._add_failed(record)
        if record.attempts:
            taken_s = record.end_s - record.start_s
            _push(self.slowest, taken_s, self.seen, (run, record), self._most.slowest)
        if len(record.attempts) > 1:
            for verdict in mitigations(record):
                self._add_mitigation(verdict)

    def _add_done(self, record: FileRecord) -> None:
        host = self.hosts.get(record.host)
        if host is None:
            host = self.hosts[record.host] = _HostRates()
        host.rates.append(record.rate_bps)
        host.seconds.append(record.end_s - record.start_s)
        host.bytes += record.bytes
        first = record.attempts[-1].first_byte_s if record.attempts else None
        if first is not None:
            host.first.append(first - record.attempts[-1].start_s)

    def _add_failed(self, record: FileRecord) -> None:
        kind = record.error_kind or "unknown"
        message = record.error or ""
        cause = (kind, record.http_status, find_cause(message, record.path))
        if cause not in self.failures and len(self.failures) >= MOST_CAUSES:
            cause = (kind, None, "")
        known = self.failures.get(cause)
        if known is None:
            known = FailureKind(kind=kind, files=0, hosts={}, path=record.path, message=message)
        hosts = known.hosts
        if record.host in hosts or len(hosts) < self._most.hosts:
            hosts[record.host] = hosts.get(record.host, 0) + 1
        self.failures[cause] = msgspec.structs.replace(known, files=known.files + 1)

    def _add_mitigation(self, verdict: Mitigation) -> None:
        self.cancelled += 1
        self.wasted_bytes += verdict.wasted_bytes
        saved = verdict.saved_s
        if saved is None:
            self.unknown += 1
        else:
            self.better += saved > 0
            self.worse += saved <= 0
        weight = -1.0 if saved is None else abs(saved)
        _push(self.shown, weight, self.seen * 1000 + verdict.attempt, verdict, self._most.mitigations)

    def report(self, runs: list[RunLine]) -> Report:
        """The report so far, with the headlines ``runs``."""
        hosts = heapq.nlargest(self._most.hosts, self.hosts.items(), key=lambda item: len(item[1].seconds))
        return Report(
            runs=runs,
            slowest=[slow_file(record, run) for _, _, (run, record) in sorted(self.slowest, reverse=True)],
            hosts=[host.line(name) for name, host in hosts],
            hosts_total=len(self.hosts),
            throughput=_histogram([host.rates for host in self.hosts.values()]),
            mitigations=Mitigations(
                cancelled=self.cancelled,
                better=self.better,
                worse=self.worse,
                unknown=self.unknown,
                wasted_bytes=self.wasted_bytes,
                shown=[verdict for _, _, verdict in sorted(self.shown, reverse=True)],
            ),
            failures=sorted(self.failures.values(), key=lambda kind: (-kind.files, kind.kind)),
        )


def _push(heap: "list[tuple[float, int, T]]", weight: float, order: int, item: T, limit: int) -> None:
    if len(heap) < limit:
        heapq.heappush(heap, (weight, order, item))
    elif weight > heap[0][0]:
        heapq.heapreplace(heap, (weight, order, item))


def _percentiles(values: "array[float]") -> Percentiles:
    p05, p50, p95, p99 = np.percentile(np.frombuffer(values), (5, 50, 95, 99)).tolist()
    return Percentiles(p05=p05, p50=p50, p95=p95, p99=p99)


def _histogram(rates: "list[array[float]]") -> list[Bin]:
    """Bins whose edges are powers of two, so wide that there are at most ``BINS``."""
    every = (
        np.concatenate([np.frombuffer(rates_of_host) for rates_of_host in rates]) if rates else np.empty(0)
    )
    every = every[every > 0]  # an empty file has no rate
    if not every.size:
        return []
    low, high = math.floor(math.log2(every.min())), math.floor(math.log2(every.max())) + 1
    step = math.ceil((high - low) / BINS)
    edges = np.exp2(np.arange(low, high + step, step, dtype=float))
    files, _ = np.histogram(every, edges)
    return [
        Bin(from_bps=float(left), to_bps=float(right), files=int(number))
        for left, right, number in zip(edges, edges[1:], files, strict=False)
    ]
