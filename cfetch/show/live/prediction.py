"""When a run will end, from what its view knows: no prediction before there is data for one. Pure."""

import math

from cfetch.base.events import STARTING, Progress, RunStarted
from cfetch.show.format import percent, size
from cfetch.show.live.files_under_way import fold_segments
from cfetch.show.live.time_left import LEAST_BPS, Rest, TimeLeft, estimate_time_left
from cfetch.show.live.view import RATE_WINDOW_S, View

ENOUGH_FILES = 10  # for a mean of their sizes, and for a prediction
ENOUGH_SHARE = 0.05  # of the run
MUCH_LARGER = 10  # than the mean: such a file without a stated size shows that the mean says little
LARGEST_ERROR = 0.15  # of all bytes; twice this standard error is still within 1.3 of the truth


def predict(view: View) -> TimeLeft | None:
    """How long the run still takes; None if there is no data for an estimate, or too little of it."""
    progress, run = view.progress, view.run
    if progress is None or run is None or not progress.t_s or not _is_predictable(view, run, progress):
        return None
    expected = expect_bytes(view) if view.sizes_unknown else view.bytes_known
    if view.sizes_unknown and _are_unequal(view, progress):
        return None
    missing = (expected or 0) - view.bytes_in_hand - view.counts.missing_bytes
    stands_still = view.rate_bps < LEAST_BPS and not view.pace.files_per_s
    had = view.count_files_had() - progress.skipped - progress.failed
    rest = Rest(
        active=fold_segments(progress.active),
        waiting=progress.waiting,
        left_bytes=None if expected is None else max(0, missing),
        rate_bps=view.rate_bps,
        left_files=run.files - view.settled_files,
        files_per_s=0.0 if stands_still else had / progress.t_s,
        is_rough=view.sizes_unknown > 0,
        connections=_count_connections(run),
        median_bps=progress.baseline.median_bps,
        cancels=not view.is_slowed and run.settings.get("mitigation") is not False,
    )
    return estimate_time_left(rest)


def expect_bytes(view: View) -> int | None:
    """An estimate of all bytes where some sizes are unknown, by the mean of the others; None: too few."""
    files = view.run.files if view.run else 0
    known = files - view.sizes_unknown - view.counts.unstated.sizeless
    if known < ENOUGH_FILES or not view.bytes_known:
        return None
    return round(view.bytes_known * (1 + view.sizes_unknown / known))


def starting_text(view: View) -> str:
    """What a run waits for whose engine has not begun yet, such as a Spark session; empty: it has begun."""
    engine = (view.run.settings.get("engine") if view.run else None) or "local"
    progress = view.progress
    if engine == "local" or progress is None or progress.active or progress.executors or view.fraction:
        return ""
    return f"{STARTING}{str(engine).capitalize()}"


def percent_text(view: View) -> str:
    """How much is done; where sizes are unknown it is an estimate, and at first nothing is known."""
    if not view.sizes_unknown or view.fraction == 1.0:
        return percent(view.fraction)
    return f"~{percent(view.fraction)}" if view.fraction else "? %"


def total_text(view: View) -> str:
    """The size of all files, as far as it is known: in full, as an estimate, or as a lower limit."""
    if not view.sizes_unknown:
        return f" of {size(view.bytes_known)}"
    if (expected := expect_bytes(view)) is not None:
        return f" of ~{size(expected)}"
    return f" of over {size(view.bytes_known)}" if view.bytes_known else ""


def _is_predictable(view: View, run: RunStarted, progress: Progress) -> bool:
    """Whether enough has come for a prediction: the first numbers of a run are far too high.

    That is a twentieth of what this run has to bring, or ten files once the rate has its whole window.
    """
    if progress.done + progress.whole >= ENOUGH_FILES and progress.t_s >= RATE_WINDOW_S:
        return True
    had = view.count_files_had() - progress.skipped - progress.failed
    to_do: float = run.files - progress.skipped - progress.failed
    if not view.sizes_unknown:
        before = view.counts.skipped_bytes
        had, to_do = view.bytes_in_hand - before, view.bytes_known - before - view.counts.missing_bytes
    return had >= ENOUGH_SHARE * to_do


def _are_unequal(view: View, progress: Progress) -> bool:
    """Whether the sizes differ so much that the mean of those known says little about the others.

    That shows the standard error of the sum, or a file without a stated size that is far above the mean.
    """
    files = view.run.files if view.run else 0
    known = files - view.sizes_unknown - view.counts.unstated.sizeless
    if known <= 0 or not view.bytes_known:
        return False
    mean = view.bytes_known / known
    under_way = {attempt.id: attempt.file_size_bytes or 0 for attempt in progress.active}
    squares = view.pace.squares + sum(size * size for size in under_way.values())
    variance = max(0.0, squares / known - mean * mean)
    error = math.sqrt(variance * view.sizes_unknown * (1 + view.sizes_unknown / known))
    largest = max((attempt.bytes for attempt in progress.active if attempt.size_bytes is None), default=0)
    return error > LARGEST_ERROR * mean * (known + view.sizes_unknown) or largest > MUCH_LARGER * mean


def _count_connections(run: RunStarted) -> int:
    """How many connections a file may have where slots are idle; 1: the policy knows no segments."""
    settings = run.settings
    segments = settings.get("segments")
    is_adaptive = settings.get("policy") == "adaptive" and settings.get("mitigation") is not False
    if not is_adaptive or settings.get("rate") is not None or not isinstance(segments, int):
        return 1
    return max(1, min(segments, run.concurrency))
