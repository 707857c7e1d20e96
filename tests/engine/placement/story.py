"""A placement told in short sentences: batches by number, and sizes that are bytes and files at once."""

from math import inf

from cfetch.engine.placement.placer import Placer


def volume_of(placer, number):
    """The volume where a batch is queued or started; None if it waits or is unknown."""
    batch = placer._batches.get(number)
    return None if batch is None else batch.volume


class Story:
    """One Placer, and batches numbered from 0 in the order in which they are told of."""

    def __init__(self, mode, *loads, deadline_s=inf):
        """``loads``: what each volume bears at the start, as a started batch."""
        self.placer = Placer(len(loads), mode=mode, deadline_s=deadline_s)
        self.count = 0
        for p, load in enumerate(loads):
            if load:
                self.start(load, p)

    def start(self, size, p, now_s=0.0):
        """A batch that volume ``p`` is writing. Returns its number."""
        batch = self.tell(size, now_s, home=p)
        assert [(placed.batch, placed.volume) for placed in self.placer.assign(now_s)] == [(batch, p)]
        assert self.begin(p, now_s).batch == batch
        return batch

    def begin(self, p, now_s=0.0):
        """The batch that volume ``p`` begins; there must be one."""
        placed = self.placer.begin(p, now_s)
        assert placed is not None
        return placed

    def tell(self, size, now_s=0.0, **more):
        """A batch arrives. Returns its number."""
        self.placer.submit(self.count, size, max(1, size), now_s, **more)
        self.count += 1
        return self.count - 1

    def produce(self, *sizes, now_s=0.0):
        """Batches arrive together and are placed. Returns the volume of each (None: it waits)."""
        batches = [self.tell(size, now_s) for size in sizes]
        self.placer.assign(now_s)
        return [volume_of(self.placer, batch) for batch in batches]

    def try_last(self, now_s):
        """What comes at a deadline: volumes out of use are tried once more, and fail. Returns them."""
        tried = []
        while placed := self.placer.assign(now_s):
            for one in placed:
                assert one.probe
                tried.append(one.volume)
                self.begin(one.volume, now_s)
                self.fail(one.batch, now_s)
        return tried

    def loads(self):
        """Bytes, which are the files too unless a batch is empty."""
        views = [self.placer.view(p) for p in range(len(self.placer._volumes))]
        return [view.load_bytes for view in views]

    def fail(self, batch, now_s=0.0):
        """The volume that writes it cannot."""
        of = volume_of(self.placer, batch)
        assert of is not None
        return self.placer.fail(batch, now_s, of=of, reason=f"P{of} broke")
