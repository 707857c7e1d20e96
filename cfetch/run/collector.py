"""Makes Python's garbage collector run seldom while files are downloaded.

With Python's default of 700 objects, it took 6 to 8 % of the processor time of small files.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000  # more new objects than wait for a flush; each collection would visit these


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Collect seldom: a run makes millions of objects, and almost none of them in cycles.

    The process's own threshold is restored in the end; it is kept if it is higher, or switches collection
    off.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
