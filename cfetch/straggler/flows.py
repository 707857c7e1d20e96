"""Lists the attempts whose bytes have flowed for long enough to show a rate. Pure."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cfetch.straggler.watched_attempts import JudgedAttempt
from cfetch.straggler.ways_to_ask import FlowingAttempt

if TYPE_CHECKING:
    from cfetch.straggler.evidence import Evidence, Fall
    from cfetch.straggler.policy import Live

LEAST_FLOW_S = 0.1  # since the first byte: a shorter time shows no rate, as bytes are read in pieces


def list_flows(
    evidence: "Evidence",
    falls: "Mapping[int, Fall]",
    live: Mapping[int, JudgedAttempt],
    attempts: "Iterable[Live]",
) -> dict[str, list[FlowingAttempt]]:
    """The attempts that flow, by host. ``falls``: by column; ``live``: the judged attempts by key."""
    rates, bests = evidence.instant_bps(), evidence.best_bps()
    flows: dict[str, list[FlowingAttempt]] = {}
    for seen in attempts:
        attempt = live.get(seen.key)
        if attempt is None or attempt.column is None or attempt.first_s is None or seen.is_held:
            continue
        flow_s = evidence.now_s - attempt.start_s - attempt.first_s
        if flow_s < LEAST_FLOW_S or not attempt.size_bytes:
            continue
        column, fall = attempt.column, falls.get(attempt.column)
        pace = FlowingAttempt(
            key=attempt.key,
            asks=attempt.asks,
            carried_bytes=seen.carried_bytes,
            began_s=attempt.start_s,
            received=seen.received,
            left_bytes=attempt.size_bytes - seen.received,
            rate_bps=float(rates[column]),
            best_bps=max(float(bests[column]), float(rates[column])),
            fell_bytes=None if fall is None else fall.received,
            fell_s=0.0 if fall is None else fall.fell_s,
            # no way to ask is faster than a link that is full
            is_free=seen.resumable and not (attempt.immune or attempt.flagged or seen.slack_s > 0),
        )
        flows.setdefault(attempt.host, []).append(pace)
    return flows
