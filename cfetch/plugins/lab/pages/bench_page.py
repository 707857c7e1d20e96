"""The page of a bench: its figures side by side, file times in one chart, and the charts of each run."""

from collections.abc import Sequence

from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.lab.views.bench_document import Comparison, Contender
from cfetch.plugins.lab.views.bench_view import NAMES, ROWS
from cfetch.show.format import count, duration, plural, size
from cfetch.show.page.document import AnySection, Cell, Lines, Page, Part, Table
from cfetch.show.page.run_part import RunPart
from cfetch.show.page.runs_page import make_parts


def make_bench_page(comparison: Comparison, runs: Sequence[RunPart]) -> Page:
    """The page of ``comparison``; ``runs`` are its recorded runs, in the order of its figures."""
    names = [NAMES.get(run.name, comparison.policy) for run in comparison.runs]
    overview, *parts = make_parts(runs, names)
    times = [section for section in overview.sections if section.title.startswith("Time")]
    sections: list[AnySection] = [_list_figures(comparison, names), *times]
    if comparison.broken:
        sections.insert(0, Lines(title="✗ Bounds that do not hold", lines=comparison.broken))
    if comparison.contenders:
        sections.append(_list_contenders(comparison.contenders, comparison.files))
    machine = comparison.machine
    note = (
        f"{plural(comparison.files, 'file')}, {size(comparison.size_bytes)}, {comparison.faulty} faulty, "
        f"{plural(comparison.concurrency, 'connection')}, seed {comparison.seed}; {machine.platform}, "
        f"Python {machine.python}, {plural(machine.cpus, 'CPU')}"
    )
    return Page(
        title=f"cfetch bench: {printable(comparison.scenario, 60)}, {comparison.gain:.1f} times faster",
        note=printable(comparison.description, 400),
        version=__version__,
        parts=[Part(title="Overview", note=printable(note, 400), sections=sections), *parts],
    )


def _list_figures(comparison: Comparison, names: Sequence[str]) -> Table:
    longest_s = max(run.wall_s for run in comparison.runs)
    (wall_label, wall_text), *others = ROWS
    walls = [Cell(text=wall_text(run), bar=round(run.wall_s / longest_s, 3)) for run in comparison.runs]
    rows: list[list[Cell | str]] = [[wall_label, *walls]]
    rows += [[label, *(text(run) for run in comparison.runs)] for label, text in others]
    done = [
        Cell(text=f"{count(run.done)}", tone="bad" if run.failed or run.wrong else "")
        for run in comparison.runs
    ]
    rows.append(["files done", *done])
    return Table(title="Three runs of one workload", columns=["", *(f">{name}" for name in names)], rows=rows)


def _list_contenders(contenders: Sequence[Contender], files: int) -> Table:
    longest_s = max(contender.wall_s for contender in contenders)
    return Table(
        title="Other tools",
        note="on the workload with faults; medians over the rounds",
        columns=["tool", "version", "wall", ">CPU", ">files whole", "command"],
        rows=[
            [
                contender.name,
                printable(contender.version, 60),
                Cell(text=duration(contender.wall_s), bar=round(contender.wall_s / longest_s, 3)),
                duration(contender.cpu_s),
                f"{min(trial.right for trial in contender.trials):,} of {files:,}",
                printable(contender.command, 400),
            ]
            for contender in contenders
        ],
    )
