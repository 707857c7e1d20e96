"""The options of the engine's parts, as values of their own: each part gets those that it reads.

``Settings`` composes them (``Settings.widths``, ``Settings.placing``).
"""

import msgspec


class Widths(msgspec.Struct, frozen=True, kw_only=True):
    """How many downloads may run at the same time.

    A run begins with ``concurrency`` of them, ``most`` is how far it may search upwards, and ``per_host`` is
    never exceeded. ``requests_per_s``: how often each host may be asked. ``adaptive``: a host's places follow
    from how it fares.
    """

    concurrency: int
    most: int
    per_host: int | None = None
    requests_per_s: float | None = None
    adaptive: bool = True


class PlacementOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How entries are placed on volumes in batches, and for how long a volume is waited for.

    ``mode`` is a ``placement.Mode``; ``batch_share`` bounds the batches that cfetch makes itself, as a share
    of the plan's bytes. ``write_timeout_s`` is for one write, ``deadline_s`` for a batch that waits for a
    volume.
    """

    mode: str
    batch_share: float
    write_timeout_s: float
    deadline_s: float
