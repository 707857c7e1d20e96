"""Limits the rescues of one file: until the number of slow connections in a row cannot be chance.

Each rescue takes a fresh connection. If many connections of a host are slow, a file may well meet several of
them one after the other, and the next may still be good. If few are slow, the same number in a row shows that
the file itself is slow, and a further rescue would be in vain.
"""

from collections import Counter

from cfetch.straggler.fresh_attempt import MOST_HOSTS

SLOW_FILES = 1e-3  # one file in a thousand is slow by itself; a chance below that is not believed
SUPPOSED_SLOW, SUPPOSED_GOOD = 1, 4  # assumed connections of a host before any has been tried


def luck(tried: int, slow: int, good: int) -> float:
    """The probability that ``tried`` fresh connections in a row are all slow.

    ``slow`` and ``good`` count the other fresh connections of the host. The share of slow ones is known only
    as well as their number allows: it has the beta distribution Beta(slow + 1, good + 4), so the probability
    is that of the beta-binomial distribution::

        product over i < tried of  (slow + 1 + i) / (slow + 1 + good + 4 + i)

    Without others it is 1/5 for one connection, 1/330 for seven, and 1/1001 for ten; if 6 of 20 others were
    slow, it is 1/1430 for six.
    """
    probability = 1.0
    for more in range(tried):
        so_far = slow + SUPPOSED_SLOW + more
        probability *= so_far / (so_far + good + SUPPOSED_GOOD)
    return probability


class Rescues:
    """Counts how many fresh connections to each host were slow or good."""

    def __init__(self) -> None:
        self._slow: Counter[str] = Counter()
        self._good: Counter[str] = Counter()

    def note(self, host: str, *, slow: bool) -> None:
        """Note that a fresh connection to ``host`` was a straggler, or has brought all of its bytes."""
        for counts in (self._slow, self._good):
            if len(counts) >= MOST_HOSTS and host not in counts:
                counts.clear()  # new counts soon replace them
        (self._slow if slow else self._good)[host] += 1

    def are_over(self, host: str, mitigations: int) -> bool:
        """Whether a file that was rescued so often from connections to ``host`` is slow itself."""
        own = max(0, mitigations - 1)  # its first connection may have been an old one
        return luck(mitigations, max(0, self._slow[host] - own), self._good[host]) < SLOW_FILES
