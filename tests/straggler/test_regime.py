"""What kind of server a host is: witnesses, cures, and what is no evidence."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.adaptive import Adaptive
from cfetch.straggler.burst import Bursts
from cfetch.straggler.cold_cache import ColdCache
from cfetch.straggler.connection_wear import ConnectionWear
from cfetch.straggler.host_regime import Regime
from cfetch.straggler.knowledge import HostKnowledge, Knowledge, age_knowledge, is_sound, merge_knowledge
from cfetch.straggler.ways_to_ask import NO_CURE, EndedReply, FlowingAttempt, WayToAsk

KIB, MIB = 1 << 10, 1 << 20


def pace(key=0, rate=MIB, *, asks=1, carried=0, received=MIB, left=8 * MIB, best=None, fell=None, **more):
    """An attempt under way; ``fell``: the bytes and the second at which it became slow."""
    return FlowingAttempt(
        key=key,
        asks=asks,
        carried_bytes=carried,
        began_s=more.get("began", 0.0),
        received=received,
        left_bytes=left,
        rate_bps=rate,
        best_bps=best or rate,
        fell_bytes=None if fell is None else fell[0],
        fell_s=0.0 if fell is None else fell[1],
        is_free=more.get("free", True),
    )


def fallen(key, size_bytes=2 * MIB, at_s=1.0, **more):
    """One that has brought ``size_bytes`` fast and is slow since."""
    return pace(
        key, 512 * KIB, received=size_bytes + 300 * KIB, best=2 * MIB, fell=(size_bytes, at_s), **more
    )


def reply(rate=MIB, *, asks=1, carried=0, size=MIB, began=0.0, end=1.0):
    return EndedReply(asks, carried, size, rate, began, end)


RATES = st.sampled_from([0.0, 0.0, 512 * KIB, 2 * MIB])
BYTES = st.sampled_from([0, MIB, 2 * MIB, 8 * MIB])
SECONDS = st.sampled_from([0.0, 0.2, 1.0, 1.2])
PACES = st.builds(
    FlowingAttempt,
    key=st.integers(0, 9),
    asks=st.integers(1, 3),
    carried_bytes=BYTES,
    began_s=SECONDS,
    received=BYTES,
    left_bytes=BYTES,
    rate_bps=RATES,
    best_bps=RATES,
    fell_bytes=st.sampled_from([None, 2 * MIB]),
    fell_s=SECONDS,
    is_free=st.booleans(),
)
REPLIES = st.builds(
    EndedReply,
    st.integers(1, 3),
    BYTES,
    BYTES.filter(bool),
    RATES.filter(bool),
    SECONDS,
    SECONDS.map(lambda end_s: end_s + 1.0),
)


class TestBursts:
    """The same byte for all, and others that have not reached it are fast."""

    def test_attempts_that_all_stand_still_show_nothing(self):
        """As at nginx's ``limit_rate``, which pauses all connections for a second at a time."""
        bursts = Bursts()
        bursts.note(reply(size=4 * MIB))
        still = [*(fallen(n)._replace(rate_bps=0.0) for n in range(4)), pace(9, 0, received=MIB)]
        assert bursts.learn_from(still, 1.2) is None
        assert bursts.chunk_bytes == 0

    @given(paces=st.lists(PACES, min_size=4, max_size=6), replies=st.lists(REPLIES, max_size=2))
    def test_no_paces_and_replies_are_too_odd(self, paces, replies):
        regime = Regime()
        for each in replies:
            regime.note_reply(each, paces)
        for now_s in (1.0, 2.0, 4.0):
            regime.learn_from(paces, now_s, 0.1)
            regime.choose_cure(now_s, is_first=True)

    def test_a_witness_that_has_brought_less_shows_the_burst(self):
        bursts = Bursts()
        paces = [*(fallen(n, 2 * MIB + n * 9 * KIB) for n in range(4)), pace(9, 2 * MIB, received=MIB)]
        assert bursts.learn_from(paces, 1.2) is None
        assert (bursts.chunk_bytes, bursts.rate_bps) == (2 * MIB, 2 * MIB)
        assert [bursts.is_cured_by(pace) for pace in paces] == [True] * 4 + [False]

    @pytest.mark.parametrize(
        "paces",
        [
            [fallen(0), fallen(1), pace(9, 2 * MIB)],  # two may do so by chance
            [*map(fallen, range(4)), pace(9, 700 * KIB)],  # the witness is hardly faster
            [fallen(n, (n + 1) * MIB) for n in range(4)] + [pace(9, 2 * MIB)],  # at different bytes
            [*map(fallen, range(4)), *(pace(n, 2 * MIB, received=9 * MIB) for n in (7, 8))],  # not all beyond
            [*map(fallen, range(3)), *(pace(n, 2 * MIB, received=2 * MIB) for n in range(4, 9))],  # undecided
            [fallen(n, 100 * KIB) for n in range(4)] + [pace(9, 2 * MIB, received=0)],  # mere latency
            [*(fallen(n, free=False) for n in range(4)), pace(9, 2 * MIB, free=False)],  # no ranges
        ],
    )
    def test_anything_less_is_no_evidence(self, paces):
        bursts = Bursts()
        assert bursts.learn_from(paces, 1.2) is None
        assert bursts.chunk_bytes == 0

    def test_replies_that_came_fast_to_their_ends_speak_against_it(self):
        bursts = Bursts()
        bursts.note(reply(2 * MIB, size=4 * MIB))
        bursts.learn_from([*map(fallen, range(4)), pace(9, 2 * MIB)], 1.2)
        assert bursts.chunk_bytes == 0

    def test_where_all_are_beyond_one_is_asked_anew_if_they_fell_at_different_times(self):
        apart = [fallen(n, at_s=1.0 + n / 5, left=n * MIB) for n in range(4)]
        bursts = Bursts()
        witness = bursts.learn_from(apart, 2.0)
        assert witness is not None
        assert witness.key == 3
        assert bursts.learn_from(apart, 3.9) is None
        assert bursts.learn_from(apart, 4.0) is not None
        assert bursts.learn_from(apart, 7.9) is None  # rarer, where that has not helped
        at_once = [fallen(n, at_s=1.0 + n / 20) for n in range(4)]
        assert Bursts().learn_from(at_once, 2.0) is None

    def test_a_cure_that_does_not_help_is_dropped_for_good(self):
        bursts = Bursts()
        before = [*map(fallen, range(4)), pace(9, 2 * MIB)]
        bursts.learn_from(before, 2.0)
        assert bursts.chunk_bytes
        later = [fallen(n, MIB, at_s=3.0, began=2.1) for n in range(10, 13)]
        bursts.learn_from(later, 3.9)
        assert bursts.chunk_bytes
        bursts.learn_from(later, 4.1)
        assert bursts.chunk_bytes == 0
        bursts.learn_from(before, 5.0)
        assert bursts.chunk_bytes == 0


