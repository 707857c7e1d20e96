"""Attempts under way as rows: one for each file, and those at risk first. Pure."""

from msgspec.structs import replace

from cfetch.base.events import ActiveAttempt

_SEVERITY = {"straggler": 3, "slow": 2, "last try": 1, "retrying": 1, "segment": 0, "ok": 0}


def fold_segments(active: list[ActiveAttempt]) -> list[ActiveAttempt]:
    """One row for each file: the attempts that bring segments of it become one, as fast as all together.

    A single attempt that brings the last segment is shown as its whole file, too.
    """
    by_file: dict[tuple[int, str | None], list[ActiveAttempt]] = {}
    for attempt in active:  # two executors that bring one file are two rows
        by_file.setdefault((attempt.id, attempt.executor), []).append(attempt)
    return [_fold(each) if len(each) > 1 or _is_part(each[0]) else each[0] for each in by_file.values()]


def _is_part(attempt: ActiveAttempt) -> bool:
    is_range = attempt.file_size_bytes is not None and attempt.size_bytes != attempt.file_size_bytes
    return is_range or attempt.state == "segment"


def _fold(attempts: list[ActiveAttempt]) -> ActiveAttempt:
    first = min(attempts, key=lambda attempt: attempt.n)
    worst = max(attempts, key=_rank_state)
    return replace(
        first,
        size_bytes=first.file_size_bytes or first.size_bytes,
        bytes=first.file_bytes or sum(attempt.bytes for attempt in attempts),
        rate_bps=sum(attempt.rate_bps for attempt in attempts),
        elapsed_s=max(attempt.elapsed_s for attempt in attempts),
        expected_s=None,  # limits are those of segments, and idle slots take over what is late
        state="ok" if worst.state == "segment" else worst.state,
        connections=len(attempts),
    )


def _rank_state(attempt: ActiveAttempt) -> int:
    return _SEVERITY[attempt.state]


def by_risk(active: list[ActiveAttempt]) -> list[ActiveAttempt]:
    """Sort the attempts: those nearest to or past their limit first.

    The order is by quarters of the limit, then by age, so that rows keep their places between frames.
    """
    return sorted(active, key=_rank_risk)


def _rank_risk(attempt: ActiveAttempt) -> tuple[int, int, float, int]:
    used = attempt.elapsed_s / attempt.expected_s if attempt.expected_s else 0.0
    return (-_SEVERITY[attempt.state], -int(4 * used) if used >= 0.5 else 0, -attempt.elapsed_s, attempt.id)
