"""How wide a run is: the places that its hosts have."""

from cfetch.clock import RunClock
from cfetch.config.engine import Widths
from cfetch.engine.flights import Flights
from cfetch.engine.hosts import Hosts
from cfetch.events import BreakerClosed, Listener, WidthChanged
from cfetch.straggler.width import Width
from cfetch.wire.retry import Limits


def hosts_of(widths: Widths, limits: Limits, *, splits: bool) -> Hosts:
    """The run's hosts. Each begins with ``concurrency`` places, or ``per_host``, which is never exceeded.

    ``splits``: idle workers help with files under way.
    """
    start = min(widths.concurrency, widths.per_host or widths.concurrency)
    if not widths.adaptive:
        return Hosts(start, limits)
    most = min(widths.most, widths.per_host or widths.most)
    return Hosts(most, limits, new_width=lambda: Width(start, most), keeps_one=splits)


def look_at_widths(hosts: Hosts, flights: Flights, emit: Listener, clock: RunClock, *, is_calm: bool) -> bool:
    """Look at the width of all hosts, a few times a second, and emit changes and breakers that closed.

    It runs in the thread that does the downloads. Returns whether more may start.
    """
    now_s = clock.now()
    for host in hosts.closed_breakers:
        emit(BreakerClosed(t_s=now_s, host=host))
    hosts.closed_breakers.clear()
    if not hosts.has_widths:
        return False
    rose = hosts.look(now_s, clock.cpu_s(), flights.received_by_host(), calm=is_calm)
    for host, change in hosts.changes:
        emit(
            WidthChanged(
                t_s=now_s, host=host, places=change.places, before=change.before, reason=change.reason
            )
        )
    hosts.changes.clear()
    return rose
