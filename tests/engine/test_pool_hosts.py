"""Hosts that throttle, fail or are dead, and others that do not suffer by them. On virtual time."""

import asyncio
import os

import pytest

from cfetch.base.errors import Throttled, Transient
from cfetch.base.events import HostPaused
from cfetch.manifest.entry import Entry
from tests.engine.drive import drive, entry_of
from tests.engine.fake import FakeTransport, Reply

BODY = b"x" * 1000
DEAD = Reply(error=Transient("cannot connect: Connection refused"))


def plan(hosts):
    """``{"h": [reply, …]}``: one entry per reply, named ``h0``, ``h1``… on host ``h.test``."""
    scripts: dict[str, object] = {}
    entries: list[Entry] = []
    for host, replies in hosts.items():
        for n, script in enumerate(replies):
            scripts[f"{host}{n}"] = script
            entries.append(entry_of(len(entries), f"{host}{n}", BODY, host=f"{host}.test"))
    return scripts, entries


def times_of(outcome, host):
    return [a.t_s for a in outcome.transport.opens if a.path.startswith(host)]


def test_c42_a_retry_after_holds_the_whole_host_and_no_other(tmp_path):
    """Nothing is sent there before its time; a worker does not wait for it meanwhile."""
    busy = [Reply(status=429, headers={"Retry-After": "30"}), Reply(body=BODY)]
    scripts, entries = plan({"h": [busy] + [Reply(body=BODY)] * 5, "o": [Reply(body=BODY, latency_s=1)] * 8})
    outcome = drive(tmp_path, scripts, entries, concurrency=1)
    assert outcome.statuses == ["done"] * 14
    assert [t for t in times_of(outcome, "h") if 0 < t < 30] == []
    assert max(times_of(outcome, "o")) < 10
    (paused,) = outcome.of(HostPaused)
    assert (paused.host, paused.pause_s, paused.reason) == ("h.test", 30.0, "HTTP 429")
    record = outcome.records["h0"]
    assert record.queued_s == pytest.approx(30.0, abs=0.002)


def test_c42_a_503_for_one_file_holds_only_that_file(tmp_path):
    """It waits as long as it is told; the others come meanwhile, and nobody says that the host rests."""
    busy = [Reply(status=503, headers={"Retry-After": "30"}), Reply(body=BODY)]
    scripts, entries = plan({"h": [Reply(body=BODY)] * 3 + [busy] + [Reply(body=BODY, latency_s=1)] * 9})
    outcome = drive(tmp_path, scripts, entries, concurrency=2)
    assert outcome.statuses == ["done"] * 13
    late = [a for a in outcome.transport.opens if a.t_s > 10]
    assert [(a.path, a.t_s) for a in late] == [("h3", pytest.approx(30.0, abs=0.01))]
    assert outcome.of(HostPaused) == []


class Limited(FakeTransport):
    """Bears four requests at once."""

    refused = 0

    async def open(self, url, headers, secrets, **queue):
        if len(self.open_now) >= 4:
            self.refused += 1
            raise Throttled("HTTP 503", http_status=503)
        return await super().open(url, headers, secrets, **queue)


class Resetting(Limited):
    """Resets all further connections, and says nothing."""

    async def open(self, url, headers, secrets, **queue):
        if len(self.open_now) >= 4:
            self.refused += 1
            raise Transient("cannot connect: Connection reset by peer")
        return await super().open(url, headers, secrets, **queue)


def test_a_server_that_resets_all_but_four_connections_gets_four_at_once(tmp_path):
    """Its successes between the resets kept the breaker closed, and every second request was in vain."""
    scripts, entries = plan({"h": [Reply(body=BODY, latency_s=0.1)] * 1000})
    transport = Resetting(scripts)
    outcome = drive(tmp_path, scripts, entries, concurrency=16, transport=transport)
    assert outcome.statuses == ["done"] * 1000
    assert (transport.refused < 40, outcome.elapsed_s < 1.2 * 1000 / 4 * 0.1) == (True, True)


