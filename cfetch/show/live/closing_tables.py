"""Among the last lines of a run: one for each volume, if there are several, and its failures by cause."""

from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.show.format import cells, failed_where, fit, kind_word, plural, shorten, size

SHOWN_CAUSES = 5  # with their examples, half a screen; the rest is in the metrics file
SHOWN_VOLUMES = 8  # --json has all of them


def volume_lines(summary: Summary) -> list[str]:
    """One line for each volume, if there are several: what ``VolumeTally`` counts, why it was out of use."""
    volumes = summary.volumes or []
    shown = volumes
    if len(volumes) > SHOWN_VOLUMES:
        shown = sorted(volumes, key=lambda volume: volume.out_of_use is None)[:SHOWN_VOLUMES]
    rows = [
        (
            shorten(volume.volume, 60),
            plural(volume.files, "file"),
            size(volume.bytes),
            plural(volume.batches, "new batch"),
            "" if volume.out_of_use is None else f"was out of use: {printable(volume.out_of_use, 1000)}",
        )
        for volume in shown
    ]
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + "  ".join(map(fit, row[:-1], widths)) + f"  {row[-1]}" for row in rows]
    more = len(volumes) - len(shown)
    return [line.rstrip() for line in lines] + ([f"  and {plural(more, 'more volume')}"] if more else [])


def failure_lines(summary: Summary, *, are_named: bool) -> list[str]:
    """A line or two for each cause: how many files, why, and an example, unless the log has named them."""
    if not summary.files.failed:
        return []
    if summary.files.total == 1:
        return [] if are_named else [_describe_failure(failure) for failure in summary.failures]
    from cfetch.show.causes import group_by_cause  # nothing fails in most runs

    causes = group_by_cause(summary.failures)
    lines = [f"  {plural(summary.files.failed, 'file')} failed{_allowance(summary)}:"]
    for files, example in causes[:SHOWN_CAUSES]:
        if files == 1 and not are_named:
            lines.append(f"    {_describe_failure(example)}")
            continue
        lines.append(f"    {plural(files, 'file')}: {_describe_reason(example)}")
        if not are_named:
            where = failed_where(example.url, example.line)
            lines.append(f"      such as {printable(example.path, 120)}{where}")
    more = sum(cause.files for cause in causes[SHOWN_CAUSES:]) + summary.files.failed - len(summary.failures)
    return [*lines, f"    and {plural(more, 'more file')}"] if more > 0 else lines


def _describe_failure(failure: Summary.Failure) -> str:
    where = failed_where(failure.url, failure.line)
    return f"{printable(failure.path, 120)}: {_describe_reason(failure)}{where}"


def _describe_reason(failure: Summary.Failure) -> str:
    return f"{printable(failure.message, 1000)} ({kind_word(failure.kind, failure.http_status)})"


def _allowance(summary: Summary) -> str:
    return ", as --max-failures allows" if not summary.exit_code else ""
