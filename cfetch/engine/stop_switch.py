"""Ends a run before its last entry: after a local fault, a bug, a signal, or the loss of the plan."""

from collections.abc import Callable
from contextlib import suppress

from cfetch.base.clock import RunClock
from cfetch.base.errors import LocalFault, Vanished, explain_bug
from cfetch.base.events import Listener, RunStopping, VolumePaused


class StopSwitch:
    """Stops the run once, and keeps the first local fault and the first bug.

    ``on_stop`` is called when it is stopped.
    """

    def __init__(self, clock: RunClock, emit: Listener, on_stop: Callable[[], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._on_stop = on_stop
        self.is_stopping = False
        self.fault: LocalFault | None = None
        self.bug: Exception | None = None

    def fail(self, fault: LocalFault) -> None:
        """End the run because the machine cannot go on. The run keeps the first fault."""
        self.blame(fault)
        self.stop(str(fault))

    def lose_files(self, volume: str, fault: Vanished) -> None:
        """End the run because files that were counted as in place on a volume cannot be read any more."""
        event = VolumePaused(
            t_s=self._clock.now(), volume=volume, pause_s=None, reason=str(fault), left=fault.left
        )
        self._emit(event)
        self.fail(fault)

    def blame(self, fault: LocalFault) -> None:
        """Note a fault with which the run will end; until then, the run goes on with the other entries."""
        self.fault = self.fault or fault

    def break_down(self, bug: Exception) -> None:
        """End the run because of an error that nobody has foreseen; its text may hold a secret."""
        self.bug = self.bug or bug
        with suppress(Exception):  # whoever reports the reason may be what is broken
            self.stop(str(explain_bug(bug)))

    def stop(self, reason: str, *, again: bool = False) -> None:
        """Start nothing new and close all that is under way.

        ``again``: emit the reason even if the run is stopping for another one, as this is the true one.
        """
        if self.is_stopping and not again:
            return
        try:
            self._emit(RunStopping(t_s=self._clock.now(), reason=reason))
        finally:  # a stop that cannot be reported is a stop
            if not self.is_stopping:
                self.is_stopping = True
                self._on_stop()
