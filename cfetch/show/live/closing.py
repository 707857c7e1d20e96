"""The last lines of a run: its results, its failures and their reasons, the metrics, the next command."""

from shlex import quote
from signal import Signals

from cfetch.base.errors import LocalFault
from cfetch.base.records import EndRecord, Summary, Tail
from cfetch.base.secret import printable
from cfetch.show.format import cells, duration, fit, plural, rate, saving_text, shorten, size

SHOWN_FAILURES = 10  # the rest is in the metrics file
LEAST_TWICE = 0.0005  # a smaller share is shown as zero
SHOWN_VOLUMES = 16  # --json has all of them

_HEADLINES = {"completed": "done", "partial": "partly done", "failed": "failed", "interrupted": "interrupted"}


def closing_lines(
    summary: Summary,
    stopping: str | None = None,
    *,
    failures_named: int = 0,
    end: EndRecord | None = None,
    refetches: bool = False,
) -> list[str]:
    """The summary as printable lines for a person, the verdict first.

    ``stopping`` is why the run ended early, ``failures_named`` how many failures the log has named already,
    ``end`` has the cause that decided the run's end, ``refetches``: it fetched files in place again.
    """
    if summary.status == "completed" and not summary.files.total:
        return ["done: there was nothing to download"]
    received = f"{size(summary.bytes.fetched)} in {duration(summary.elapsed_s)} ({rate(summary.rate_bps)})"
    if not summary.bytes.fetched:
        received = f"nothing received in {duration(summary.elapsed_s)}"
    why = [f"  {reason}"] if (reason := _stop_reason(summary, stopping)) else []
    failures = _failures_above_line(summary, failures_named) if failures_named else _failure_lines(summary)
    head = f"{_choose_headline(summary, stopping)}: {_count_in_place(summary)}, {received}"
    return [
        head,
        *why,
        *_event_lines(summary),
        *_end_lines(end),
        *_volume_lines(summary),
        *failures,
        *_pointer_lines(summary, refetches=refetches),
    ]


def _choose_headline(summary: Summary, stopping: str | None) -> str:
    """The verdict. A run that stopped early with exit code 1 has passed its deadline."""
    is_late = summary.status == "failed" and stopping is not None and summary.exit_code == 1
    if isinstance(summary.completed_by_other, int):
        return "completed by another run"
    if summary.status == "partial" and not summary.exit_code:
        return _HEADLINES["completed"]
    return "out of time" if is_late else _HEADLINES[summary.status]


def closing_line(summary: Summary, stopping: str | None = None) -> str:
    """The summary in one line, for a log of errors only."""
    failed = f"{summary.files.failed:,} of {plural(summary.files.total, 'file')} failed"
    parts = [
        _stop_reason(summary, stopping),
        failed if summary.files.failed else _count_in_place(summary),
        f"metrics: {printable(summary.metrics, 1000)}" if summary.metrics else "",
    ]
    return "; ".join(part for part in parts if part)


def _count_in_place(summary: Summary) -> str:
    files = summary.files
    if isinstance(summary.completed_by_other, int):
        whole = f"{summary.completed_by_other:,} of {plural(files.total, 'file')} in place"
        return f"{whole} by another run, {files.done:,} by this one"
    return f"{files.done + files.skipped:,} of {plural(files.total, 'file')} in place"


def _stop_reason(summary: Summary, stopping: str | None) -> str:
    """The reason why the run ended early."""
    if summary.status == "interrupted":
        return f"stopped by {Signals(summary.exit_code - 128).name}"
    return f"stopped: {printable(stopping, 1000)}" if stopping else ""


def _event_lines(summary: Summary) -> list[str]:
    stragglers, fallback = summary.stragglers, summary.fallback
    facts = [
        (summary.files.skipped, f"{summary.files.skipped:,} already there"),
        (summary.retries, plural(summary.retries, "retry")),
        (
            stragglers.detected,
            f"{plural(stragglers.detected, 'straggler')} ({stragglers.cancelled:,} cancelled)",
        ),
        (stragglers.cancelled, _mitigation_text(summary)),
        (summary.bytes.wasted, f"{size(summary.bytes.wasted)} received in vain"),
        (fallback.triggered, f"fell back to one at a time{', then recovered' if fallback.restored else ''}"),
    ]
    texts = [text for present, text in facts if present and text]
    return [f"  {', '.join(texts)}"] if texts else []


