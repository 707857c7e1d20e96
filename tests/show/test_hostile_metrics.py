"""Metrics that no run can have written: each reader answers in bounded time, or names the wrong line."""

import json
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from cfetch.base.errors import UsageError
from cfetch.base.records import FileRecord
from cfetch.plugins.lab.tuning.adaptive_replay import CHECK_WORTH
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.tuning.runs import read_recorded_runs, replay_runs
from cfetch.show.analysis import analyse
from cfetch.show.metrics_reading import decode_document, read_metrics
from cfetch.show.page.document import Throughput
from cfetch.show.page.html import render_html
from cfetch.show.page.runs_page import make_runs_page
from cfetch.show.saved_time import MOST_JUDGED, list_verdicts
from cfetch.show.tables import ReportTables
from cfetch.straggler.adaptive import Adaptive
from tests.show.hostile import make_metrics
from tests.show.records import attempt, record

MOST_BYTES = 4 << 20  # of a page; 200 files with nine attempts have half a megabyte


@pytest.fixture(scope="module")
def metrics_path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "m.jsonl"


def draw(path):
    """The page of a metrics file, whose numbers are all numbers; the terminal's tables too."""
    page = make_runs_page(read_metrics([path]))
    json.dumps(msgspec.to_builtins(page), allow_nan=False)
    assert len(render_html(page)) < MOST_BYTES
    for part in page.parts:
        for section in part.sections:
            if isinstance(section, Throughput):
                assert {len(layer.rates_bps) for layer in section.layers} <= {len(section.active)}
    Console(quiet=True).print(ReportTables(analyse(read_metrics([path]))))


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_any_metrics_are_drawn_or_refused_with_their_line(metrics_path, seed):
    """Whatever the numbers are, there is a page of bounded size, or a message with the line that is wrong."""
    metrics_path.write_text(make_metrics(Random(seed)))
    try:
        draw(metrics_path)
    except UsageError as refusal:
        assert f"{metrics_path}:" in str(refusal)  # noqa: PT017 - most files are drawn
        assert "not cfetch metrics" in str(refusal)  # noqa: PT017


@pytest.mark.parametrize(
    ("field", "number"),
    [("end_s", 1e308), ("start_s", -1e11), ("bytes", -1), ("rate_bps", 1e308), ("size_bytes", 1 << 63)],
)
def test_a_number_that_no_run_has_is_refused_with_its_name(field, number):
    """The message names the field; a time just below 0, by another machine's clock, is taken."""
    fields = msgspec.to_builtins(record(0, 100, attempt()))
    assert isinstance(decode_document(json.dumps({**fields, "start_s": -0.25}).encode()), FileRecord)
    with pytest.raises(ValueError, match=rf"\$\.{field}"):
        decode_document(json.dumps({**fields, field: number}).encode())


def test_a_file_with_thousands_of_cancelled_attempts_is_judged_in_bounded_time():
    """Only the latest are compared with all others; the bytes of each one count."""
    cut = [
        attempt(n, n / 9, n / 9 + 0.1, 2 * n, 1, "straggler", to_byte=2 * n + 1, helper=True)
        for n in range(3000)
    ]
    verdicts = list_verdicts(record(0, 6000, *cut))
    assert sum(verdict.saved_s is not None for verdict in verdicts) == MOST_JUDGED
    assert (len(verdicts), sum(verdict.wasted_bytes for verdict in verdicts)) == (3000, 0)


@pytest.mark.parametrize(("end_s", "number"), [(1e5, 40), (1e10, 40), (1e6, 1)])
def test_a_replay_of_any_length_ends(metrics_path, end_s, number, monkeypatch):
    """Checks become rarer in a run of days or of centuries, and together are twice the bound at most."""
    monkeypatch.setattr("cfetch.plugins.lab.tuning.adaptive_replay.MOST_JUDGED", 2000)
    checked: list[int] = []
    check = Adaptive.check

    def count(self, now_s, attempts):
        checked.append(len(attempts))
        return check(self, now_s, attempts)

    monkeypatch.setattr(Adaptive, "check", count)
    header = json.loads(make_metrics(Random(1)).splitlines()[0])
    header["settings"] = {"policy": "adaptive"}
    files = [
        record(n, 1 << 30, attempt(1, n / 100, end_s, size=1 << 30, outcome="done"), bytes_=1 << 30)
        for n in range(number)
    ]
    lines = [json.dumps(header).encode(), *map(msgspec.json.encode, files)]
    metrics_path.write_bytes(b"\n".join(lines))
    (result,) = replay_runs(
        [str(metrics_path)],
        lambda path: read_recorded_runs(path, policy="adaptive"),
        [Setting(1.5, 0.6, 5.0)],
    )
    assert result.makespan_s[0] <= 2 * end_s
    replays = 2  # under the run's own setting, and under another
    assert sum(CHECK_WORTH + judged for judged in checked) < replays * 3 * 2000