class TestCold:
    """Later requests for an object are fast, first ones are slow, over new connections."""

    SLOW = tuple(pace(n, 512 * KIB) for n in range(6))

    def test_a_later_request_out_of_the_range_of_first_ones_is_the_witness(self):
        cold = ColdCache()
        cold.learn_from([*self.SLOW, pace(9, 4 * MIB, asks=2)])
        assert (cold.warms, cold.rate_bps) == (True, 4 * MIB)
        assert cold.is_cured_by(self.SLOW[0])
        assert not cold.is_cured_by(pace(asks=2))

    @pytest.mark.parametrize(
        "paces",
        [
            [*SLOW[:3], pace(9, 4 * MIB, asks=2)],  # too few
            [*SLOW, pace(9, 900 * KIB, asks=2)],  # hardly faster
            [
                *SLOW,
                *(pace(n, 3 * MIB) for n in (7, 8)),
                pace(9, 4 * MIB, asks=2),
            ],  # some first ones are fast
            [*(pace(n, 512 * KIB, carried=MIB) for n in range(6)), pace(9, 4 * MIB, asks=2)],  # may be worn
            [*(fallen(n) for n in range(6)), pace(9, 3 * MIB, asks=2)],  # fast at the beginning
            [*SLOW, pace(9, 4 * MIB)],  # a first one, too
            [
                *(pace(n, 512 * KIB, best=MIB) for n in range(6)),
                pace(9, 6 * MIB, asks=2),
            ],  # it takes from the first ones: they share a full link
        ],
    )
    def test_anything_less_is_no_evidence(self, paces):
        cold = ColdCache()
        cold.learn_from(paces)
        assert not cold.warms

    def test_first_replies_that_were_fast_speak_against_it(self):
        cold = ColdCache()
        for _ in range(4):
            cold.note(reply(3 * MIB))
        cold.hear(4 * MIB, [*self.SLOW])
        assert not cold.warms

    def test_a_cure_that_does_not_help_is_dropped_for_good(self):
        cold = ColdCache()
        cold.hear(4 * MIB, [*self.SLOW])
        for _ in range(8):
            assert cold.warms
            cold.note(reply(512 * KIB, asks=2))
        assert not cold.warms
        cold.hear(4 * MIB, [*self.SLOW])
        assert not cold.warms


