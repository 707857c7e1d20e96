"""What is known of one host of a run: its window and width, its breaker, its refusals, its speed. Pure."""

from math import inf

from cfetch.base.breaker import CLOSED
from cfetch.engine.connection_limit import ConnectionLimit
from cfetch.straggler.width import Width
from cfetch.wire.retry import Refusals

LEAST_CROWD = 8  # a new host with so many slots keeps one of them free, for help with a file under way


class _Throttling:
    __slots__ = ("cut_s", "rounds", "too_long")

    def __init__(self) -> None:
        self.rounds = 0  # in a row
        self.too_long = 0  # rounds of these that asked for a longer pause than the retry budget
        self.cut_s = -1.0  # when the window was last cut


class HostState:
    """One host; ``Hosts`` decides by it."""

    __slots__ = (
        "answered",
        "breaker",
        "brought_bytes",
        "held_until_s",
        "is_capped",
        "limit",
        "load_bytes",
        "refusals",
        "running",
        "speed_bps",
        "throttling",
        "trouble_s",
        "width",
        "window",
    )

    def __init__(self, window: float, width: Width | None) -> None:
        self.window = window  # the limit while the host throttles; otherwise the width counts
        self.width = width
        self.limit = ConnectionLimit()
        self.brought_bytes = 0  # of attempts that have ended
        self.running = 0
        self.is_capped = False  # more connections did not make it faster, or were not served
        self.load_bytes = 0
        self.breaker = CLOSED
        self.answered = False
        self.trouble_s: float | None = None  # when the present trouble began; None: there is none
        self.held_until_s = 0.0
        self.throttling = _Throttling()
        self.refusals = Refusals()
        self.speed_bps = 0.0

    @property
    def slots(self) -> int:
        """How many attempts it bears at once."""
        by_width = inf if self.width is None else self.width.slots
        return int(min(self.window, self.limit.slots, by_width))

    def may_keep_one(self, slots: int) -> bool:
        """Whether the only free one of ``slots`` may be kept: no attempt at the host has ended yet."""
        return not self.brought_bytes and LEAST_CROWD <= slots == self.running + 1

    def clear_refusal(self) -> None:
        """Take back the last refusal's effect: it concerned one file, as other files are served."""
        if self.refusals.unclear_window is not None:
            self.window = max(self.window, self.refusals.unclear_window)
            self.held_until_s = 0.0
            self.refusals.unclear_window = None

    def is_plain(self, most: float) -> bool:
        """Whether it is as a new host would be, once nothing runs there."""
        return self.breaker is CLOSED and self.window >= most and not self.throttling.rounds