def test_c41_a_server_that_bears_four_at_once_gets_four_at_once(tmp_path):
    """Additive increase, multiplicative decrease: it finishes, and few requests are refused."""
    scripts, entries = plan({"h": [Reply(body=BODY, latency_s=0.1)] * 200})
    transport = Limited(scripts)
    outcome = drive(tmp_path, scripts, entries, concurrency=32, transport=transport)
    assert outcome.statuses == ["done"] * 200
    assert transport.refused < 100


def test_c44_a_dead_host_costs_few_requests_and_no_time_of_others(tmp_path):
    """1,000 entries there, and not 5,000 requests; the other host's are done as if it were not there."""
    scripts, entries = plan({"d": [DEAD] * 1000, "o": [Reply(body=BODY, latency_s=0.1)] * 50})
    outcome = drive(tmp_path, scripts, entries, concurrency=8)
    assert outcome.statuses == ["failed"] * 1000 + ["done"] * 50
    assert len(times_of(outcome, "d")) < 40
    assert max(times_of(outcome, "o")) < 2.0
    assert outcome.elapsed_s < 60
    assert "d.test has not given one good answer" in outcome.records["d999"].error
    assert outcome.records["d999"].attempts == []
    assert outcome.records["d999"].error_kind == "transient"


class Outage(FakeTransport):
    """No network from the first second on, for ``outage_s``."""

    outage_s = 0.0

    async def open(self, url, headers, secrets, **queue):
        if 1.0 <= asyncio.get_running_loop().time() < 1.0 + self.outage_s:
            raise Transient("cannot connect: Network is unreachable")
        return await super().open(url, headers, secrets, **queue)


@pytest.mark.parametrize("outage_s", [5, 60, 200])
def test_c64_a_network_that_goes_and_comes_back_loses_no_entry(tmp_path, outage_s):
    """Entries wait behind the breaker; those that were met have tries left."""
    scripts, entries = plan({"h": [Reply(body=BODY, latency_s=0.3)] * 400})
    transport = Outage(scripts)
    transport.outage_s = outage_s
    outcome = drive(tmp_path, scripts, entries, concurrency=16, transport=transport)
    assert set(outcome.statuses) == {"done"}
    assert outcome.elapsed_s < outage_s + 25  # the probe, then 400 files


def test_c43_a_pause_that_nobody_waits_for_fails_the_hosts_entries_at_once(tmp_path):
    """With the reason, and without a request for each."""
    busy = Reply(status=503, headers={"Retry-After": "86400"})
    scripts, entries = plan({"h": [busy] * 50})
    outcome = drive(tmp_path, scripts, entries, concurrency=2)
    assert outcome.statuses == ["failed"] * 50
    assert len(outcome.transport.opens) <= 3
    assert outcome.elapsed_s < 1
    assert "asks for a pause of 86400 s" in outcome.records["h49"].error


def test_c43_what_is_in_place_is_skipped_although_its_host_is_given_up(tmp_path):
    """Whether a file is there has nothing to do with its host."""
    busy = Reply(status=503, headers={"Retry-After": "86400"})
    scripts, entries = plan({"h": [busy] * 3})
    outcome = drive(
        tmp_path, scripts, entries, concurrency=1, before=lambda root: (root / "h2").write_bytes(BODY)
    )
    assert outcome.statuses == ["failed", "failed", "skipped"]


def test_c43_one_file_that_is_to_wait_for_long_fails_alone(tmp_path):
    """The server means that file."""
    busy = Reply(status=503, headers={"Retry-After": "400"})
    scripts, entries = plan({"h": [busy] + [Reply(body=BODY)] * 50})
    outcome = drive(tmp_path, scripts, entries, concurrency=4)
    assert outcome.statuses == ["failed"] + ["done"] * 50


