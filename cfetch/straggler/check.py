"""What a policy (``policy.py``) says after a look at all attempts."""

import msgspec


class Flagged(msgspec.Struct, frozen=True, gc=False):
    """An attempt that took ``elapsed_s`` where ``expected_s`` was the limit.

    ``projected_s``: when it would have ended if left alone; None if that is not known. ``is_probe``: it is
    cancelled to see whether a fresh attempt is faster, as many are slow.
    """

    id: int
    elapsed_s: float
    expected_s: float
    projected_s: float | None = None
    is_probe: bool = False


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one look at all attempts, with its reasons.

    ``finished`` of ``required`` entries have finished; ``active`` attempts are in flight. ``fell_back``: this
    check ended parallel downloads. ``gap_s`` above 0: the check came so late that nobody was judged, and the
    lost seconds do not count for the attempts in flight. ``held_back``: the reason, in words, why attempts
    that are far too slow were not flagged; None if there are none. ``is_general``: most attempts of a host
    are too slow. ``lame``: keys of attempts whose connections must not be used again.
    """

    stragglers: tuple[Flagged, ...]
    median_bps: float | None
    finished: int
    required: int
    active: int
    fell_back: bool
    gap_s: float
    held_back: str | None = None
    is_general: bool = False
    lame: tuple[int, ...] = ()
