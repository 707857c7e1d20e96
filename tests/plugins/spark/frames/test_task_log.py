"""The lines that a task of ``download`` leaves in its executor's log, and the totals on the driver."""

import logging

import pytest

from cfetch.base.events import RunNoted
from cfetch.plugins.spark.frames import task_log
from cfetch.plugins.spark.frames.task_log import MOST_KINDS, MOST_NAMED, TaskLog, TaskTally, _Adder
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


def test_totals_say_what_came_in_the_place_of_files(caplog, capsys):
    """As the notes of a command do: the first file by name, and of how many files of all tasks it is so."""
    adder = _Adder(2)
    total = adder.zero(TaskTally())
    for name, kinds in (("a", ["came encoded"]), ("b", ["came encoded", *(f"is odd {n}" for n in range(6))])):
        log = TaskLog()
        log(RunNoted(t_s=0.0, note="about the run"))
        for kind in kinds:
            log(RunNoted(t_s=0.0, note=f"{name} {kind}", kind=kind, files=1))
        log(RunNoted(t_s=0.0, note="so in all for 3 files", kind="came encoded", files=2))
        adder.addInPlace(total, log.sum_up())
        adder.addInPlace(total, TaskTally(tasks=1))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        f"cfetch on {name_executor()}: {n}" for n in ("a came encoded", "so in all for 3 files")
    ]
    said = record.getMessage().split("; ")[1:]
    assert said == [
        "a came encoded",
        "so in all for 6 files",
        *(f"b is odd {n}" for n in range(MOST_NAMED - 1)),
        "2 further kinds of notes",
    ]
    for number in range(2 * MOST_KINDS):  # texts may hold what servers say
        total.take_note(f"is odd {number}", 1, "")
    assert len(total.notes) == MOST_KINDS
