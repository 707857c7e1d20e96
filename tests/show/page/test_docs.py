"""docs/report.md: its commands run, its pictures are there and small."""

import re
import shlex
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.show.page.html import render_html
from cfetch.show.page.runs_page import make_runs_page
from cfetch.show.page.timeline import MOST_BARS, MOST_STORIES
from tests.show.page.runs import header, recorded
from tests.show.records import attempt, record

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "report.md").read_text(encoding="utf-8")


def test_its_commands_of_reports_write_a_page(tmp_path, monkeypatch):
    """With the metrics of a destination, or of two runs; benches and tunings have tests of their own."""
    folder = tmp_path / "data" / ".cfetch" / "metrics"
    folder.mkdir(parents=True)
    lines = msgspec.json.Encoder().encode_lines([header(), record(0, 100, attempt())])
    for path in (folder / "a.jsonl", tmp_path / "before.jsonl", tmp_path / "after.jsonl"):
        path.write_bytes(lines)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert all(command[0] == "cfetch" and "--html" in command for command in commands)
    reports = [command for command in commands if command[1] == "report"]
    assert len(reports) == 2
    for command in reports:
        done = run_child([*CFETCH, *command[1:]], limit_s=60)
        assert done.exit_code == 0
        assert done.error == "cfetch: the page is in report.html; open it in a browser"
        assert (tmp_path / "report.html").stat().st_size > 50_000
        (tmp_path / "report.html").unlink()


def test_its_numbers_are_the_program_s():
    """How many bars and stories, and how large the page is."""
    assert f"beyond {MOST_BARS:,} bars" in TEXT
    assert f"the {MOST_STORIES:,} most notable" in TEXT
    assert "under 100 KB" in TEXT
    assert len(render_html(make_runs_page([recorded([])]))) < 100_000


def test_its_pictures_are_there_and_small():
    """A picture of each kind, none over 150 KiB."""
    named = re.findall(r"\]\((images/[\w-]+\.png)\)", TEXT)
    assert len(named) >= 2
    assert max((DOCS / name).stat().st_size for name in named) < 150 * 1024
