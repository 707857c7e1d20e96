"""What every policy of stragglers does alike."""

from collections.abc import Callable

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.check import Check, Flagged
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.straggler.policy import Policy
from cfetch.straggler.ways_to_ask import WayToAsk

HOST = "h.test"
SIZE_BYTES = 10_000_000
MEMBERS = sorted(name for name in vars(Policy) if not name.startswith("_"))


class PolicyAttempt:
    """An attempt in flight, as a policy sees it."""

    connecting_since_s: float | None = None
    handshake_s = slack_s = 0.0
    carried_bytes = 0
    resumable = True
    is_held = False

    def __init__(self, key: int) -> None:
        self.key = key
        self.received = 0
        self.first_byte_s: float | None = None

    def packet_age_s(self) -> float | None:
        """Nobody knows."""
        return None

    def has_lost_packets(self) -> bool:
        """Nobody knows."""
        return False

    def held_s(self, now_s: float) -> float:  # noqa: ARG002 - nothing kept it
        """It never waited for our own side."""
        return 0.0


class PolicyContract:
    """Give it ``make_policy``, the object of the entry point; a function as ``staticmethod(function)``."""

    make_policy: Callable[..., Policy]

    def _make(self) -> Policy:
        return self.make_policy(
            StragglerConfig(), tick_s=0.1, concurrency=8, knowledge=NOTHING, wall_s=1_700_000_000.0
        )

    def _start(self, policy: Policy, attempt: PolicyAttempt, now_s: float) -> WayToAsk:
        return policy.note_start(attempt.key, SIZE_BYTES, now_s, host=HOST, immune=False, mitigations=0)

    def test_it_has_every_member_of_the_port(self) -> None:
        """A member that is missing would be missed in the middle of a run."""
        policy = self._make()
        assert [name for name in MEMBERS if not hasattr(policy, name)] == []

    def test_a_run_that_has_not_begun_has_no_straggler(self) -> None:
        """A check without attempts flags nobody."""
        check = self._make().check(0.1, ())
        assert isinstance(check, Check)
        assert check.stragglers == ()

    def test_files_that_all_come_alike_are_left_alone(self) -> None:
        """A policy that cancels those would cost every run time."""
        policy = self._make()
        flagged: list[Flagged] = []
        attempts = [PolicyAttempt(key) for key in range(8)]
        for attempt in attempts:
            assert isinstance(self._start(policy, attempt, 0.0), WayToAsk)
        for tick in range(1, 11):
            for attempt in attempts:
                attempt.first_byte_s = 0.1
                attempt.received = SIZE_BYTES * tick // 11
            flagged += policy.check(tick / 10, attempts).stragglers
        assert flagged == []

    def test_only_attempts_in_flight_are_flagged(self) -> None:
        """Whatever it has seen, it names no attempt that has ended."""
        policy = self._make()
        slow, ended = PolicyAttempt(0), [PolicyAttempt(key) for key in range(1, 40)]
        for attempt in (slow, *ended):
            self._start(policy, attempt, 0.0)
        slow.first_byte_s = 0.1
        for attempt in ended:
            policy.note_finish(attempt.key, SIZE_BYTES, 1.0, first_byte_s=0.1)
        for tick in range(1, 200):
            slow.received = tick
            keys = {flagged.id for flagged in policy.check(1.0 + tick / 10, (slow,)).stragglers}
            assert keys <= {slow.key}
            if keys:
                break

    def test_it_survives_every_end_of_an_attempt(self) -> None:
        """Cancelled, failed, paused, of a size that was learned late; and it tells its knowledge."""
        policy = self._make()
        for key in range(3):
            policy.note_start(key, None, 0.0, host=HOST, immune=False, mitigations=0)
            policy.note_size(key, SIZE_BYTES)
        policy.note_pause(0)
        policy.note_cancellation(1, 0.5, 1000)
        policy.note_failure(2)
        expected_s = policy.expected_s(0)
        assert expected_s is None or expected_s > 0
        assert isinstance(policy.must_spare(HOST, 1), bool)
        assert isinstance(policy.collect_knowledge(1_700_000_000.0), Knowledge)
        assert policy.check(1.0, ()).stragglers == ()
