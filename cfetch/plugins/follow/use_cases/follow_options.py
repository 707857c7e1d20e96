"""What a user says about how a feed is followed, and whether it fits the feed and the destinations."""

from pathlib import Path
from typing import Literal

import msgspec

from cfetch.base.config.path_filter import PathFilter
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.plugins.follow.backends.opening import begins_at_times, lists_all_files
from cfetch.plugins.follow.journal import name_feed
from cfetch.run.directories import Destinations


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``versions``: every version in its order, or for each path the last version in a step.

    ``delete``: delete files that the source has deleted, at most ``max_delete`` of them within an hour (a
    float is a share of the files in place). ``once``: end when nothing is new. Without ``route_cache``, each
    read asks for the lineage. ``allow_hosts``: hosts besides the feed's own that its links may name.

    ``resync``: forget the position, and compare all files here with the feed first. ``paths``: those of the
    feed that are taken; the others are left alone. ``consistent``: a directory for ``Generations``.
    ``adopt``: first take all files here for files of the feed, which may be replaced and deleted.
    ``from_now``: where there is no position yet, leave alone what the feed has already; ``begin_s``: what
    changed before this time, in seconds since 1970.
    """

    versions: Literal["all", "latest"] = "latest"
    delete: bool = False
    max_delete: float = 0.1
    once: bool = False
    poll_s: float = 5.0
    route_cache: bool = True
    allow_hosts: tuple[str, ...] = ()
    resync: bool = False
    paths: PathFilter = PathFilter()
    consistent: Path | None = None
    adopt: bool = False
    from_now: bool = False
    begin_s: float | None = None


def check_options(feed: str, settings: Settings, options: FollowOptions, where: Destinations) -> None:
    """Raise ConfigError if options do not fit the feed or the destinations."""
    if (settings.header or settings.bearer_env) and not settings.header_host:
        raise ConfigError("header or bearer_env is given; say which hosts may have it: --header-host HOST")
    if options.resync and options.delete and not lists_all_files(feed):
        raise ConfigError(
            "a stream keeps changes for days, and does not name older files: give --resync without --delete"
        )
    begins_late = options.from_now or options.begin_s is not None
    if begins_late and (options.resync or options.consistent is not None):
        raise ConfigError("--from leaves older files out; --resync and --consistent are for all of them")
    if options.begin_s is not None and not begins_at_times(feed):
        raise ConfigError(
            f"--from TIME: {name_feed(feed)} states no times of its changes; give --from now, or "
            "leave --from out to begin with the oldest change that the feed keeps"
        )
    if options.adopt and not where.directories:
        raise ConfigError("--adopt is for directories; cfetch marks the objects that it puts in a store")
    if options.delete and len(where.directories) < len(where.roots):
        raise ConfigError("--delete is for directories; nothing is deleted in an object store")
    if options.consistent is not None and (len(where.roots) != 1 or not where.directories):
        raise ConfigError("--consistent is for one destination, which is a directory")
