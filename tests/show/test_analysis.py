"""From metrics to a report."""

import random
from pathlib import Path

import msgspec
import pytest

from cfetch.show.analysis import FOR_TERMINAL, analyse
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun
from cfetch.show.saved_time import running_rate_bps
from tests.show.records import attempt, record

HEADER = RunHeader(instant="i1", wall_start="w", version="0", host="worker", settings={}, files=3)


def report(*records):
    return analyse([MetricsRun(Path("m.jsonl"), HEADER, iter(records))])


def straggler(end_s=10.0, size=100, samples=((5.0, 50), (10.0, 100)), **more):
    """Cancelled at 10 s after 100 of 1000 bytes, running at 10 bytes a second."""
    return attempt(1, 0.0, end_s, size=size, outcome="straggler", samples=samples, **more)


def test_a_cancelled_attempt_is_judged_against_its_projected_finish():
    """900 bytes left at 10 B/s would have taken until 100 s; the retry was done at 12 s: 88 s saved."""
    file = record(0, 1000, straggler(), attempt(2, 10.5, 12.0, from_byte=100, size=900))
    sums = report(file).mitigations
    (shown,) = sums.shown
    assert (shown.rate_bps, shown.projected_s, shown.finish_s) == (10.0, 100.0, 12.0)
    assert (shown.saved_s, sums.better, sums.worse) == (88.0, 1, 0)
    assert report(file).runs[0].saved_s == 88.0


def test_a_retry_that_was_slower_counts_as_lost():
    """Where the attempt would have been done before the retry was, the verdict is negative."""
    file = record(
        0, 1000, straggler(size=900, samples=((5.0, 400), (10.0, 900))), attempt(2, 10, 30, size=1000)
    )
    sums = report(file).mitigations
    assert (sums.worse, sums.better, sums.shown[0].saved_s) == (1, 0, 11.0 - 30.0)
    assert sums.wasted_bytes == 900


def test_the_savings_of_two_cancellations_of_one_file_add_up():
    """Together they are the first projection less the real finish: nothing is counted twice."""
    second = attempt(2, 10.0, 20.0, size=200, outcome="straggler", samples=[(15.0, 100), (20.0, 200)])
    file = record(0, 1000, straggler(), second, attempt(3, 20.0, 21.0, size=1000))
    sums = report(file).mitigations
    assert len(sums.shown) == 2
    assert sum(mitigation.saved_s or 0.0 for mitigation in sums.shown) == 100.0 - 21.0


@pytest.mark.parametrize("status", ["done", "failed"])
def test_what_cannot_be_projected_is_unknown(status):
    """An attempt that did not move, or a file that never came, gives no number."""
    still = straggler(size=0 if status == "done" else 100, samples=())
    sums = report(record(0, 1000, still, attempt(2, 10, 12, size=1000), status=status)).mitigations
    assert (sums.cancelled, sums.unknown, sums.better, sums.worse) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("samples", "size", "rate_bps"),
    [
        ([(2.0, 900), (10.0, 1000)], 1000, 12.5),  # fast start, slow end: the slow end counts
        ([(1.0, 500), (2.0, 1000)], 1000, 0.0),  # silence after the last sample
        ([], 1000, 100.0),
        ([(1.0, 0)], 0, 0.0),
    ],
)
def test_the_running_rate_is_that_of_the_later_half(samples, size, rate_bps):
    """A straggler's rate is how it ran at the end, silence included, not its average."""
    assert running_rate_bps(attempt(1, 0.0, 10.0, size=size, samples=samples)) == rate_bps


def test_slowest_files_are_the_slowest_and_say_why():
    """Of many files the longest are kept, in order, with what their attempts show."""
    times = list(range(1, 200))
    random.Random(1).shuffle(times)
    files = [record(i, 100, attempt(end_s=float(s))) for i, s in enumerate(times)]
    slow = record(999, 100, attempt(1, 0, 300, outcome="stalled"), attempt(2, 310, 400), attempt(3, 400, 500))
    slowest = report(*files, slow).slowest
    assert [file.elapsed_s for file in slowest] == [
        500.0,
        *(float(s) for s in range(199, 199 - FOR_TERMINAL.slowest + 1, -1)),
    ]
    assert slowest[0].why == "stalled, 10s between attempts"
    assert (slowest[0].attempts, slowest[1].why) == (3, "size")


