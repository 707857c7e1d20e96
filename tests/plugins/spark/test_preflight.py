"""The look at all executors before the first share: which one cannot work, why, and what to do."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.version import __version__
from cfetch.plugins.spark import preflight
from cfetch.plugins.spark.job import find_driver_address
from cfetch.plugins.spark.preflight import (
    ExecutorVerdict,
    Look,
    SeenExecutor,
    check_executors,
    judge,
    probe_executor,
)
from cfetch.plugins.spark.work import explain_failure, explain_python
from cfetch.tasks.hub.server import HubPlace
from tests.cli.verbs import PROJECT

GOOD = SeenExecutor(executor="executor 0 on a", version=__version__, wall_s=100.0, faults=[], free_bytes=1000)


def judged(*others):
    """The verdict over a good executor and others, which differ from it as said."""
    seen = [
        msgspec.structs.replace(GOOD, executor=f"executor {n} on b", **how) for n, how in enumerate(others)
    ]
    return judge([GOOD, *seen], 99.0, 101.0, 1000)


def test_executors_like_the_driver_are_not_mentioned():
    """Nor is one whose clock differs by what NTP leaves."""
    assert judged({}, {"wall_s": 103.0}) == ExecutorVerdict([], [])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"faults": ["cannot write"]}, "executor 0 on b cannot write"),
        ({"version": "0.0.1"}, "executor 0 on b has cfetch 0.0.1, and the driver "),
        ({"unreachable": "h (refused)"}, "executor 0 on b cannot reach h (refused); others can"),
    ],
)
def test_one_that_cannot_work_is_named(how, words):
    """Alone, as the others are good."""
    (fault,), notes = judged(how)
    assert fault.startswith(words)
    assert notes == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"wall_s": 161.0}, "executor 0 on b has a clock 60 s before the driver's"),
        ({"wall_s": 39.0}, "executor 0 on b has a clock 60 s behind the driver's"),
        ({"free_bytes": 100}, "executor 0 on b sees only 100 B free at --to"),
    ],
)
def test_what_may_be_harmless_is_a_note(how, words):
    """The run begins."""
    faults, (note,) = judged(how)
    assert note.startswith(words)
    assert faults == []


def test_a_source_that_none_can_reach_is_a_note():
    """It may be down for a moment, and then its files are tried again."""
    seen = msgspec.structs.replace(GOOD, unreachable="h (refused)")
    assert judge([seen, seen], 99.0, 101.0, 1000) == ([], ["executor 0 on a cannot reach h (refused)"])


def test_many_executors_with_one_fault_are_one_sentence():
    """Five are named."""
    (fault,), _ = judged(*[{"faults": ["is bad"]}] * 7)
    assert fault.startswith("executor 0 on b, executor 1 on b, ")
    assert fault.endswith("executor 4 on b and 2 more is bad")


MISMATCH = (
    "org.apache.spark.api.python.PythonException: pyspark.errors.exceptions.base.PySparkRuntimeError: "
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, "
    "PySpark cannot run with different minor versions."
)
LOST = "Lost task 0.0 in stage 0.0 (TID 0) (10.0.0.7 executor 3): "


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            f"{LOST}{MISMATCH}",
            "the Python of executor 3 on 10.0.0.7 is 3.12, and the driver's 3.",
        ),
        (
            f'{LOST}java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory',
            "the Python of executor 3 on 10.0.0.7 is not there: /no/python; set PYSPARK_PYTHON",
        ),
        (
            "ModuleNotFoundError: No module named 'cfetch'",
            "the Python of the executors lacks the library cfetch",
        ),
        (
            "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
            "PyArrow",
        ),
    ],
)
def test_a_python_that_cannot_work_is_told_with_its_remedy(said, words):
    """From the words of Spark, whatever stands around them."""
    text = explain_python(f"An error occurred\n{said}\n\tat org.apache.spark")
    assert text is not None
    assert words in text
    assert "pip install 'cfetch[spark]'" in text
    assert explain_python("java.lang.OutOfMemoryError") is None


def test_a_full_disk_of_spark_is_told():
    """What Spark writes itself fails with Java's words for it."""
    error = RuntimeError("Job aborted: java.io.IOException: No space left on device\n\tat java.base")
    words = str(explain_failure(error, "prepare the plan", "then try again"))
    assert "could not prepare the plan: the disk of the state, or of spark.local.dir, is full" in words


def look_of(tmp_path, **how):
    """A look at directories of which the driver has made the first only."""
    (tmp_path / "to").mkdir()
    directories = (("--to", str(tmp_path / "to")), ("--state", str(tmp_path / how.get("state", "to"))))
    return Look(directories, how.get("source"))


def test_what_an_executor_sees(tmp_path):
    """A directory that only the driver sees, and a port where nobody listens."""
    seen = probe_executor(look_of(tmp_path, state="gone", source=("127.0.0.1", 1)))
    assert seen.faults == [
        "does not see the directory of --state: mount it there under the name that it has here"
    ]
    assert seen.unreachable == "127.0.0.1 (Connection refused)"
    assert list((tmp_path / "to").iterdir()) == []


def check(spark, look, **how) -> tuple[bool, list[str]]:
    """Whether the job may begin, and the notes."""
    notes: list[str] = []
    begins = check_executors(spark, look, 2, "look", tell=notes.append, is_stopping=how.get("stop", bool))
    return begins, notes


