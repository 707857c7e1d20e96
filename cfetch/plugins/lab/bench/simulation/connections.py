"""Connections of the model."""

from dataclasses import dataclass

from cfetch.plugins.lab.bench.network import ConnectionTraits, NetworkModel
from cfetch.plugins.lab.bench.simulation.link import FASTEST_BPS

GOOD = 0.5  # a connection with a smaller share of its host's usual rate is slow by nature


@dataclass(slots=True, eq=False)
class SimConnection:
    """``sent`` bytes of body in all, ``served`` requests. ``has_seat``: its host serves it.

    ``is_pooled``: once a reply is over, other requests may use it; ``is_retired``: no request may.
    """

    host: int
    line: ConnectionTraits
    is_pooled: bool = True
    sent: float = 0.0
    served: int = 0
    idle_s: float = 0.0
    has_seat: bool = False
    is_retired: bool = False


def usual_bps(network: NetworkModel, host: int) -> float:
    """The median rate of a host's connections."""
    if network.rates_bps:
        rate_bps = sorted(network.rates_bps)[len(network.rates_bps) // 2]
    else:
        rate_bps = network.rate_bps or FASTEST_BPS
    return rate_bps * network.hosts[host].rate_factor
