"""How often one file is rescued: until its bad luck with connections is too rare to be luck.

Each rescue takes a fresh connection. Where many connections of a host are slow, a file may well meet several
of them one after the other, and the next may still be good. Where few are, the same number in a row says that
the file itself is slow, and a further rescue would be in vain.
"""

from collections import Counter

from cfetch.straggler.fresh import MOST_HOSTS

SLOW_FILES = 1e-3  # one file in a thousand is slow by itself; luck that is rarer than that is no luck
SUPPOSED_SLOW, SUPPOSED_GOOD = 1, 4  # of connections to a host of which none has been tried


def luck(tried: int, slow: int, good: int) -> float:
    """The probability that ``tried`` fresh connections in a row are all slow.

    ``slow`` and ``good`` are what other fresh connections of the host turned out to be. Their share is known
    as well as their number allows: it has the beta distribution Beta(slow + 1, good + 4), so the probability
    is that of the beta-binomial distribution::

        product over i < tried of  (slow + 1 + i) / (slow + 1 + good + 4 + i)

    Without others it is 1/5 for one connection, 1/330 for seven, and 1/1001 for ten; where 6 of 20 others
    were slow, 1/1430 for six.
    """
    probability = 1.0
    for more in range(tried):
        so_far = slow + SUPPOSED_SLOW + more
        probability *= so_far / (so_far + good + SUPPOSED_GOOD)
    return probability


class Rescues:
    """What became of the fresh connections to each host."""

    def __init__(self) -> None:
        self._slow: Counter[str] = Counter()
        self._good: Counter[str] = Counter()

    def note(self, host: str, *, slow: bool) -> None:
        """A fresh connection to ``host`` was a straggler, or has brought all that it was to bring."""
        for counts in (self._slow, self._good):
            if len(counts) >= MOST_HOSTS and host not in counts:
                counts.clear()  # what is normal is soon known again
        (self._slow if slow else self._good)[host] += 1

    def are_over(self, host: str, mitigations: int) -> bool:
        """Whether a file that was rescued so often from connections to ``host`` is slow itself."""
        own = max(0, mitigations - 1)  # its first connection may have been an old one
        return luck(mitigations, max(0, self._slow[host] - own), self._good[host]) < SLOW_FILES
