"""How many downloads a host gets at a time, as the pool does it: up while that is faster, down and up again."""

import asyncio

import pytest

from cfetch.events import SlowdownSeen, WidthChanged
from tests.transfer.drive import drive
from tests.transfer.fake import FakeTransport, Reply

BODY = b"x" * 1000


class Server(FakeTransport):
    """One host: a file takes ``seconds(n)`` with n under way, or gets ``status(n)``. ``widths``: (t, n)."""

    def __init__(self, files, seconds, status=lambda n: 200):
        super().__init__({f"f{n}": Reply(BODY) for n in range(files)})
        self.seconds = seconds
        self.status = status
        self.widths = []

    async def open(self, url, headers, secrets, *, fresh, method="GET"):
        n = len(self.open_now) + 1
        self.widths.append((asyncio.get_running_loop().time(), n))
        path = url.reveal().rpartition("/")[2]
        again = self.scripts[path]
        rate_bps = len(BODY) / self.seconds(n)
        self.scripts[path] = [Reply(BODY, status=self.status(n), rate_bps=rate_bps)] * (len(self.of(path)) + 1)
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
    assert (told[0].host, told[0].before, told[0].places) == ("origin.test", 16, 20)
    assert 34 <= told[-1].places <= 50
    assert max(n for _, n in server.widths) <= 62
    assert outcome.elapsed_s < 2500 / 16 / 1.5


def test_a_full_link_keeps_its_width(tmp_path):
    """More at a time bring nothing: what is tried is taken back."""
    server = Server(1000, lambda n: n / 16)
    outcome = run(tmp_path, server, max_concurrency=64)
    assert outcome.of(WidthChanged) == []
    assert max(n for _, n in server.widths) == 20
    assert sum(n <= 16 for _, n in server.widths) > 0.8 * len(server.widths)


def test_a_host_that_throttles_is_not_searched(tmp_path):
    """It refuses the 17th: it gets no more than it bears, but for a trial now and then."""
    server = Server(1500, lambda n: 1.0, lambda n: 429 if n > 16 else 200)
    outcome = run(tmp_path, server, max_concurrency=64, max_attempts=20)
    assert set(outcome.statuses) == {"done"}
    assert outcome.of(WidthChanged) == []
    refused = [t for t, n in server.widths if n > 16]
    assert 1 <= len(refused) <= 40


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_concurrency": 64, "policy": "cloudfetch"}, {"max_concurrency": 64, "per_host": 16}],
)
def test_nobody_searches_unasked(tmp_path, settings):
    """Without a maximum, with the other policy, or beyond what one host may get at all."""
    server = Server(400, lambda n: 1.0)
    assert run(tmp_path, server, **settings).of(WidthChanged) == []
    assert max(n for _, n in server.widths) == 16


def test_x13_a_bad_start_does_not_narrow_the_rest_of_the_run(tmp_path):
    """Ten stragglers among the first: half the width at once, all of it again within a third of the files."""
    bad = {f"f{n}" for n in range(10)}
    server = Server(1000, lambda n: 0.5)
    slow = Reply(BODY, rate_bps=len(BODY) / 300)
    for path in bad:
        server.scripts[path] = [slow, Reply(BODY)]
    outcome = run(tmp_path, server)
    assert set(outcome.statuses) == {"done"}
    assert server.widths[-1][1] == 16


def test_a_slowdown_is_told_once_an_episode(tmp_path):
    """All downloads collapse at once, twice: nobody is cancelled, and there is a line for each time."""
    step = len(BODY) // 20
    assert step
    when = []
    server = Server(64, lambda n: 1.0)
    outcome = run(tmp_path, server, listener=lambda e: when.append(e) if isinstance(e, SlowdownSeen) else None)
    assert outcome.cancelled == []
    assert when == []