class TestWear:
    """New connections are fast while those in use are slow."""

    @staticmethod
    def worn():
        wear = ConnectionWear()
        for _ in range(8):
            wear.note(reply(4 * MIB), [])
        for n in range(16):
            wear.note(reply(2 * MIB, carried=(4 + n % 3) * MIB, began=1.0, end=2.0), [])
        return wear

    def test_two_faster_witnesses_in_a_row_retire_connections(self):
        wear = self.worn()
        assert wear.wants_witness(2.0)
        assert not wear.wants_witness(2.1)  # one at a time
        wear.note(reply(4 * MIB, began=1.9, end=2.3), [])
        assert wear.retire_bytes == 0
        assert wear.wants_witness(2.3)
        wear.note(reply(4 * MIB, began=1.9, end=2.6), [])
        assert wear.retire_bytes == 4 * MIB
        assert not wear.wants_witness(9.0)

    def test_a_cure_that_does_not_help_is_given_up_until_others_speak_for_it(self):
        wear = self.worn()
        for end_s in (2.3, 2.6):
            wear.note(reply(4 * MIB, began=1.9, end=end_s), [])
        for _ in range(20):
            wear.note(reply(2 * MIB, began=2.5, end=3.0), [])  # asked before that
            wear.note(reply(2 * MIB, carried=5 * MIB, began=2.7, end=3.0), [])  # over a worn one
            wear.note(reply(3 * MIB, carried=MIB, began=2.7, end=3.0), [])  # clearly faster than before
        for n in range(20):
            assert wear.retire_bytes == (4 * MIB if n < 9 else 0)
            wear.note(reply(2 * MIB, carried=n % 2 * MIB, began=2.7, end=4.0), [])
        assert wear.rate_bps == 0.0
        for _ in range(64):
            wear.note(reply(4 * MIB), [])
        for _ in range(8):
            wear.note(reply(2 * MIB, carried=4 * MIB, began=4.0, end=5.0), [])
        assert not wear.wants_witness(4.9)
        assert wear.wants_witness(5.0)
        for end_s in (5.3, 5.6):
            wear.note(reply(4 * MIB, began=4.9, end=end_s), [])
        assert wear.retire_bytes == MIB

    def test_a_witness_that_is_not_faster_makes_the_next_rarer(self):
        wear = self.worn()
        assert wear.wants_witness(2.0)
        wear.note(reply(2.5 * MIB, began=1.9, end=2.3), [])
        assert not wear.wants_witness(3.2)
        assert wear.wants_witness(3.3)
        wear.note(reply(2.5 * MIB, began=3.3, end=4.0), [])
        assert not wear.wants_witness(5.9)
        assert wear.wants_witness(6.0)
        assert wear.retire_bytes == 0

    def test_attempts_under_way_that_are_as_fast_speak_against_it(self):
        wear = self.worn()
        running = [pace(n, 4 * MIB, carried=5 * MIB) for n in range(16)]
        for end_s in (2.3, 2.6):
            wear.note(reply(4 * MIB, began=1.9, end=end_s), running)
        assert wear.retire_bytes == 0

    def test_while_old_connections_are_as_fast_as_new_ones_there_is_no_witness(self):
        wear = ConnectionWear()
        for n in range(32):
            wear.note(reply(4 * MIB, carried=n % 2 * MIB), [])
        assert not wear.wants_witness(2.0)


def test_only_who_gains_by_it_is_asked_anew():
    """Those that lose no byte by it, and whose rest takes far longer than it would."""
    regime = Regime()
    slow = [*TestCold.SLOW, pace(6, 512 * KIB, free=False), pace(7, 512 * KIB, left=100 * KIB)]
    anew = regime.learn_from([*slow, pace(9, 4 * MIB, asks=2)], 1.0, 0.1)
    assert (anew.keys, anew.witnesses) == ([0, 1, 2, 3, 4, 5], [])


