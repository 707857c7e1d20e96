"""A policy that judges nobody: what a policy of one's own overrides, and what a run goes on with without one.

It counts the entries that have finished and knows nothing else: no attempt is cancelled, no file is asked for
twice, no host gets a cure. A subclass usually overrides ``check``, and the ``note_…`` methods that feed it.
"""

from collections.abc import Collection

from cfetch.straggler.check import Check
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.straggler.policy import Live, SecondRequests
from cfetch.straggler.ways_to_ask import NO_CURE, WayToAsk


class BasePolicy:
    """Keeps the port ``Policy``; its docstrings say what each member means."""

    def __init__(self, *, tick_s: float = 0.1) -> None:
        self.tick_s = tick_s
        self.total_finished = 0
        self.required = 0
        self.total_stragglers = 0

    @property
    def median_bps(self) -> float | None:
        """None: normal speed is not known."""
        return None

    @property
    def seconds(self) -> SecondRequests | None:
        """None: no file is asked for twice at a time."""
        return None

    @property
    def sequential(self) -> bool:
        """False: entries are fetched at once."""
        return False

    def use_median(self, median_bps: float | None) -> None:
        """Leave it unused."""

    def note_start(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        host: str,
        immune: bool,
        mitigations: int,
        asks: int = 1,
    ) -> WayToAsk:
        """Ask as usual."""
        return NO_CURE

    def note_size(self, key: int, size_bytes: int) -> None:
        """Leave it unused."""

    def note_finish(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        first_byte_s: float | None,
        carried_bytes: int = 0,
    ) -> None:
        """Count the entry."""
        self.total_finished += key >= 0

    def note_pause(self, key: int) -> None:
        """Leave it unused."""

    def note_cancellation(self, key: int, now_s: float, wasted_bytes: int) -> None:
        """Leave it unused."""

    def note_failure(self, key: int) -> None:
        """Leave it unused."""

    def must_spare(self, host: str, mitigations: int) -> bool:
        """False: no entry is an exception."""
        return False

    def expected_s(self, key: int) -> float | None:
        """None: no attempt counts as slow."""
        return None

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Flag nobody."""
        return Check(
            stragglers=(),
            median_bps=self.median_bps,
            finished=self.total_finished,
            required=self.required,
            active=len(attempts),
            fell_back=False,
            gap_s=0.0,
        )

    def remaining_s(self, key: int) -> float | None:
        """None: it is not known."""
        return None

    def fresh_s(self, host: str, size_bytes: int) -> float | None:
        """None: it is not known."""
        return None

    def collect_knowledge(self, wall_s: float) -> Knowledge:
        """Nothing was learned."""
        return NOTHING
