"""``cfetch bench``: measure on this machine how much mitigation gains."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cfetch.cli.output import print_message, print_progress, print_tables
from cfetch.cli.verb_options import HtmlOption, JsonOption

if TYPE_CHECKING:
    from cfetch.base.errors import Interrupted
    from cfetch.plugins.lab.bench.clean import CleanOptions
    from cfetch.plugins.lab.bench.run import BenchOptions


SimulateStragglersOption = Annotated[
    bool, typer.Option("--simulate-stragglers", help="Run the scenario `stragglers` (the default).")
]
SimulateOption = Annotated[
    bool, typer.Option("--simulate", help="Compare policies in virtual time, over all scenarios made for it.")
]
CleanOption = Annotated[
    bool,
    typer.Option(
        "--clean",
        help="Measure cfetch beside curl on small, medium and large files without any fault, five rounds "
        "in turn; nginx serves them where it is installed.",
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="With --clean: over https.")]
ScenarioOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A scenario's name, or a YAML file; with --simulate and --clean also several.",
        metavar="NAME|FILE",
        show_default=False,
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        help="Runs of each scenario and policy with --simulate (default: 5; --quick: 1).",
        min=1,
        max=1000,
        show_default=False,
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        help="The policy, with its defaults in place of the scenario's options; with --simulate, one more.",
        metavar="NAME",
        show_default=False,
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        "-j",
        help="Connections at a time, in place of the scenario's.",
        metavar="N",
        min=1,
        max=1000,
        show_default=False,
    ),
]
PeersOption = Annotated[
    bool, typer.Option("--peers", help="Also run curl, aria2c, wget2, rclone and s5cmd, where installed.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="A small set that ends within a minute; for CI.")]
MustOption = Annotated[
    float | None,
    typer.Option(
        help="Exit with 1 if the run with mitigation is not at least X times faster than the one without it "
        "(wall times of both processes: 1.3 is 10 s in place of 13 s).",
        metavar="X",
        min=0,
        show_default=False,
    ),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        help="Write the verdict as a JUnit report, which CI systems show as tests.",
        metavar="FILE",
        show_default=False,
    ),
]
ServeOption = Annotated[
    str | None,
    typer.Option(
        help="Show the runs live as a page at this address (extra `serve`); port 0 takes a free one.",
        metavar="[HOST:]PORT",
        show_default=False,
    ),
]


def bench(
    *,
    ctx: typer.Context,
    simulate_stragglers: SimulateStragglersOption = False,  # noqa: ARG001 - the default; looked at in ctx
    simulate: SimulateOption = False,
    clean: CleanOption = False,
    tls: TlsOption = False,
    scenario: ScenarioOption = None,
    seeds: SeedsOption = None,
    policy: PolicyOption = None,
    concurrency: ConcurrencyOption = None,
    peers: PeersOption = False,
    quick: QuickOption = False,
    must: MustOption = None,
    junit: JunitOption = None,
    serve: ServeOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Measure mitigation on this machine: one workload without stragglers, with them, and with mitigation.

    A loopback server in another process serves the files and slows some of them down. With --simulate there
    is no server: the engine runs in virtual time over a model of the network, under every policy. With
    --clean nothing goes wrong, and curl is the measure.

    The exit code is 1 if a file is wrong that a run calls done, if mitigation fails files that come without
    it, or if it wastes more than 5 % of all bytes; with --must also if it gains too little.

    Examples:

      cfetch bench --simulate-stragglers

      cfetch bench --simulate-stragglers --quick --must 1.3 --json

      cfetch bench --scenario stragglers --peers

      cfetch bench --clean --tls

      cfetch bench --simulate --seeds 20 --html policies.html
    """
    from cfetch.plugins.lab.bench.clean import CleanOptions
    from cfetch.plugins.lab.bench.run import BenchOptions
    from cfetch.run.signals import listen

    _refuse_useless("clean" if clean else "simulate" if simulate else "compare", ctx.params)
    scenarios = scenario or []
    with listen(_interrupt):  # SIGTERM alone would leave gigabytes of files and the server
        if clean:
            _measure_clean(CleanOptions(scenarios=tuple(scenarios), quick=quick, peers=peers, tls=tls), json)
        elif simulate:
            _simulate(scenarios, seeds or (1 if quick else None), policy, html, json)
        else:
            single = next(iter(scenarios), None)
            options = BenchOptions(
                scenario=single, concurrency=concurrency, policy=policy, quick=quick, peers=peers, must=must
            )
            _compare(options, serve, html, junit, json)


