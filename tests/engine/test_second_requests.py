"""A server without ranges: where a place is idle, a crawling file is asked for a second time, whole."""

from typing import Any

import msgspec
import pytest

from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import Reply

KIB = 1 << 10
BODY = bytes(range(256)) * KIB
PLAIN: dict[str, Any] = {"etag": None, "ranges": False}
FAST = Reply(BODY, rate_bps=256 * KIB, **PLAIN)
QUICK = tuple(0.02 * n for n in range(1, 41))  # when the first 40 of 70 pieces come
CRAWLS = Reply(BODY, at_s=(*QUICK, *map(float, range(1, 31))), **PLAIN)


def play(tmp_path, *last, **how):
    scripts = {f"f{n}": [FAST] for n in range(16)} | {"last": list(last)}
    return drive(tmp_path, scripts, policy="adaptive", concurrency=8, max_concurrency=8, **how)


def outcomes(outcome):
    return [(a.outcome, a.helper, a.bytes == len(BODY)) for a in outcome.records["last"].attempts]


def test_the_second_request_wins(tmp_path):
    """The first one is over at once, its bytes are lost, and the file is that of the second."""
    outcome = play(tmp_path, CRAWLS, FAST)
    assert set(outcome.statuses) == {"done"}
    assert outcome.tree["last"] == BODY
    assert outcomes(outcome) == [("lost", False, False), ("done", True, True)]
    first, second = outcome.transport.of("last")
    assert (first.fresh, second.fresh, second.range) == (False, True, None)
    assert outcome.flagged == []
    assert outcome.pool._outside.counts.ended.hedged == 1
    assert outcome.elapsed_s < 9.0  # left alone it takes until the 34th second
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


def test_the_first_request_wins(tmp_path):
    """It becomes fast again; the second one is over when the file is there, and leaves nothing."""
    recovers = Reply(BODY, at_s=(*QUICK, 1.8, 2.6, *[3.0] * 28), **PLAIN)
    outcome = play(tmp_path, recovers, Reply(BODY, rate_bps=128 * KIB, **PLAIN))
    assert outcome.tree["last"] == BODY
    assert sorted(outcomes(outcome)) == [("done", False, True), ("lost", True, False)]
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


@pytest.mark.parametrize(
    "how",
    [{"policy": "cloudfetch"}, {"segments": 1}, {"reply": {"etag": '"v1"', "ranges": True}}],
    ids=["the formula", "one attempt a file", "a server with ranges"],
)
def test_nobody_asks_twice_where_there_is_another_way(tmp_path, how):
    """Or where the user wants one attempt at a time."""
    how = {"policy": "adaptive"} | how
    plain = PLAIN | how.pop("reply", {})
    crawls = Reply(BODY, at_s=(*QUICK, *map(float, range(1, 31))), **plain)
    scripts = {f"f{n}": [Reply(BODY, rate_bps=256 * KIB, **plain)] for n in range(16)} | {"last": [crawls]}
    outcome = drive(tmp_path, scripts, concurrency=8, **how)
    assert "lost" not in [attempt.outcome for attempt in outcome.records["last"].attempts]


def test_the_second_request_fails(tmp_path):
    """Then the first one is judged again, and rescued in the ordinary way."""
    outcome = play(tmp_path, CRAWLS, Reply(status=503, **PLAIN), FAST)
    assert outcome.tree["last"] == BODY
    assert outcomes(outcome) == [("error", True, False), ("straggler", False, False), ("done", False, True)]
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


LONELY = Reply(BODY, rate_bps=8 * KIB, **PLAIN)
STEADY = Reply(BODY, rate_bps=64 * KIB, **PLAIN)


def unsized(scripts):
    return [msgspec.structs.replace(entry, size_bytes=None) for entry in entries_for(scripts)]


@pytest.mark.parametrize("files", [1, 2, 4])
def test_slow_files_with_nothing_to_compare_them_with_are_tried_over_another_connection(tmp_path, files):
    """Also where all are slow at once; the first one that comes pays for the others."""
    scripts = {f"f{n}": [LONELY, FAST] for n in range(files)}
    outcome = drive(tmp_path, scripts, policy="adaptive")
    assert set(outcome.tree.values()) == {BODY}
    assert outcome.elapsed_s < 3.0 + 6.0 * files  # alone each takes 32 s
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


