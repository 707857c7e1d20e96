"""``--rate``: limits the requests per second to each host. Pure."""

import math

LATE_S = 0.1  # if a timer is late by up to this, the next request is not delayed by it


class RequestPace:
    """The time of the next request to each host, for ``per_s`` requests a second.

    This is a bucket of one token for each host: requests are evenly spaced, also if timers are late.
    """

    def __init__(self, per_s: float) -> None:
        self._gap_s = 1.0 / per_s
        self._due_s: dict[str, float] = {}

    def opens_s(self, host: str) -> float:
        """The time when ``host`` may be asked; it is in the past if ``host`` may be asked now."""
        return self._due_s.get(host, -math.inf)

    def note_request(self, host: str, now_s: float) -> None:
        """Note a request to ``host``."""
        due_s = self.opens_s(host)
        is_late = now_s - due_s <= LATE_S  # because of a timer, not because no request was wanted
        self._due_s[host] = (due_s if is_late else now_s) + self._gap_s