def test_a_host_is_asked_as_it_is_known():
    regime = Regime(HostKnowledge(0.1, 1e6, 0.2, 9.0, 5.0, MIB, True, 4 * MIB, 4.0))
    assert regime.choose_cure(0.0, is_first=True) == WayToAsk(MIB, True, 4 * MIB)
    assert regime.choose_cure(0.0, is_first=False) == WayToAsk(MIB, False, 4 * MIB)
    assert Regime().choose_cure(0.0, is_first=True) == NO_CURE


DAY_S = 86_400.0


def test_a_cure_is_remembered_for_a_week_since_it_was_found():
    """A run that only knows it passes it on as it is; another size is found anew."""
    regime = Regime()
    regime.bursts.chunk_bytes = MIB
    found = regime.add_cure(HostKnowledge(0.1, 1e6, 0.2, 200.0, 0.0))
    assert (found.chunk_bytes, found.cured_wall_s) == (MIB, 0.0)
    kept = Regime(found).add_cure(HostKnowledge(0.1, 1e6, 0.2, 200.0, 6 * DAY_S))
    assert (kept.chunk_bytes, kept.cured_wall_s) == (MIB, 0.0)
    again = Regime(found)
    again.bursts.chunk_bytes = 2 * MIB
    assert again.add_cure(HostKnowledge(0.1, 1e6, 0.2, 200.0, 6 * DAY_S)).cured_wall_s == 6 * DAY_S
    both = merge_knowledge(Knowledge(hosts={"h": found}), Knowledge(hosts={"h": kept}), 6 * DAY_S).hosts["h"]
    assert (both.chunk_bytes, both.cured_wall_s) == (MIB, 0.0)
    assert age_knowledge(Knowledge(hosts={"h": both}), 7 * DAY_S).hosts["h"].chunk_bytes == MIB
    assert age_knowledge(Knowledge(hosts={"h": both}), 7.1 * DAY_S).hosts["h"].chunk_bytes == 0


def test_the_next_run_sees_whether_a_cure_still_helps():
    """By the rate of the witness that has spoken for it."""
    facts = HostKnowledge(0.1, 1e6, 0.2, 200.0, 0.0)
    cold, worn = Regime(), Regime()
    cold.cold.hear(4 * MIB, [*TestCold.SLOW])
    worn.wear = TestWear.worn()
    for end_s in (2.3, 2.6):
        worn.note_reply(reply(4 * MIB, began=1.9, end=end_s), [])
    for found, asks in ((cold, 2), (worn, 1)):
        learned = found.add_cure(facts)
        assert learned.cured_bps == 4 * MIB
        assert not is_sound(msgspec.structs.replace(learned, cured_bps=-1.0))
        merged = merge_knowledge(Knowledge(hosts={"h": facts}), Knowledge(hosts={"h": learned}), 0.0)
        later = Regime(merged.hosts["h"])
        assert later.choose_cure(0.0, is_first=True) != NO_CURE
        for _ in range(16):
            later.note_reply(reply(MIB, asks=asks), [])
        assert later.choose_cure(0.0, is_first=True) == NO_CURE
        assert later.add_cure(facts) == facts


def test_an_old_file_is_read_and_sizes_that_nobody_measured_are_not():
    facts = b'{"latency_s": 0.1, "rate_bps": 1e6, "spread": 0.2, "weight": 9.0, "wall_s": 5.0}'
    old = b'{"schema": "cfetch.baseline/1", "hosts": {"h": %s}}' % facts
    host = msgspec.json.decode(old, type=Knowledge).hosts["h"]
    assert (host.chunk_bytes, host.warms, host.retire_bytes, is_sound(host)) == (0, False, 0, True)
    for field in ("chunk_bytes", "retire_bytes"):
        for size_bytes in (-1, 1 << 60):
            assert not is_sound(msgspec.structs.replace(host, **{field: size_bytes}))


def test_the_next_run_asks_as_the_last_one_has_found():
    known = HostKnowledge(0.1, 1e6, 0.2, 200.0, 0.0, warms=True)
    policy = Adaptive(StragglerConfig(), concurrency=4, knowledge=Knowledge(hosts={"h": known}), wall_s=DAY_S)
    assert policy.note_start(0, MIB, 0.0, host="h", immune=False, mitigations=0) == WayToAsk(warms=True)
    assert policy.note_start(1, MIB, 0.0, host="h", immune=False, mitigations=0, asks=2) == NO_CURE
    assert policy.note_start(2, MIB, 0.0, host="other", immune=False, mitigations=0) == NO_CURE
