"""Idle slots at work, on virtual time: large files in several streams, and small ones asked for twice."""

import random
import re

import pytest

from cfetch.events import AttemptStarted, EntryFinished, Progress
from tests.transfer.drive import drive, entries_for
from tests.transfer.fake import Reply

MIB = 1 << 20
BODY = random.Random("streams").randbytes(16 * MIB)
SLOW = Reply(BODY, latency_s=0.05, rate_bps=MIB)  # 16 seconds alone
PIECE = len(BODY) // 20 + 1  # of that reply, as the fake server sends it


def run(tmp_path, scripts, entries=None, **settings):
    return drive(tmp_path, scripts, entries, **{"policy": "adaptive", "concurrency": 8, **settings})


def record(outcome, path):
    (found,) = [e.record for e in outcome.events if isinstance(e, EntryFinished) and e.record.path == path]
    return found


def received(outcome, path):
    return sum(attempt.bytes for attempt in record(outcome, path).attempts)


@pytest.mark.parametrize("digest", [False, True])
def test_a_large_file_comes_in_several_streams(tmp_path, digest):
    """Eight slots, one file: nearly eight times as fast. Only bytes that were on their way come twice."""
    entries = entries_for({"a": SLOW}, digest=digest)
    outcome = run(tmp_path, {"a": SLOW}, entries)
    assert outcome.tree == {"a": BODY}
    assert outcome.elapsed_s < 16 / 8 * 1.7
    assert received(outcome, "a") - len(BODY) < 2 * PIECE
    assert record(outcome, "a").verified == ("sha256" if digest else "size")
    assert outcome.transport.most == 8
    assert outcome.transport.left_open() == []
    assert outcome.parts == []


def test_never_more_streams_than_asked_for(tmp_path):
    """``--segments 3`` of eight slots; 1 is none."""
    assert run(tmp_path, {"a": SLOW}, segments=3).transport.most == 3
    assert run(tmp_path, {"a": SLOW}, segments=1).transport.most == 1


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"per_host": 3}, 3),
        ({"per_host": 5, "concurrency": 6}, 5),
        ({"concurrency": 3, "max_concurrency": 32}, 4),
    ],
)
def test_never_more_streams_than_the_host_has_places(tmp_path, settings, most):
    """Idle workers may be more than one host is to be asked by; where it searches, one place was on trial."""
    outcome = run(tmp_path, {"a": SLOW, "b": SLOW}, **settings)
    assert outcome.transport.most == most
    assert outcome.tree == {"a": BODY, "b": BODY}


@pytest.mark.parametrize("settings", [{"policy": "cloudfetch"}, {"mitigation": False}])
def test_only_the_adaptive_policy_does(tmp_path, settings):
    """The seed's formula stays what it was."""
    outcome = run(tmp_path, {"a": SLOW}, **settings)
    assert len(outcome.transport.opens) == 1
    assert outcome.tree == {"a": BODY}


def test_without_a_strong_validator_there_is_one_stream(tmp_path):
    """Two replies may be of two versions."""
    weak = Reply(BODY, rate_bps=MIB, etag='W/"1"')
    outcome = run(tmp_path, {"a": weak})
    assert len(outcome.transport.opens) == 1
    assert outcome.tree == {"a": BODY}


REFUSALS = {
    "an error": Reply(status=500),
    "no ranges": Reply(BODY, ranges=False),
    "another version": Reply(BODY[::-1], etag='"v2"'),
    "a cut": Reply(BODY, rate_bps=MIB, cut=100_000, then="reset"),
    "an early end": Reply(BODY, rate_bps=MIB, cut=100_000, then="end"),
}


@pytest.mark.parametrize("reply", REFUSALS.values(), ids=REFUSALS)
def test_a_further_stream_never_costs_the_file(tmp_path, reply):
    """Its owner brings what the others do not, and after three failures it is alone."""
    outcome = run(tmp_path, {"a": [SLOW, *[reply] * 7, SLOW]})
    assert outcome.tree == {"a": BODY}
    assert record(outcome, "a").status == "done"
    helpers = [one for one in record(outcome, "a").attempts if one.helper]
    assert len(helpers) == 7  # which were under way together
    assert not record(outcome, "a").error


