"""The network between client and servers as a value: the simulator and the loopback origin both enact it.

The traits of a connection follow from the seed, its host and its number there, and from nothing else. So the
same connections are good and bad for every policy, whatever the order of the requests. Rates are bytes of
body a second, times are seconds of the run, which begins with the first request.
"""

import math
import random
from typing import NamedTuple

import msgspec

from cfetch.base.errors import ConfigError

GOLDEN = (
    math.sqrt(5) - 1
) / 2  # its multiples spread most evenly over [0, 1), so that every segment of files is mixed

LEAST_BYTES = 1e-3  # a pace that ends within this is over, as sums of fractions are not exact
FIRST_WINDOW_BYTES = 10 * 1460  # RFC 6928


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"'{name}' is {value:g}, not between {low:g} and {high:g}")


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the connections is slow: from body byte ``after_bytes`` on, ``rate_bps`` at most, for good.

    The bytes count over all requests of a connection. Each connection is drawn by itself.
    """

    fraction: float
    rate_bps: float
    after_bytes: int = 0

    def __post_init__(self) -> None:
        _check_range("slow.fraction", self.fraction, 0, 1)
        _check_range("slow.rate", self.rate_bps, 1, 1e15)


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the connections stalls: after ``after_bytes`` bytes of body, no byte and no end comes.

    0: not even the head of the first reply comes. A request after that byte gets no head either.
    """

    fraction: float
    after_bytes: int = 0

    def __post_init__(self) -> None:
        _check_range("stalls.fraction", self.fraction, 0, 1)


class Wear(msgspec.Struct, frozen=True, kw_only=True):
    """A connection wears out: after each ``every_bytes`` bytes of body its rate is multiplied by ``factor``.

    The bytes count over all requests of a connection; its rate never falls below ``least_bps``.
    """

    every_bytes: int
    factor: float = 0.5
    least_bps: float = 1.0

    def __post_init__(self) -> None:
        _check_range("wear.every", self.every_bytes, 1024, 1e15)
        _check_range("wear.factor", self.factor, 1e-6, 1)
        _check_range("wear.least", self.least_bps, 1, 1e15)


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """The first ``size_bytes`` of each reply come at the connection's rate, the rest at ``rate_bps``."""

    size_bytes: int
    rate_bps: float

    def __post_init__(self) -> None:
        _check_range("burst.size", self.size_bytes, 0, 1e15)
        _check_range("burst.rate", self.rate_bps, 1, 1e15)


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Lost packets: in every ``every_bytes`` of a connection, ``for_bytes`` come at ``factor`` of its rate.

    The bytes count over all requests; the begin of the first dip is drawn for each connection.
    """

    every_bytes: int
    for_bytes: int
    factor: float

    def __post_init__(self) -> None:
        _check_range("loss.every", self.every_bytes, 1024, 1e15)
        _check_range("loss.for", self.for_bytes, 1, self.every_bytes - 1)
        _check_range("loss.factor", self.factor, 1e-6, 1)


class NetworkChange(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts, or one, take ``factor`` times as long from ``at_s`` until ``until_s`` (None: for ever).

    Connections have a ``factor``-th of their rate, and so has the link if no ``host`` is named. A request
    sent in that time waits ``factor`` times its latency, even past the end of the change. The factors of
    several changes at a time are multiplied.
    """

    at_s: float
    until_s: float | None = None
    factor: float
    host: int | None = None

    def __post_init__(self) -> None:
        _check_range("changes.factor", self.factor, 1e-3, 1e6)


class HostShare(msgspec.Struct, frozen=True, kw_only=True):
    """One server: its share of the files, and the factors of its rates and its latency."""

    share: float = 1.0
    rate_factor: float = 1.0
    latency_factor: float = 1.0

    def __post_init__(self) -> None:
        _check_range("hosts.share", self.share, 0, 1e9)
        _check_range("hosts.rate_factor", self.rate_factor, 1e-9, 1e9)
        _check_range("hosts.latency_factor", self.latency_factor, 0, 1e9)


