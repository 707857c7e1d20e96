"""A bench without faults on a terminal: a table with a block for each set, a line for each tool."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cfetch.base.schemes import HTTP, HTTPS
from cfetch.plugins.lab.views.bench_document import CleanBench, CleanSet, Contender
from cfetch.show.format import count, plural, size

_COLUMNS = ("", "wall", "all rounds", "/ curl", "CPU a file", "whole")


def view(bench: CleanBench) -> RenderableType:
    """The whole bench, for ``Console.print``."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for label in _COLUMNS:
        table.add_column(label, justify="right" if label else "left", no_wrap=True)
    for clean in bench.sets:
        table.add_row(Text(f"{plural(clean.files, 'file')}, {size(clean.size_bytes)}", style="bold"))
        for contender in clean.contenders:
            table.add_row(*_list_cells(contender, clean))
    return Group(_draw_heading(bench), Text(), table)


def _draw_heading(bench: CleanBench) -> Text:
    machine = bench.machine
    return Text(
        f"served by {bench.server} over {HTTPS if bench.tls else HTTP}; {plural(bench.rounds, 'round')}; "
        f"cfetch {bench.version}, Python {machine.python}, {plural(machine.cpus, 'CPU')}",
        style="dim",
    )


def _list_cells(contender: Contender, clean: CleanSet) -> list[Text]:
    """The cells of one tool's line, in the order of ``_COLUMNS``."""
    walls_s = [trial.wall_s for trial in contender.trials]
    killed = "killed, >" if any(trial.killed for trial in contender.trials) else ""
    right = min(trial.right for trial in contender.trials)
    curl_s = next((other.wall_s for other in clean.contenders if other.name == "curl -Z"), None)
    return [
        Text(f"  {contender.name}", style="bold" if contender.name == "cfetch" else ""),
        Text(f"{killed}{contender.wall_s:.2f} s"),
        Text(f"{min(walls_s):.2f}-{max(walls_s):.2f}"),
        Text("" if curl_s is None else f"{contender.wall_s / curl_s:.2f}"),
        Text(f"{contender.cpu_s / clean.files * 1000:.3f} ms"),
        Text(f"{count(right)}/{count(clean.files)}", style="bold red" if right < clean.files else ""),
    ]