def test_an_owner_that_fails_is_not_the_end_of_the_others(tmp_path):
    """Its connection breaks while they go on; it takes up what is missing."""
    broken = Reply(BODY, rate_bps=MIB, cut=MIB, then="reset")
    outcome = run(tmp_path, {"a": [broken, SLOW]})
    assert outcome.tree == {"a": BODY}
    assert received(outcome, "a") - len(BODY) < 2 * PIECE


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path):
    """What several streams have brought is not fetched again."""
    root = {}

    def keep(path):
        root["before"] = path

    first = run(tmp_path, {"a": SLOW}, stop_at=1.5, before=keep)
    assert first.tree == {}
    kept = record(first, "a").bytes
    assert kept > 4 * MIB
    assert len(first.parts) == 2  # and its note


def test_small_files_are_not_split(tmp_path):
    """Forty files, eight slots, one request each."""
    scripts = {f"f{n}": Reply(BODY[: MIB // 4], latency_s=0.05, rate_bps=MIB) for n in range(40)}
    outcome = run(tmp_path, scripts)
    assert len(outcome.transport.opens) == 40


def hedge_scripts(rate_bps):
    """Thirty of 64 KiB, and a last one whose first connection crawls; far from a straggler at this bar."""
    small = BODY[: MIB // 16]
    scripts = {f"f{n:02}": Reply(small, latency_s=0.05, rate_bps=MIB) for n in range(30)}
    crawls = Reply(small, latency_s=0.05, rate_bps=rate_bps)
    return {**scripts, "z": [crawls, Reply(small, latency_s=0.05, rate_bps=MIB)]}, small


def test_the_last_one_is_asked_for_twice(tmp_path):
    """The fresh one is ahead soon, the old one is told of as lost, and the file is there once."""
    scripts, small = hedge_scripts(4096)
    outcome = run(tmp_path, scripts, multiplier=1000, hedge=True, hedge_budget=0.05)
    assert outcome.tree["z"] == small
    assert outcome.elapsed_s < 4
    assert sorted(one.outcome for one in record(outcome, "z").attempts) == ["done", "lost"]
    assert record(outcome, "z").stragglers == 0


@pytest.mark.parametrize("settings", [{"hedge": False}, {"hedge": True, "hedge_budget": 0.0}])
def test_not_without_a_budget(tmp_path, settings):
    """Nobody asked for it, or for no bytes."""
    scripts, small = hedge_scripts(4096)
    outcome = run(tmp_path, scripts, multiplier=1000, **settings)
    assert len(outcome.transport.of("z")) == 1
    assert outcome.tree["z"] == small


def test_the_hedge_that_loses_costs_no_more_than_itself(tmp_path):
    """The old one gets there first: the other is ended, and its bytes are counted."""
    small = BODY[: MIB // 16]
    scripts, _ = hedge_scripts(16384)
    scripts["z"][1] = Reply(small, latency_s=30.0)
    outcome = run(tmp_path, scripts, multiplier=1000, hedge=True, hedge_budget=0.05)
    assert outcome.tree["z"] == small
    assert outcome.elapsed_s < 6
    assert sorted(one.outcome for one in record(outcome, "z").attempts) == ["done", "lost"]


def test_every_range_is_asked_for_once_and_under_the_validator(tmp_path):
    """Requests: the owner's for all, the others' with both ends and If-Range."""
    outcome = run(tmp_path, {"a": SLOW})
    first, *others = outcome.transport.of("a")
    assert first.range is None
    assert others
    for asked in others:
        assert re.fullmatch(r"bytes=\d+-\d+", asked.range)
        assert asked.if_range == '"v1"'
    started = [event for event in outcome.events if isinstance(event, AttemptStarted)]
    assert [event.n for event in started] == list(range(1, len(started) + 1))


def test_progress_counts_every_byte_once(tmp_path):
    """Rows tell of ranges; together they are never more than the file, and the sum never falls."""
    outcome = run(tmp_path, {"a": SLOW})
    looks = [event for event in outcome.events if isinstance(event, Progress)]
    sums = [look.bytes_done + look.bytes_active for look in looks]
    assert sums == sorted(sums)
    assert sums[-1] == len(BODY)
    busiest = max(looks, key=lambda look: len(look.active))
    assert {view.state for view in busiest.active} <= {"ok", "segment", "slow"}
    assert len(busiest.active) == 8
    sizes = [view.size_bytes for view in busiest.active if view.size_bytes is not None]
    assert len(sizes) == 8
    assert sum(sizes) <= len(BODY)
