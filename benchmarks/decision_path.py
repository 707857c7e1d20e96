"""What a policy's decisions cost: processor time of the monitor's checks, as a share of one core.

The real monitor and the real policy watch attempts that are numbers only: they advance evenly, end and begin
anew, and every fiftieth crawls until it is broken off. Time is put forward by hand; nothing else is timed.
``10,000/s``: so many checks a second that checks times attempts are 10,000, whatever the policy's own pace.
``own pace``: as often as the policy itself wants them. ``a file``: what its start and its end cost besides,
until the policy, the host and the file's record have it.
Usage::

    python benchmarks/decision_path.py [--active N …] [--seconds S] [--profile] [--json]
"""

import argparse
import asyncio
import cProfile
import random
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Straggling
from cfetch.base.secret import SecretUrl
from cfetch.engine.attempt import Assignment, Attempt, BreakOff, Grounds
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.hosts import Hosts
from cfetch.engine.monitor import Monitor
from cfetch.engine.policies import policy_of
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.schedule import Schedule
from cfetch.manifest.entry import Entry, SafePath
from cfetch.show.counts import LiveCounts
from cfetch.straggler.policy import Policy
from cfetch.wire.retry import Limits

POLICIES = ("cloudfetch", "adaptive")
LOOKS_PER_S = 10_000
SIZE_BYTES = 64 << 20
RATE_BPS = 10.0 * (1 << 20)
SLOW = 0.02  # of all attempts, at a fiftieth of the rate
WARM_UP_S = 10.0  # every attempt has ended once by then, so that normal is known
LATENCY_S = 0.04
ENTRY = Entry(id=0, url=SecretUrl("http://h/f"), path=SafePath("f"), size_bytes=SIZE_BYTES)
ASSIGNMENT = Assignment(ENTRY, 1, "h")
NO_ENTRIES: Schedule[Any] = Schedule([], [], 0, most_put_back=1)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of one core; ``file_us`` is microseconds."""

    policy: str
    active: int
    share: float
    own_share: float
    file_us: float


class PacedAttempt(Attempt):
    """Advances at its own rate; to break it off ends nothing but a number."""

    __slots__ = ("bps", "is_broken_off")

    bps: float
    is_broken_off: bool

    def break_off(self, reason: BreakOff, grounds: Grounds | None = None) -> None:  # noqa: ARG002
        """See ``Attempt``."""
        self.is_broken_off = True


class World:
    """``active`` attempts under the monitor's eyes. ``checking_s`` is what its checks took.

    ``telling_s``: what it took to report starts and ends.
    """

    def __init__(self, name: str, active: int) -> None:
        self.now_s = 0.0
        settings = Settings(policy=name, concurrency=min(active, 1024))
        self.policy: Policy = policy_of(
            name, settings.straggler, tick_s=settings.check_interval, concurrency=active
        )
        self._hosts = Hosts(active, Limits(5, 60.0))
        self.in_flight = AttemptsUnderWay(self.policy, self._hosts, _deaf, jitter=lambda: 0.5)
        commitment: Any = SimpleNamespace(schedule=NO_ENTRIES, judges_volumes=False, views=list)
        outside = PoolInputs("i", RunClock(self), lambda: 0.5, _deaf, LiveCounts())
        self.monitor = Monitor(
            self.policy, self.in_flight, commitment, settings, outside, on_life=_deaf, on_check=lambda: None
        )
        self._dice = random.Random(active)
        self._attempts: list[PacedAttempt] = []
        self._next = 0
        self.files = 0
        self.checking_s = self.telling_s = 0.0
        for _ in range(active):
            attempt = self._begin()
            attempt.received = self._dice.randrange(SIZE_BYTES)  # they end one by one

    def monotonic(self) -> float:
        """See ``Clock``."""
        return self.now_s

    def wall(self) -> float:
        """See ``Clock``."""
        return self.now_s

    def cpu(self) -> float:
        """See ``Clock``."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``; nobody does."""

    def run(self, seconds: float, tick_s: float) -> None:
        """Let so much time pass, with a check at every tick."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += tick_s
            self._advance(tick_s)
            before = time.process_time()
            self.monitor.check()
            self.checking_s += time.process_time() - before
            self._tell()

    def forget(self) -> None:
        """Measure anew from here."""
        self.files, self.checking_s, self.telling_s = 0, 0.0, 0.0

    def _begin(self) -> PacedAttempt:
        dice = self._dice
        key, self._next = self._next, self._next + 1
        attempt = PacedAttempt(ASSIGNMENT, self.now_s, from_byte=0, size_bytes=SIZE_BYTES, key=key)
        attempt.is_broken_off = False
        attempt.resumable = True
        attempt.first_byte_s = attempt.last_byte_s = self.now_s + LATENCY_S
        attempt.bps = RATE_BPS * dice.lognormvariate(0, 0.2) * (0.02 if dice.random() < SLOW else 1)
        self._hosts.take_slot("h")
        self._attempts.append(attempt)
        before = time.process_time()
        self.in_flight.start(attempt, _new_transfer())
        self.telling_s += time.process_time() - before
        return attempt

    def _advance(self, tick_s: float) -> None:
        for attempt in self._attempts:
            attempt.received = min(SIZE_BYTES, attempt.received + int(attempt.bps * tick_s))
            attempt.last_byte_s = self.now_s

    def _tell(self) -> None:
        ended = [a for a in self._attempts if a.is_broken_off or a.received == SIZE_BYTES]
        for attempt in ended:
            self._attempts.remove(attempt)
            before = time.process_time()
            if attempt.is_broken_off:
                self.in_flight.end(attempt, "straggler", Straggling("slow"), self.now_s)
            else:
                self.in_flight.end(attempt, "done", None, self.now_s)
            self.telling_s += time.process_time() - before
            self._hosts.free_slot("h", self.now_s)
            self.files += 1
            self._begin()


def _new_transfer() -> Any:  # noqa: ANN401 - a stand-in
    """As much of a transfer as an attempt's start and end ask for; each begins anew."""
    return SimpleNamespace(
        attempts=[],
        tries=SimpleNamespace(mitigations=0),
        part=SimpleNamespace(position=0),
        may_resume=lambda: True,
    )


