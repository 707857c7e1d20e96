"""The page of a bench: its figures side by side, file times in one chart, and the charts of each run."""

from collections.abc import Sequence

from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.lab.views.bench_document import Comparison, Contender
from cfetch.plugins.lab.views.bench_view import LEVEL, ROWS, sum_up
from cfetch.show.format import count, duration, plural, size
from cfetch.show.page.document import AnySection, Cell, PageDocument, PagePart, PageTable, PageVerdict, Tone
from cfetch.show.page.run_part import RunPart
from cfetch.show.page.runs_page import make_parts

NAMES = {"ideal": "no faults", "none": "no mitigation"}  # a run has an ideal of its own on its page
# names that a phone shows on one line
_SHORT = {f"time per file, {part}": f"file time {part}" for part in ("p50", "p95", "p99", "max")}


def make_bench_page(comparison: Comparison, runs: Sequence[RunPart]) -> PageDocument:
    """The page of ``comparison``; ``runs`` are its recorded runs, in the order of its figures."""
    names = [NAMES.get(run.name, printable(comparison.policy, 40)) for run in comparison.runs]
    overview, *parts = make_parts(runs, names)
    times = [section for section in overview.sections if section.title.startswith("Time")]
    sections: list[AnySection] = [_judge(comparison), _list_figures(comparison, names), *times]
    if comparison.contenders:
        sections.append(_list_contenders(comparison.contenders, comparison.files))
    machine = comparison.machine
    note = (
        f"{plural(comparison.files, 'file')}, {size(comparison.size_bytes)}, {comparison.faulty} faulty, "
        f"{plural(comparison.concurrency, 'connection')}, seed {comparison.seed}; {machine.platform}, "
        f"Python {machine.python}, {plural(machine.cpus, 'CPU')}"
    )
    return PageDocument(
        title=f"cfetch bench: {printable(comparison.scenario, 60)}",
        note=". ".join(filter(None, (printable(comparison.description, 400), printable(note, 400)))),
        version=__version__,
        parts=[PagePart(title="Overview", sections=sections), *parts],
    )


def _judge(comparison: Comparison) -> PageVerdict:
    """What mitigation was worth; then the bounds that do not hold."""
    broken = [f"✗ {sentence}" for sentence in comparison.broken]
    tone: Tone = "bad" if broken else "good" if comparison.gain >= LEVEL else ""
    return PageVerdict(title="Verdict", text=sum_up(comparison), tone=tone, lines=broken)


def _list_figures(comparison: Comparison, names: Sequence[str]) -> PageTable:
    longest_s = max(run.wall_s for run in comparison.runs)
    (wall_label, wall_text), (_, slowdown_text), *others = ROWS
    walls = [Cell(text=wall_text(run), bar=round(run.wall_s / longest_s, 3)) for run in comparison.runs]
    rows: list[list[Cell | str]] = [[wall_label, *walls]]
    rows.append(["against no faults", *(slowdown_text(run) for run in comparison.runs)])
    for label, text in others:  # a terminal's lines for one thing are indented; here each has its whole name
        name = f"time per file, {label.strip()}" if label.startswith(" ") else label
        rows.append([_SHORT.get(name, name), *(text(run) for run in comparison.runs)])
    done = [
        Cell(text=f"{count(run.done)}", tone="bad" if run.failed or run.wrong else "")
        for run in comparison.runs
    ]
    rows.append(["files done", *done])
    columns = ["", *(f">{name}" for name in names)]
    return PageTable(title="Three runs of one workload", columns=columns, rows=rows, small=True)


def _list_contenders(contenders: Sequence[Contender], files: int) -> PageTable:
    longest_s = max(contender.wall_s for contender in contenders)
    return PageTable(
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
