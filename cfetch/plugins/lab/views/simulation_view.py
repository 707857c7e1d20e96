"""Simulated runs on a terminal: a block for each scenario, a line for each policy, and the verdict."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cfetch.plugins.lab.views.simulation_document import PolicyRow, ScenarioComparison, Simulation
from cfetch.show.format import duration, plural, size

NAME_WIDTH = 16
COLUMNS = {"makespan": 8, "/ ideal": 7, "worst": 6, "broken off": 10, "in vain": 7, "wasted": 7}
_LEGEND = (
    "virtual time; makespan and its ratio to the ideal: medians; the rest: means",
    "ideal: one stream a file, and no slow connections, stalls and faults",
    "in vain: broken off, though the network had not held it back",
    "wasted: bytes that came and are in no file, as a share of the files' bytes",
)


def view(simulation: Simulation) -> RenderableType:
    """The whole simulation, for ``Console.print``."""
    parts: list[RenderableType] = []
    for comparison in simulation.scenarios:
        parts += [_heading(comparison), _table(comparison.rows)]
        if comparison.verdict:
            parts.append(Text(comparison.verdict, style="italic"))
        parts.append(Text())
    seeds = plural(len(simulation.seeds), "seed")
    parts += [Text(line, style="dim") for line in (f"cfetch {simulation.version}, {seeds}", *_LEGEND)]
    return Group(*parts)


def _heading(comparison: ScenarioComparison) -> Text:
    about = f"{plural(comparison.files, 'file')}, {size(comparison.size_bytes)}"
    return Text.assemble(
        (comparison.scenario, "bold"),
        f": {comparison.description}\n" if comparison.description else "\n",
        (f"{about}; ideal {duration(comparison.ideal_s)}", "dim"),
    )


def _table(rows: list[PolicyRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", min_width=NAME_WIDTH, no_wrap=True)
    for label, width in COLUMNS.items():
        table.add_column(label, justify="right", min_width=width, no_wrap=True)
    for row in rows:
        table.add_row(f"  {row.policy}", *_cells(row))
        if row.not_done:
            table.add_row(Text(f"  not done: {plural(row.not_done, 'file')}", style="bold red"))
    return table


def _cells(row: PolicyRow) -> list[Text]:
    style = "red" if row.ratio_p50 > 2 else "yellow" if row.ratio_p50 > 1.1 else "green"
    return [
        Text(duration(row.makespan_s)),
        Text(f"{row.ratio_p50:.2f}", style=style),
        Text(f"{row.ratio_worst:.2f}"),
        Text(f"{row.mitigations:.1f}"),
        Text(f"{row.false_alarms:.1f}", style="red" if row.false_alarms >= 1 else ""),
        Text(f"{row.twice:.2%}"),
    ]