class NetworkModel(msgspec.Struct, frozen=True, kw_only=True):
    """The network of a scenario; by default it has no limits.

    ``latency_s``: from a request to its first byte; a new connection costs it once more. ``rate_bps``: the
    rate of one connection; None: unlimited. Both are medians over connections; ``latency_sigma`` and
    ``rate_sigma`` are the standard deviations of their natural logarithms. ``rates_bps``: recorded rates, of
    which each connection draws one, instead of ``rate_bps``. ``link_bps``: the rate of all connections
    together, shared by max-min fairness; None: no limit. ``requests``: the number of requests after which the
    server closes a connection (Amazon S3: some hundred); 0: never. ``ranges`` false: the servers know neither
    ranges nor strong ETags, so a reply that was broken off has to begin anew. ``sizes`` false: neither the
    manifest nor a reply with the whole file states its size; the reply is chunked.

    ``connections``: the number of connections that each host serves, idle ones too; a request on a further
    connection waits until one of them is closed; 0: no limit. ``drowns_above``: a host that sends more
    replies than this at a time slows down: with n replies each has the square of ``drowns_above / n`` of its
    rate; 0: never.
    ``slow_start``: a connection begins with ten packets a round trip, and doubles that in each round trip
    (RFC 6928, RFC 5681); a round trip is its latency. Once grown, the window stays.

    There is no key for a cold cache: that is a fault ``slow`` or ``delay`` of the first request of all files.
    """

    latency_s: float = 0.0
    latency_sigma: float = 0.0
    rate_bps: float | None = None
    rate_sigma: float = 0.0
    rates_bps: tuple[float, ...] = ()
    link_bps: float | None = None
    requests: int = 0
    ranges: bool = True
    sizes: bool = True
    connections: int = 0
    drowns_above: int = 0
    slow_start: bool = False
    slow: Slow | None = None
    stalls: Stall | None = None
    wear: Wear | None = None
    burst: Burst | None = None
    loss: Loss | None = None
    changes: tuple[NetworkChange, ...] = ()
    hosts: tuple[HostShare, ...] = (HostShare(),)

    def __post_init__(self) -> None:
        _check_range("network.latency", self.latency_s, 0, 3600)
        for name, sigma in (("latency_sigma", self.latency_sigma), ("rate_sigma", self.rate_sigma)):
            _check_range(f"network.{name}", sigma, 0, 10)
        for rate in (*self.rates_bps, *(r for r in (self.rate_bps, self.link_bps) if r is not None)):
            _check_range("network's rates", rate, 1, 1e15)
        if not self.hosts or not sum(host.share for host in self.hosts):
            raise ConfigError("'network.hosts' must have at least one host with a share of the files")
        for change in self.changes:
            if change.host is not None and not 0 <= change.host < len(self.hosts):
                raise ConfigError(
                    f"'changes.host' is {change.host}, but there are {len(self.hosts)} hosts, from 0"
                )


