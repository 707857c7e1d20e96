"""Decides how many processes of this machine share the work of a plan.

Measured with 20,000 files of 16 KiB (``benchmarks/processes_cost.py``): a file costs one process 320 µs of
processor time; with several processes it costs the child that brings it 355 and the parent 26, and a child
needs 0.45 s before its first file. By these figures two processes begin to pay at some 3,500 files. On two
cores that also do the server's work, two processes take three quarters of one's time for 20,000 files. More
than two were not measured; with thirteen, their parent would be busy all the time (355 / 26).

Larger files keep a processor busy by their bytes: one process takes 1.2 to 2.4 s of it for a GiB, more where
memory is slow, so one core carries 3 to 7 Gbit/s. With 2,000 files of 1 MiB on two cores that also do the
server's work, two processes take 0.4 to 0.7 of one's time. But a file is brought by one process, with its
part of the connections, so several processes do not pay where one file is much of the work: 5 files of 200
MiB from a server that sends 10 MiB/s over each connection took one process 5.5 to 7.0 s, and two 9.9 s. A
distant or slow server gains nothing and loses the children's start.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cfetch.base.config.settings import Settings

LEAST_FILES = 10_000  # for each process: its start is then a sixth of its work
MOST_FILES = 1_000_000  # a cut into shares needs time and memory for each entry: docs/scale.md
LEAST_AT_ONCE = 4  # downloads for each process: attempts are judged by others, and idle workers help
SMALL_BYTES = 1 << 20  # on average; with larger files the bytes are the work
LEAST_BYTES = 768 << 20  # for each process: one to two seconds of a core, twice to four times its start
FEWEST_LARGEST = 32  # each process has the bytes of so many of the largest file: shares differ by 3 % at most
CORES_PER_PROCESS = 2  # the other core is for the kernel's network, hashes, flushes, and other programs
PAYING_ANYWAY = 2  # processes: they pay even if each has only one core, and the server runs there too


class Work(NamedTuple):
    """The known facts of a plan before the run.

    ``known_bytes``: of the files whose size is known. ``sizes``: of all files, -1 for an unknown one; they
    are looked through only where the largest counts.
    """

    files: int
    known_bytes: int
    sizes: Sequence[int]


def choose_processes(work: Work, settings: Settings, *, cores: int) -> int:
    """The number that the settings state, or that pays; each process needs one download at each host."""
    chosen = settings.processes or _count_paying(work, settings, cores)
    return max(1, min(chosen, work.files, settings.concurrency, settings.per_host or chosen))


def _count_paying(work: Work, settings: Settings, cores: int) -> int:
    is_bounded = settings.limits_rate or settings.rate is not None  # then the processor is not what lacks
    if is_bounded or work.files > MOST_FILES:
        return 1
    is_small = work.known_bytes <= SMALL_BYTES * work.files
    by_files = work.files // LEAST_FILES if is_small else 0
    by_bytes = work.known_bytes // LEAST_BYTES
    if by_bytes > 1:
        by_bytes = min(by_bytes, work.known_bytes // (FEWEST_LARGEST * max(work.sizes)))
    cores_bear = max(cores // CORES_PER_PROCESS, min(cores, PAYING_ANYWAY))
    return min(cores_bear, max(by_files, by_bytes), settings.concurrency // LEAST_AT_ONCE)
