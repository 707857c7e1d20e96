"""Idle slots at work, on virtual time: large files in several streams."""

import errno
import os
import random
import re
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Transient
from cfetch.base.events import EntryFinished, HostPaused, Progress, RetryScheduled
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock
from cfetch.engine import link_looks
from cfetch.engine.attempt import Assignment, Attempt
from cfetch.engine.hosts import Hosts
from cfetch.engine.schedule import Schedule
from cfetch.engine.segments import Segments
from cfetch.engine.transfer import Transfer
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.straggler.detector import Detector
from cfetch.straggler.segment_growth import PROBE_BYTES, LinkSigns
from cfetch.wire.retry import Limits
from cfetch.wire.tcp_figures import TcpFigures
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import FakeTransport, Reply
from tests.engine.flying import new_flights

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


@pytest.mark.parametrize("limit", ["limit_rate", "limit_rate_per_host"])
def test_help_under_a_limit_of_bytes(tmp_path, limit):
    """It comes while less than half of the limit is used; where one connection reaches it, none is added."""
    slow = {f"{n}": Reply(BODY, latency_s=0.05, rate_bps=MIB) for n in range(2)}
    outcome = run(tmp_path, slow, **{limit: 8 * MIB})
    assert outcome.elapsed_s < 16 / 2
    assert outcome.transport.most == 8
    assert sum(received(outcome, name) for name in slow) < 32 * MIB * 1.05
    outcome = run(tmp_path, slow, **{limit: 2 * MIB})  # half of it
    assert outcome.elapsed_s == pytest.approx(16, rel=0.05)
    assert len(outcome.transport.opens) == 2
    fast = {"a": Reply(BODY, latency_s=0.05, rate_bps=50 * MIB)}  # all of it
    assert len(run(tmp_path, fast, **{limit: 4 * MIB}).transport.opens) == 1
    assert len(run(tmp_path, {"a": SLOW}, rate=100.0).transport.opens) == 1  # each segment is a request


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"per_host": 3}, 3),
        ({"per_host": 5, "concurrency": 6}, 5),
        ({"concurrency": 3, "max_concurrency": 5}, 5),
    ],
)
def test_never_more_streams_than_the_host_has_slots(tmp_path, settings, most):
    """Idle workers may be more than one host is to be asked by; with a search, two more were on trial."""
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
    """Two replies may be of two versions: whole ones at most, of which one is taken."""
    weak = Reply(BODY, rate_bps=MIB, etag='W/"1"')
    outcome = run(tmp_path, {"a": weak})
    assert {opened.range for opened in outcome.transport.opens} == {None}
    assert [attempt.outcome for attempt in outcome.records["a"].attempts].count("done") == 1
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
    """Its owner brings what the others do not, and after three failures it is alone for a while."""
    outcome = run(tmp_path, {"a": [SLOW, *[reply] * 7, SLOW]})
    assert outcome.tree == {"a": BODY}
    assert record(outcome, "a").status == "done"
    helpers = [one for one in record(outcome, "a").attempts if one.helper and one.from_byte]
    assert len([one for one in helpers if one.start_s < 2.5]) == 7  # which were under way together
    assert not record(outcome, "a").error


