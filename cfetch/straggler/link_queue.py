"""Sees that a host's link is full: new connections stand in the queue that the others have filled. Pure.

That shows in their handshakes before it shows in the rate of all. So where most slots bring bytes, a climb
(``width.py``) adds a few slots at each look, and the first handshake that is slower than those at the start
ends it. Where most slots wait for a reply, as with small files from afar, they use a small part of the link,
and double at once.
"""

from collections.abc import Sequence

from cfetch.straggler.handshake import FIRST_REPEAT_S

QUEUES = 1.25  # times the usual handshake; the jitter of mobile links is about as large


class LinkQueue:
    """The handshakes of one host. A usual one of ``far_s`` or less shows our own processor, not a queue.

    ``usual_s``: a handshake without a queue; 0: not known.
    """

    def __init__(self, far_s: float) -> None:
        self._far_s = far_s
        self.usual_s = 0.0

    @property
    def is_far(self) -> bool:
        """Whether the host is so far away that a queue shows."""
        return self.usual_s > self._far_s

    def is_felt(self, made_s: Sequence[float], *, is_empty: bool, is_climb: bool, new: int = 2) -> bool:
        """Whether most of ``new`` connections stood in a queue, by the newest handshakes of ``made_s``.

        A few may have a slow path of their own, and are seen longest, as files over the others end soon.

        While the link ``is_empty``, they show what is usual. So does what ended a climb, from then on: the
        path may have become longer. A handshake that took a second longer has lost a packet.
        """
        if not self.usual_s or is_empty:
            self.usual_s = sorted(made_s)[len(made_s) // 2]
            return False
        least_s = QUEUES * self.usual_s + self._far_s
        queued_s = [each_s for each_s in made_s[-new:] if least_s < each_s < self.usual_s + FIRST_REPEAT_S]
        is_felt = self.is_far and 2 * len(queued_s) > new
        if is_felt and is_climb:
            self.usual_s = min(queued_s)
        return is_felt