_USELESS = {  # by mode: the reason why options have no effect, and their parameters
    "clean": (
        "--clean has no stragglers and no page",
        (
            "simulate",
            "simulate_stragglers",
            "seeds",
            "policy",
            "concurrency",
            "must",
            "junit",
            "html",
            "serve",
        ),
    ),
    "simulate": (
        "--simulate runs no other tool, has its scenarios' connections, and no wall times or live page",
        ("simulate_stragglers", "concurrency", "must", "junit", "peers", "tls", "serve"),
    ),
    "compare": (
        "several scenarios or seeds are for --simulate, and --tls is for --clean",
        ("seeds", "tls"),
    ),
}


def _refuse_useless(mode: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError if an option is given that has no effect in this mode."""
    from cfetch.base.errors import UsageError

    scenarios = given.get("scenario") or ()
    if given.get("simulate_stragglers") and scenarios:
        raise UsageError("--simulate-stragglers is a scenario of its own; leave out one of the two")
    reason, names = _USELESS[mode]
    useless = [f"--{name.replace('_', '-')}" for name in names if given.get(name) not in (None, False)]
    if mode == "compare" and len(scenarios) > 1:
        useless.append("all but one --scenario")
    if useless:
        raise UsageError(f"{reason}; leave out {' and '.join(useless)}")


def _compare(
    options: "BenchOptions", serve: str | None, html: Path | None, junit: Path | None, json: bool
) -> None:
    from cfetch.plugins.lab.bench.run import run
    from cfetch.plugins.lab.pages.bench_page import make_bench_page
    from cfetch.plugins.lab.views.bench_view import view
    from cfetch.plugins.monitors.serving import open_serving
    from cfetch.show.metrics_reading import MetricsRun
    from cfetch.show.page.html import write_html
    from cfetch.show.page.run_part import RunPart, read_run
    from cfetch.storage.outputs import find_output

    parts: list[RunPart] = []
    for file in filter(None, (html, junit)):
        find_output(file)

    def keep_run(recorded: MetricsRun) -> None:
        if html is not None:
            parts.append(read_run(recorded))

    names = ("ideal", "no mitigation", "mitigated")
    with open_serving(serve, names=names) as served:
        comparison = run(options, print_progress, keep_run, None if serve is None else served)
    if html is not None:
        write_html(make_bench_page(comparison, parts), html)
    if junit is not None:
        from cfetch.plugins.lab.views.junit import make_junit
        from cfetch.storage.outputs import open_output

        with open_output(junit, private=False) as out:
            out.write(make_junit(comparison))
    print_tables(comparison, view, json=json)
    _end(comparison.broken)


def _measure_clean(options: "CleanOptions", json: bool) -> None:
    from cfetch.plugins.lab.bench.clean import run
    from cfetch.plugins.lab.views.clean_view import view

    clean = run(options, print_progress)
    print_tables(clean, view, json=json)
    _end(clean.broken)


def _simulate(
    scenarios: list[str], seeds: int | None, policy: str | None, html: Path | None, json: bool
) -> None:
    from cfetch.plugins.lab.bench.simulation.compare import POLICIES, SEEDS, SimulationOptions, run
    from cfetch.plugins.lab.views.simulation_view import view
    from cfetch.storage.outputs import find_output

    policies = POLICIES if policy is None else tuple(dict.fromkeys((*POLICIES, policy)))
    if html is not None:
        find_output(html)
    options = SimulationOptions(scenarios=tuple(scenarios), seeds=seeds or SEEDS, policies=policies)
    simulation = run(options, print_progress)
    if html is not None:
        from cfetch.plugins.lab.pages.simulation_page import make_simulation_page
        from cfetch.show.page.html import write_html

        write_html(make_simulation_page(simulation), html)
    print_tables(simulation, view, json=json)


def _interrupt(interrupted: "Interrupted") -> None:
    """Unwind from the signal's handler, so that all that the bench has made is removed."""
    raise typer.Exit(128 + interrupted.signal_number)


def _end(broken: list[str]) -> None:
    """End with exit code 1 if any bound does not hold."""
    for sentence in broken:
        print_message(sentence)
    if broken:
        raise typer.Exit(1)
