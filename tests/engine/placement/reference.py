"""A placement as the rules tell it, without any care for speed: the oracle of the placer's laws.

Nothing is kept up to date here. Loads are sums over the batches, queues are sorted when they are looked at,
and the whole model is told its story from the beginning for each question (``told``).
"""

from math import inf, nextafter
from types import SimpleNamespace

from cfetch.engine.placement.chooser import Mode


class Model:
    """Events are methods; what they return is what the placer has to return."""

    def __init__(self, rooms, mode, deadline_s):
        self.mode, self.deadline_s, self.turn, self.moves, self.dry = mode, deadline_s, 0, 0, inf
        self.batches = {}
        self.volumes = [
            SimpleNamespace(room=room, speed=0.0, evidence=0, until=None, pauses=0, trying=False, failed=-inf)
            for room in rooms
        ]

    @classmethod
    def told(cls, rooms, mode, deadline_s, story):
        """The model after a story, which is a list of events with their arguments."""
        model = cls(rooms, mode, deadline_s)
        for event, *arguments in story:
            getattr(model, event)(*arguments)
        return model

    # questions

    def at(self, p):
        return [batch for batch in self.batches.values() if batch.at == p]

    def waiting(self):
        return sorted(self.at(None), key=lambda batch: batch.number)

    def queued(self, p):
        return sorted((batch for batch in self.at(p) if not batch.started), key=lambda batch: batch.moved)

    def load(self, p):
        return sum(batch.size for batch in self.at(p))

    def files(self, p):
        return sum(batch.files for batch in self.at(p))

    def usable(self, p):
        return self.volumes[p].until is None

    def numbers(self):
        return range(len(self.volumes))

    def takes(self, p, batch):
        room = self.volumes[p].room
        return p not in batch.refused and (room is None or self.load(p) + batch.size <= room)

    def speed(self, p):
        known = [one.speed for one in self.volumes if one.speed]
        return self.volumes[p].speed or (sum(known) / len(known) if known else 1.0)

    def finish(self, p, more_bytes, more_files):
        if self.mode is Mode.COUNT:
            return self.files(p) + more_files
        return (self.load(p) + more_bytes) / self.speed(p)

    def chosen(self, batch):
        """The volume of a waiting batch, None if there is none; and whether it goes home."""
        can = [p for p in self.numbers() if self.usable(p) and self.takes(p, batch)]
        if batch.home in can:
            return batch.home, True
        if self.mode is Mode.ROUND_ROBIN:
            can.sort(key=lambda p: (p < self.turn, p))
        else:
            can.sort(key=lambda p: (self.finish(p, batch.size, 0), p))
        return (can[0] if can else None), False

    def stealable(self, p):
        if self.mode is Mode.ROUND_ROBIN:
            return []
        others = [q for q in self.numbers() if q != p and self.usable(q)]
        return [one for q in others for one in self.queued(q) if one.home != q and self.takes(p, one)]

    def none_works(self):
        return not any(
            batch.at is not None and (batch.started or self.usable(batch.at))
            for batch in self.batches.values()
        )

    def end_of(self, batch):
        """Its own deadline, or that of the drought."""
        if len(batch.barred) == len(self.volumes):
            return -inf
        since = min(batch.since, self.dry) if self.none_works() else batch.since
        return inf if batch.roomless else since + self.deadline_s

    def over(self, batch, now_s):
        return now_s > self.end_of(batch) and not self.last_tries(batch)

    def last_tries(self, batch):
        """Volumes out of use that have not failed since its deadline, or are being tried."""
        can = [p for p in self.numbers() if not self.usable(p) and self.takes(p, batch)]
        return [p for p in can if self.probed(p) or self.volumes[p].failed < self.end_of(batch)]

    def probed(self, p):
        return any(batch.probe for batch in self.at(p))

    def due(self, p, now_s):
        """When volume ``p`` is tried again: after its pause, or at a deadline."""
        last = [
            self.end_of(one) for one in self.waiting()
            if p in self.last_tries(one) and not self.chosen(one)[1]
        ]  # fmt: skip
        return min([self.volumes[p].until, *last])

    def next_of(self, batch):
        tries = self.last_tries(batch)
        if any(not self.probed(p) for p in tries):
            return self.end_of(batch)
        return inf if tries else nextafter(self.end_of(batch), inf)

    def probe_for(self, p, now_s):
        if self.usable(p) or any(batch.probe for batch in self.at(p)):
            return None
        failed = self.volumes[p].failed
        waiting = [one for one in self.waiting() if self.end_of(one) >= now_s or failed < self.end_of(one)]
        free = [one for one in waiting if self.takes(p, one) and not self.chosen(one)[1]]
        return min(free or self.stealable(p), key=lambda one: (one.size, one.number), default=None)

    def next_s(self, now_s):
        times = [self.volumes[p].until for p in self.numbers() if self.probe_for(p, now_s)]
        times += [self.next_of(one) for one in self.waiting()]
        times += [batch.retry for batch in self.waiting()]
        return max(now_s, min(times, default=inf))

    # events

    def submit(self, number, size, files, now_s, home):
        self.batches[number] = SimpleNamespace(
            number=number, size=size, files=files, home=home, since=now_s, queued_s=now_s, at=None, moved=0,
            victim=None, started=False, probe=False, taken=False, roomless=False, refused=set(), barred=set(),
            retry=inf,
        )  # fmt: skip

    def assign(self, now_s):
        answer = []
        for batch in self.waiting():
            if batch.roomless:
                batch.roomless, batch.since = False, now_s
        for p in self.numbers():
            batch = self.probe_for(p, now_s)
            if batch is not None and now_s >= self.due(p, now_s):
                self.move(batch, p, now_s)
                batch.probe = True
                answer.append((batch.number, p, batch.victim, True))
        for batch in self.waiting():
            if now_s >= batch.retry:
                batch.refused, batch.retry = set(batch.barred), inf
            p, at_home = self.chosen(batch)
            if p is not None:
                self.move(batch, p, now_s)
                answer.append((batch.number, p, None, False))
                if not at_home:
                    self.turn = (p + 1) % len(self.volumes)
                continue
            if batch.refused - batch.barred and batch.retry == inf:
                batch.retry = now_s + 5.0
            for q in self.numbers():
                room = self.volumes[q].room
                if self.usable(q) and q not in batch.refused and (room is None or batch.size <= room):
                    batch.roomless = True
        if self.waiting() and self.none_works():
            self.dry = min(self.dry, now_s)
        return answer

    def begin(self, p, now_s):
        queue = self.queued(p)
        if not queue and self.usable(p) and self.stealable(p):
            can = self.stealable(p)
            victim = max({one.at for one in can}, key=lambda q: (self.finish(q, 0, 0), -q))
            batch = [one for one in can if one.at == victim][-1]
            behind = [one for one in self.queued(victim) if one.moved > batch.moved]
            there = self.finish(victim, -sum(one.size for one in behind), -sum(one.files for one in behind))
            if self.finish(p, batch.size, batch.files) < there:
                self.move(batch, p, now_s)
                queue = [batch]
        if not queue:
            return None
        batch = queue[0]
        batch.started = True
        if batch.probe:
            self.volumes[p].trying = True
        else:
            batch.since += now_s - batch.queued_s
        return batch.number, p, batch.victim, batch.probe

    def written(self, number, now_s, of):
        batch = self.batches.get(number)
        if batch is None or batch.at != of or not batch.started:
            return False
        if batch.probe:
            volume = self.volumes[of]
            volume.until, volume.pauses, volume.trying, volume.evidence = None, 0, False, 0
        del self.batches[number]
        self.dry = inf
        return True

    def failed(self, number, now_s, of, no_room, for_good):
        batch = self.batches.get(number)
        if batch is None or batch.at != of:
            return []
        volume, probe = self.volumes[of], batch.probe
        self.back(batch, now_s)
        if no_room:
            batch.refused |= {of}
            batch.barred |= {of} if for_good else set()
            if probe and volume.trying:
                volume.until, volume.trying = now_s, False
            return []
        volume.failed = now_s
        if not self.usable(of) and not probe:
            return []
        return self.opened(of, now_s)

    def volume_failed(self, p, now_s):
        volume = self.volumes[p]
        volume.failed = now_s
        if self.usable(p) or volume.trying or now_s >= volume.until:
            self.opened(p, now_s)
        started = []
        for batch in sorted(self.at(p), key=lambda one: one.number):
            if batch.started:
                started.append(batch.number)
            self.back(batch, now_s)
        return started

    def straggled(self, p, now_s):
        volume = self.volumes[p]
        volume.evidence += 1
        others = [self.volumes[q] for q in self.numbers() if q != p and self.usable(q)]
        if (
            not self.usable(p)
            or volume.evidence < 3
            or not any(one.evidence < volume.evidence for one in others)
        ):
            return False
        volume.failed = now_s
        self.opened(p, now_s)
        return True

    def steady(self, p):
        self.volumes[p].evidence = 0

    def measured(self, p, size, seconds):
        volume, speed = self.volumes[p], size / seconds
        volume.speed = volume.speed + 0.3 * (speed - volume.speed) if volume.speed else speed

    def room(self, p, room):
        self.volumes[p].room = room

    def taken(self, number):
        if number in self.batches and self.batches[number].at is not None:
            self.batches[number].taken, self.dry = True, inf

    def cancel(self, number):
        batch = self.batches.pop(number, None)
        if batch is not None and batch.probe:
            self.volumes[batch.at].trying = False

    def overdue(self, now_s):
        over = [batch.number for batch in self.waiting() if self.over(batch, now_s)]
        for number in over:
            del self.batches[number]
        return over

    # what events do

    def opened(self, p, now_s):
        """A pause begins and the queue is empty."""
        volume = self.volumes[p]
        volume.until = now_s + min(30.0, self.deadline_s / 5, 0.5 * 2**volume.pauses)
        volume.pauses, volume.trying = volume.pauses + 1, False
        queue = self.queued(p)
        for batch in queue:
            self.back(batch, now_s)
        return [batch.number for batch in queue]

    def move(self, batch, p, now_s):
        if batch.at is not None:
            batch.since += now_s - batch.queued_s
        self.moves += 1
        batch.at, batch.victim, batch.moved, batch.queued_s, batch.retry = p, batch.at, self.moves, now_s, inf

    def back(self, batch, now_s):
        if batch.taken:
            batch.since, batch.taken = now_s, False
        elif not batch.started and not batch.probe:
            batch.since += now_s - batch.queued_s
        batch.at, batch.started, batch.probe = None, False, False
