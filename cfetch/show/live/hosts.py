"""The hosts that are slow now, and how many downloads run at a time. Pure."""

from typing import Literal, NamedTuple

from cfetch.base.events import ActiveAttempt, BreakerClosed, Event, HostPaused, RunStarted, WidthChanged
from cfetch.show.format import duration

_LEAST_SLOW = 3  # downloads, and more than half of a host's; fewer may be chance

State = Literal["paused", "out of use", "narrow", "slow"]
_WORST_FIRST: tuple[State, ...] = ("out of use", "paused", "narrow", "slow")


class SlowHost(NamedTuple):
    """A host with ``active`` downloads at ``rate_bps`` together, and its trouble as state and text."""

    name: str
    active: int
    rate_bps: float
    state: State
    text: str


class SlowHosts:
    """Pauses, breakers and widths of hosts, from events."""

    def __init__(self) -> None:
        self.widths: dict[str, int] = {}
        self._usual = 0
        self._pauses: dict[str, HostPaused] = {}

    def apply(self, event: Event) -> None:
        """Update the state by one event."""
        if isinstance(event, WidthChanged):
            self.widths[event.host] = event.slots
        elif isinstance(event, HostPaused):
            self._pauses[event.host] = event
        elif isinstance(event, BreakerClosed) and event.host is not None:
            self._pauses.pop(event.host, None)
        elif isinstance(event, RunStarted):
            self._usual = event.concurrency

    def count_slots(self, active: list[ActiveAttempt]) -> int:
        """Downloads at a time: the host's limit, if all are from one host; else the run's setting."""
        hosts = {attempt.host for attempt in active}
        return self.widths.get(hosts.pop(), self._usual) if len(hosts) == 1 else self._usual

    def list_slow(self, active: list[ActiveAttempt], now_s: float) -> list[SlowHost]:
        """The hosts that are slow now, the worst first."""
        by_host: dict[str, list[ActiveAttempt]] = {}
        for attempt in active:
            by_host.setdefault(attempt.host, []).append(attempt)
        slow = []
        for name in dict.fromkeys([*self._pauses, *self.widths, *by_host]):
            attempts = by_host.get(name, [])
            verdict = self._judge(name, attempts, now_s)
            if verdict is not None:
                rate_bps = sum(attempt.rate_bps for attempt in attempts)
                slow.append(SlowHost(name, len(attempts), rate_bps, *verdict))
        return sorted(slow, key=lambda host: (_WORST_FIRST.index(host.state), -host.active))

    def _judge(self, name: str, attempts: list[ActiveAttempt], now_s: float) -> tuple[State, str] | None:
        pause = self._pauses.get(name)
        if pause is not None and pause.t_s + pause.pause_s > now_s:
            left_s = pause.t_s + pause.pause_s - now_s
            state: State = "out of use" if pause.is_failing else "paused"
            return state, f"{state} for {duration(left_s)}: {pause.reason}"
        slots = self.widths.get(name, self._usual)
        if slots < self._usual and attempts:
            return "narrow", f"{slots} at a time instead of {self._usual}"
        late = sum(attempt.state in ("slow", "straggler") for attempt in attempts)
        if late >= _LEAST_SLOW and 2 * late > len(attempts):
            return "slow", f"{late} of {len(attempts)} are slow"
        return None
