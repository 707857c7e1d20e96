"""What batches and volumes ask of the pool that they are part of."""

from typing import Protocol

from cfetch.engine.schedule import Schedule
from cfetch.engine.transfer import Transfer
from cfetch.errors import CfetchError, LocalFault
from cfetch.records import Status

__all__ = ["Owner"]


class Owner(Protocol):
    """The pool, as far as batches need it. ``schedule`` has the queues of ``Placing.arrivals``."""

    schedule: Schedule[Transfer]

    def finish(
        self, transfer: Transfer, status: Status, *, kept_bytes: int = 0, error: CfetchError | None = None
    ) -> None:
        """Tell of an entry that has come to its end."""

    def fail(self, fault: LocalFault) -> None:
        """End the run."""

    def blame(self, fault: LocalFault) -> None:
        """The run goes on, and ends with this fault."""

    def wake(self) -> None:
        """Something may start, or all is over."""

    def now(self) -> float:
        """Seconds since the run's start."""

    def landed(self, at: int) -> int:
        """Bytes that have come for volume ``at`` until now."""
