"""The widths of a run's hosts: how many slots each of them has."""

from cfetch.base.clock import RunClock
from cfetch.base.config.engine import Widths
from cfetch.base.events import BreakerClosed, Listener, WidthChanged
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.hosts import Hosts
from cfetch.show.counts import Counts
from cfetch.straggler.knowledge import Knowledge
from cfetch.straggler.width import TcpSigns, Width
from cfetch.wire.retry import Limits

SILENT_S = 0.5  # an attempt that waits longer for its first byte says nothing about its host's rate


def make_hosts(widths: Widths, limits: Limits, known: Knowledge, *, splits: bool) -> Hosts:
    """Make the run's hosts: each begins with ``concurrency`` slots, or with ``per_host``, its maximum.

    ``known``: what earlier runs have learned. ``splits``: idle workers help with files under way.
    """
    start = min(widths.concurrency, widths.per_host or widths.concurrency)
    pace = None
    if widths.requests_per_s is not None:
        from cfetch.wire.request_pace import RequestPace  # only --rate asks for it

        pace = RequestPace(widths.requests_per_s)
    if not widths.adaptive:
        return Hosts(start, limits, pace=pace)
    most = min(widths.most, widths.per_host or widths.most)
    return Hosts(
        most,
        limits,
        new_width=lambda served: Width(start, most, served),
        served={name: host.serves for name, host in known.hosts.items() if host.serves},
        keeps_one=splits,
        pace=pace,
    )


def estimate_left(total_bytes: int, ended: Counts, in_flight: AttemptsUnderWay, waiting: int) -> int:
    """How many bytes a run still has to bring; without stated sizes ``total_bytes`` is below 0.

    Then those that wait are as large as what has come of the others.
    """
    active_bytes = in_flight.bytes_active()
    if total_bytes > 0:
        return max(0, total_bytes - ended.in_place_bytes - active_bytes)
    return waiting * (ended.done_bytes + active_bytes) // max(1, ended.done + len(in_flight))


def adjust_widths(
    hosts: Hosts,
    in_flight: AttemptsUnderWay,
    emit: Listener,
    clock: RunClock,
    *,
    is_calm: bool,
    left_bytes: int,
    is_ending: bool = False,
) -> bool:
    """Look at the width of all hosts, a few times a second, and emit changes and breakers that closed.

    It runs in the thread that does the downloads. ``left_bytes``: in the run, as far as sizes are known.
    ``is_ending``: no entry waits any more.
    Returns whether more may start.
    """
    now_s = clock.now()

    def ask_tcp(host: str, usual_s: float) -> TcpSigns | None:
        from cfetch.engine.link_looks import read_tcp_signs  # hosts nearby need it not

        return read_tcp_signs(in_flight.attempts(), host, usual_s)

    for host in hosts.closed_breakers:
        emit(BreakerClosed(t_s=now_s, host=host))
    hosts.closed_breakers.clear()
    rose = hosts.adjust_widths(
        now_s,
        clock.cpu_s(),
        in_flight.received_by_host(),
        calm=is_calm,
        silent=in_flight.count_silent(now_s - SILENT_S),
        waiting=in_flight.count_silent(now_s),
        handshakes_s=in_flight.handshakes_by_host(),
        left_bytes=left_bytes,
        ask_tcp=ask_tcp,
    )
    for attempt in in_flight.attempts():
        width, interruption = hosts.find_width(attempt.assignment.host), attempt.interruption
        slack_s, interruption.full_link = (0.0, False) if width is None else (width.slack_s, width.fills_link)
        interruption.slack_s = -1.0 if is_ending else slack_s
    for host, change in hosts.changes:
        emit(WidthChanged(t_s=now_s, host=host, **change._asdict()))
    hosts.changes.clear()
    return rose