class ConnectionTraits(NamedTuple):
    """The latency, rate and defects of one connection.

    From body byte ``slow_after`` on it carries ``slow_bps`` at most, from ``stall_after`` on nothing at all.
    Both count over all replies of the connection; None: never. ``loss_phase``: the connection's first
    position within a period of ``loss``, as a share of the period.
    """

    latency_s: float
    rate_bps: float
    slow_after: int | None = None
    slow_bps: float = math.inf
    stall_after: int | None = None
    wear: Wear | None = None
    burst: Burst | None = None
    loss: Loss | None = None
    loss_phase: float = 0.0
    slow_start: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether it is slow or stalls, sooner or later: cancelling an attempt over it is right."""
        return self.slow_after is not None or self.stall_after is not None


def connection_of(network: NetworkModel, seed: int, host: int, number: int) -> ConnectionTraits:
    """Draw the traits of the ``number``-th connection (from 1) to ``host`` (from 0)."""
    dice = random.Random(f"{seed}/{host}/{number}")  # noqa: S311 - reproducible, not secret
    # every draw is made, so that a new value in a scenario does not change the other draws
    latency, rate, which, slow, stall, phase = (
        dice.gauss(0, 1),
        dice.gauss(0, 1),
        dice.random(),
        dice.random(),
        dice.random(),
        dice.random(),
    )
    server = network.hosts[host]
    if network.rates_bps:
        rate_bps = network.rates_bps[int(which * len(network.rates_bps))]
    elif network.rate_bps is not None:
        rate_bps = network.rate_bps * math.exp(network.rate_sigma * rate)
    else:
        rate_bps = math.inf
    traits = ConnectionTraits(
        latency_s=network.latency_s * math.exp(network.latency_sigma * latency) * server.latency_factor,
        rate_bps=rate_bps * server.rate_factor,
        wear=network.wear,
        burst=network.burst,
        loss=network.loss,
        loss_phase=phase if network.loss else 0.0,
        slow_start=network.slow_start,
    )
    if network.slow is not None and slow < network.slow.fraction:
        traits = traits._replace(slow_after=network.slow.after_bytes, slow_bps=network.slow.rate_bps)
    if network.stalls is not None and stall < network.stalls.fraction:
        traits = traits._replace(stall_after=network.stalls.after_bytes)
    return traits


class ConnectionPace(NamedTuple):
    """A connection carries ``rate_bps`` at most for the next ``bytes``."""

    rate_bps: float
    bytes: float


def lasting_pace(traits: ConnectionTraits, carried: float, brought: float) -> ConnectionPace:
    """The pace of a connection in the long run: without slow start and loss, which are temporary.

    ``carried``: bytes of body over all its replies; ``brought``: those of the present reply.
    """
    rate_bps, left = traits.rate_bps, math.inf
    wear, burst = traits.wear, traits.burst
    if wear is not None:
        times = int((carried + LEAST_BYTES) / wear.every_bytes)
        rate_bps = max(rate_bps * wear.factor**times, min(rate_bps, wear.least_bps))
        left = (times + 1) * wear.every_bytes - carried
    if traits.slow_after is not None:
        if carried + LEAST_BYTES >= traits.slow_after:
            rate_bps = min(rate_bps, traits.slow_bps)
        else:
            left = min(left, traits.slow_after - carried)
    if burst is not None:
        if brought + LEAST_BYTES >= burst.size_bytes:
            rate_bps = min(rate_bps, burst.rate_bps)
        else:
            left = min(left, burst.size_bytes - brought)
    return ConnectionPace(rate_bps, left)


def pace_now(traits: ConnectionTraits, carried: float, brought: float) -> ConnectionPace:
    """The pace of a connection at this byte, with slow start and loss; arguments as ``lasting_pace``."""
    rate_bps, left = lasting_pace(traits, carried, brought)
    loss = traits.loss
    if loss is not None:
        place = (carried + LEAST_BYTES + traits.loss_phase * loss.every_bytes) % loss.every_bytes
        begins = loss.every_bytes - loss.for_bytes
        if place >= begins:
            rate_bps *= loss.factor
        left = min(left, (begins if place < begins else loss.every_bytes) - place + LEAST_BYTES)
    if traits.slow_start and traits.latency_s:
        doublings = int(math.log2((carried + LEAST_BYTES) / FIRST_WINDOW_BYTES + 1))
        window_bps = FIRST_WINDOW_BYTES * 2**doublings / traits.latency_s
        if window_bps < rate_bps:
            rate_bps = window_bps
            left = min(left, FIRST_WINDOW_BYTES * (2 ** (doublings + 1) - 1) - carried)
    return ConnectionPace(rate_bps, left)


def factor_at(network: NetworkModel, host: int | None, now_s: float) -> float:
    """How many times as long everything takes at ``host`` now; None: only changes that hold for all hosts."""
    factor = 1.0
    for change in network.changes:
        until_s = math.inf if change.until_s is None else change.until_s
        if change.host in (None, host) and change.at_s <= now_s < until_s:
            factor *= change.factor
    return factor


def drown_factor(network: NetworkModel, replies: int) -> float:
    """The share of its rate that a connection has while its host sends ``replies`` at a time."""
    most = network.drowns_above
    return (most / replies) ** 2 if 0 < most < replies else 1.0


def host_of(network: NetworkModel, index: int) -> int:
    """The host of the manifest's file number ``index``."""
    if len(network.hosts) == 1:
        return 0
    place = (index * GOLDEN) % 1.0 * sum(host.share for host in network.hosts)
    for number, host in enumerate(network.hosts):
        place -= host.share
        if place < 0:
            return number
    return len(network.hosts) - 1
