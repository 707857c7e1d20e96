"""What runs have learned about hosts, as a value: kept in the state, so that the next run begins with it."""

import msgspec

__all__ = ["NOTHING", "HostKnowledge", "Knowledge"]


class HostKnowledge(msgspec.Struct, frozen=True):
    """How one connection to a host was: seconds to the first byte, bytes per second after it.

    ``spread`` is the sigma of the natural logarithm of measured over predicted durations. ``weight``: of how
    many files, less for older ones. ``wall_s``: when it was learned, in seconds since 1970 UTC.
    """

    latency_s: float
    rate_bps: float
    spread: float
    weight: float
    wall_s: float


class Knowledge(msgspec.Struct, frozen=True):
    """By host name, as in ``Entry.url.host()``."""

    schema: str = "cfetch.baseline/1"
    hosts: dict[str, HostKnowledge] = {}


NOTHING = Knowledge()
