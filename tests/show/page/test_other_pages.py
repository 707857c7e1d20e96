"""The pages of benches, simulations and tunings, and the command that writes them."""

from typing import Any

import msgspec

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.simulation.compare import SimulationOptions, run
from cfetch.plugins.lab.pages.bench_page import make_bench_page
from cfetch.plugins.lab.pages.simulation_page import make_simulation_page
from cfetch.plugins.lab.pages.tuning_page import make_tuning_page
from cfetch.plugins.lab.views.simulation_document import PolicyRow, ScenarioComparison, Simulation
from cfetch.plugins.lab.views.tuning_document import (
    Estimated,
    Estimates,
    HeldOut,
    Replayed,
    Score,
    SettingScore,
    Tuning,
    TuningChoice,
    Values,
)
from cfetch.show.page.run_part import read_run
from tests.plugins.lab.bench.test_view import RUNS, compare
from tests.show.page.runs import header, recorded
from tests.show.records import attempt, record


def simulated_page():
    options = SimulationOptions(scenarios=("cloudfetch-example",), seeds=1, policies=("none", "cloudfetch"))
    return make_simulation_page(run(options))


def bench_page():
    runs = [recorded([record(0, 100, attempt(end_s=end_s))]) for end_s in (1.0, 64.0, 2.5)]
    broken = msgspec.structs.replace(compare(RUNS), broken=["it gains too little"])
    return make_bench_page(broken, [read_run(each) for each in runs])


def tuning_page():
    ratio = Estimated(mean=0.8, low=0.7, high=0.9)
    names = ("makespan_s", "ratio", "false_alarms", "twice_bytes")
    score: dict[str, Any] = {"flagged": 1.0, **dict.fromkeys(names, ratio)}
    default, best = Values(multiplier=1.5), Values(multiplier=2.0)
    return make_tuning_page(
        Tuning(
            version="1",
            engine="local",
            policy="adaptive",
            leave="",
            remarks=["only ten runs"],
            rule="r",
            default=default,
            choice=TuningChoice(
                recommended=best,
                ratio=ratio,
                recorded=ratio,
                promise_s=ratio,
                held_out=HeldOut(folds=3, ratio=ratio, picks=[]),
            ),
            settings=[SettingScore(values=values, front=True, **score) for values in (default, best)],
            unmitigated=Score(**score),
            runs=[
                Replayed(
                    source="m.jsonl",
                    instant="i",
                    files=9,
                    finished=9,
                    workers=4,
                    policy="adaptive",
                    recorded_s=9.0,
                    replayed_s=8.0,
                )
            ],
            left_out=[],
            estimates=Estimates(by_rate=0, by_stall_rule=0, drawn=0),
            hosts=[],
            hosts_left_out=[],
        )
    )


def policies_page():
    """Adaptive wins in one scenario, is level in another, loses in a third."""
    row = {"makespan_s": 1.0, "ratio_worst": 1.0, "mitigations": 0.0, "false_alarms": 0.0, "twice": 0.0}
    scenarios = [
        ScenarioComparison(
            scenario=name,
            description="",
            files=1,
            size_bytes=1,
            ideal_s=1.0,
            rows=[
                PolicyRow(policy="none", ratio_p50=1.0, not_done=0, **row),
                PolicyRow(policy="adaptive", ratio_p50=ratio, not_done=0, **row),
            ],
            verdict="",
        )
        for name, ratio in (("won", 0.5), ("level", 1.01), ("lost", 1.3))
    ]
    return make_simulation_page(Simulation(version="1", seeds=[1], scenarios=scenarios, runs=[]))


def test_a_bench_has_its_figures_and_the_curves_of_all_runs():
    """Each run goes by its name; the page begins with the gain and the bounds that do not hold."""
    page = bench_page()
    assert [part.title for part in page.parts] == [
        "Overview",
        "no faults",
        "no mitigation",
        "adaptive",
        "Settings",
    ]
    text = msgspec.json.encode(page.parts[0]).decode()
    assert text.index("it gains too little") < text.index("against no faults")
    assert "25.6 times faster: 2.5s with policy adaptive, 1m 04s without" in page.parts[0].sections[0].text
    assert '"name":"no mitigation","times_s":[64.0]' in text


def test_a_simulation_is_one_chart_with_a_line_for_each_scenario():
    """A dot for each policy, named; all figures in one table; no verdict on a policy that was not run."""
    page = simulated_page()
    dots, figures = page.parts[0].sections
    assert [row.name for row in dots.rows] == ["cloudfetch-example"]
    assert [dots.series[dot.series] for dot in dots.rows[0].dots] == ["none", "cloudfetch"]
    assert [row[1] for row in figures.rows] == ["none", "cloudfetch"]


def test_the_verdict_on_policies_counts_where_the_judged_one_wins_and_names_where_it_does_not():
    """A difference of 2 % counts as level."""
    said = policies_page().parts[0].sections[0].text
    assert said.startswith(
        "adaptive is faster than every other policy in 1 of 3 scenarios, level with the best in 1"
    )
    assert "slower in 1 (lost, by 30%)" in said


def test_a_tuning_marks_the_recommended_setting():
    """In the first sentence, with its command; in the chart and the table; each remark stands there once."""
    page = tuning_page()
    verdict, command, *_ = page.parts[0].sections
    assert verdict.text.startswith(
        "Set multiplier 2: such a run takes about 0.8s, 20% less than with the default"
    )
    assert command.command == "cfetch download MANIFEST --policy adaptive --multiplier 2"
    text = msgspec.json.encode(page).decode()
    assert text.count("only ten runs") == 1
    assert text.count("→ recommended") == 2
    assert "0.80 (0.70 to 0.90)" in text


def test_the_command_writes_the_page_or_says_why_not(tmp_path):
    """Exit code 3 for a place that cannot be written; the file is whole otherwise."""
    metrics = tmp_path / "m.jsonl"
    metrics.write_bytes(msgspec.json.Encoder().encode_lines([header(), record(0, 100, attempt())]))
    done = run_child([*CFETCH, "report", str(metrics), "--html", str(tmp_path / "r.html")], limit_s=60)
    assert (done.exit_code, done.output) == (0, b"")
    assert done.error.rstrip().endswith(f"cfetch: the page is in {tmp_path / 'r.html'}; open it in a browser")
    assert (tmp_path / "r.html").read_text().endswith("</html>\n")
    failed = run_child([*CFETCH, "report", str(metrics), "--html", str(tmp_path / "no/r.html")], limit_s=60)
    assert failed.exit_code == 3
    assert f"r.html: there is no directory {tmp_path / 'no'}" in failed.error
