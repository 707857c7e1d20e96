"""The options of the engine's parts: each part gets a value with only the options that it reads.

``Settings`` composes them (``Settings.widths``, ``Settings.placing``).
"""

import msgspec


class Widths(msgspec.Struct, frozen=True, kw_only=True):
    """How many downloads may run at the same time.

    A run begins with ``concurrency`` downloads, and may search upwards to ``most``; ``per_host`` is never
    exceeded. ``requests_per_s`` is the limit of requests to each host. ``adaptive``: a host's limit also
    follows from its throughput and stragglers.
    """

    concurrency: int
    most: int
    per_host: int | None = None
    requests_per_s: float | None = None
    adaptive: bool = True


class PlacementOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How entries are placed on volumes, also on a single one, and how long batches may wait for a volume.

    A run begins with ``concurrency`` downloads, for which the volumes have slots.
    ``mode`` is a ``placement.Mode``; ``batch_share`` bounds the batches that cfetch makes itself, as a share
    of the plan's bytes. ``write_timeout_s`` is for one write, ``deadline_s`` for a batch that waits for a
    volume.
    """

    concurrency: int
    mode: str
    batch_share: float
    write_timeout_s: float
    deadline_s: float
