"""The port by which a run recognises stragglers.

``cloudfetch`` is the formula of the CloudFetch design (``detector``); ``adaptive`` judges by live progress,
learns the time that a fresh attempt would need, and asks whether the network is to blame (``adaptive``).
"""

from collections.abc import Collection
from typing import Protocol

from cfetch.straggler.check import Check
from cfetch.straggler.knowledge import Knowledge
from cfetch.straggler.ways_to_ask import WayToAsk


class Live(Protocol):
    """An attempt in flight, as a policy sees it at a check. ``received``: bytes since it started."""

    key: int
    received: int
    first_byte_s: float | None

    @property
    def connecting_since_s(self) -> float | None:
        """Since when the handshake of its connection has no answer; None: no connection is being made."""

    @property
    def slack_s(self) -> float:
        """Seconds that it may take without delay for the run, as its host's link is full; 0: not known.

        Below 0: no entry waits for a slot, so the run waits for those under way.
        """

    @property
    def handshake_s(self) -> float:
        """Seconds that its own connection took to be made; 0 while it is not made, or was there before."""

    @property
    def carried_bytes(self) -> int:
        """The bytes that its connection had brought before this reply; 0 while that is not known."""

    @property
    def resumable(self) -> bool:
        """Whether a fresh attempt would continue where this one stands; if not, it begins anew."""

    @property
    def is_held(self) -> bool:
        """Whether our own side (disk, rate limit) keeps it from reading just now."""

    def packet_age_s(self) -> float | None:
        """Seconds since its connection's latest packet, be its bytes to be read or not; None: not known."""

    def has_lost_packets(self) -> bool:
        """Whether its connection has lost packets; False: not known."""

    def held_s(self, now_s: float) -> float:
        """Seconds since it started for which our own side kept it from reading."""


class SecondRequests(Protocol):
    """Decides which files get a second request for the whole file beside the first; the faster one wins.

    The engine asks if a slot is idle and the file cannot be split.
    """

    def is_sure(self, key: int) -> bool:
        """Whether another request would clearly end sooner than the attempt, and is allowed.

        If so, the attempt is spared for as long as the other one may take.
        """

    def is_trial(self, key: int) -> bool:
        """Whether a trial of another request is worth it and allowed, to see if it is faster.

        The engine asks if ``is_sure`` is False; one trial at a time runs at a host.
        """

    def is_worth(self, key: int, second: int) -> bool:
        """Whether the trial ``second``, for the file of attempt ``key``, should continue."""


class Policy(Protocol):
    """The judge of one run. Times are seconds on one monotonic clock from the run's start.

    A ``key`` is an entry's id, or a negative number for an attempt at a further segment of an entry that has
    one under way. Such an attempt is judged, but it never counts as an entry that is known or has finished.

    ``tick_s``: how often ``check`` is to be called.
    """

    tick_s: float

    @property
    def total_finished(self) -> int:
        """Entries that have finished."""

    @property
    def required(self) -> int:
        """Entries that must have finished before any attempt is compared with the others."""

    @property
    def median_bps(self) -> float | None:
        """Normal speed of one file, latency included; None before the first sample."""

    @property
    def total_stragglers(self) -> int:
        """Entries that were ever flagged in this run."""

    @property
    def seconds(self) -> SecondRequests | None:
        """The policy's decisions about second requests; None: no file is asked for twice at a time."""

    @property
    def sequential(self) -> bool:
        """Whether new entries are to be started one at a time."""

    def use_median(self, median_bps: float | None) -> None:
        """Take a normal speed measured over many more entries. None: judge by this run's own."""

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
        """Note that a new attempt begins to fetch ``size_bytes`` (None: not known) from ``host``.

        ``asks``: how often its object was asked for, this time included. Returns how it should ask.
        """

    def note_size(self, key: int, size_bytes: int) -> None:
        """Note the bytes that the attempt has to fetch: the reply stated them, or another took a segment."""

    def note_finish(
        self,
        key: int,
        size_bytes: int | None,
        now_s: float,
        *,
        first_byte_s: float | None,
        carried_bytes: int = 0,
    ) -> None:
        """Note that the attempt completed; it is a sample, unless ``size_bytes`` is None.

        ``carried_bytes``: the bytes that its connection had brought before.
        """

    def note_pause(self, key: int) -> None:
        """Note that the attempt is over and another follows after back-off: the entry stays known."""

    def note_cancellation(self, key: int, now_s: float, wasted_bytes: int) -> None:
        """Note that the attempt was cancelled as a straggler; another follows. ``wasted_bytes`` are lost."""

    def note_failure(self, key: int) -> None:
        """Note that the entry is given up: it is no longer known."""

    def must_spare(self, host: str, mitigations: int) -> bool:
        """Whether an entry that was rescued so often from ``host`` is left alone from now on."""

    def expected_s(self, key: int) -> float | None:
        """Seconds after which the attempt in flight counts as slow, for views and for its volume."""

    def check(self, now_s: float, attempts: Collection[Live] = ()) -> Check:
        """Look at all attempts in flight; each is flagged at most once."""

    def remaining_s(self, key: int) -> float | None:
        """Seconds that the attempt in flight still needs at its present rate; infinity if it stands still.

        None if it is not known.
        """

    def fresh_s(self, host: str, size_bytes: int) -> float | None:
        """Seconds that a fresh attempt would need for ``size_bytes`` of ``host``; None if unknown."""

    def collect_knowledge(self, wall_s: float) -> Knowledge:
        """Collect what this run has learned about its hosts, for the next run."""
