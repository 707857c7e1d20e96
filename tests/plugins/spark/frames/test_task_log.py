"""The lines that a task of ``download`` leaves in its executor's log, and the totals on the driver."""

import logging

import pytest

from cfetch.plugins.spark.frames import task_log
from cfetch.plugins.spark.frames.task_log import MOST_NAMED, TaskLog, TaskTally, _Adder
from cfetch.plugins.spark.job import name_executor
from tests.plugins.spark.frames.test_download import bring, work_of
from tests.plugins.spark.serving import serving

pa = pytest.importorskip("pyarrow")


def test_a_task_names_failed_files_and_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    """With host and executor; a few of them, as its rows name all; and its totals as often as it may."""
    monkeypatch.setattr(task_log, "EVERY_S", 0.0)
    with serving({"a.bin": b"12"}) as origin:
        names = ["a.bin", *(f"gone{n}.bin" for n in range(MOST_NAMED + 3))]
        rows = [{"url": origin.url + name, "path": name} for name in names]
        bring(work_of(tmp_path, columns={"url": "url", "path": "path"}), rows)
        host = origin.url.split("/")[2]
    lines = capsys.readouterr().err.splitlines()
    start = f"cfetch on {name_executor()}: "
    assert all(line.startswith(start) for line in lines)
    failed = [line for line in lines if line.endswith(f" from {host} failed: HTTP 404")]
    assert len(failed) == MOST_NAMED
    assert f"{start}further failed files are named in the rows only" in lines
    total = f"1 file in place (2 B fetched), {MOST_NAMED + 3} failed, from 1 host"
    assert lines[-1] == start + total or f"{start}{total}" in lines


def test_the_driver_logs_totals(caplog, monkeypatch):
    """At the end of an evaluation, as a warning if files failed; before that now and then."""
    caplog.set_level("INFO", "cfetch.spark")
    adder = _Adder(2)
    total = adder.zero(TaskTally())
    for _ in range(2):
        adder.addInPlace(total, TaskTally(files=2, failed=1, size_bytes=2048, mitigations=3, hosts={"h"}))
        monkeypatch.setattr(task_log, "EVERY_S", 0.0)
        adder.addInPlace(total, TaskTally(tasks=1))
    both = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert both[-1] == (
        logging.WARNING,
        "download is over: 4 files in place (4.0 KiB fetched), 2 failed, 6 stragglers cancelled, from 1 host",
    )
    assert [level for level, _ in both[:-1]] == [logging.INFO]
    assert (total.tasks, total.files) == (2, 4)
    assert TaskLog().sum_up() == TaskTally()