def test_streams_that_break_together_after_they_have_brought_bytes_come_back(tmp_path):
    """A server that is restarted breaks all: it has shown that it serves several at a time."""
    broken = Reply(BODY, rate_bps=MIB, cut=MIB // 2, then="reset")
    outcome = run(tmp_path, {"a": [SLOW, *[broken] * 7, SLOW]})
    assert outcome.tree == {"a": BODY}
    helpers = [one for one in record(outcome, "a").attempts if one.helper]
    assert len([one for one in helpers if one.outcome == "done"]) >= 7
    assert outcome.elapsed_s < 16 / 8 * 1.7


@pytest.mark.parametrize(("resets", "most_s"), [(3, 5.0), (7, 9.0)])
def test_streams_that_are_reset_at_first_are_tried_again(tmp_path, resets, most_s):
    """The server was busy: one more is tried after a while, and all come back when it is served."""
    reset = Reply(error=Transient("cannot connect: Connection reset by peer"))
    outcome = run(tmp_path, {"a": [SLOW, *[reset] * resets, SLOW]})
    assert outcome.tree == {"a": BODY}
    assert outcome.elapsed_s < most_s  # 2 s by eight streams, 16 s by one


def test_no_more_streams_than_asked_for_when_several_are_split(tmp_path):
    """Each stream of the file might get help of its own."""
    slower = [Reply(BODY, latency_s=0.05, rate_bps=MIB // (1 + n % 3)) for n in range(40)]
    outcome = run(tmp_path, {"a": slower}, concurrency=32, segments=6)
    assert outcome.tree == {"a": BODY}
    assert outcome.transport.most <= 6


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


def test_every_range_is_asked_for_once_and_under_the_validator(tmp_path):
    """Requests: the owner's for all, the others' with both ends and If-Range."""
    outcome = run(tmp_path, {"a": SLOW})
    first, *others = outcome.transport.of("a")
    assert first.range is None
    assert others
    for asked in others:
        assert re.fullmatch(r"bytes=\d+-\d+", asked.range)
        assert asked.if_range == '"v1"'
    tries = sorted(attempt.n for attempt in outcome.records["a"].attempts)
    assert tries == list(range(1, len(outcome.transport.opens) + 1))


def test_progress_counts_every_byte_once(tmp_path):
    """The sum never falls. Rows tell of ranges: once all have begun, together no more than the file."""
    outcome = run(tmp_path, {"a": SLOW})
    looks = [event for event in outcome.events if isinstance(event, Progress)]
    sums = [look.bytes_done + look.bytes_active for look in looks]
    assert sums == sorted(sums)
    assert sums[-1] == len(BODY)
    states = {view.state for look in looks for view in look.active}
    assert states <= {"ok", "segment", "slow"}
    begun = [look.active for look in looks if len(look.active) == 8 and all(v.bytes for v in look.active)]
    assert begun
    for views in begun:
        assert sum(view.size_bytes or 0 for view in views) <= len(BODY)
    assert all(view.file_size_bytes in (None, len(BODY)) for look in looks for view in look.active)
    assert all(view.file_bytes == look.bytes_active for look in looks for view in look.active)


USELESS = {
    "forbidden": Reply(status=403, latency_s=0.05),
    "too many": Reply(status=429, latency_s=0.05, headers={"Retry-After": "3600"}),
    "no such range": Reply(status=416, latency_s=0.05),
    "busy": Reply(status=503, latency_s=0.05),
    "not connected": Reply(latency_s=0.05, error=Transient("cannot connect")),
    "dropped": Reply(BODY, latency_s=0.05, cut=0, then="reset"),
    "silent": Reply(BODY, latency_s=0.05, cut=0, then="stall"),
}


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("reply", USELESS.values(), ids=USELESS)
def test_where_all_others_are_refused_the_first_connection_brings_the_file(tmp_path, reply, digest):
    """Every request after the first: the running one loses nothing, and nothing is asked for anew."""
    entries = entries_for({"a": SLOW}, digest=digest)
    outcome = run(tmp_path, {"a": [SLOW, reply]}, entries)
    assert outcome.tree == {"a": BODY}
    assert outcome.statuses == ["done"]
    (own,) = [one for one in record(outcome, "a").attempts if not one.helper]
    assert (own.n, own.outcome, own.from_byte, own.bytes) == (1, "done", 0, len(BODY))
    assert any(one.helper for one in record(outcome, "a").attempts)
    assert received(outcome, "a") - len(BODY) <= 4096
    assert outcome.elapsed_s < 17
    assert outcome.transport.left_open() == []


class UntilTheCut(FakeTransport):
    """Once the first reply is over, no request is allowed any more: a link that has expired, say."""

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        if self.opens and self.opens[0].response is not None and self.opens[0].response.over:
            self.scripts["a"] = [Reply(status=403, latency_s=0.05)]
        return await super().open(url, headers, secrets, fresh=fresh, method=method)


def test_what_has_begun_needs_no_further_request(tmp_path):
    """The owner is at its end and all others are refused; those on their way bring what is left."""
    slower = Reply(BODY, latency_s=0.05, rate_bps=MIB / 4)
    scripts = {"a": [SLOW, SLOW, slower, slower, SLOW]}
    outcome = run(tmp_path, scripts, transport=UntilTheCut(scripts), concurrency=4)
    assert outcome.tree == {"a": BODY}
    assert outcome.statuses == ["done"]
    attempts = record(outcome, "a").attempts
    assert [one.outcome for one in attempts if one.http_status == 403]
    assert all(one.helper for one in attempts if one.http_status == 403)
    assert received(outcome, "a") - len(BODY) < 4 * PIECE


def test_a_helper_is_told_of_under_the_host_that_it_asked(tmp_path):
    """The owner has gone on at a mirror when the origin refuses the helper: only the origin is left alone."""
    busy = Reply(status=429, latency_s=6.0, headers={"Retry-After": "30"})
    scripts = {"a": [Reply(BODY, rate_bps=MIB, cut=4 * MIB, then="reset"), busy], "m/a": SLOW}
    mirror = SecretUrl("http://mirror.test/m/a")
    entry = entry_of(0, "a", BODY, digest=True, mirrors=(mirror,))
    outcome = run(tmp_path, scripts, [entry], concurrency=2, multiplier=1000)
    assert outcome.tree == {"a": BODY}
    attempts = record(outcome, "a").attempts
    (refused,) = [one for one in attempts if one.http_status == 429]
    moved = [one for one in attempts if one.mirror]
    assert (refused.helper, refused.mirror) == (True, None)
    assert refused.start_s < min(one.start_s for one in moved) < refused.end_s
    assert [one.mirror for one in moved if one.helper] != []
    assert {one.mirror for one in moved} == {"mirror.test"}
    assert [pause.host for pause in outcome.of(HostPaused)] == ["origin.test"]


def test_a_disk_that_fails_a_helper_fails_the_file(tmp_path, monkeypatch):
    """The owner waits for the helper, and is told of the disk: it asks for nothing more."""
    real = os.pwrite

    def write(fd, data, offset):
        if offset > 14 * MIB:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    transport = FakeTransport({"a": [SLOW, Reply(BODY, latency_s=0.05, rate_bps=MIB / 4), SLOW]})
    outcome = run(tmp_path, transport.scripts, transport=transport, concurrency=2)
    assert (outcome.records["a"].status, outcome.records["a"].error_kind) == ("failed", "local")
    assert len(transport.opens) == 2


class Counting(FakeTransport):
    """``sent``: bytes that have come of all replies."""

    sent = 0

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        response = await super().open(url, headers, secrets, fresh=fresh, method=method)
        real = response.read_buffered

        def counted():
            data = real()
            self.sent += len(data)
            return data

        response.read_buffered = counted
        return response


@pytest.mark.parametrize("durability", ["crash", "power"])
def test_bytes_that_nobody_has_read_are_told_too(tmp_path, durability):
    """Helpers end as the file begins anew: half of their range is in the reply's buffer at that moment."""
    first = Reply(BODY, rate_bps=MIB, cut=MIB, then="reset")
    changed = Reply(BODY[::-1], latency_s=0.5, etag='"v2"')
    opens = run(tmp_path, {"a": [first, *[SLOW] * 7, changed, SLOW]}).transport.of("a")
    anew_s = opens[8].t_s + changed.latency_s
    helper = Reply(BODY, latency_s=0.05, at_s=(anew_s - opens[1].t_s - 0.05 + 5e-10, 1000.0))
    transport = Counting({"a": [first, *[helper] * 7, changed, SLOW]})
    outcome = run(tmp_path, transport.scripts, transport=transport, durability=durability)
    assert outcome.tree == {"a": BODY}
    ended = [one for one in record(outcome, "a").attempts if one.error == "not needed any more"]
    assert [one.bytes > 0 for one in ended] == [True] * 7
    assert received(outcome, "a") == transport.sent


def test_who_waits_for_a_retry_has_the_next_slot(tmp_path):
    """Four slots: one is kept for the entry whose try has failed, and no helper takes it."""
    small = BODY[: MIB // 4]
    scripts = {
        "a": SLOW,
        "b": [Reply(status=500, latency_s=1.5), Reply(small, latency_s=0.05, rate_bps=MIB)],
    }
    outcome = run(tmp_path, scripts, per_host=4)
    assert outcome.tree == {"a": BODY, "b": small}
    assert outcome.transport.most == 4
    (retry,) = [event for event in outcome.of(RetryScheduled) if event.path == "b"]
    assert retry.delay_s > 0.2  # helpers are sent meanwhile
    assert outcome.transport.of("b")[1].t_s == pytest.approx(retry.t_s + retry.delay_s, abs=0.01)


class Crumbs(FakeTransport):
    """2,000 bytes of each range that is asked for, which a server may send."""

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        if "Range" in headers:
            start = int(headers["Range"].removeprefix("bytes=").partition("-")[0])
            headers = {**headers, "Range": f"bytes={start}-{start + 1999}"}
        return await super().open(url, headers, secrets, fresh=fresh, method=method)


@pytest.mark.parametrize("first", [SLOW, Reply(BODY, rate_bps=MIB, cut=4 * MIB, then="reset")])
def test_crumbs_are_failed_tries(tmp_path, first):
    """No file is brought in thousands of requests; what the first connection brings is not taken from it."""
    scripts = {"a": [first, SLOW]}
    outcome = run(tmp_path, scripts, transport=Crumbs(scripts))
    attempts = record(outcome, "a").attempts
    assert 3 < len(attempts) < 40
    crumbs = [one for one in attempts if one.http_status == 206]
    assert crumbs
    assert {one.outcome for one in crumbs} == {"error"}
    assert len(outcome.of(RetryScheduled)) <= 10
    assert outcome.statuses == (["done"] if first is SLOW else outcome.statuses)


class OneMinuteLeft(Detector):
    """Every attempt has a minute left, and a fresh one would need a second."""

    def remaining_s(self, key):
        return 60.0

    def fresh_s(self, host, size_bytes):
        return 1.0


async def test_who_is_held_back_by_our_own_side_is_not_helped(tmp_path):
    """A volume that is behind takes no more bytes of several connections than of one."""
    volume = Directory(tmp_path, "attempts/i/0")
    policy, hosts, clock = (
        OneMinuteLeft(Settings().straggler),
        Hosts(8, Limits(5, 60.0)),
        RunClock(VirtualClock()),
    )
    in_flight, entry = new_flights(policy, hosts), entry_of(0, "a", BODY)
    waiting: Schedule[Any] = Schedule([], [], 0, most_put_back=1)
    segments = Segments(policy, hosts, in_flight, waiting, clock, most=8)
    part = Part(volume, entry)
    part.write(BODY[:MIB])
    part.validator = '"v1"'
    attempt = Attempt(Assignment(entry, 1, "origin.test"), 0.0, from_byte=0, size_bytes=len(BODY))
    attempt.resumable = True
    in_flight.start(attempt, Transfer(entry, part, queue=0, host="origin.test", now_s=0.0))
    attempt.hold(0.0)
    assert segments.assign(3) == []
    attempt.let_go(0.0)
    assert len(segments.assign(3)) == 3
    part.discard()
    volume.close()


def test_a_tiny_file_that_drips_over_every_connection_is_no_storm(tmp_path):
    """A byte or two a second, whoever asks: what is to come of 2 KiB is asked for as a whole, few times."""
    drip = Reply(BODY[:2048], latency_s=0.2, at_s=tuple(0.4 * n for n in range(1, 50)))
    entries = entries_for({"a": drip}, size=False)
    outcome = run(tmp_path, {"a": drip}, entries, concurrency=16)
    assert outcome.tree == {"a": BODY[:2048]}
    assert 1 < len(outcome.transport.opens) < 8


@pytest.mark.parametrize(
    ("signs", "most"), [(LinkSigns(0.05, 0.2, True), 2), (LinkSigns(0.05, 0.05, False), 8)]
)
def test_a_file_over_a_link_that_it_fills_alone_gets_no_more_than_a_look(tmp_path, monkeypatch, signs, most):
    """TCP shows a queue, and the handshake of the look, for a quarter MiB, stands in it too."""
    monkeypatch.setattr(link_looks, "_read_signs", lambda flight: signs)
    monkeypatch.setattr(link_looks, "_find_trip_s", lambda flight: 0.2)
    outcome = run(tmp_path, {"a": Reply(BODY, latency_s=0.05, rate_bps=4 * MIB)})
    assert outcome.transport.most == most
    assert outcome.tree == {"a": BODY}
    ranges = sorted((one.to_byte or len(BODY)) - one.from_byte for one in record(outcome, "a").attempts)
    assert most > 2 or ranges[0] == PROBE_BYTES


def test_a_file_that_is_slower_than_others_were_gets_help_over_a_full_link(tmp_path, monkeypatch):
    """Its own connection is slow, whatever its queue is."""
    monkeypatch.setattr(link_looks, "_read_signs", lambda flight: LinkSigns(0.05, 0.2, True))
    monkeypatch.setattr(link_looks, "_find_trip_s", lambda flight: 0.2)
    fast = {f"f{n}": Reply(BODY[: 2 * MIB], latency_s=0.05, rate_bps=4 * MIB) for n in range(24)}
    outcome = run(tmp_path, {"a": SLOW, **fast}, policy="adaptive")
    assert len([one for one in record(outcome, "a").attempts if one.helper]) > 4


@pytest.mark.parametrize(
    ("queued", "others", "signs"),
    [(3, 2, (True, True)), (2, 2, (False, True)), (1, 3, (False, False)), (3, 0, None)],
)
def test_tcp_tells_of_a_link_whether_most_connections_lose_packets_and_stand_in_its_queue(
    queued, others, signs
):
    """Four at least are known. Those in the queue have lost packets and round trips twice as long."""
    figures = [TcpFigures(0.1, has_lost=True)] * queued + [
        TcpFigures(0.1, has_lost=False),
        TcpFigures(0.06, has_lost=True),
        TcpFigures(0.06, has_lost=False),
    ][:others]

    def under_way(host, read):
        return SimpleNamespace(
            assignment=SimpleNamespace(host=host), received=1, read_tcp_figures=lambda: read
        )

    others = [under_way("other", TcpFigures(0.05, has_lost=False))] * 9
    attempts = [under_way("h", each) for each in figures] + others
    assert link_looks.read_tcp_signs(attempts, "h", 0.05) == signs


@pytest.mark.parametrize(
    ("figures", "age_s", "has_lost"),
    [
        (TcpFigures(0.1, packet_age_s=0.3, has_lost=False), 0.3, False),
        (TcpFigures(0.1, packet_age_s=2.0, has_lost=True), 2.0, True),
        (None, None, False),
    ],
)
def test_an_attempt_tells_the_age_of_its_connections_latest_packet_and_losses(
    monkeypatch, figures, age_s, has_lost
):
    """If its kernel does; the policy asks it of those that look too slow."""
    monkeypatch.setattr("cfetch.wire.tcp_figures.read_tcp_figures", lambda transport: transport)
    response: Any = SimpleNamespace(transport=figures)
    task: Any = SimpleNamespace(cancelling=lambda: 0)
    attempt = Attempt(Assignment(entry_of(1, "a", b""), 1), 0.0, from_byte=0, size_bytes=None, task=task)
    attempt.reply.response = response
    assert (attempt.packet_age_s(), attempt.has_lost_packets()) == (age_s, has_lost)
