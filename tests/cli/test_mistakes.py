"""What people do by mistake, and where terminals and platforms differ: one line that says what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.cli import app
from cfetch.errors import LocalFault, UsageError
from cfetch.report.metrics import expand_metrics
from cfetch.storage.directory import Directory
from tests.report.records import attempt, record

HEADER = {
    "schema": "cfetch.run/1",
    "instant": "i",
    "wall_start": "w",
    "version": "0",
    "host": "h",
    "settings": {},
}


def test_a_report_of_a_destination_on_a_terminal_of_ascii(tmp_path):
    """All its metrics are read; bars are drawn with what there is, and letters are spelled out."""
    folder = tmp_path / "data/.cfetch/metrics"
    folder.mkdir(parents=True)
    from cfetch.secret import encode_json

    rows = [encode_json(record(n, 100, attempt(end_s=1.0 + n), path=f"caf\u00e9{n}")) for n in range(3)]
    (folder / "a.jsonl").write_text("\n".join([json.dumps(HEADER), *rows, ""]))
    done = subprocess.run(
        [sys.executable, "-m", "cfetch", "report", str(tmp_path / "data")],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "caf\\u00e90" in text
    assert "---" in text
    assert "\\u2" not in text


def test_a_directory_without_metrics_is_named(tmp_path):
    """Files are passed on as they are."""
    assert expand_metrics([tmp_path / "x"]) == [tmp_path / "x"]
    with pytest.raises(UsageError, match="there are no metrics in this directory"):
        expand_metrics([tmp_path])


def test_runs_of_a_directory_are_shown_in_their_order(tmp_path):
    """The first run of a plan has no number in its name."""
    names = ["1-a.jsonl", "1-a.2.jsonl", "1-a.10.jsonl", "2-b.jsonl"]
    for name in reversed(names):
        (tmp_path / name).touch()
    assert [path.name for path in expand_metrics([tmp_path])] == names


def test_a_destination_that_is_a_file(tmp_path):
    """It is called one."""
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(LocalFault, match="it is a file; name a directory"):
        Directory(tmp_path / "f")


def test_another_platform_is_refused_in_one_line(capsys):
    """And a module that it lacks is named, as that is no bug."""
    assert app.refuse_platform("posix") is None
    assert "WSL" in str(app.refuse_platform("nt"))
    app._print_places(ModuleNotFoundError(name="resource"))
    assert capsys.readouterr().err == (
        "cfetch: this platform lacks Python's module resource; run it on Linux or macOS\n"
    )
