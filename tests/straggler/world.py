"""A small world for policies: streams whose rates are known, checks at the policy's pace, no engine."""

import math
from dataclasses import dataclass, field, replace

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.adaptive import Adaptive
from cfetch.straggler.check import Flagged
from cfetch.straggler.knowledge import NOTHING

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def adaptive(concurrency=16, knowledge=NOTHING, wall_s=0.0, **options):
    return Adaptive(StragglerConfig(**options), concurrency=concurrency, knowledge=knowledge, wall_s=wall_s)


@dataclass
class Stream:
    """An attempt: ``rates`` are (from this second of the run on, bytes a second), after ``latency_s``.

    ``again``: what comes instead once it is cancelled. ``held``: from when to when we do not read.
    """

    key: int
    size: int | None
    rates: tuple[tuple[float, float], ...]
    start_s: float = 0.0
    latency_s: float = 0.05
    host: str = "h"
    resumable: bool = True
    immune: bool = False
    mitigations: int = 0
    held: tuple[float, float] | None = None
    again: "Stream | None" = None
    received: int = 0
    first_byte_s: float | None = None
    now_s: float = 0.0
    connecting_since_s: float | None = None
    handshake_s: float = 0.0
    slack_s: float = 0.0
    grain: int = 1  # bytes come in so many
    silent_s: float | None = None  # since its connection's latest packet

    has_lost: bool = False

    def packet_age_s(self):
        return self.silent_s

    def has_lost_packets(self):
        return self.has_lost

    @property
    def carried_bytes(self):
        return 0

    @property
    def is_held(self):
        return self.held is not None and self.held[0] <= self.now_s < self.held[1]

    def held_s(self, now_s):
        return (
            0.0 if self.held is None else max(0.0, min(now_s, self.held[1]) - max(self.start_s, self.held[0]))
        )

    def bytes_at(self, now_s):
        """How many have come; time that we held it brings none."""
        got = 0.0
        begin_s = self.start_s + self.latency_s
        ends = [at for at, _ in self.rates[1:]] + [math.inf]
        for (at, bps), end in zip(self.rates, ends, strict=True):
            spans = [(max(at, begin_s), min(end, now_s))]
            if self.held is not None:
                (low, high), (off, on) = spans[0], self.held
                spans = [(low, min(high, off)), (max(low, on), high)]
            got += sum(max(0.0, high - low) * bps for low, high in spans)
        whole = int(got / self.grain + 1e-6) * self.grain
        return whole if self.size is None else min(whole, self.size)

    def look(self, now_s):
        self.now_s, self.received = now_s, self.bytes_at(now_s)
        if self.received and self.first_byte_s is None:
            self.first_byte_s = self.start_s + self.latency_s

    def ends_s(self, after_s, until_s):
        """When its last byte comes, if in that time."""
        if self.size is None or self.bytes_at(until_s) < self.size:
            return None
        low, high = after_s, until_s
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self.bytes_at(middle) >= self.size else (middle, high)
        return high


def at(rate_bps):
    """That rate, always."""
    return ((0.0, rate_bps),)


@dataclass
class Story:
    """``flagged``: (second, key); ``found``: the flags; ``held``: the words of checks that held back.

    ``lame``: (second, key) of those whose connections are left after them.
    """

    flagged: list[tuple[float, int]] = field(default_factory=list)
    found: list[Flagged] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    lame: list[tuple[float, int]] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)

    @property
    def keys(self):
        return [key for _, key in self.flagged]


def play(policy, streams, until_s, *, from_s=0.0, order=None):
    """Let it run; who is flagged is cancelled, and goes on as its ``again`` says, or not at all."""
    story, waiting = Story(), sorted(streams, key=lambda s: s.start_s)
    running: dict[int, Stream] = {}
    ticks = round((until_s - from_s) / policy.tick_s)
    for tick in range(1, ticks + 1):
        then_s, now_s = from_s + (tick - 1) * policy.tick_s, from_s + tick * policy.tick_s
        while waiting and waiting[0].start_s <= now_s:
            _start(policy, waiting.pop(0), running)
        done = [(end, key) for key, s in running.items() if (end := s.ends_s(max(then_s, s.start_s), now_s))]
        for end_s, key in sorted(done):
            stream = running.pop(key)
            stream.look(end_s)
            policy.note_finish(key, stream.size, end_s, first_byte_s=stream.first_byte_s)
            story.ended[key] = end_s
        for stream in running.values():
            stream.look(now_s)
        live = list(running.values())
        check = policy.check(now_s, live if order is None else order(live))
        if check.held_back:
            story.held.append(check.held_back)
        story.lame += [(round(now_s, 3), key) for key in check.lame]
        for flagged in check.stragglers:
            story.flagged.append((round(now_s, 3), flagged.id))
            story.found.append(flagged)
            stream = running.pop(flagged.id)
            policy.note_cancellation(flagged.id, now_s, 0 if stream.resumable else stream.received)
            if stream.again is not None:
                _start(policy, replace(stream.again, start_s=now_s), running)
    return story


def _start(policy, stream, running):
    running[stream.key] = stream
    policy.note_start(
        stream.key,
        stream.size,
        stream.start_s,
        host=stream.host,
        immune=stream.immune,
        mitigations=stream.mitigations,
    )


def teach(policy, durations, size=MIB, host="h", first_key=1000, at_s=0.0, first_byte_s=0.05):
    """Files that came one after the other from ``at_s`` on, as samples; the second when the last has come."""
    for number, duration_s in enumerate(durations):
        key = first_key + number
        policy.note_start(key, size, at_s, host=host, immune=False, mitigations=0)
        first_s = None if first_byte_s is None else at_s + min(first_byte_s, duration_s)
        policy.note_finish(key, size, at_s + duration_s, first_byte_s=first_s)
        at_s += duration_s
    return at_s
