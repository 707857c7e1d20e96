"""How many downloads a host gets at a time, as the pool does it: more, fewer, and back again."""

import asyncio
import itertools

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.events import SlowdownOver, SlowdownSeen, WidthChanged
from cfetch.base.virtual_clock import VirtualClock
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from tests.engine.drive import drive, entry_of
from tests.engine.fake import FakeTransport, Reply

BODY = b"x" * 1000


class Server(FakeTransport):
    """One host: a file takes ``seconds(n)`` with n under way, or gets ``status(n)``. ``widths``: (t, n)."""

    def __init__(self, files, seconds, status=lambda n: 200):
        super().__init__({f"f{n}": Reply(BODY) for n in range(files)})
        self.seconds = seconds
        self.status = status
        self.widths = []

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        n = len(self.open_now) + 1
        self.widths.append((asyncio.get_running_loop().time(), n))
        path = url.reveal().rpartition("/")[2]
        again = self.scripts[path]
        rate_bps = len(BODY) / self.seconds(n)
        self.scripts[path] = [Reply(BODY, status=self.status(n), rate_bps=rate_bps, pieces=6)] * (
            len(self.of(path)) + 1
        )
        try:
            return await super().open(url, headers, secrets, fresh=fresh, method=method)
        finally:
            self.scripts[path] = again


def run(tmp_path, server, **settings):
    more = {"policy": "adaptive", "concurrency": 16, "segments": 1, **settings}
    return drive(tmp_path, server.scripts, transport=server, **more)


def test_a_server_that_limits_each_connection_gets_more_of_them(tmp_path):
    """Up to 40 at a time it gets faster with each: the run ends near that, and says why."""
    server = Server(2500, lambda n: max(1.0, n / 40))
    outcome = run(tmp_path, server, max_concurrency=128)
    assert set(outcome.statuses) == {"done"}
    told = outcome.of(WidthChanged)
    assert (told[0].host, told[0].before, told[0].slots) == ("origin.test", 16, 32)
    assert 34 <= told[-1].slots <= 50
    assert max(n for _, n in server.widths) <= 64
    assert outcome.elapsed_s < 2500 / 16 / 1.5


def test_idle_workers_start_when_a_host_gets_more_slots(tmp_path):
    """Not only when the next file ends: these take more than a minute."""
    server = Server(8, lambda n: 100.0)
    outcome = run(tmp_path, server, concurrency=2, max_concurrency=8)
    starts = [t for t, _ in server.widths]
    assert starts[:2] == [0.0, 0.0]
    assert 60 < starts[2] < 65
    assert set(outcome.statuses) == {"done"}


class _BusyClock(VirtualClock):
    """The thread that runs the downloads computes all the time."""

    def cpu(self):
        return self.monotonic()


def test_a_run_that_computes_all_the_time_starts_no_more(tmp_path):
    """The server would bear them."""
    server = Server(400, lambda n: 1.0)
    outcome = run(tmp_path, server, max_concurrency=64, clock=_BusyClock())
    assert set(outcome.statuses) == {"done"}
    assert max(n for _, n in server.widths) == 16


def test_a_full_link_keeps_its_width(tmp_path):
    """More at a time bring nothing: what is tried is taken back."""
    server = Server(500, lambda n: n / 16)
    outcome = run(tmp_path, server, max_concurrency=64)
    assert outcome.of(WidthChanged) == []
    assert max(n for _, n in server.widths) == 32
    assert sum(n <= 16 for _, n in server.widths) > 0.6 * len(server.widths)


def test_a_host_that_throttles_is_not_searched(tmp_path):
    """It refuses the 17th: it gets no more than it bears, but for a trial now and then."""
    server = Server(800, lambda n: 1.0, lambda n: 429 if n > 16 else 200)
    outcome = run(tmp_path, server, max_concurrency=64, max_attempts=20)
    assert set(outcome.statuses) == {"done"}
    assert outcome.of(WidthChanged) == []
    refused = [t for t, n in server.widths if n > 16]
    assert 1 <= len(refused) <= 40


@pytest.mark.parametrize(
    "settings",
    [
        {"max_concurrency": 16},
        {"max_concurrency": 64, "policy": "cloudfetch"},
        {"max_concurrency": 64, "per_host": 16},
    ],
)
def test_nobody_searches_unasked(tmp_path, settings):
    """Without a maximum, with the other policy, or beyond what one host may get at all."""
    server = Server(200, lambda n: 1.0)
    assert run(tmp_path, server, **settings).of(WidthChanged) == []
    assert max(n for _, n in server.widths) == 16


