"""How many files a run holds open at once, and whether the system lets it."""

import resource

from cfetch.errors import ConfigError

__all__ = ["directories_for", "most_downloads", "reserve_descriptors"]

PER_DOWNLOAD = 2  # its connection and its part
OTHERS = 24  # standard streams, event loop, plan, metrics, staging, owner, one path being walked; 15 counted
PER_VOLUME = 6  # its root, its attempts, its staging, the timeline's hold of it, two paths being walked
MAX_DIRECTORIES = 64  # held open, so that files of one directory need no walk from the top; of all volumes


def directories_for(limit: int) -> int:
    """How many directories to hold open where ``limit`` descriptors are allowed."""
    return max(1, min(MAX_DIRECTORIES, limit // 8))


def most_downloads(limit: int, volumes: int = 1) -> int:
    """How many downloads at a time ``limit`` descriptors are enough for; may be none."""
    return max(0, (limit - OTHERS - PER_VOLUME * (volumes - 1) - directories_for(limit)) // PER_DOWNLOAD)


def reserve_descriptors(concurrency: int, volumes: int = 1) -> None:
    """Raise this process's limit as far as ``concurrency`` downloads need and the system permits.

    Raises:
        ConfigError: it permits too few. Found here, it costs nothing; in the middle of a run, files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or most_downloads(soft, volumes) >= concurrency:
        return
    wanted = OTHERS + PER_VOLUME * (volumes - 1) + MAX_DIRECTORIES + PER_DOWNLOAD * concurrency
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    most = most_downloads(allowed, volumes)
    if most < concurrency:
        raise ConfigError(
            f"concurrency is {concurrency}, and the system lets a process open {hard} files (ulimit -n), "
            f"enough for {most} downloads at a time; raise that limit or lower --concurrency. Nothing was "
            "downloaded"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