def _deaf(_: object) -> None:
    """Nobody listens."""


async def cost(name: str, active: int, seconds: float) -> Cost:
    """One policy with so many attempts under way."""
    world = World(name, active)
    world.run(WARM_UP_S, world.policy.tick_s)
    world.forget()
    world.run(seconds, active / LOOKS_PER_S)
    share, file_us = world.checking_s / seconds, 1e6 * world.telling_s / max(1, world.files)
    world.forget()
    world.run(seconds, world.policy.tick_s)
    return Cost(
        policy=name, active=active, share=share, own_share=world.checking_s / seconds, file_us=file_us
    )


async def profile(name: str, active: int, seconds: float) -> None:
    """Where the time of the checks goes."""
    world = World(name, active)
    world.run(WARM_UP_S, world.policy.tick_s)
    profiler = cProfile.Profile()
    world.monitor.check = _profiled(profiler, world.monitor.check)  # type: ignore[method-assign]
    world.run(seconds, active / LOOKS_PER_S)
    profiler.print_stats("tottime")


def _profiled(profiler: cProfile.Profile, check: Callable[[], None]) -> Callable[[], None]:
    return lambda: profiler.runcall(check)


def main() -> None:
    """A Markdown table, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--active", nargs="+", type=int, default=[16, 64, 256, 1024])
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    costs = []
    for name in args.policies:
        for active in args.active:
            if args.profile:
                asyncio.run(profile(name, active, args.seconds))
            else:
                costs.append(asyncio.run(cost(name, active, args.seconds)))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(costs) + b"\n")
    elif costs:
        print("| policy | active | 10,000/s | own pace | a file |\n|---|---|---|---|---|")
        for one in costs:
            cells = (f"{one.share:.2%}", f"{one.own_share:.2%}", f"{one.file_us:.0f} µs")
            print(f"| {one.policy} | {one.active} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
