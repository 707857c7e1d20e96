"""The network between client and servers as a value: the simulator and the loopback origin both enact it.

The traits of a connection follow from the seed, its host and its number there, and from nothing else. So the
same connections are good and bad for every policy, whatever the order of the requests. Rates are bytes of
body a second, times are seconds of the run, which begins with the first request.
"""

import math
import random
from typing import NamedTuple

import msgspec

from cfetch.errors import ConfigError

GOLDEN = (
    math.sqrt(5) - 1
) / 2  # its multiples spread most evenly over [0, 1): every segment of files is mixed


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
    """A share of the connections stalls: after ``after_bytes`` bytes of body comes neither a byte nor an end.

    0: not even the head of the first reply comes. A request after that byte gets no head either.
    """

    fraction: float
    after_bytes: int = 0

    def __post_init__(self) -> None:
        _check_range("stalls.fraction", self.fraction, 0, 1)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts, or one, take ``factor`` times as long from ``at_s`` until ``until_s`` (None: for ever).

    Connections have a ``factor``-th of their rate, and so has the link where no ``host`` is named. A request
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


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """The network of a scenario; by default it has no limits.

    ``latency_s``: from a request to its first byte; a new connection costs it once more. ``rate_bps``: the
    rate of one connection; None: unlimited. Both are medians over connections; ``latency_sigma`` and
    ``rate_sigma`` are the standard deviations of their natural logarithms. ``rates_bps``: recorded rates, of
    which each connection draws one, instead of ``rate_bps``. ``link_bps``: the rate of all connections
    together, shared by max-min fairness; None: no limit. ``requests``: the server closes a connection after
    so many (Amazon S3 does after some hundred); 0: never. ``ranges`` false: the servers know neither ranges
    nor strong ETags, so a reply that was broken off has to begin anew.
    """

    latency_s: float = 0.0
    latency_sigma: float = 0.0
    rate_bps: float | None = None
    rate_sigma: float = 0.0
    rates_bps: tuple[float, ...] = ()
    link_bps: float | None = None
    requests: int = 0
    ranges: bool = True
    slow: Slow | None = None
    stalls: Stall | None = None
    changes: tuple[Change, ...] = ()
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
    Both count over all replies of the connection; None: never.
    """

    latency_s: float
    rate_bps: float
    slow_after: int | None = None
    slow_bps: float = math.inf
    stall_after: int | None = None

    @property
    def is_bad(self) -> bool:
        """Whether it is slow or stalls, sooner or later: cancelling an attempt over it is right."""
        return self.slow_after is not None or self.stall_after is not None


def connection_of(network: Network, seed: int, host: int, number: int) -> ConnectionTraits:
    """Draw the traits of the ``number``-th connection (from 1) to ``host`` (from 0)."""
    dice = random.Random(f"{seed}/{host}/{number}")  # noqa: S311 - reproducible, not secret
    # every draw is made, so that a value that is added to a scenario changes no other
    latency, rate, which, slow, stall = (
        dice.gauss(0, 1),
        dice.gauss(0, 1),
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
    )
    if network.slow is not None and slow < network.slow.fraction:
        traits = traits._replace(slow_after=network.slow.after_bytes, slow_bps=network.slow.rate_bps)
    if network.stalls is not None and stall < network.stalls.fraction:
        traits = traits._replace(stall_after=network.stalls.after_bytes)
    return traits


def factor_at(network: Network, host: int | None, now_s: float) -> float:
    """How many times as long everything takes at ``host`` now; None: only changes that hold for all hosts."""
    factor = 1.0
    for change in network.changes:
        until_s = math.inf if change.until_s is None else change.until_s
        if change.host in (None, host) and change.at_s <= now_s < until_s:
            factor *= change.factor
    return factor


def host_of(network: Network, index: int) -> int:
    """The host of the manifest's file number ``index``."""
    if len(network.hosts) == 1:
        return 0
    place = (index * GOLDEN) % 1.0 * sum(host.share for host in network.hosts)
    for number, host in enumerate(network.hosts):
        place -= host.share
        if place < 0:
            return number
    return len(network.hosts) - 1
