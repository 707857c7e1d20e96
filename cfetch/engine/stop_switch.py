"""Ends a run before its last entry: after a local fault, a signal, or the loss of the plan."""

from collections.abc import Callable

from cfetch.clock import RunClock
from cfetch.errors import LocalFault
from cfetch.events import Listener, RunStopping


class StopSwitch:
    """Stops the run once, and keeps the first local fault. ``on_stop`` is called when it is stopped."""

    def __init__(self, clock: RunClock, emit: Listener, on_stop: Callable[[], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._on_stop = on_stop
        self.is_stopping = False
        self.fault: LocalFault | None = None

    def fail(self, fault: LocalFault) -> None:
        """End the run because the machine cannot go on. The run keeps the first fault."""
        self.blame(fault)
        self.stop(str(fault))

    def blame(self, fault: LocalFault) -> None:
        """Note a fault with which the run will end; until then, the run goes on with the other entries."""
        self.fault = self.fault or fault

    def stop(self, reason: str, *, again: bool = False) -> None:
        """Start nothing new and close all that is under way.

        ``again``: emit the reason even if the run is stopping for another one, as this is the true one.
        """
        if self.is_stopping and not again:
            return
        self._emit(RunStopping(t_s=self._clock.now(), reason=reason))
        if not self.is_stopping:
            self.is_stopping = True
            self._on_stop()
