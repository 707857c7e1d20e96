"""The pages of benches, simulations and tunings, and the command that writes them."""

from typing import Any

import msgspec

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.simulation.compare import SimulationOptions, run
from cfetch.plugins.lab.pages.bench_page import make_bench_page
from cfetch.plugins.lab.pages.simulation_page import make_simulation_page
from cfetch.plugins.lab.pages.tuning_page import make_tuning_page
from cfetch.plugins.lab.views.tuning_document import (
    Choice,
    Estimated,
    Estimates,
    HeldOut,
    Replayed,
    Score,
    SettingScore,
    Tuning,
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
            choice=Choice(
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


def test_a_bench_has_its_figures_and_the_curves_of_all_runs():
    """Each run goes by its name; bounds that do not hold come first."""
    page = bench_page()
    assert [part.title for part in page.parts] == [
        "Overview",
        "Ideal",
        "No mitigation",
        "Adaptive",
        "Settings",
    ]
    text = msgspec.json.encode(page.parts[0]).decode()
    assert text.index("it gains too little") < text.index("slowdown against ideal")
    assert '"name":"no mitigation","times_s":[64.0]' in text
    assert "25.6 times faster" in page.title


def test_a_simulation_has_a_part_for_each_scenario():
    """A dot for each policy, and all of them in one table."""
    page = simulated_page()
    assert [part.title for part in page.parts] == ["Overview", "cloudfetch-example"]
    assert [row.name for row in page.parts[1].sections[0].rows] == ["none", "cloudfetch"]


def test_a_tuning_marks_the_recommended_setting():
    """It stands in the chart and in the table, with its interval."""
    text = msgspec.json.encode(tuning_page()).decode()
    assert text.count("→ recommended") == 2
    assert "0.80 (0.70 to 0.90)" in text


def test_the_command_writes_the_page_or_says_why_not(tmp_path):
    """Exit code 3 for a place that cannot be written; the file is whole otherwise."""
    metrics = tmp_path / "m.jsonl"
    metrics.write_bytes(msgspec.json.Encoder().encode_lines([header(), record(0, 100, attempt())]))
    done = run_child([*CFETCH, "report", str(metrics), "--html", str(tmp_path / "r.html")], limit_s=60)
    assert (done.exit_code, done.output) == (0, b"")
    assert (tmp_path / "r.html").read_text().endswith("</html>\n")
    failed = run_child([*CFETCH, "report", str(metrics), "--html", str(tmp_path / "no/r.html")], limit_s=60)
    assert failed.exit_code == 3
    assert f"r.html: there is no directory {tmp_path / 'no'}" in failed.error
