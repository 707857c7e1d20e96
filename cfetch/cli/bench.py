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
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate", help="Compare policies in virtual time, in all scenarios that are made for it."
        ),
    ] = False,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="A scenario's name, or a YAML file; with --simulate also several.",
            metavar="NAME|FILE",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Runs of each scenario and policy with --simulate (default: 5; --quick: 1).",
            min=1,
            max=1000,
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="How stragglers are recognised, and none of the scenario's options: cloudfetch or adaptive.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    peers: Annotated[
        bool,
        typer.Option("--peers", help="Also run curl, aria2c, wget2, rclone and s5cmd, where installed."),
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

      cfetch bench --simulate --seeds 20
    """
    import msgspec

    from cfetch.bench.run import BenchOptions, run
    from cfetch.errors import UsageError

    if simulate_stragglers and scenario is not None:
        raise UsageError("--simulate-stragglers is a scenario of its own; leave out one of the two")
    if simulate:
        if peers or simulate_stragglers or policy is not None:
            raise UsageError("--simulate runs no other tool and all policies; leave out the other options")
        _simulate(scenario or [], seeds or (1 if quick else None), json)
        return
    if seeds is not None or len(scenario or []) > 1:
        raise UsageError("several scenarios or seeds are for --simulate")
    options = BenchOptions(
        scenario=scenario[0] if scenario else None, policy=policy, quick=quick, peers=peers
    )
    comparison = run(options, lambda line: print(line, file=sys.stderr, flush=True))
    if json:
        sys.stdout.write(msgspec.json.encode(comparison).decode() + "\n")
        return
    from cfetch.report.bench_view import view
    from cfetch.report.tables import show

    show(view(comparison))


def _simulate(scenarios: list[str], seeds: int | None, json: bool) -> None:
    import msgspec

    from cfetch.bench.simulation.compare import SEEDS, SimulationOptions, run

    options = SimulationOptions(scenarios=tuple(scenarios), seeds=seeds or SEEDS)
    simulation = run(options, lambda line: print(line, file=sys.stderr, flush=True))
    if json:
        sys.stdout.write(msgspec.json.encode(simulation).decode() + "\n")
        return
    from cfetch.report.simulation_view import view
    from cfetch.report.tables import show

    show(view(simulation))