@pytest.mark.parametrize("ranges", [False, True])
def test_a_lone_file_of_unknown_size_is_tried_over_another_connection(tmp_path, ranges):
    """It cannot be split, whether its server has ranges or not."""
    how = {"framing": "chunked", "ranges": ranges, "etag": '"v1"' if ranges else None}
    scripts = {"f": [Reply(BODY, rate_bps=8 * KIB, **how), Reply(BODY, rate_bps=256 * KIB, **how)]}
    outcome = drive(tmp_path, scripts, unsized(scripts), policy="adaptive")
    assert (outcome.tree, outcome.elapsed_s < 6.0) == ({"f": BODY}, True)
    assert [opened.fresh for opened in outcome.transport.of("f")] == [False, True]


def test_a_trial_that_is_no_faster_ends_soon(tmp_path):
    """And comes again later, as the next connection may be better; the first request wins."""
    outcome = drive(tmp_path, {"f": LONELY}, policy="adaptive")
    assert outcome.elapsed_s == pytest.approx(32.0, abs=0.5)
    *trials, first = outcome.records["f"].attempts
    assert (first.outcome, first.helper) == ("done", False)
    assert {(trial.outcome, trial.helper) for trial in trials} == {("lost", True)}
    assert 2 <= len(trials) <= 4
    assert max(trial.end_s - trial.start_s for trial in trials) < 3.0
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


def test_a_host_has_one_trial_at_a_time(tmp_path):
    """Twelve files that are slow for good are no reason for twelve more connections."""
    outcome = drive(tmp_path, {f"f{n}": LONELY for n in range(12)}, policy="adaptive", concurrency=32)
    assert outcome.transport.most == 13


def test_files_that_come_soon_are_not_tried(tmp_path):
    """A trial costs bytes, and at times a second."""
    scripts = {"sized": STEADY}
    assert len(drive(tmp_path, scripts, policy="adaptive").transport.opens) == 1
    scripts = {"unsized": Reply(BODY, rate_bps=128 * KIB, **PLAIN)}
    assert len(drive(tmp_path, scripts, unsized(scripts), policy="adaptive").transport.opens) == 1


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("length", {"body": BODY[:39]}),
    ("length", {"body": b""}),
    ("length", {"body": BODY[:1000], "framing": "chunked"}),
    ("length", {"body": BODY + b"x"}),
    ("chunked", {"body": BODY[:39]}),
    ("chunked", {"body": b""}),
    ("chunked", {"body": BODY, "etag": '"v2"'}),
]


@pytest.mark.parametrize(("framing", "other"), OTHERS)
def test_a_second_reply_of_another_version_does_not_win(tmp_path, framing, other):
    """Too many connections, says a server in 39 bytes. Nobody knows which reply is right; the first flows."""
    etag = '"v1"' if "etag" in other else None
    first = Reply(BODY, rate_bps=8 * KIB, ranges=False, framing=framing, etag=etag)
    second = Reply(**({"ranges": False, "etag": None} | other))
    entry = msgspec.structs.replace(entry_of(0, "f", BODY, digest=False), size_bytes=None)
    outcome = drive(tmp_path, {"f": [first, second]}, [entry], policy="adaptive")
    assert outcome.tree == {"f": BODY}
    assert any("another version" in (attempt.error or "") for attempt in outcome.records["f"].attempts)
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


@pytest.mark.parametrize("digest", [True, False])
def test_a_server_that_refuses_all_ranges_is_asked_a_second_time(tmp_path, digest):
    """Its strong ETag, or the hash, promised that the file can be split."""
    how: dict[str, Any] = {"ranges": False, "etag": '"v1"'}
    scripts = {"f": [Reply(BODY, rate_bps=8 * KIB, **how), *[Reply(BODY, rate_bps=256 * KIB, **how)] * 9]}
    outcome = drive(tmp_path, scripts, entries_for(scripts, digest=digest), policy="adaptive")
    assert outcome.tree == {"f": BODY}
    assert outcome.elapsed_s < 12
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])
