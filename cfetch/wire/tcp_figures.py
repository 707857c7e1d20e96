"""What Linux's TCP shows of a connection while its bytes come (``TCP_INFO``)."""

import socket
import struct
import sys
from asyncio import BaseTransport
from typing import NamedTuple

_ARRIVALS = struct.Struct("=92xI128xI")  # tcpi_rcv_rtt, in microseconds, and tcpi_rcv_ooopack


class TcpFigures(NamedTuple):
    """``round_trip_s``: of the latest bytes; 0: not known. ``has_lost``: packets came out of order."""

    round_trip_s: float
    has_lost: bool


def read_tcp_figures(transport: BaseTransport | None) -> TcpFigures | None:
    """The kernel's figures; None: it has none."""
    if transport is None or sys.platform != "linux":
        return None
    try:
        sock = transport.get_extra_info("socket")
        figures = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ARRIVALS.size)
        trip_us, out_of_order = _ARRIVALS.unpack(figures)
    except (AttributeError, OSError, TypeError, struct.error):  # no socket of the kernel's TCP; an old kernel
        return None
    return TcpFigures(trip_us / 1e6, out_of_order > 0)
