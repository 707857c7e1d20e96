"""The last words of a run: what was done, what went wrong and why, where to look, what to run next."""

import shlex

from cfetch.events import Summary
from cfetch.report.format import duration, plural, rate, size
from cfetch.secret import printable

__all__ = ["closing_lines"]

SHOWN_FAILURES = 10  # the rest is in the metrics file

_HEADLINES = {"completed": "done", "partial": "partly done", "failed": "failed", "interrupted": "interrupted"}


def closing_lines(summary: Summary, stopped: str | None = None) -> list[str]:
    """The summary as lines for a person, the verdict first; ``stopped`` is why the run ended early.

    All of it printable.
    """
    in_place = summary.files.done + summary.files.skipped
    verdict = (
        f"{_HEADLINES[summary.status]}: {in_place:,} of {plural(summary.files.total, 'file')} in place, "
        f"{size(summary.bytes.fetched)} in {duration(summary.elapsed_s)} ({rate(summary.rate_bps)})"
    )
    why = [f"  stopped: {printable(stopped)}"] if stopped else []
    return [verdict, *why, *_events(summary), *_failures(summary), *_pointers(summary)]


def _events(summary: Summary) -> list[str]:
    stragglers, fallback = summary.stragglers, summary.fallback
    facts = [
        (summary.files.skipped, f"{summary.files.skipped:,} already there"),
        (summary.retries, plural(summary.retries, "retry")),
        (
            stragglers.detected,
            f"{plural(stragglers.detected, 'straggler')} ({stragglers.cancelled:,} cancelled)",
        ),
        (stragglers.hedged, f"{stragglers.hedged:,} hedged"),
        (summary.bytes.wasted, f"{size(summary.bytes.wasted)} received in vain"),
        (fallback.triggered, f"fell back to one at a time{', then recovered' if fallback.restored else ''}"),
    ]
    told = [text for present, text in facts if present]
    return [f"  {', '.join(told)}"] if told else []


def _failures(summary: Summary) -> list[str]:
    if not summary.files.failed:
        return []
    lines = [f"  {plural(summary.files.failed, 'file')} failed:"]
    lines += [
        f"    {printable(failure.path, 120)}: {printable(failure.message)} ({failure.kind})"
        for failure in summary.failures[:SHOWN_FAILURES]
    ]
    more = summary.files.failed - min(len(summary.failures), SHOWN_FAILURES)
    return [*lines, f"    and {more:,} more"] if more > 0 else lines


def _pointers(summary: Summary) -> list[str]:
    if summary.metrics is None:
        return ["  next: the same command goes on where this run stopped"] if summary.exit_code else []
    metrics = printable(shlex.quote(summary.metrics), 1000)
    if summary.status == "completed":
        advice = f"cfetch report {metrics}"
    elif summary.status != "interrupted" and summary.files.failed:
        advice = f"the same command with --failed-from {metrics} tries only what failed"
    else:
        advice = "the same command goes on where this run stopped"
    return [f"  metrics: {printable(summary.metrics, 1000)}", f"  next: {advice}"]
