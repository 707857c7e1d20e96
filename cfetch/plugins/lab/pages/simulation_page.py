"""The page of simulated runs: for each scenario the makespans of all policies against the ideal run's."""

from collections.abc import Sequence

from cfetch.base.version import __version__
from cfetch.plugins.lab.views.simulation_document import JUDGED, Comparison, Row, Simulation
from cfetch.show.format import duration, plural, size
from cfetch.show.page.document import Cell, Dot, DotRow, Dots, Page, Part, Table, Tone


def make_simulation_page(simulation: Simulation) -> Page:
    """A part for each scenario."""
    policies = list(dict.fromkeys(row.policy for part in simulation.scenarios for row in part.rows))
    verdicts = Table(
        title="Makespan against the ideal run's",
        note="medians over the seeds",
        columns=["scenario", *(f">{policy}" for policy in policies), "verdict"],
        rows=[_make_verdict_row(part, policies) for part in simulation.scenarios],
    )
    overview = Part(title="Overview", sections=[verdicts])
    return Page(
        title=f"cfetch: policies in {plural(len(simulation.scenarios), 'simulated scenario')}",
        note=f"virtual time, {plural(len(simulation.seeds), 'seed')}",
        version=__version__,
        parts=[overview, *map(_make_part, simulation.scenarios)],
    )


def _make_verdict_row(comparison: Comparison, policies: Sequence[str]) -> list[Cell | str]:
    ratios = {row.policy: row.ratio_p50 for row in comparison.rows}
    cells = [f"{ratios[policy]:.2f}" if policy in ratios else "" for policy in policies]
    return [comparison.scenario, *cells, comparison.verdict]


def _make_part(comparison: Comparison) -> Part:
    about = f"{plural(comparison.files, 'file')}, {size(comparison.size_bytes)}"
    ideal = f"ideal {duration(comparison.ideal_s)}"
    rows = [
        DotRow(
            name=row.policy,
            dots=[
                Dot(value=row.ratio_p50, low=row.ratio_p50, high=row.ratio_worst, text=f"{row.ratio_p50:.2f}")
            ],
            tone="good" if row.policy == JUDGED else "",
        )
        for row in comparison.rows
    ]
    return Part(
        title=comparison.scenario,
        note="; ".join(filter(None, (comparison.description, about, ideal))),
        sections=[
            Dots(
                title="Makespan against the ideal run's",
                note="the median over the seeds, up to the worst",
                rows=rows,
                mark=1.0,
                mark_name="the ideal run",
            ),
            Table(
                title="Policies",
                note="cancelled in vain: the network had not held the attempt back; means over the seeds",
                columns=[
                    "policy",
                    ">makespan",
                    ">/ ideal",
                    ">worst",
                    ">cancelled",
                    ">in vain",
                    ">twice",
                    ">not done",
                ],
                rows=[_make_row(row) for row in comparison.rows],
            ),
        ],
    )


def _make_row(row: Row) -> list[Cell | str]:
    return [
        row.policy,
        duration(row.makespan_s),
        f"{row.ratio_p50:.2f}",
        f"{row.ratio_worst:.2f}",
        f"{row.mitigations:.1f}",
        Cell(text=f"{row.false_alarms:.1f}", tone=_tone(row.false_alarms >= 1)),
        f"{row.twice:.2%}",
        Cell(text=str(row.not_done), tone=_tone(row.not_done > 0)),
    ]


def _tone(is_bad: bool) -> Tone:
    return "bad" if is_bad else ""
