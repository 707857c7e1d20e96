"""Knows for each host how many attempts it bears at once, when the next may start, and its speed. Pure.

- A host that throttles (429, 503) gets a smaller window: halved once per round of requests, and one more for
  each round that goes well (additive increase, multiplicative decrease: Chiu and Jain, 1989). Until its
  Retry-After is over, or a back-off where it names none, nothing starts there. If a host answers 503 for a
  few files only, just those files wait (``Refusals``).
- With a ``Width``, the number of its slots also depends on how many of its attempts are stragglers, and on
  how much more attempts bring.
- The breaker of a host that fails again and again opens: only one probe starts there after each pause.
  A file that breaks off at the same byte again is at fault itself: its host has answered.
- A host that goes on failing or throttling is given up: its entries fail without a request. One that never
  answered in this run gets as many probes as a file has tries; any other host, the time of the retry budget.

Memory: 300 bytes a host (1.5 KiB with a width), for hosts under way or in trouble and a few thousand more.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.breaker import CLOSED, BreakerState
from cfetch.base.errors import NotReady, RangeRefused, SourceError, Straggling, Throttled, Transient
from cfetch.engine.host_state import HostState
from cfetch.straggler.width import HostReading, TcpSigns, Width, WidthChange
from cfetch.wire.retry import Limits, Matter, backoff_s

if TYPE_CHECKING:
    from cfetch.wire.request_pace import RequestPace

FAIR_BYTES = 64 << 10  # fewer bytes show the latency, not the speed, and are no sign of life either
SPEED_WEIGHT = 0.3  # of the newest sample; a mirror that slows down is left after a few files
UNAVAILABLE = 503  # a 429 concerns the client, and so all of its requests
KEPT_S = 1.5  # how long that slot is kept, at most: the help shows whether a later request is faster
SAME_PAUSE_S = 1.0  # pauses that end so close to each other are one pause: messages are a second apart
RESETS, BEARS = "it resets further connections", "it has not reset more for some time"
MANY_ROUNDS = 3  # of refusals alone: the first may be of long ago, if the host was not asked since
NONE: Mapping[str, int] = {}
NO_HANDSHAKES: Mapping[str, Sequence[float]] = {}
LONGEST_PAUSE_S = 5.0  # a person expects a host that is back to be in use within seconds
EPISODE_S = 10.0  # connections that hang within this time do so for the same reason
MAX_KEPT = 4096  # hosts without trouble: a plan with a million hosts must not remember them all


class Pause(NamedTuple):
    """Nothing starts at ``host`` for ``pause_s`` seconds; ``is_failing``: its breaker has opened.

    ``is_certain``: the host has asked for the pause; otherwise it may concern this process or one file.
    """

    host: str
    pause_s: float
    reason: str
    is_failing: bool = False
    is_certain: bool = False


class _Leases(NamedTuple):
    """The own parts of limits for several processes; ``others``: at each host that has no lease.

    ``first``: slots of a host that has not answered yet, as the other processes begin there too.
    """

    first: float
    by_host: Mapping[str, int] = NONE
    others: int | None = None

    def find(self, name: str) -> int | None:
        return self.by_host.get(name, self.others)


class Hosts:
    """All hosts of a run. No host gets more than ``most`` attempts at once.

    ``served``: for hosts that let connections hang, how many they served; at first from earlier runs.
    ``new_width`` makes the width of a new host; it gets the number in ``served``, or 0.

    ``keeps_one``: one slot of a new host is kept for help with a file under way. ``pace``: how often each
    host may be asked; None: as often as it bears.
    """

    def __init__(
        self,
        most: int,
        limits: Limits,
        *,
        new_width: Callable[[int], Width] | None = None,
        served: Mapping[str, int] = NONE,
        keeps_one: bool = False,
        pace: "RequestPace | None" = None,
    ) -> None:
        self._most = most
        self._pace = pace
        self._new_width = new_width
        self.served = dict(served)
        self._keeps_one = keeps_one
        self._kept_until_s: dict[str, float] = {}
        self.opens_early = False  # a slot became free before the time that ``opens_s`` stated
        self._hung: dict[str, tuple[float, int]] = {}  # when connections hung, and how many were served
        self.changes: list[tuple[str, WidthChange]] = []  # of widths; the caller that emits them clears it
        self.closed_breakers: list[str] = []  # hosts in use again; the caller that emits them clears it
        self.limits = limits
        self._hosts: dict[str, HostState] = {}
        self._leases = _Leases(float(most))
        self.trusted: Collection[str] = ()  # hosts that serve other processes of the run: they are not dead
        self._refused: set[str] = set()

    def lease(self, leases: Mapping[str, int], others: int | None) -> None:
        """Start no more attempts at a host than its lease: this process's part of a limit for several.

        ``others``: the limit at each host that has no lease. Attempts under way continue.
        """
        self._leases = _Leases(self._leases.first, leases, others)

    def begin_with(self, slots: int) -> None:
        """Begin with so many slots at each host; each answer brings one more."""
        self._leases = self._leases._replace(first=float(min(self._most, slots)))

    def demand(self, name: str, waiting: int) -> tuple[int, int]:
        """How many attempts have a slot at ``name``, and how many would have one without a lease.

        ``waiting``: entries that wait for a slot at this host only. All entries that may also use another
        host count as one, and only if one of them was refused a slot since the last call.
        """
        host = self._hosts.get(name) or self._new_host(name)
        running, window = host.running, host.slots
        refused = name in self._refused
        self._refused.discard(name)
        return running, max(running, min(window, running + max(waiting, refused)))

    def opens_s(self, name: str, now_s: float, *, helps: bool = False) -> float:
        """When one more attempt may start at ``name``: ``now_s``, later, or infinity: not before one ends.

        ``helps``: the new attempt helps one that is under way.
        """
        if self._pace is not None and (paced_s := self._pace.opens_s(name)) > now_s:
            return paced_s
        host = self._hosts.get(name)
        most = self._leases.find(name)
        if most is not None and (host.running if host is not None else 0) >= most:
            self._refused.add(name)
            return inf
        if host is None:
            return now_s
        slots = host.slots
        if host.running >= slots:
            return inf
        if self._keeps_one and not helps and host.may_keep_one(slots):
            if len(self._kept_until_s) > MAX_KEPT:
                self._kept_until_s.clear()
            kept_until_s = self._kept_until_s.setdefault(name, now_s + KEPT_S)
            if now_s < kept_until_s:
                return kept_until_s
        return max(now_s if host.breaker is CLOSED else host.breaker.opens_s(now_s), host.held_until_s)

    def paced_s(self, name: str) -> float:
        """When the stated rate of requests allows the next request to ``name``."""
        return -inf if self._pace is None else self._pace.opens_s(name)

    def note_request(self, name: str, now_s: float) -> None:
        """Note that an attempt asks ``name`` now."""
        if self._pace is not None:
            self._pace.note_request(name, now_s)

    @property
    def is_paced(self) -> bool:
        """Whether a rate of requests is stated, so that each attempt may make one request only."""
        return self._pace is not None

    def bears(self, name: str, now_s: float = inf) -> tuple[int, int]:
        """How many attempts run at ``name``, and how many it bears; at ``now_s`` none, while it pauses."""
        host = self._hosts.get(name) or self._new_host(name)
        if host.held_until_s > now_s or (host.breaker is not CLOSED and host.breaker.opens_s(now_s) > now_s):
            return host.running, 0
        lease = self._leases.find(name)
        return host.running, host.slots if lease is None else min(host.slots, lease)

    def finish_s(self, name: str, size_bytes: int) -> float:
        """When ``name`` would have sent so many more bytes, after those under way; infinity if unknown.

        It follows from the recent speed of one connection there.
        """
        host = self._hosts.get(name)
        if host is None or not host.speed_bps:
            return inf
        return (host.load_bytes + size_bytes) / host.speed_bps

    def given_up(self, name: str, now_s: float) -> str | None:
        """The reason why ``name`` is given up; None while its entries may wait for it."""
        host = self._hosts.get(name)
        if host is None:
            return None
        budget_s = self.limits.retry_budget_s
        if host.held_until_s - now_s > budget_s:
            return (
                f"{name} asks for a pause of {host.held_until_s - now_s:.0f} s, "
                f"longer than the retry budget of {budget_s:g} s"
            )
        is_trusted = name in self.trusted
        if host.breaker.position is BreakerState.OPEN and host.breaker.opens_s(now_s) > now_s:
            if not is_trusted and not host.answered and host.breaker.opened > self.limits.max_attempts:
                return f"{name} has not given one good answer in {host.breaker.failures} tries"
        elif is_trusted or host.running or host.held_until_s <= now_s or host.throttling.rounds < MANY_ROUNDS:
            return None  # wait for the result of the probe, or until a host that throttles only refuses
        if host.trouble_s is not None and now_s - host.trouble_s > budget_s:
            only = ", only HTTP 429 or 503" if host.throttling.rounds else ""
            return f"{name} has not given a good answer for {now_s - host.trouble_s:.0f} s{only}"
        return None

    def note_life(self, name: str) -> bool:
        """Note that an attempt at ``name`` has brought bytes. Returns whether a trouble or a pause ends."""
        host = self._hosts[name]
        was_in_trouble = host.trouble_s is not None or host.refusals.unclear_window is not None
        host.clear_refusal()
        host.answered = True
        host.trouble_s = None
        self._close_breaker(name, host)
        return was_in_trouble

    def take_slot(self, name: str, size_bytes: int = 0) -> None:
        """Take a slot at ``name`` for an attempt that wants ``size_bytes``, as far as that is known."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = self._new_host(name)
        host.running += 1
        host.load_bytes += size_bytes
        if host.breaker is not CLOSED:
            host.breaker = host.breaker.admit()

    def free_slot(self, name: str, now_s: float, size_bytes: int = 0) -> None:
        """Free the slot again, however the attempt ended; ``size_bytes`` as given to ``take_slot``."""
        host = self._hosts[name]
        host.running -= 1
        host.load_bytes -= size_bytes
        if host.breaker is not CLOSED:
            host.breaker = host.breaker.end_probe(now_s)
        is_idle = not host.running and host.is_plain(self._leases.first)
        if is_idle and (not host.answered or len(self._hosts) > MAX_KEPT):
            del self._hosts[name]
        if self._kept_until_s.get(name, 0.0) > now_s and not host.may_keep_one(host.slots):
            self.opens_early = True
            if host.brought_bytes:  # else the last free slot is still kept, until the same time
                del self._kept_until_s[name]

    def note_end(
        self,
        name: str,
        error: SourceError | None,
        now_s: float,
        *,
        started_s: float,
        received: int,
        jitter: float,
        file: int | None = None,
        being_served: int = 0,
        broke_again: bool = False,
    ) -> Pause | None:
        """Note that an attempt at ``name`` has ended. Returns the pause that follows, if any.

        ``received`` are the bytes that it brought since ``started_s``. ``file``: its entry; None: a refusal
        concerns the host in any case. ``being_served``: attempts to which the host sends a body now; needed
        only if it has refused a file or failed. ``broke_again``: bytes came, as far as in an earlier try.
        """
        host = self._hosts[name]
        if received >= FAIR_BYTES and now_s > started_s:
            rate_bps = received / (now_s - started_s)
            weight = SPEED_WEIGHT if host.speed_bps else 1.0
            host.speed_bps += weight * (rate_bps - host.speed_bps)
        host.brought_bytes += received
        host.answered = host.answered or received > 0
        if isinstance(error, Straggling):
            return None
        if isinstance(error, Throttled):
            host.answered = True
            self._close_breaker(name, host)  # a host that refuses is alive
            if not self._concerns_host(host, error, now_s, file, being_served):
                return None
            return self._note_throttling(name, host, error, now_s, started_s, jitter)
        is_answer = broke_again or isinstance(error, RangeRefused | NotReady)
        if isinstance(error, Transient) and received < FAIR_BYTES and not is_answer:
            if not received and error.http_status is None:
                host.limit.note_refusal(now_s, host.running - 1, being_served)
            pause = self._note_failure(name, host, now_s, being_served)
            self._note_limit(name, host)
            return pause
        if error is None:
            self.opens_early |= host.held_until_s > now_s
            host.clear_refusal()
        host.answered = True
        host.trouble_s = None
        host.throttling.rounds = host.throttling.too_long = 0
        self._close_breaker(name, host)
        more = 1.0 if self._begins(host) else 1.0 / host.window
        host.window = min(float(self._most), host.window + more)
        if error is None:
            if host.limit.is_in_use:
                host.limit.note_file(now_s, started_s)
                host.limit.raise_if_due(now_s, is_leased=name in self._leases.by_host)
                self._note_limit(name, host)
            host.refusals.note_end()
            if host.width is not None:
                host.width.note_end()
        return None

    def join_pause(
        self, name: str, pause_s: float, now_s: float, *, spread_s: float = 0.0, cuts: bool = True
    ) -> bool:
        """Start nothing at ``name`` for ``pause_s``: the host has asked another process of the run for it.

        ``spread_s`` prolongs the pause. A pause that is reported again is not prolonged again; returns
        whether it is news. ``cuts``: the host has refused a request, so its limit is halved.
        """
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = self._new_host(name)
        if now_s + pause_s <= host.held_until_s + SAME_PAUSE_S:
            return False
        if cuts and host.held_until_s <= now_s:  # otherwise its limit has just been cut
            host.window = max(1.0, min(host.window, float(host.slots)) / 2)
            host.throttling.cut_s = now_s
        host.held_until_s = now_s + pause_s + spread_s
        return True

    def note_hanging(self, name: str, now_s: float, served: int) -> None:
        """Note that a fresh connection to ``name`` hangs too, while ``served`` others bring bytes."""
        host = self._hosts[name]
        last_s, before = self._hung.get(name, (-inf, 0))
        if now_s <= last_s + EPISODE_S:
            served = max(served, before)  # some served connections may just wait for their next reply
        if len(self._hung) > MAX_KEPT:
            self._hung.clear()
        self._hung[name] = now_s, served
        change = None if host.width is None else host.width.yield_slot(now_s, served)
        if change is not None:
            host.is_capped = True
            self.served[name] = change.slots
            self.changes.append((name, change))

    def is_capped(self, name: str) -> bool:
        """Whether more connections to ``name`` hung or were no faster; proven ones are preferred then."""
        host = self._hosts.get(name)
        return host is not None and host.is_capped

    def adjust_widths(
        self,
        now_s: float,
        cpu_s: float,
        received: Mapping[str, int],
        *,
        calm: bool,
        silent: Mapping[str, int] = NONE,
        waiting: Mapping[str, int] = NONE,
        handshakes_s: Mapping[str, Sequence[float]] = NO_HANDSHAKES,
        left_bytes: int = 0,
        ask_tcp: Callable[[str, float], TcpSigns | None] | None = None,
    ) -> bool:
        """Call ``Width.adjust`` for all hosts. Returns whether one of them may have more slots than before.

        ``cpu_s``: processor time so far; ``received``: by host, the bytes of the attempts under way;
        ``silent``: by host, how many of these have long waited for a first byte; ``waiting``: all that wait;
        ``handshakes_s``: what their connections took. ``left_bytes``: in the run. ``ask_tcp``: asks the
        TCP of a host's connections.
        """
        rose = False
        came = sum(host.brought_bytes for host in self._hosts.values()) + sum(received.values())
        left_s = left_bytes * now_s / came if came else 0.0
        for name, host in self._hosts.items():
            had = host.slots
            if self._begins(host):
                answering = 2 * (host.running - waiting.get(name, 0))
                host.window = min(float(self._most), max(host.window, answering))
                rose = rose or host.slots > had
            if host.width is None or not host.running:
                continue
            host.limit.raise_if_due(now_s, is_leased=name in self._leases.by_host)
            before = host.width.slots
            brought = host.brought_bytes + received.get(name, 0)
            is_calm = calm and not host.throttling.rounds and host.window >= before
            waits = silent.get(name, 0), waiting.get(name, 0)
            made_s = handshakes_s.get(name, ())
            asks = None if ask_tcp is None else partial(ask_tcp, name)
            reading = HostReading(now_s, brought, host.running, cpu_s, left_s, *waits, made_s, asks)
            change = host.width.adjust(reading, calm=is_calm)
            if change is not None:
                self.changes.append((name, change))
                if change.slots > self.served.get(name, inf):
                    del self.served[name]
            host.is_capped = host.is_capped or host.width.slots < before
            rose = rose or host.slots > had
        return rose

    def find_width(self, name: str) -> "Width | None":
        """The width of the host, if it is known and has one."""
        host = self._hosts.get(name)
        return None if host is None else host.width

    def _begins(self, host: HostState) -> bool:
        """Whether each answer brings one more slot, so that they double in a round: nothing was refused."""
        return host.throttling.cut_s < 0 and host.window < self._most

    def _new_host(self, name: str) -> HostState:
        served = self.served.get(name, 0)
        host = HostState(self._leases.first, None if self._new_width is None else self._new_width(served))
        host.is_capped = served > 0
        return host

    def _note_limit(self, name: str, host: HostState) -> None:
        """Note a connection limit that has just changed."""
        if host.limit.change is not None:
            before, slots = (int(min(self._most, each)) for each in host.limit.change)
            host.limit.change = None
            if slots != before:
                change = WidthChange(before, slots, RESETS if slots < before else BEARS, slots < before)
                self.changes.append((name, change))

    def _close_breaker(self, name: str, host: HostState) -> None:
        if host.breaker.opened:
            self.closed_breakers.append(name)
        host.breaker = CLOSED

    def _note_failure(self, name: str, host: HostState, now_s: float, being_served: int) -> Pause | None:
        host.trouble_s = now_s if host.trouble_s is None else host.trouble_s
        was_open = host.breaker.position is BreakerState.OPEN
        host.breaker = host.breaker.fail(now_s, longest_s=LONGEST_PAUSE_S)
        if was_open or host.breaker.position is not BreakerState.OPEN:
            return None
        if being_served:  # it serves no more than these: it takes no further connections of one client
            host.limit.set(being_served, now_s)
        reason = f"failed {host.breaker.failures} times in a row"
        return Pause(name, host.breaker.until_s - now_s, reason, is_failing=True)

    def _concerns_host(
        self, host: HostState, error: Throttled, now_s: float, file: int | None, being_served: int
    ) -> bool:
        """Whether a refusal concerns the host and not just the file; if that is unclear, the host.

        In the unclear case the window is kept, so that ``clear_refusal`` can restore it.
        """
        matter = Matter.HOST
        if file is not None and error.http_status == UNAVAILABLE:
            matter = host.refusals.judge(file, now_s, being_served)
        if matter is Matter.FILE:
            return False
        window = host.refusals.unclear_window or host.window
        host.refusals.unclear_window = window if matter is Matter.UNCLEAR else None
        return True

    def _note_throttling(
        self, name: str, host: HostState, error: Throttled, now_s: float, started_s: float, jitter: float
    ) -> Pause | None:
        host.trouble_s = now_s if host.trouble_s is None else host.trouble_s
        if started_s >= host.throttling.cut_s:  # a request from before the cut does not cut again
            host.throttling.cut_s = now_s
            host.throttling.rounds += 1
            host.throttling.too_long += (error.retry_after_s or 0.0) > self.limits.retry_budget_s
            host.window = max(1.0, min(host.window, float(host.slots)) / 2)
        elif error.retry_after_s is None:
            return None
        asked_s = error.retry_after_s
        if host.throttling.too_long == 1 and asked_s is not None and asked_s > self.limits.retry_budget_s:
            asked_s = None  # it may concern this one file: another file is tried before the host is given up
        pause_s = backoff_s(host.throttling.rounds, jitter) if asked_s is None else asked_s
        if now_s + pause_s <= host.held_until_s:
            return None
        host.held_until_s = now_s + pause_s
        return Pause(name, pause_s, str(error), is_certain=host.refusals.unclear_window is None)