def test_why_files_that_waited_for_the_disk_were_slow():
    """Their first byte was not late, and nothing waited between attempts."""
    small = record(0, 1, attempt(first_byte_s=0.02, end_s=0.021), size_bytes=None, end_s=0.8)
    large = record(1, 100, attempt(first_byte_s=0.1, end_s=2.0), end_s=9.0)
    late = record(2, 100, attempt(first_byte_s=0.9, end_s=1.0))
    slowest = {file.path: file for file in report(small, large, late).slowest}
    assert [slowest[f"a/{n}"].why for n in range(3)] == [
        "waited to be flushed",
        "7s to be flushed",
        "late first byte",
    ]
    assert slowest["a/0"].size_bytes == 1


def test_hosts_have_percentiles_of_their_own_files():
    """p5, p50, p95 and p99 per host over files that are done; failed ones do not count."""
    files = [record(i, 100, attempt(first_byte_s=0.1), rate_bps=float(i), host="a") for i in range(101)]
    files += [record(500, 100, attempt(), host="b"), record(501, 100, attempt(), host="b", status="failed")]
    a, b = report(*files).hosts
    assert (a.host, a.files, a.bytes, b.files) == ("a", 101, 10100, 1)
    assert (a.rate_bps.p05, a.rate_bps.p50, a.rate_bps.p95, a.rate_bps.p99) == (5.0, 50.0, 95.0, 99.0)
    assert a.first_byte_s.p50 == pytest.approx(0.1)


def test_throughput_bins_hold_every_file_that_has_a_rate():
    """Edges are powers of two around all rates; empty files have none."""
    rates = [1.0, 1.5, 2.0, 1000.0, 5e9, 0.0]
    bins = report(*(record(i, 1, attempt(), rate_bps=rate) for i, rate in enumerate(rates))).throughput
    assert sum(bin_.files for bin_ in bins) == 5
    assert len(bins) <= 12
    assert bins[0].from_bps <= 1.0
    assert bins[-1].to_bps > 5e9
    assert report(*(record(i, 1, attempt(), rate_bps=1.5) for i in range(3))).throughput[0].files == 3


def test_failures_are_counted_by_kind():
    """The commonest kind is first, each with an example."""
    kinds = ["refused", "transient", "transient"]
    files = [
        record(i, 1, attempt(), status="failed", error_kind=kind, error=f"e{i}")
        for i, kind in enumerate(kinds)
    ]
    assert [(f.kind, f.files, f.message) for f in report(*files).failures] == [
        ("transient", 2, "e1"),
        ("refused", 1, "e0"),
    ]


def test_the_headline_counts_the_run():
    """Status, bytes, waste, retries, and the time of the last end."""
    files = [
        record(0, 100, attempt(1, size=40, outcome="error"), attempt(2, 1.0, 4.0)),
        record(1, 10, status="skipped"),
        record(
            3,
            10,
            attempt(size=4, outcome="straggler"),
            attempt(2, from_byte=4, size=6),
            status="cancelled",
            bytes_=10,
        ),
        record(2, 10, attempt(size=0), status="failed"),
    ]
    (run,) = report(*files).runs
    assert (run.planned, run.done, run.skipped, run.failed, run.cancelled) == (3, 1, 1, 1, 1)
    assert (run.bytes, run.wasted, run.retries, run.stragglers) == (150, 40, 1, 1)
    assert (run.elapsed_s, run.rate_bps) == (4.0, 37.5)


def test_a_run_without_files_gives_an_empty_report():
    """Nothing to divide by is no error, and the document is plain JSON."""
    empty = report()
    assert (empty.slowest, empty.hosts, empty.throughput, empty.mitigations.shown) == ([], [], [], [])
    assert msgspec.json.decode(msgspec.json.encode(empty))["schema"] == "cfetch.report/1"
