"""Our own policies keep the suite that is for everybody's."""

from functools import partial

import msgspec
import pytest

from cfetch.engine.policies import policy_of
from cfetch.straggler.base_policy import BasePolicy
from cfetch.straggler.check import Flagged
from cfetch.testing.policy import PolicyContract


class TestAdaptive(PolicyContract):
    make_policy = partial(policy_of, "adaptive")


class TestCloudfetch(PolicyContract):
    make_policy = partial(policy_of, "cloudfetch")


class TestBasePolicy(PolicyContract):
    @staticmethod
    def make_policy(options, *, tick_s, **_):
        return BasePolicy(tick_s=tick_s)


class Hasty(BasePolicy):
    """Flags each attempt that it has ever seen."""

    def __init__(self, *, tick_s):
        super().__init__(tick_s=tick_s)
        self._seen = []

    def note_start(self, key, *args, **kwargs):
        self._seen.append(key)
        return super().note_start(key, *args, **kwargs)

    def check(self, now_s, attempts=()):
        flagged = tuple(Flagged(id=key, elapsed_s=1.0, expected_s=0.5) for key in self._seen)
        return msgspec.structs.replace(super().check(now_s, attempts), stragglers=flagged)


@pytest.mark.parametrize(
    "name", ["test_files_that_all_come_alike_are_left_alone", "test_only_attempts_in_flight_are_flagged"]
)
def test_the_suite_refuses_a_policy_that_cancels_at_random(name):
    """Else it would tell nobody anything."""

    class Suite(PolicyContract):
        @staticmethod
        def make_policy(options, *, tick_s, **_):
            return Hasty(tick_s=tick_s)

    with pytest.raises(AssertionError):
        getattr(Suite(), name)()
