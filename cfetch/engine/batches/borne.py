"""How many attempts the hosts of a run bear now, all together: what its volumes can share.

With more slots than the hosts bear, the volumes' shares would not bind: whichever volume asked first would
get all that a host gives, and the others would idle meanwhile.
"""

from collections import deque
from collections.abc import Callable

from cfetch.engine.batches.arrivals import BatchQueues
from cfetch.engine.schedule import Schedule
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries

Bears = Callable[[str, float], tuple[int, int]]
"""How many attempts run at a host, and how many it bears at that time."""

LOOKS = 256  # at hosts whose entries seemed to be over: a volume that failed may have given some back


class Borne:
    """Counts at most ``most``. A host counts while entries of it are left, and attempts that run there do."""

    def __init__(
        self, entries: Entries, queues: BatchQueues, schedule: Schedule[Transfer], bears: Bears, *, most: int
    ) -> None:
        self._names = entries.hosts
        self._schedule = schedule
        self._bears = bears
        self._most = most
        self._queues: list[list[int]] = [[] for _ in self._names]
        for queue, host in enumerate(queues.host):
            self._queues[host].append(queue)
        self._first = [0] * len(self._names)  # by host: the position of a queue that had entries left
        self._with_entries = deque(range(len(self._names)))
        self._over: deque[int] = deque()

    def count(self, now_s: float) -> int:
        """Count the attempts that may be under way now; ``most`` if no host bears any."""
        for _ in range(min(LOOKS, len(self._over))):
            host = self._over.popleft()
            (self._with_entries if self._has_left(host) else self._over).append(host)
        total = 0
        for _ in range(len(self._with_entries)):
            host = self._with_entries[0]
            running, borne = self._bears(self._names[host], now_s)
            if self._has_left(host):
                total += max(running, borne)
                self._with_entries.rotate(-1)
            else:  # what still runs there is counted below
                self._over.append(self._with_entries.popleft())
            if total >= self._most:
                return self._most
        total += sum(self._bears(self._names[host], now_s)[0] for host in self._list_last())
        return min(total, self._most) or self._most

    def _list_last(self) -> list[int]:
        """Some of the hosts whose entries are all handed out: the last ones may still be under way."""
        return [self._over[-1 - position] for position in range(min(LOOKS, len(self._over)))]

    def _has_left(self, host: int) -> bool:
        """Whether entries of the host are not under way."""
        queues = self._queues[host]
        for step in range(len(queues)):
            position = (self._first[host] + step) % len(queues)
            if self._schedule.count_left(queues[position]):
                self._first[host] = position
                return True
        return False
