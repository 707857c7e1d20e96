"""The verdict of a bench for CI: a JUnit report, and the jobs of docs/ci.md."""

import re
from pathlib import Path
from xml.etree.ElementTree import fromstring

import msgspec
import pytest
import yaml

from cfetch.plugins.lab.views.junit import make_junit
from tests.plugins.lab.bench.test_view import RUNS, compare

PAGE = (Path(__file__).parents[4] / "docs/ci.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("broken", "wrong", "failures"),
    [([], 0, 0), (["1.10 times faster; at least <1.3> was asked for\x1b"], 0, 1), (["wrong"], 2, 2)],
)
def test_each_run_and_the_bounds_are_tests(broken, wrong, failures):
    """What does not hold is a failure with its sentence, and nothing of it is markup."""
    whole = compare(RUNS)
    runs = [
        msgspec.structs.replace(run, wrong=run.failed + wrong * (run.name == "none")) for run in whole.runs
    ]
    suites = fromstring(make_junit(msgspec.structs.replace(whole, runs=runs, broken=broken)))
    cases = suites.findall("testsuite/testcase")
    assert [suites.get("tests"), suites.get("failures"), len(cases)] == ["4", str(failures), 4]
    assert [case.get("time") for case in cases[:3]] == [f"{run.wall_s:.3f}" for run in whole.runs]
    last = cases[3].find("failure")
    assert (last is None) == (not broken)
    if last is not None:
        assert "at least <1.3>" in last.get("message", "") or broken == ["wrong"]


def test_every_job_of_the_page_runs_its_three_commands():
    """Word by word; the jobs are documents that their systems can read."""
    (commands,) = (text.splitlines() for text in re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL))
    actions, gitlab = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    assert [step["run"] for step in actions["jobs"]["cfetch"]["steps"] if "run" in step] == commands
    assert gitlab["cfetch"]["script"] == commands
    assert re.findall(r"^\t(.+)$", PAGE, re.MULTILINE) == commands
    assert len(commands) == 3
