"""How often Python looks for garbage in cycles while files are downloaded.

After every 700 objects, its own setting, the looks took 6 to 8 % of the processor time of small files.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000  # more than since the last look: all that waits for a flush, which each look would visit


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Look seldom: a run makes objects by the million, and next to none of them in cycles.

    What the process had set is set again in the end, and stays where it is a longer pause, or none.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
