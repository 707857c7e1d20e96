"""How many processes of this machine share the work of a plan."""

import os
from typing import NamedTuple

from cfetch.config.settings import Settings


class Work(NamedTuple):
    """What is known of a plan beforehand."""

    files: int
    known_bytes: int
    sizes_unknown: int


def choose_processes(work: Work, settings: Settings, *, cores: int) -> int:  # noqa: ARG001
    """The number that the settings ask for, as far as each process can have a download at each host."""
    asked = settings.processes or 1
    return max(1, min(asked, work.files, settings.concurrency, settings.per_host or asked))


def count_cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
