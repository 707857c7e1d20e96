"""How a host is asked if all attempts at it are slow and no connection is to blame.

Three kinds of server look alike: all attempts are slow at once. An attempt that is fast meanwhile, the
witness, shows which kind it is, by its difference from the others:

=============  ============================================  ============================================
the server     the witness                                   the cure
=============  ============================================  ============================================
sends bursts   has brought less of its reply (``burst``)     ranges of that size, one after the other
has a cold     asks for an object that was asked for before  a request for a byte before the first one
cache          (``cold``)                                    for each object
wears          has a new connection (``wear``)               leave a connection after some bytes
connections
=============  ============================================  ============================================

Only attempts at the same time are compared, so a change of the network is no evidence.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cfetch.straggler.knowledge import HostKnowledge

MUCH = 2.0  # times the rate of the others: more than their spread and the short window explain
LEAST_FALLEN = 3  # attempts that became slow: two may do so after the same bytes by chance


class WayToAsk(NamedTuple):
    """How the next attempt at a host asks.

    ``chunk_bytes``: it asks for ranges of this size one after the other; 0: for all at once. ``warms``: it
    first asks for one byte, if the object was never asked for. ``retire_bytes``: it uses no connection that
    has brought so many bytes; 0: it uses any. ``is_fresh``: it uses a new connection, as a witness.
    """

    chunk_bytes: int = 0
    warms: bool = False
    retire_bytes: int = 0
    is_fresh: bool = False


NO_CURE = WayToAsk()


class FlowingAttempt(NamedTuple):
    """An attempt under way whose bytes flow.

    ``asks``: how often its object was asked for, this time included; ``carried_bytes``: the bytes that its
    connection brought before this reply. ``rate_bps`` is its present rate, ``best_bps`` its best. It became
    slow after ``fell_bytes`` (None: it did not), at ``fell_s``. ``left_bytes`` are to come. ``is_free``:
    breaking it off is allowed and loses nothing.
    """

    key: int
    asks: int
    carried_bytes: int
    began_s: float
    received: int
    left_bytes: int
    rate_bps: float
    best_bps: float
    fell_bytes: int | None
    fell_s: float
    is_free: bool

    @property
    def is_first(self) -> bool:
        """Whether only a cold object can explain that it is slow from its beginning."""
        return self.asks == 1 and self.carried_bytes == 0


class EndedReply(NamedTuple):
    """A reply that came to its end. ``asks`` and ``carried_bytes`` are as in a ``FlowingAttempt``."""

    asks: int
    carried_bytes: int
    size_bytes: int
    rate_bps: float
    began_s: float
    end_s: float


class Anew(NamedTuple):
    """Keys of attempts to break off and ask anew; ``witnesses``: the keys that only test whether it helps."""

    keys: list[int]
    witnesses: list[int]


def quantile(numbers: Sequence[float], share: float) -> float:
    """The number below which ``share`` of them lie; ``numbers`` is not empty."""
    return sorted(numbers)[int(share * (len(numbers) - 1))]


def cure_of(known: HostKnowledge | None) -> tuple[int, bool, int]:
    """How a host is best asked, as an earlier run has found out."""
    return (0, False, 0) if known is None else (known.chunk_bytes, known.warms, known.retire_bytes)
