"""What holds for every story of a placement: I1 to I7, and the reference model agrees at every step."""

import random
from math import inf

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cfetch.base.breaker import BreakerState
from cfetch.engine.placement.chooser import Mode, VolumeState, choose
from cfetch.engine.placement.placer import Placer, Unplaceable
from tests.engine.placement.reference import Model
from tests.engine.placement.story import volume_of

DEADLINE_S = 8.0
SIZES = st.integers(0, 20)
ROOMS = st.one_of(st.none(), st.integers(10, 60))
PICK = st.integers(0, 1 << 16)
TICKS = st.integers(1, 24).map(
    lambda quarters: quarters / 4
)  # in binary fractions, so that no sum is rounded


def told(placed):
    return placed.batch, placed.volume, placed.stolen_from, placed.probe


class Placements(RuleBasedStateMachine):
    """Every event in every order. ``answered``: how each batch ended, which must happen once."""

    @initialize(rooms=st.lists(ROOMS, min_size=1, max_size=4), mode=st.sampled_from(list(Mode)))
    def begin_with(self, rooms, mode):
        self.rooms, self.mode, self.now_s, self.story = rooms, mode, 0.0, []
        self.placer = Placer(len(rooms), mode=mode, deadline_s=DEADLINE_S)
        for p, room in enumerate(rooms):
            self.placer.set_room(p, room)
        self.batches, self.begun, self.answered = 0, [], {}

    def expect(self, event, *arguments):
        """What the model answers, told the story from the beginning."""
        model = Model.told(self.rooms, self.mode, DEADLINE_S, self.story)
        self.story.append((event, *arguments))
        return getattr(model, event)(*arguments)

    def partition(self, pick):
        return pick % len(self.rooms)

    def answer(self, batch, how):
        assert batch not in self.answered
        self.answered[batch] = how

    @rule(size=SIZES, more=st.integers(0, 5), home=st.one_of(st.none(), PICK))
    def submit(self, size, more, home):
        home = None if home is None else self.partition(home)
        number, files = self.batches, 1 + more
        self.batches += 1
        rooms = [self.placer.view(p).room_bytes for p in range(len(self.rooms))]
        if all(room is not None and size > room for room in rooms):
            try:
                self.placer.submit(number, size, files, self.now_s, home=home)
            except Unplaceable:
                return
            raise AssertionError("it was taken")
        self.placer.submit(number, size, files, self.now_s, home=home)
        self.expect("submit", number, size, files, self.now_s, home)

    @rule()
    def assign(self):
        placed = self.placer.assign(self.now_s)
        assert [told(one) for one in placed] == self.expect("assign", self.now_s)
        for one in placed:  # I3
            assert one.probe == (self.placer.view(one.volume).breaker is not BreakerState.CLOSED)
        assert len({one.volume for one in placed if one.probe}) == sum(one.probe for one in placed)

    @rule(pick=PICK)
    def begin(self, pick):
        p = self.partition(pick)
        began = self.placer.begin(p, self.now_s)
        assert (None if began is None else told(began)) == self.expect("begin", p, self.now_s)
        if began is not None:
            self.begun.append((began.batch, p))

    @rule(pick=PICK)
    def write(self, pick):
        """Of all that was ever begun: what was taken away meanwhile must not count."""
        if self.begun:
            batch, p = self.begun.pop(pick % len(self.begun))
            written = self.placer.finish(batch, self.now_s, of=p)
            assert written == self.expect("written", batch, self.now_s, p)
            if written:
                self.answer(batch, p)

    @rule(pick=PICK, no_room=st.booleans(), for_good=st.booleans())
    def fail(self, pick, no_room, for_good):
        if self.begun:
            batch, p = self.begun[pick % len(self.begun)]
            why = {"no_room": no_room, "for_good": for_good}
            back = self.placer.fail(batch, self.now_s, of=p, reason="broken", **why)
            assert back == self.expect("failed", batch, self.now_s, p, no_room, for_good)

    @rule(pick=PICK)
    def fail_partition(self, pick):
        p = self.partition(pick)
        started = self.placer.volume_failed(p, self.now_s, "gone")
        assert sorted(started) == self.expect("volume_failed", p, self.now_s)

    @rule(pick=PICK, times=st.integers(1, 3))
    def straggle(self, pick, times):
        p = self.partition(pick)
        for _ in range(times):
            assert self.placer.note_straggler(p, self.now_s) == self.expect("straggled", p, self.now_s)

    @rule(pick=PICK)
    def steady(self, pick):
        self.placer.steady(self.partition(pick))
        self.expect("steady", self.partition(pick))

    @rule(pick=PICK, size=st.integers(1, 20), seconds=TICKS)
    def measure(self, pick, size, seconds):
        self.placer.note_speed(self.partition(pick), size, seconds)
        self.expect("measured", self.partition(pick), size, seconds)

    @rule(pick=PICK, room=ROOMS)
    def room(self, pick, room):
        self.placer.set_room(self.partition(pick), room)
        self.expect("room", self.partition(pick), room)

    @rule(pick=PICK)
    def take(self, pick):
        if self.begun:
            batch, _ = self.begun[pick % len(self.begun)]
            self.placer.note_progress(batch)
            self.expect("taken", batch)

    @rule(pick=PICK)
    def cancel(self, pick):
        if self.batches:
            batch = pick % self.batches
            unfinished = batch in Model.told(self.rooms, self.mode, DEADLINE_S, self.story).batches
            self.placer.cancel(batch)
            self.expect("cancel", batch)
            if unfinished:
                self.answer(batch, "cancelled")

    @rule()
    def overdue(self):
        over = [one.batch for one in self.placer.overdue(self.now_s)]
        assert over == self.expect("overdue", self.now_s)
        for batch in over:
            self.answer(batch, "overdue")

    @rule(seconds=TICKS)
    def tick(self, seconds):
        self.now_s += seconds

    @rule()
    def recover(self):
        """A working caller for a while: every free place is used and everything that is begun is written."""
        for _ in range(30):
            self.assign()
            while any(self.write_next(p) for p in range(len(self.rooms))):
                pass
            if self.placer.next_s(self.now_s) == inf:
                break
            self.now_s = max(self.now_s, -(-self.placer.next_s(self.now_s) * 4 // 1) / 4)
        self.overdue()

    def write_next(self, p):
        self.begin(p)
        if self.begun:
            self.write(len(self.begun) - 1)
            return True
        return False

    @invariant()
    def the_model_agrees(self):
        """I1 (each in one place), I4 (loads are the unfinished assigned batches) and what time may bring."""
        model = Model.told(self.rooms, self.mode, DEADLINE_S, self.story)
        for number in range(self.batches):
            known = model.batches.get(number)
            assert volume_of(self.placer, number) == (known.at if known else None)
            assert known is None or number not in self.answered
        for p in range(len(self.rooms)):
            view = self.placer.view(p)
            assert (view.load_bytes, view.load_count) == (model.load(p), model.files(p))
            assert view.queued == len(model.queued(p))
            assert view.running == len(model.at(p)) - view.queued
            assert (view.breaker is BreakerState.CLOSED) == model.usable(p)
            if view.breaker is BreakerState.OPEN:
                assert view.queued <= 1
        assert self.placer.next_s(self.now_s) == model.next_s(self.now_s)
        usable = list(filter(model.usable, model.numbers()))
        unstarted = len(model.waiting()) + sum(len(model.queued(p)) for p in usable)
        assert self.placer.wants_more(self.now_s) == (unstarted < max(1, len(usable)))


TestPlacements = Placements.TestCase
TestPlacements.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0.0, 4.0)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.floats(0.5, 40.0),
    st.floats(0.0, 3.0),
)
def test_i5_every_batch_is_answered_once_and_in_time(arrivals, volumes, deadline_s, hang_s):
    """Where everything hangs for ``hang_s`` and then fails: after the deadline and a bounded number of hangs.

    Each volume is usable once; for as long a batch may be queued there, and it may be tried there late. Who
    arrives later may be answered sooner, by the deadline of those before. Each deadline is a probe too, with
    which those before get a further try: so the hangs are counted from the deadline of the last to arrive.
    """
    placer = Placer(volumes, mode=Mode.FINISH, deadline_s=deadline_s)
    coming = sorted((at_s, number, size) for number, (size, at_s) in enumerate(arrivals))
    submitted: dict[int, float] = {}
    answered: dict[int, float] = {}
    hanging: dict[int, float] = {}
    now_s = 0.0
    while coming or hanging or placer.next_s(now_s) < inf:
        now_s = min([placer.next_s(now_s), *hanging.values(), *(at_s for at_s, _, _ in coming[:1])])
        while coming and coming[0][0] <= now_s:
            at_s, number, size = coming.pop(0)
            placer.submit(number, size, 1, now_s)
            submitted[number] = at_s
        for p in [p for p, until_s in hanging.items() if until_s <= now_s]:
            del hanging[p]
            placer.volume_failed(p, now_s, "hangs")
        placer.assign(now_s)
        for p in range(volumes):
            if p not in hanging and placer.begin(p, now_s) is not None:
                hanging[p] = now_s + hang_s
        for over in placer.overdue(now_s):
            assert over.batch not in answered
            answered[over.batch] = now_s
    assert sorted(answered) == sorted(submitted)
    assert all(placer.view(p).load_bytes == 0 for p in range(volumes))
    first_s, last_s = min(submitted.values()), max(submitted.values())
    for number, at_s in answered.items():
        assert at_s >= submitted[number]
        assert at_s - first_s - deadline_s > -1e-6
        assert at_s - last_s - deadline_s <= (2 * volumes + 1) * hang_s + 1e-6


