"""docs/monitoring: the board and the rules ask for metrics that exist; the commands are the program's."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cfetch.base.config.settings import KINDS
from cfetch.plugins.monitors.openmetrics import RunMetrics
from cfetch.plugins.monitors.run_numbers import HOSTS
from tests.show.records import attempt, finished, record

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "monitoring.md").read_text(encoding="utf-8")
BOARD = json.loads((DOCS / "monitoring" / "grafana.json").read_text())
RULES = DOCS / "monitoring" / "alerts.yaml"
NAME = re.compile(r"\bcfetch_[a-z_]+\b")


def names_served():
    """The names of all samples that a run with every outcome leads to."""
    metrics = RunMetrics()
    failed = record(1, 9, attempt(outcome="error"), status="failed", error_kind="refused")
    for event in finished(record(0, 9, attempt()), failed):
        metrics(event)
    return {sample.name for family in metrics.registry.collect() for sample in family.samples}


def test_the_board_asks_for_metrics_that_exist():
    """Each panel has at least one; each kind of metric is somewhere."""
    queries = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    assert all(NAME.search(query) for query in queries)
    asked = {name for query in queries for name in NAME.findall(query)}
    assert asked - names_served() == set()
    assert {re.sub("_bucket$", "", name) for name in asked} >= {
        re.sub("_(bucket|sum|count)$", "", name) for name in names_served() if not name.endswith("_created")
    }


def test_the_rules_ask_for_metrics_that_exist():
    """Every rule has a query and a sentence for a person."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert {*NAME.findall(rule["expr"])} - names_served() == set()
    assert len(group["rules"]) == 5


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
def test_promtool_takes_the_rules():
    """Prometheus's own check of the file."""
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_picture_is_small():
    """The live page, in less than 150 KiB."""
    (name,) = re.findall(r"\]\((images/[\w-]+\.png)\)", TEXT)
    assert (DOCS / name).stat().st_size < 150 * 1024


def test_the_document_names_every_metric_and_real_options():
    """A table row for each metric; options are those of the settings."""
    named = {*NAME.findall(TEXT)}
    served = {
        re.sub("_(bucket|sum|count)$", "", name) for name in names_served() if not name.endswith("_created")
    }
    assert served - named == set()
    assert named - served <= {"cfetch_", "cfetch_page"}
    options = {*re.findall(r"--([a-z][a-z-]+)", TEXT)}
    assert {name.replace("-", "_") for name in options} - KINDS.keys() == set()
    assert f"the first {HOSTS} hosts" in TEXT