class Ill(Server):
    """The first tries of some files crawl."""

    def __init__(self, files, ill):
        super().__init__(files, lambda n: 0.5)
        self.ill = ill

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        path = url.reveal().rpartition("/")[2]
        crawls = path in self.ill and not self.of(path)
        self.seconds = lambda n: 300.0 if crawls else 0.5
        return await super().open(url, headers, secrets, fresh=fresh, method=method)


def test_x13_a_bad_start_does_not_narrow_the_rest_of_the_run(tmp_path):
    """Ten stragglers of the first sixteen: they are mended, and all of the width serves the other files."""
    outcome = run(tmp_path, server := Ill(1000, {f"f{n}" for n in range(10)}))
    assert set(outcome.statuses) == {"done"}
    assert len(outcome.cancelled) == 10
    assert server.widths[-1][1] == 16
    assert outcome.elapsed_s < 1.1 * 1000 / 32


def test_a_host_that_drowns_gets_fewer(tmp_path):
    """With more than eight at a time it brings less: a doubling shows that, and half of them are faster."""
    server = Server(600, lambda n: 0.5 * max(1.0, (n / 8) ** 2))
    outcome = run(tmp_path, server, max_concurrency=32)
    assert set(outcome.statuses) == {"done"}
    assert min(change.slots for change in outcome.of(WidthChanged)) <= 8
    assert outcome.elapsed_s < 600 / 8  # what all sixteen take; the best would be 38


def test_a_slowdown_is_told_once_an_episode(tmp_path):
    """All downloads are slow at once, twice: nobody is cancelled, and there is one line for each time."""
    gaps_s = [*[0.2] * 100, *[4.0] * 6, *[0.2] * 100, *[4.0] * 6, *[0.2] * 100]
    reply = Reply(b"x" * 100 * len(gaps_s), at_s=tuple(itertools.accumulate(gaps_s)))
    scripts = {f"f{n}": reply for n in range(16)}
    outcome = drive(tmp_path, scripts, policy="adaptive", concurrency=16, segments=1)
    assert outcome.cancelled == []
    first, second = outcome.of(SlowdownSeen)
    over, *_ = outcome.of(SlowdownOver)
    assert 20 < first.t_s < 44 < over.t_s < 64 < second.t_s < 88
    assert (first.active, first.reason) == (
        16,
        "16 of 16 downloads are slow at once: the network, not the files",
    )


def test_after_two_silent_connections_a_proven_one_is_taken(tmp_path):
    """The first is followed by a fresh one; when that hangs too, the host gets a slot less."""
    hanging = Reply(BODY, latency_s=1e9)
    scripts = {f"f{n}": [Reply(BODY, latency_s=0.5)] for n in range(100)}
    scripts["hanging"] = [hanging, hanging, Reply(BODY)]
    outcome = drive(tmp_path, scripts, policy="adaptive", concurrency=8, segments=1)
    assert set(outcome.statuses) == {"done"}
    assert [asked.fresh for asked in outcome.transport.of("hanging")] == [False, True, False]
    assert outcome.elapsed_s < 30  # the stall rule alone would take twice as long


class TwoSeats:
    """The simulator's network: two connections are served at a time, others wait until one of them closes.

    ``asked``: the number of each request's file, and whether it was to have a fresh connection.
    """

    def __init__(self, files):
        self._sizes = [100_000] * files
        self._wire = None
        self.asked = []

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        if self._wire is None:  # its clock is that of the loop
            network = NetworkModel(rate_bps=1e5, latency_s=0.01, connections=2)
            self._wire = SimTransport(network, 1, self._sizes, clock=RunClock(VirtualClock()))
        self.asked.append((int(url.reveal().rpartition("/")[2]), fresh))
        return await self._wire.open(url, headers, secrets, fresh=fresh, method=method)


def test_requests_that_wait_in_line_come_over_connections_that_are_served(tmp_path):
    """Two of four are; the others' files are asked for again, and the host gets fewer slots."""
    entries = [entry_of(n, str(n), bytes(100_000), host="0") for n in range(100)]
    server = TwoSeats(len(entries))
    outcome = drive(
        tmp_path,
        {},
        entries,
        transport=server,
        policy="adaptive",
        concurrency=4,
        max_concurrency=4,
        segments=1,
    )
    assert set(outcome.statuses) == {"done"}
    assert set(outcome.tree.values()) == {bytes(100_000)}
    for waited in (2, 3):
        tries = [attempt.outcome for attempt in outcome.records[str(waited)].attempts]
        assert tries == ["straggler", "straggler", "done"]
        assert [fresh for number, fresh in server.asked if number == waited] == [False, True, False]
    told = [(change.before, change.slots, change.reason) for change in outcome.of(WidthChanged)]
    reason = "new connections hang while others are served"
    assert told[:2] == [(4, 3, reason), (3, 2, reason)]
    assert set(told[2:]) <= {(3, 2, reason)}  # a third is tried now and then, and hangs
