"""The page of simulated runs: the makespans of all policies against a run without faults, in one chart."""

from collections.abc import Sequence

from cfetch.base.version import __version__
from cfetch.plugins.lab.views.simulation_document import (
    JUDGED,
    LEVEL,
    PolicyRow,
    ScenarioComparison,
    Simulation,
)
from cfetch.show.format import duration, plural, size
from cfetch.show.page.document import (
    AnySection,
    Cell,
    Dot,
    DotRow,
    Dots,
    PageDocument,
    PagePart,
    PageTable,
    PageVerdict,
    Tone,
)

NO_FAULTS = "a run without faults, one stream a file"


def make_simulation_page(simulation: Simulation) -> PageDocument:
    """The verdict, a line of the chart for each scenario, and a table with a row for each run."""
    comparisons = simulation.scenarios
    policies = list(dict.fromkeys(row.policy for part in comparisons for row in part.rows))
    dots = Dots(
        title="Makespans",
        note=f"medians over the seeds, divided by the makespan of {NO_FAULTS}; "
        "what is left of the line is faster than that",
        rows=[_make_dots(part, policies) for part in comparisons],
        mark=1.0,
        mark_name=NO_FAULTS,
        series=policies,
    )
    verdict = _judge(comparisons)
    sections: list[AnySection] = [*([verdict] if verdict else []), dots, _list_rows(comparisons)]
    scenarios = PageTable(
        title="Scenarios",
        columns=["scenario", ">files", ">size", ">without faults", "what happens"],
        rows=[_describe(part) for part in comparisons],
    )
    return PageDocument(
        title=f"cfetch: policies in {plural(len(comparisons), 'simulated scenario')}",
        note=f"virtual time, {plural(len(simulation.seeds), 'seed')}",
        version=__version__,
        parts=[
            PagePart(title="Overview", sections=sections),
            PagePart(title="Scenarios", sections=[scenarios]),
        ],
    )


def _judge(comparisons: Sequence[ScenarioComparison]) -> PageVerdict | None:
    """How often ``adaptive`` is the fastest policy, and where it is not; None: nothing to compare."""
    judged: list[tuple[float, ScenarioComparison]] = []
    for comparison in comparisons:
        ratios = {row.policy: row.ratio_p50 for row in comparison.rows}
        own = ratios.pop(JUDGED, None)
        if own is not None and ratios:
            judged.append((own / min(ratios.values()) - 1, comparison))
    if not judged:
        return None
    faster = sum(change < -LEVEL for change, _ in judged)
    slower = sorted(((change, part) for change, part in judged if change > LEVEL), key=lambda pair: -pair[0])
    level = len(judged) - faster - len(slower)
    text = (
        f"{JUDGED} is faster than every other policy in {faster} of {plural(len(judged), 'scenario')}, "
        f"level with the best in {level}, and slower in {len(slower)}"
    )
    if slower:
        most = "" if len(slower) == 1 else ", where it is most"
        text += f" ({slower[0][1].scenario}, by {slower[0][0]:.0%}{most})"
    lines = [f"slower in {part.scenario}: {change:.0%}" for change, part in slower[1:]]
    return PageVerdict(title="Verdict", text=f"{text}.", tone="" if slower else "good", lines=lines)


def _make_dots(comparison: ScenarioComparison, policies: Sequence[str]) -> DotRow:
    return DotRow(
        name=comparison.scenario,
        dots=[
            Dot(value=row.ratio_p50, text=f"{row.ratio_p50:.2f}", series=policies.index(row.policy))
            for row in comparison.rows
        ],
    )


def _describe(comparison: ScenarioComparison) -> list[Cell | str]:
    return [
        comparison.scenario,
        f"{comparison.files:,}",
        size(comparison.size_bytes),
        duration(comparison.ideal_s),
        "; ".join(filter(None, (comparison.description, comparison.verdict))),
    ]


def _list_rows(comparisons: Sequence[ScenarioComparison]) -> PageTable:
    return PageTable(
        title="All figures",
        note="in vain: cancelled, though the network had not held the attempt back; means over the seeds",
        columns=[
            "scenario",
            "policy",
            ">makespan",
            ">against no faults",
            ">worst",
            ">cancelled",
            ">in vain",
            ">wasted",
            ">not done",
        ],
        rows=[_make_row(part.scenario, row) for part in comparisons for row in part.rows],
        folded=True,
    )


def _make_row(scenario: str, row: PolicyRow) -> list[Cell | str]:
    return [
        scenario,
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
