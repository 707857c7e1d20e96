"""The errors of replies that are not accepted. Imported when the first one comes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from cfetch.base.clock import RunClock
from cfetch.base.errors import Expired, RangeRefused, Refused, SourceError
from cfetch.engine.hosts import UNAVAILABLE
from cfetch.wire.pauses import find_pause_s, make_throttled, make_transient
from cfetch.wire.reasons import PATIENCE_S, explain
from cfetch.wire.statuses import NO_BODY, PROOF
from cfetch.wire.transport import Response
from cfetch.wire.verdict import ReplyAction, Verdict

if TYPE_CHECKING:
    from cfetch.storage.volume import Sink

REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
THROUGH_PROXY = 305
SAID_ALL = frozenset({200, 206, 304, 416})  # replies whose bodies hold no reason


async def make_error(
    verdict: Verdict,
    response: Response,
    part: "Sink",
    clock: RunClock,
    *,
    host: str = "",
    hold: Callable[[str, float, str], None] | None = None,
) -> SourceError:
    """Make the error of a reply that is not accepted, with the server's own reason.

    ``hold``: called with ``host`` if that asks for a pause, which would otherwise begin only when the reason
    has been read: some bodies take until the end of all patience.
    """
    if hold is not None and verdict.action is ReplyAction.THROTTLE and response.status != UNAVAILABLE:
        pause_s = find_pause_s(response.headers, clock.wall()) or 0.0
        # shorter than the pause itself, which is news to people only if it is longer than the present one
        hold(host, min(pause_s / 2, PATIENCE_S), "")
    if response.status not in SAID_ALL:
        verdict = await explain(verdict, response)
    status, reason = response.status, verdict.reason
    if reason == f"HTTP {status}" and 200 <= status <= 399:  # curl takes its body
        why = ": the server redirects to nowhere" if status in REDIRECTS else ""
        if status == THROUGH_PROXY:
            why = (
                ": the server wants to be asked through the proxy that its header Location names: --proxy URL"
            )
        reason += "; if the file is empty, state its size, 0" if status in NO_BODY else why + PROOF
    match verdict.action:
        case ReplyAction.REFRESH:
            return Expired(reason, http_status=status)
        case ReplyAction.THROTTLE:
            return make_throttled(reason, status, response.headers, clock.wall())
        case ReplyAction.RETRY | ReplyAction.WAIT:
            is_made = verdict.action is ReplyAction.WAIT
            return make_transient(reason, status, response.headers, clock.wall(), is_made=is_made)
        case ReplyAction.REFUSE_RANGE:
            part.restart()
            return RangeRefused(reason, http_status=status)
        case _:
            return Refused(reason, http_status=status)
