"""How many processors this process may use."""

import os
from contextlib import suppress
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # a container's quota


def count_cores() -> int:
    """Count them: no more than its affinity and its container's quota permit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota_us, period_us = map(int, _QUOTA.read_text("ascii").split())  # "max" is no number
        cores = min(cores, quota_us // period_us)
    return max(1, cores)