def _end_lines(end: EndRecord | None) -> list[str]:
    """The cause that decided the end, and advice."""
    if end is None or end.tail == Tail():
        return []
    from cfetch.show.ending_text import Setup, explain_tail

    lines = explain_tail(end.tail, Setup(end.policy, end.widths, end.most))
    return [f"  {line}" for line in lines]


def _mitigation_text(summary: Summary) -> str:
    """How much shorter mitigation made the run, and the share of bytes that it fetched twice."""
    twice = summary.stragglers.wasted_bytes / max(summary.bytes.fetched, 1)
    parts = [
        saving_text(summary.stragglers.saved_s),
        f"{100 * twice:.1f} % of the bytes twice" if twice >= LEAST_TWICE else "",
    ]
    return ", ".join(filter(None, parts))


def _volume_lines(summary: Summary) -> list[str]:
    """One line for each volume, if there are several: the files in place, and why it was out of use."""
    volumes = summary.volumes or []
    shown = volumes
    if len(volumes) > SHOWN_VOLUMES:
        shown = sorted(volumes, key=lambda volume: volume.out_of_use is None)[:SHOWN_VOLUMES]
    rows = [
        (
            shorten(volume.volume, 60),
            plural(volume.files, "file"),
            size(volume.bytes),
            plural(volume.batches, "batch"),
            "" if volume.out_of_use is None else f"was out of use: {printable(volume.out_of_use, 1000)}",
        )
        for volume in shown
    ]
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + "  ".join(map(fit, row[:-1], widths)) + f"  {row[-1]}" for row in rows]
    more = len(volumes) - len(shown)
    return [line.rstrip() for line in lines] + ([f"  and {plural(more, 'more volume')}"] if more else [])


def _failure_lines(summary: Summary) -> list[str]:
    if not summary.files.failed:
        return []
    causes: set[str | None] = set()
    shown: list[Summary.Failure] = []
    for failure in summary.failures:
        cause = find_common_cause(failure.kind, failure.message, failure.path)
        if len(shown) < SHOWN_FAILURES and (cause is None or cause not in causes):
            shown.append(failure)
        causes.add(cause)
    lines = [f"  {plural(summary.files.failed, 'file')} failed{_allowance(summary)}:"]
    lines += [
        f"    {printable(failure.path, 120)}: {printable(failure.message, 1000)} ({failure.kind})"
        f"{failed_where(failure.url, failure.line)}"
        for failure in shown
    ]
    more = summary.files.failed - len(shown)
    return [*lines, f"    and {more:,} more"] if more > 0 else lines


def _failures_above_line(summary: Summary, named: int) -> list[str]:
    which = "named above" if named == summary.files.failed else f"{named:,} of them named above"
    return [f"  {plural(summary.files.failed, 'file')} failed{_allowance(summary)}, {which}"]


def _allowance(summary: Summary) -> str:
    return ", as --max-failures allows" if not summary.exit_code else ""


def find_common_cause(kind: str, message: str, path: str) -> str | None:
    """Find what failures of this machine have in common, as of a full disk; None: each is about its file."""
    return message.replace(path, "") if kind == LocalFault.kind else None


def failed_where(url: str | None, line: int | None) -> str:
    """The link of a failure, and its line in the manifest, if they are known."""
    return (f" from {printable(url, 1000)}" if url else "") + (f", line {line:,}" if line else "")


def _pointer_lines(summary: Summary, *, refetches: bool) -> list[str]:
    again = "run the same command again: files in place are skipped"
    if refetches:
        again = "run the same command without --existing refetch: files in place are skipped"
    if summary.exit_code == LocalFault.exit_code:
        then = f"once the cause is gone, {again}"
    elif summary.exit_code:
        from cfetch.show.remedies import find_remedy

        remedy = find_remedy(summary.failures)
        then = f"{remedy}; then {again}" if remedy else again
    else:
        then = f"cfetch report {printable(quote(summary.metrics), 1000)}" if summary.metrics else ""
    named = [f"  metrics: {printable(summary.metrics, 1000)}"] if summary.metrics else []
    return [*named, f"  next: {then}"] if then else named
