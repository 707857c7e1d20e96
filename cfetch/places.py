"""Where a run's files are: the destination, cfetch's own directory, and the timeline in it."""

from pathlib import Path

from cfetch.config.settings import Settings
from cfetch.placement.local import STATE_NAME
from cfetch.timeline.heartbeat import Heartbeats

__all__ = ["is_shared", "places", "timeline"]


def places(settings: Settings) -> tuple[Path, Path]:
    """The destination and the state directory, both absolute."""
    root = Path(settings.to).absolute()
    return root, Path(settings.state).absolute() if settings.state else root / STATE_NAME


def timeline(settings: Settings) -> tuple[Path, list[Path], Heartbeats]:
    """What ``open_table`` and ``open_existing`` are to be given."""
    root, state = places(settings)
    heartbeats = Heartbeats(interval_s=settings.heartbeat_interval, misses=settings.heartbeat_misses)
    return state, [root / STATE_NAME], heartbeats


def is_shared(settings: Settings) -> bool:
    """Whether other destinations may have plans on the same timeline."""
    root, state = places(settings)
    return state != root / STATE_NAME
