"""``--rate``: how many requests a second each host is asked. Pure."""

import math

LATE_S = 0.1  # by so much a timer may be late, and it is made up for


class RequestPace:
    """When each host may be asked once more, of ``per_s`` requests a second.

    A bucket of one token for each host: requests are evenly apart; late timers are made up for.
    """

    def __init__(self, per_s: float) -> None:
        self._gap_s = 1.0 / per_s
        self._due_s: dict[str, float] = {}

    def opens_s(self, host: str) -> float:
        """When ``host`` may be asked: in the past, if it may be asked now."""
        return self._due_s.get(host, -math.inf)

    def note_request(self, host: str, now_s: float) -> None:
        """Note that it is being asked."""
        due_s = self.opens_s(host)
        is_late = now_s - due_s <= LATE_S  # by a timer, and not because nobody had anything to ask
        self._due_s[host] = (due_s if is_late else now_s) + self._gap_s
