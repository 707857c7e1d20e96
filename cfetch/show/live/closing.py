"""The last lines of a run: its results, its failures and their reasons, the metrics, the next command."""

from shlex import quote
from signal import Signals

from cfetch.base.errors import LocalFault
from cfetch.base.records import EndRecord, Summary, Tail
from cfetch.base.secret import printable
from cfetch.show.format import duration, plural, rate, saving_text, size

LEAST_SHARE = 0.0005  # a smaller share is shown as zero

_HEADLINES = {"completed": "done", "partial": "partly done", "failed": "failed", "interrupted": "interrupted"}


def closing_lines(
    summary: Summary,
    stopping: str | None = None,
    *,
    failures_named: int = 0,
    end: EndRecord | None = None,
    refetches: bool = False,
    failures: object = None,
    streamed: bool = False,
) -> list[str]:
    """The summary as printable lines for a person, the verdict last, where a terminal shows it.

    ``stopping`` is why the run ended early, ``failures_named`` how many failures the log has named already,
    ``end`` has the cause that decided the run's end, ``refetches``: it fetched files in place again. In the
    file ``failures`` is the list of what failed.
    ``streamed``: the files were handed to a reader, and are nowhere now.
    """
    if summary.status == "completed" and not summary.files.total:
        return ["done: there was nothing to download"]
    received = f"{size(summary.bytes.fetched)} in {duration(summary.elapsed_s)} ({rate(summary.rate_bps)})"
    if not summary.bytes.fetched:
        received = f"nothing received in {duration(summary.elapsed_s)}"
    why = [f"  {reason}"] if (reason := _stop_reason(summary, stopping)) else []
    counted = _count_in_place(summary, streamed=streamed)
    head = f"{_choose_headline(summary, stopping)}: {counted}, {received}"
    is_alone = summary.files.total == summary.files.failed == 1  # then its own line says all
    volumes, causes = [], []
    if summary.volumes or summary.files.failed:
        # most runs have one volume, and no failure
        from cfetch.show.live.closing_tables import failure_lines, volume_lines

        volumes = volume_lines(summary)
        causes = failure_lines(summary, are_named=failures_named > 0)
    return [
        *volumes,
        *causes,
        *_event_lines(summary),
        *([] if is_alone else _end_lines(end, is_one=summary.files.total == 1)),
        *([f"  failures: {printable(str(failures), 1000)}"] if failures and summary.files.failed else []),
        *_pointer_lines(summary, refetches=refetches, streamed=streamed, alone=is_alone, stopping=stopping),
        *why,
        head,
    ]


def _choose_headline(summary: Summary, stopping: str | None) -> str:
    """The verdict. A run that stopped early with exit code 1 has passed its deadline."""
    is_late = summary.status == "failed" and stopping is not None and summary.exit_code == 1
    if _is_ended_by_fault(summary):
        return "ended by a fault"  # "partly done: 300 of 300 files" would contradict itself
    if isinstance(summary.completed_by_other, int):
        return "completed by another run"
    if summary.status == "partial" and not summary.exit_code:
        return _HEADLINES["completed"]
    return "out of time" if is_late else _HEADLINES[summary.status]


def _is_ended_by_fault(summary: Summary) -> bool:
    """Whether all files are in place, and yet the run has not ended well."""
    files = summary.files
    return summary.status == "partial" and files.done + files.skipped == files.total


def closing_line(summary: Summary, stopping: str | None = None) -> str:
    """The summary in one line, for a log of errors only."""
    failed = f"{summary.files.failed:,} of {plural(summary.files.total, 'file')} failed"
    parts = [
        _stop_reason(summary, stopping),
        failed if summary.files.failed else _count_in_place(summary),
        f"metrics: {printable(summary.metrics, 1000)}" if summary.metrics else "",
    ]
    return "; ".join(part for part in parts if part)


def _count_in_place(summary: Summary, *, streamed: bool = False) -> str:
    files = summary.files
    if isinstance(summary.completed_by_other, int):
        whole = f"{summary.completed_by_other:,} of {plural(files.total, 'file')} in place"
        return f"{whole} by another run, {files.done:,} by this one"
    where = "handed over" if streamed else "in place"
    return f"{files.done + files.skipped:,} of {plural(files.total, 'file')} {where}"


def _stop_reason(summary: Summary, stopping: str | None) -> str:
    """The reason why the run ended early."""
    if summary.status == "interrupted":
        return f"stopped by {Signals(summary.exit_code - 128).name}"
    if stopping is None and _is_ended_by_fault(summary) and isinstance(summary.reason, str):
        stopping = summary.reason
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
        (stragglers.cancelled, saving_text(stragglers.saved_s)),
        (summary.bytes.wasted, _wasted_text(summary.bytes)),
        (fallback.triggered, f"fell back to one at a time{', then recovered' if fallback.restored else ''}"),
    ]
    texts = [text for present, text in facts if present and text]
    return [f"  {', '.join(texts)}"] if texts else []


def _end_lines(end: EndRecord | None, *, is_one: bool) -> list[str]:
    """The cause that decided the end, and advice. Of the only file (``is_one``) the verdict says all else."""
    if end is None or end.tail == Tail():
        return []
    from cfetch.show.ending_text import MitigationSetup, explain_tail, find_advice

    setup = MitigationSetup(end.policy, end.widths, end.most)
    if is_one and end.tail.bound == "large file" and find_advice(end.tail, setup) is None:
        return []
    lines = explain_tail(end.tail, setup)
    return [f"  {line}" for line in lines]


def _wasted_text(came: Summary.Bytes) -> str:
    share = came.wasted / max(came.fetched, 1)
    return f"{size(came.wasted)} wasted" + (f" ({100 * share:.1f} %)" if share >= LEAST_SHARE else "")


def _pointer_lines(
    summary: Summary, *, refetches: bool, streamed: bool, alone: bool, stopping: str | None
) -> list[str]:
    again = "run the same command again: files in place are skipped"
    if alone:
        again = "run the same command again"
    if streamed:
        again = "run the same command again: all files are fetched anew"
    elif refetches:
        again = "run the same command without --existing refetch: files in place are skipped"
    if summary.exit_code == LocalFault.exit_code:
        then = "" if "the same command" in (stopping or "") else f"once the cause is gone, {again}"
    elif summary.exit_code:
        from cfetch.show.remedies import find_remedy, is_plain_refusal

        if alone and is_plain_refusal(summary.failures):
            return []
        remedy = find_remedy(summary.failures)
        then = f"{remedy}; then {again}" if remedy else again
    else:
        then = f"cfetch report {printable(quote(summary.metrics), 1000)}" if summary.metrics else ""
    named = [f"  metrics: {printable(summary.metrics, 1000)}"] if summary.metrics and not alone else []
    return [*named, f"  next: {then}"] if then else named
