"""The page of recorded runs: an overview of all, the charts of the latest, their settings."""

from collections.abc import Iterable, Sequence

import msgspec

from cfetch.base.events import ActiveAttempt
from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.show.document import RunLine
from cfetch.show.format import plural
from cfetch.show.metrics_reading import MetricsRun
from cfetch.show.page.document import AnySection, PageDocument, PagePart
from cfetch.show.page.overview import compare_runs, list_settings
from cfetch.show.page.run_names import began_at, name_runs, title_of
from cfetch.show.page.run_part import RunPart, make_times, read_run
from cfetch.show.page.verdicts import compare, find_obstacle

LEAST_S = 0.001  # of an axis
SAME_AXIS = 20  # times as long a run may be for both to be drawn on one axis
ALONE = "without mitigation (estimate)"  # the curve of the same files, left alone
CHARTED = 3  # runs with charts: a bench has as many, and more make the page heavy


def make_runs_page(runs: Iterable[MetricsRun]) -> PageDocument:
    """Read all ``runs`` to their ends, and make their page."""
    parts = [read_run(run) for run in runs]
    headers = [part.header for part in parts]
    names = name_runs(headers, [part.source for part in parts])
    note = f"{began_at(headers[0])} on {printable(headers[0].host, 60)}" if len(parts) == 1 else ""
    return PageDocument(
        title=title_of(headers), note=note, version=__version__, parts=make_parts(parts, names)
    )


def make_live_page(
    run: RunPart,
    active: Sequence[ActiveAttempt],
    now_s: float,
    tables: Sequence[AnySection] = (),
    *,
    is_over: bool = False,
    received_bytes: int = 0,
) -> PageDocument:
    """The page of a run under way, with the attempts that are ``active`` now, and further ``tables``.

    ``received_bytes``: those of attempts under way included.
    """
    line = run.line()
    elapsed_s = max(line.elapsed_s, now_s, LEAST_S)
    received_bytes = max(line.bytes, received_bytes)
    line = msgspec.structs.replace(
        line,
        elapsed_s=elapsed_s,
        complete=line.complete or not is_over,
        bytes=received_bytes,
        rate_bps=received_bytes / elapsed_s,
    )
    sections: list[AnySection] = [run.verdict(line)] if is_over else []
    sections += [compare_runs([line], ["this run"]), *tables]
    if curves := run.curves("this run", ALONE):
        sections.append(make_times(curves))
    parts = [
        PagePart(title="Overview", sections=sections),
        run.part("Run", line, shown_s=line.elapsed_s, active=active, is_over=is_over),
        PagePart(title="Settings", sections=list_settings([run.header], ["this run"])),
    ]
    return PageDocument(title="cfetch: live", note="", version=__version__, parts=parts)


def make_parts(runs: Sequence[RunPart], names: Sequence[str]) -> list[PagePart]:
    """The overview of all runs, a part for each of the latest, and their settings."""
    lines = [run.line() for run in runs]
    verdicts = [run.verdict(line) for run, line in zip(runs, lines, strict=True)]
    is_single = len(runs) == 1
    circumstances = [run.circumstances(line) for run, line in zip(runs, lines, strict=True)]
    first = verdicts[0] if is_single else compare(lines, names, verdicts, circumstances)
    is_comparable = len(runs) == 2 and find_obstacle(lines, names, circumstances) is None
    sections: list[AnySection] = [first, compare_runs(lines, names, is_comparable=is_comparable)]
    latest = range(max(0, len(runs) - CHARTED), len(runs))
    alone = ALONE if is_single else ""
    curves = [curve for index in latest for curve in runs[index].curves(names[index], alone)]
    if curves:
        sections.append(make_times(curves))
    settings = list_settings([runs[index].header for index in latest], [names[index] for index in latest])
    left = len(runs) - len(latest)
    note = f"charts of the latest {CHARTED} runs; {plural(left, 'run')} only in the table" if left else ""
    return [
        PagePart(title="Overview", note=note, sections=sections),
        *(
            runs[index].part(
                "Run" if is_single else names[index],
                lines[index],
                shown_s=shown_s,
                verdict=None if is_single else verdicts[index],
            )
            for index, shown_s in zip(latest, _choose_axes([lines[index] for index in latest]), strict=True)
        ),
        PagePart(title="Settings", sections=settings),
    ]


def _choose_axes(lines: Sequence[RunLine]) -> list[float]:
    """The seconds that the charts of each run show: the same, unless the longest run would hide others."""
    ends_s = [max(line.elapsed_s, LEAST_S) for line in lines]
    longest_s = max(ends_s, default=LEAST_S)
    return [longest_s if longest_s <= SAME_AXIS * end_s else end_s for end_s in ends_s]