def test_one_of_several_volumes_that_refuses_is_no_fault_of_the_executor(tmp_path):
    """A volume that it does not see is a fault: nobody would find the files that it puts there."""
    (tmp_path / "file").touch()
    volumes = (("/a", str(tmp_path)), ("/b", str(tmp_path / "file/x")), ("/c", str(tmp_path / "gone")))
    seen = probe_executor(Look((), None, volumes=volumes))
    assert seen.faults == ["does not see the volume /c: mount it there under the name that it has here"]


def test_a_job_of_a_task_for_each_slot(spark, tmp_path):
    """As on a cluster."""
    assert check(spark, look_of(tmp_path)) == (True, [])
    bad = Look((("--to", str(tmp_path / "to")), ("--state", str(tmp_path / "gone"))), None)
    with pytest.raises(LocalFault, match="does not see the directory of --state"):
        check(spark, bad)


def test_a_task_that_spark_would_try_again_for_minutes_ends_the_look(spark, tmp_path, monkeypatch):
    """The cause is read while the job goes on."""
    texts = iter([None, "No module named 'cfetch'"])
    cancelled: list[str] = []
    monkeypatch.setattr(preflight, "LOOK_S", 0)
    monkeypatch.setattr(preflight, "wait", lambda *_: Waiting)
    monkeypatch.setattr(preflight, "find_task_error", lambda *_: next(texts))
    monkeypatch.setattr(preflight, "cancel_jobs", lambda _, tag: cancelled.append(tag))
    with pytest.raises(LocalFault, match="lacks the library cfetch"):
        check(spark, look_of(tmp_path))
    assert cancelled == ["look"]


class Waiting:
    """What ``wait`` says of a job that goes on."""

    done: Any = ()


def test_a_cluster_without_executors_is_told_once_and_a_stop_ends_the_wait(spark, tmp_path, monkeypatch):
    """A full cluster is no reason to give up."""
    monkeypatch.setattr(preflight, "LOOK_S", 0)
    monkeypatch.setattr(preflight, "EXECUTORS_COME_S", -1)
    monkeypatch.setattr(preflight, "count_executors", lambda _: 0)
    monkeypatch.setattr(preflight, "wait", lambda *_: Waiting)
    looks = iter([False, False, True])
    begins, notes = check(spark, look_of(tmp_path), stop=lambda: next(looks))
    assert begins is False
    (note,) = notes
    assert note.startswith("no executors yet: the cluster has no free cores or memory")


def test_an_executor_has_the_name_that_sparks_pages_show():
    """A worker of the daemon of a JVM, whose command line names it."""
    program = (
        "import os\n"
        "for _ in range(2):\n"
        "    if child := os.fork():\n"
        "        os.waitpid(child, 0)\n"
        "        os._exit(0)\n"
        "from cfetch.plugins.spark.job import name_executor\n"
        "print(name_executor())"
    )
    words = ["--executor-id", "7", "--hostname", "10.0.0.7"]
    said = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert said.stdout == "executor 7 on 10.0.0.7\n"


def test_the_error_of_a_failed_task_is_found_by_the_tag_of_its_job(spark):
    """Before or after the job has ended."""
    from cfetch.plugins.spark.job import find_task_error, start_thread

    def fail(batches):
        return (__import__("nowhere") for _ in batches)

    rows = start_thread(spark, spark.range(1).mapInArrow(fail, "id long").collect, "failing", "a name")
    assert "nowhere" in str(rows.exception(60))
    core = spark.sparkContext._jsc.sc()
    (job,) = core.statusTracker().getJobIdsForTag("failing")
    assert core.statusStore().job(job).description().get() == "a name"
    assert "No module named 'nowhere'" in str(find_task_error(spark, "failing"))
    assert find_task_error(spark, "another") is None


def test_a_python_without_a_library_is_told_before_a_frame_is_made(spark, monkeypatch):
    """In one sentence; the executors of a session are asked once, and not where none has come."""
    monkeypatch.setattr(preflight, "is_one_machine", lambda _: False)
    monkeypatch.setattr(preflight, "count_executors", lambda _: 0)
    monkeypatch.setattr(preflight, "_CHECKED", set())

    def import_libraries(batches):
        return (__import__("nowhere") for _ in batches)

    monkeypatch.setattr(preflight, "_import_libraries", import_libraries)
    preflight.check_task_python(spark)
    monkeypatch.setattr(preflight, "count_executors", lambda _: 1)
    with pytest.raises(UsageError, match=r"lacks the library nowhere; set PYSPARK_PYTHON"):
        preflight.check_task_python(spark)
    monkeypatch.undo()
    monkeypatch.setattr(preflight, "is_one_machine", lambda _: False)
    monkeypatch.setattr(preflight, "count_executors", lambda _: 1)
    preflight.check_task_python(spark)
    monkeypatch.setattr(preflight, "_import_libraries", import_libraries)
    preflight.check_task_python(spark)  # this session is known to be right


def context_of(**values):
    """A session of a cluster with these settings."""
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: values))


def test_the_hubs_port_is_a_setting_of_the_session():
    """Beside the driver's own ports; without it any port is used."""
    driver = {"spark.driver.host": "d", "spark.driver.bindAddress": "0.0.0.0"}
    session: Any = context_of(**driver, **{"spark.cfetch.tasks.hub.port": "7079"})
    assert find_driver_address(session) == HubPlace("d", "0.0.0.0", 7079)
    session = context_of(**driver)
    assert find_driver_address(session) == HubPlace("d", "0.0.0.0", 0)
    session = context_of(**driver, **{"spark.cfetch.tasks.hub.port": "many"})
    with pytest.raises(UsageError, match=r"spark.cfetch.tasks.hub.port is many; give a port"):
        find_driver_address(session)
