"""What Linux's TCP shows of a connection while its bytes come (``TCP_INFO``)."""

import socket
import struct
import sys
from asyncio import BaseTransport
from typing import NamedTuple

# tcpi_last_ack_recv, in milliseconds: all packets of a reply acknowledge; tcpi_rcv_rtt, in microseconds;
# tcpi_rcv_ooopack
_ARRIVALS = struct.Struct("=56xI32xI128xI")


class TcpFigures(NamedTuple):
    """``round_trip_s``: of the latest bytes; 0: not known. ``has_lost``: packets came out of order.

    ``packet_age_s``: since the latest packet, which TCP keeps back while one before it is missing.
    """

    round_trip_s: float
    has_lost: bool
    packet_age_s: float = 0.0


def read_tcp_figures(transport: BaseTransport | None) -> TcpFigures | None:
    """The kernel's figures; None: it has none."""
    if transport is None or sys.platform != "linux":
        return None
    try:
        sock = transport.get_extra_info("socket")
        figures = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ARRIVALS.size)
        age_ms, trip_us, out_of_order = _ARRIVALS.unpack(figures)
    except (AttributeError, OSError, TypeError, struct.error):  # no socket of the kernel's TCP; an old kernel
        return None
    return TcpFigures(trip_us / 1e6, out_of_order > 0, age_ms / 1e3)
