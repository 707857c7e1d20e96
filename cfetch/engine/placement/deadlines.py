"""When a batch that no volume takes is given up. Pure.

Batches arrive one by one, so while nothing can be stored anywhere, each would wait for its own deadline, one
after the other. So they share the time since when nothing could be stored, which is a *drought*.
"""

from collections.abc import Sequence
from math import inf

from cfetch.engine.placement.books import BatchState, VolumeBooks


class Deadlines:
    """The deadlines of the batches that wait, ``deadline_s`` after they began to wait, or the drought did.

    A drought begins when batches wait and no volume is at work. It ends when a part of any batch is durable:
    an attempt alone does not end it, but a volume that is at work is given the time of each batch's own
    deadline.
    """

    def __init__(self, volumes: Sequence[VolumeBooks], deadline_s: float) -> None:
        self._volumes = volumes
        self._deadline_s = deadline_s
        self._dry_since_s = inf

    def note_drought(self, now_s: float) -> None:
        """Note that batches wait for which there was no volume: a drought begins, unless one is at work."""
        if self._none_works():
            self._dry_since_s = min(self._dry_since_s, now_s)

    def note_stored(self) -> None:
        """Note that a volume has stored something, which ends the drought."""
        self._dry_since_s = inf

    def of(self, batch: BatchState) -> float:
        """The time after which a waiting batch is given up; inf: it lacks only the room that others take."""
        if self.is_barred(batch):
            return -inf
        since_s = batch.since_s
        if since_s < inf and self._none_works():
            since_s = min(since_s, self._dry_since_s)
        return since_s + self._deadline_s

    def is_barred(self, batch: BatchState) -> bool:
        """Whether each volume has refused the batch for good."""
        return len(batch.barred) == len(self._volumes)

    def _none_works(self) -> bool:
        """Whether nothing is started, nor queued at a usable volume."""
        return not any(volume.running or (volume.usable and volume.queued) for volume in self._volumes)
