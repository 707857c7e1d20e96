"""Counts false alarms: looks at the true state of a connection when a policy cancels its attempt."""

from collections.abc import Collection
from typing import Any

from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from cfetch.straggler.check import Check
from cfetch.straggler.policy import Live, Policy
from cfetch.straggler.ways_to_ask import WayToAsk


class PolicyWatch:
    """Wraps a policy and counts its ``mitigations``, and among them the ``false_alarms``.

    A false alarm cancels an attempt over a healthy connection. The pool takes this object for the policy.
    """

    def __init__(self, policy: Policy, transport: SimTransport) -> None:
        self._policy = policy
        self._transport = transport
        self.mitigations = 0
        self.false_alarms = 0

    def note_start(self, key: int, size_bytes: int | None, now_s: float, **how: Any) -> WayToAsk:  # noqa: ANN401
        """Implements ``Policy.note_start``; called by the task that is about to send the request."""
        self._transport.begins(key)
        return self._policy.note_start(key, size_bytes, now_s, **how)

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Implements ``Policy.check``; judge the flagged attempts before they are cancelled."""
        check = self._policy.check(now_s, attempts)
        for flagged in check.stragglers:
            exchange = self._transport.exchange(flagged.id)
            self.mitigations += 1
            self.false_alarms += exchange is None or not exchange.is_held_back
        return check

    def note_finish(self, key: int, size_bytes: int | None, now_s: float, **how: Any) -> None:  # noqa: ANN401
        """Implements ``Policy.note_finish``."""
        self._transport.ends(key)
        self._policy.note_finish(key, size_bytes, now_s, **how)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all other members are the policy's
        return getattr(self._policy, name)