def test_i6_loads_are_even():
    """Equal starts, no failures: Graham's bounds, in 6,000 random runs."""
    dice = random.Random(19)
    for run in range(6_000):
        mode = Mode.COUNT if run % 2 else Mode.FINISH
        volumes = dice.randint(1, 6)
        sizes = [dice.randint(1, 1 << dice.randint(0, 30)) for _ in range(dice.randint(1, 12))]
        placer = Placer(volumes, mode=mode, deadline_s=1.0)
        for number, size in enumerate(sizes):
            placer.submit(number, size, size, 0.0)
        assert len(placer.assign(0.0)) == len(sizes)
        loads = [placer.view(p).load_bytes for p in range(volumes)]
        assert sum(loads) == sum(sizes)
        assert max(loads) - min(loads) <= max(sizes)
        assert volumes * max(loads) <= sum(sizes) + (volumes - 1) * max(sizes)


some = st.builds(
    VolumeState,
    load_bytes=st.integers(0, 1 << 40),
    load_count=st.integers(0, 1000),
    speed_bps=st.one_of(st.just(0.0), st.floats(1.0, 1e9)),
    room_bytes=st.one_of(st.none(), st.integers(0, 1 << 41)),
    usable=st.booleans(),
)


@given(
    st.lists(some, min_size=1, max_size=6),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 32).map(random.Random),
    st.data(),
)
def test_i7_labels_do_not_matter(volumes, size_bytes, dice, data):
    """Partitions in another order: the same one is chosen, unless two are equally good."""
    mode = data.draw(st.sampled_from([Mode.FINISH, Mode.COUNT]))
    without = data.draw(st.sets(st.integers(0, len(volumes) - 1)))
    choice = choose(volumes, size_bytes, 1, mode=mode, without=without)
    costs = [verdict.cost for verdict in choice.verdicts if verdict.cost is not None]
    assume(len(set(costs)) == len(costs))
    order = list(range(len(volumes)))
    dice.shuffle(order)
    shuffled = choose(
        [volumes[p] for p in order],
        size_bytes,
        1,
        mode=mode,
        without={place for place, p in enumerate(order) if p in without},
    )
    assert (None if shuffled.index is None else order[shuffled.index]) == choice.index
    assert [shuffled.verdicts[order.index(p)] for p in range(len(order))] == list(choice.verdicts)
