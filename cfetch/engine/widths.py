"""How wide a run is: the places that its hosts have, and the workers that serve them."""

from cfetch.config.settings import Settings
from cfetch.engine.flights import Flights
from cfetch.engine.hosts import Hosts
from cfetch.events import Listener, WidthChanged
from cfetch.straggler.width import Width
from cfetch.wire.retry import Limits


def workers_of(settings: Settings) -> int:
    """The largest number of workers that a run can have, and so of entries in hand at a time."""
    most = settings.max_concurrency if settings.is_adaptive else None
    return most or settings.concurrency


def hosts_of(settings: Settings, limits: Limits) -> Hosts:
    """The run's hosts. Each begins with ``concurrency`` places, or ``per_host``, which is never exceeded."""
    start = min(settings.concurrency, settings.per_host or settings.concurrency)
    if not settings.is_adaptive:
        return Hosts(start, limits)
    most = min(workers_of(settings), settings.per_host or workers_of(settings))
    return Hosts(most, limits, new_width=lambda: Width(start, most))


def look_at_widths(hosts: Hosts, flights: Flights, emit: Listener, now_s: float, *, is_calm: bool) -> bool:
    """Look at the width of all hosts, a few times a second, and emit changes.

    Returns whether more may start.
    """
    if not hosts.has_widths:
        return False
    rose = hosts.look(now_s, flights.received_by_host(), calm=is_calm)
    for host, change in hosts.changes:
        emit(
            WidthChanged(
                t_s=now_s, host=host, places=change.places, before=change.before, reason=change.reason
            )
        )
    hosts.changes.clear()
    return rose
