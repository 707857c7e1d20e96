"""What knows the true state of connections: the oracle, a policy, and the count of false alarms."""

import math
from collections.abc import Collection
from typing import Any, cast

import msgspec

from cfetch.bench.network import Network
from cfetch.bench.simulation.transport import SimTransport, usual_bps
from cfetch.config.straggler import StragglerConfig
from cfetch.straggler.detector import Detector
from cfetch.straggler.policy import Check, Flagged, Live, Policy

TICK_S = 0.05


class Oracle(Detector):
    """Cancels each slow connection at once, where a fresh one of the usual kind would be faster.

    No real policy can know as well which connections are bad. Still, this is no upper bound: the oracle looks
    at one attempt at a time and keeps the engine's rules. It leaves immune attempts alone (helpers may join
    them), and the engine makes an entry immune after some rescues.
    """

    def __init__(self, network: Network, transport: SimTransport) -> None:
        super().__init__(StragglerConfig(enabled=False), tick_s=TICK_S)
        self._network = network
        self._transport = transport
        self._wanted: dict[int, tuple[int, int]] = {}  # by key: host and bytes, of attempts that may be ended
        self._sizes: dict[int, int] = {}  # by key, of all attempts
        self._broken: set[int] = set()

    @property
    def total_stragglers(self) -> int:
        """Implements ``Policy.total_stragglers``."""
        return len(self._broken)

    def note_start(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        host: str = "",
        immune: bool,
        mitigations: int,
    ) -> None:
        """Implements ``Policy.note_start``."""
        super().note_start(key, size_bytes, now_s, host=host, immune=immune, mitigations=mitigations)
        self._wanted.pop(key, None)
        self._sizes.pop(key, None)
        if size_bytes is not None:
            self._sizes[key] = size_bytes
            if not immune:
                self._wanted[key] = (int(host), size_bytes)

    def note_size(self, key: int, size_bytes: int) -> None:
        """Implements ``Policy.note_size``."""
        super().note_size(key, size_bytes)
        self._sizes[key] = size_bytes
        if key in self._wanted:
            self._wanted[key] = (self._wanted[key][0], size_bytes)

    def note_finish(
        self, key: int, size_bytes: int | None, now_s: float, *, first_byte_s: float | None = None
    ) -> None:
        """Implements ``Policy.note_finish``."""
        super().note_finish(key, size_bytes, now_s, first_byte_s=first_byte_s)
        self._wanted.pop(key, None)
        self._sizes.pop(key, None)

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Implements ``Policy.check``."""
        stragglers = []
        for attempt in attempts:
            exchange, wanted = self._transport.exchange(attempt.key), self._wanted.get(attempt.key)
            if exchange is None or wanted is None or not exchange.is_held_back:
                continue
            host, size_bytes = wanted
            left_bytes = size_bytes - (attempt.received if attempt.resumable else 0)
            fresh_s = self.fresh_s(str(host), left_bytes)
            left_s = exchange.left_s(size_bytes)
            if left_s > fresh_s:
                stragglers.append(
                    Flagged(attempt.key, 0.0, fresh_s, None if left_s == math.inf else now_s + left_s)
                )
                self._broken.add(attempt.key)
                del self._wanted[attempt.key]
        check = super().check(now_s, attempts)
        return msgspec.structs.replace(check, stragglers=tuple(stragglers))

    def remaining_s(self, key: int) -> float | None:  # type: ignore[override]  # the formula knows nothing here
        """Implements ``Policy.remaining_s``."""
        exchange, size_bytes = self._transport.exchange(key), self._sizes.get(key)
        return None if exchange is None or size_bytes is None else exchange.left_s(size_bytes)

    def fresh_s(self, host: str, size_bytes: int) -> float:  # type: ignore[override]
        """Implements ``Policy.fresh_s``.

        The attempt has the usual rate and the usual latency, and makes a connection.
        """
        number, network = int(host), self._network
        latency_s = 2 * network.latency_s * network.hosts[number].latency_factor
        usual_s = latency_s + size_bytes / usual_bps(network, number)
        return usual_s * self._transport.link.factor(number)


class PolicyWatch:
    """Wraps a policy and counts its ``mitigations``, and those that hit a healthy connection."""

    def __init__(self, policy: Policy, transport: SimTransport) -> None:
        self._policy = policy
        self._transport = transport
        self.mitigations = 0
        self.false_alarms = 0

    def note_start(self, key: int, size_bytes: int | None, now_s: float, **how: Any) -> None:  # noqa: ANN401
        """Implements ``Policy.note_start``; called by the task that is about to send the request."""
        self._transport.begins(key)
        self._policy.note_start(key, size_bytes, now_s, **how)

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

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all else is the policy's own
        return getattr(self._policy, name)


def watch_policy(policy: Policy, transport: SimTransport) -> tuple[Policy, PolicyWatch]:
    """Wrap ``policy``: the same object twice, as the pool's policy and as the counter."""
    watch = PolicyWatch(policy, transport)
    return cast("Policy", watch), watch
