"""Makes Python's garbage collector run seldom while files are downloaded.

With Python's default of 700 objects, it took 6 to 8 % of the processor time of small files. In a process of
Spark it took a tenth more, as each collection looked at 300,000 objects of pyarrow and pandas.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000  # above the number of objects that wait for a flush, as each collection would visit them


@contextmanager
def collect_seldom(*, for_good: bool = False) -> Iterator[None]:
    """Collect seldom, and only objects that are made from now on.

    A run makes millions of objects, and almost none of them in cycles. The process's own threshold is
    restored in the end; it is kept if it is higher, or switches collection off. Older objects are left out
    until the outermost of such calls ends. If the program has left out objects itself, they stay left out.

    ``for_good``: objects from before the first such call of the process stay left out, and no later ones.
    They are libraries above all, and Spark collects after each task: 25 to 80 ms.
    """
    before = gc.get_threshold()
    is_outermost = not gc.get_freeze_count()
    if is_outermost or not for_good:
        gc.freeze()
    if before[0]:
        gc.set_threshold(max(before[0], OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_outermost and not for_good:
            gc.unfreeze()