def test_c44_a_host_that_breaks_every_body_does_not_starve_another(tmp_path):
    """So many of its entries wait for a try that nothing new begins; and yet all come to their end."""
    broken = [Reply(body=BODY * 200, cut=100_000, then="reset")]
    scripts, entries = plan({"d": [broken] * 300, "g": [Reply(body=BODY)] * 20})
    big = [entry_of(e.id, e.path, BODY * 200, host="d.test") if e.path[0] == "d" else e for e in entries]
    outcome = drive(tmp_path, scripts, big, concurrency=2, max_attempts=3)
    assert [outcome.records[f"g{n}"].status for n in range(20)] == ["done"] * 20
    assert len(outcome.records) == 320


def test_broken_files_at_the_end_of_a_list_are_no_dead_host(tmp_path):
    """Each is cut at its own byte again, with no whole file in between: it fails by itself, soon."""
    broken = Reply(body=BODY * 50, cut=300, then="reset", etag=None)
    scripts, entries = plan({"h": [Reply(body=BODY)] * 20 + [broken] * 90})
    entries = [*entries[:20], *(entry_of(e.id, e.path, BODY * 50, host="h.test") for e in entries[20:])]
    outcome = drive(tmp_path, scripts, entries, concurrency=16)
    reasons = {outcome.records[f"h{n}"].error for n in range(20, 110)}
    assert reasons == {"the connection broke: Connection reset by peer; gave up after 5 tries"}
    assert outcome.elapsed_s < 60
    assert [outcome.records[f"h{n}"].status for n in range(20)] == ["done"] * 20


def test_p20_a_stop_ends_what_waits_for_its_next_try(tmp_path):
    """Nobody holds it, and yet it is told and its part kept."""
    big = b"y" * (2 << 20)
    scripts = {"a": Reply(body=big, cut=(2 << 20) - 9, then="reset"), "b": Reply(body=big, rate_bps=1e5)}
    entries = [entry_of(0, "a", big, host="h.test"), entry_of(1, "b", big, host="o.test")]
    outcome = drive(tmp_path, scripts, entries, stop_at=0.1, jitter=lambda: 1.0)
    record = outcome.records["a"]
    assert (record.status, record.bytes) == ("cancelled", (2 << 20) - 9)
    assert len(outcome.records) == 2


def test_an_entry_that_waits_holds_no_descriptor(tmp_path):
    """Its file is closed, and opened again where it goes on."""
    seen = []

    def count(event):
        if isinstance(event, HostPaused):
            seen.append(len(os.listdir("/proc/self/fd")))

    before = len(os.listdir("/proc/self/fd"))
    cut = [Reply(body=BODY, cut=10), Reply(status=503, headers={"Retry-After": "5"}), Reply(body=BODY)]
    scripts, entries = plan({"h": [cut] * 64})
    outcome = drive(tmp_path, scripts, entries, concurrency=64, listener=count)
    assert outcome.statuses == ["done"] * 64
    assert [record.attempts[-1].from_byte for record in outcome.records.values()] == [10] * 64
    assert seen
    assert seen[-1] < before + 64


def test_waiting_for_ones_turn_is_not_the_entrys_time(tmp_path):
    """One at a time, each with a failed try: the retry budget is for tries, not for the queue."""
    slow = [Reply(status=500), Reply(body=BODY, latency_s=1.0)]
    scripts, entries = plan({"h": [slow] * 12})
    outcome = drive(
        tmp_path,
        scripts,
        entries,
        concurrency=12,
        retry_budget=3.0,
        sequential_fallback=True,
        max_stragglers=0,
    )
    assert outcome.statuses == ["done"] * 12


def test_p20_a_stop_records_those_that_wait_for_their_turn(tmp_path):
    """Each entry that a worker has in hand is told of."""
    scripts, entries = plan({"h": [Reply(body=BODY, latency_s=9.0)] * 4})
    how = {"concurrency": 4, "sequential_fallback": True, "max_stragglers": 0, "stop_at": 1.0}
    outcome = drive(tmp_path, scripts, entries, **how)
    assert outcome.statuses == ["cancelled"] * 4
