"""What the system lets this process use: processors, memory, open files, threads.

A container's limits are those of the control groups of Linux, of which the lowest from here to the root
counts. Elsewhere there are none to read.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cfetch.app.engines import count_cores
from cfetch.show.doctor_view import MachineReport
from cfetch.storage.descriptors import most_downloads

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_BOUNDLESS = 1 << 62  # the first version of control groups writes such a number for "no limit"


def examine_machine(proc: Path = _PROC, groups: Path = _GROUPS) -> MachineReport:
    """Read the limits. ``proc`` and ``groups``: where the system shows them."""
    files, most_files = map(_read_limit, resource.getrlimit(resource.RLIMIT_NOFILE))
    memory = _read_memory(proc)
    cores = os.cpu_count() or 1
    return MachineReport(
        cores=cores,
        cores_usable=count_cores(),
        memory_bytes=memory.get("MemTotal") or _ask_memory("SC_PHYS_PAGES"),
        memory_free_bytes=memory.get("MemAvailable") or _ask_memory("SC_AVPHYS_PAGES"),
        memory_limit_bytes=_least(
            _read_limit(resource.getrlimit(resource.RLIMIT_AS)[0]),
            *_read_numbers(proc, groups, "memory.max"),
            *_read_numbers(proc, groups, "memory/memory.limit_in_bytes"),
        ),
        open_files=files,
        most_open_files=most_files,
        downloads=None if most_files is None else most_downloads(most_files),
        threads=_least(
            _read_limit(resource.getrlimit(resource.RLIMIT_NPROC)[0]),
            *_read_numbers(proc, groups, "pids.max"),
            *_read_numbers(proc, groups, "pids/pids.max"),
        ),
    )


def _read_limit(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None and limit < _BOUNDLESS), default=None)


def _read_memory(proc: Path) -> dict[str, int]:
    """The lines of ``meminfo`` in bytes; empty on systems without it."""
    values = {}
    with suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, words = line.partition(":")
            if words.endswith("kB"):
                values[name] = int(words.split()[0]) * 1024
    return values


def _ask_memory(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _read_texts(proc: Path, groups: Path, name: str) -> Iterator[str]:
    """The file of this process's control group and of each group above it, as far as there are any."""
    own = ""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                own = line.removeprefix("0::").strip("/")
    for folder in (Path(own), *Path(own).parents):
        if ".." not in folder.parts:  # the group is outside of what this container sees
            with suppress(OSError):
                yield (groups / folder / name).read_text()


def _read_numbers(proc: Path, groups: Path, name: str) -> Iterator[int]:
    for text in _read_texts(proc, groups, name):
        with suppress(ValueError):  # "max"
            yield int(text)
