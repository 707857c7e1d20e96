"""``cfetch bench``: what mitigation is worth, measured on this machine."""

import sys
from typing import Annotated

import typer

from cfetch.cli.options import JsonOption

__all__ = ["bench"]


def bench(
    *,
    simulate_stragglers: Annotated[
        bool, typer.Option("--simulate-stragglers", help="Run the scenario `stragglers` (the default).")
    ] = False,
    scenario: Annotated[
        str | None,
        typer.Option(help="A scenario's name, or a YAML file.", metavar="NAME|FILE", show_default=False),
    ] = None,
    peers: Annotated[
        bool,
        typer.Option("--peers", help="Also run curl, aria2c, wget2 and rclone, those that are installed."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small set that ends within a minute; for CI.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compare, on one seeded workload: no stragglers, stragglers left alone, stragglers mitigated.

    A loopback origin serves the files from another process and slows some of them down.

    Examples:

      cfetch bench --simulate-stragglers

      cfetch bench --simulate-stragglers --quick --json

      cfetch bench --scenario stragglers --peers
    """
    import msgspec

    from cfetch.bench.run import BenchOptions, run
    from cfetch.errors import UsageError

    if simulate_stragglers and scenario is not None:
        raise UsageError("--simulate-stragglers is a scenario of its own; leave out one of the two")
    options = BenchOptions(scenario=scenario, quick=quick, peers=peers)
    comparison = run(options, lambda line: print(line, file=sys.stderr, flush=True))
    if json:
        sys.stdout.write(msgspec.json.encode(comparison).decode() + "\n")
        return
    from cfetch.report.bench_view import view
    from cfetch.report.tables import show

    show(view(comparison))
