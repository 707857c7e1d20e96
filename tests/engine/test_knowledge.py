"""A run that begins with what earlier ones have learned, and its verdicts in the record."""

import pytest

from cfetch.base.events import StragglerCancelled
from cfetch.show.makespan import Makespan
from cfetch.straggler.knowledge import NOTHING, HostKnowledge, Knowledge
from tests.engine.drive import drive
from tests.engine.fake import Reply

NOW_S = 4e9  # by a clock that is ahead: as good as now
BODY = bytes(1 << 20)
GOOD = Reply(BODY, latency_s=0.05, rate_bps=1 << 20)
CRAWLING = Reply(BODY, latency_s=0.05, at_s=tuple(0.2 * n for n in range(1, 501)))  # a hundred seconds


def run(tmp_path, scripts, knowledge=NOTHING, **settings):
    return drive(tmp_path, scripts, knowledge=knowledge, policy="adaptive", segments=1, **settings)


def test_the_second_run_judges_its_very_first_file(tmp_path):
    """It crawls, alone, before any file has finished: the first run knows no better, the second one does."""
    crawls = {"a": [CRAWLING, GOOD]}
    assert run(tmp_path, crawls).cancelled == []
    learned = run(tmp_path, {f"f{n}": GOOD for n in range(20)}).pool._policy.collect_knowledge(NOW_S)
    assert learned.hosts["origin.test"].rate_bps == pytest.approx(1 << 20, rel=0.1)
    second = run(tmp_path, crawls, learned)
    (found,) = second.cancelled
    assert found.t_s < 5.5  # the windows, and the look whether it accelerates
    assert second.elapsed_s < 7
    assert second.tree == {"a": BODY}


def test_what_an_interrupted_run_has_learned_counts_too(tmp_path):
    """As far as it came."""
    outcome = run(tmp_path, {f"f{n}": GOOD for n in range(20)}, concurrency=4, stop_at=2.5)
    assert outcome.statuses.count("done") == 8
    assert outcome.pool._policy.collect_knowledge(NOW_S).hosts["origin.test"].weight == 8


@pytest.mark.parametrize("policy", ["adaptive", "cloudfetch"])
def test_a_cancelled_attempt_bears_its_verdict(tmp_path, policy):
    """When it would have been done, what was saved, what was lost: nothing, as it went on where it stood."""
    crawling = Reply(BODY, latency_s=0.05, at_s=tuple(0.05 * n for n in range(1, 2001)))
    scripts = {f"f{n:02}": GOOD for n in range(20)} | {"f00": [crawling, GOOD]}
    outcome = drive(tmp_path, scripts, policy=policy, padding=1.0, segments=1)
    (cancelled,) = outcome.of(StragglerCancelled)
    record = outcome.records["f00"]
    first, second = record.attempts
    assert first.projected_s == pytest.approx(100.05, rel=0.3)
    assert first.saved_s == pytest.approx(first.projected_s - record.end_s, abs=0.001)
    assert (first.wasted_bytes, second.wasted_bytes, second.saved_s) == (0, None, None)
    assert cancelled.t_s == pytest.approx(first.end_s, abs=0.001)


@pytest.mark.parametrize("policy", ["adaptive", "cloudfetch"])
def test_a_run_claims_no_more_than_it_is_shorter_than_without_mitigation(tmp_path, policy):
    """Of 16 connections at once 8 wait a second for a handshake, as at a server with a short backlog."""
    asked_again = Reply(BODY, latency_s=1.05, rate_bps=1 << 25)
    quick = Reply(BODY, latency_s=0.05, rate_bps=1 << 25)
    scripts = {f"f{n:02}": [asked_again, quick] if n % 2 and n < 16 else [quick] for n in range(50)}
    options = {"policy": policy, "padding": 0.1, "segments": 1, "concurrency": 16}
    mitigated = drive(tmp_path, scripts, **options)
    plain = drive(tmp_path, scripts, mitigation=False, **options)
    assert len(mitigated.cancelled) == 8
    replay = Makespan()
    for record in mitigated.records.values():
        replay.add(record)
    assert 0.0 <= replay.saved_s() <= plain.elapsed_s - mitigated.elapsed_s


def test_a_run_begins_with_as_many_connections_as_the_host_served(tmp_path):
    """What a run before has found, and hands on; here the host serves more, so it is forgotten."""
    host = HostKnowledge(0.05, 1e6, 0.2, 50.0, NOW_S, cured_wall_s=1.8e9, serves=3)
    known = Knowledge(hosts={"origin.test": host})
    scripts = {f"f{n}": GOOD for n in range(24)}
    short = run(tmp_path, scripts, known, concurrency=8, stop_at=0.5)
    assert short.transport.most == 3
    whole = run(tmp_path, scripts, known, concurrency=8)
    assert whole.transport.most == 8
    assert whole.pool._parts.hosts.served == {}


def test_a_connection_that_is_slow_brings_nothing_after_its_file(tmp_path):
    """The others stay in use; the slow one is not slow enough to be cancelled."""
    slow = Reply(BODY, latency_s=0.05, rate_bps=400 << 10)
    outcome = run(tmp_path, {f"f{n:02}": GOOD for n in range(24)} | {"f20": slow}, concurrency=8)
    assert outcome.cancelled == []
    retired = [asked.path for asked in outcome.transport.opens if asked.response.is_retired]
    assert retired == ["f20"]
