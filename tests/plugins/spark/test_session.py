"""Whose session is used, and what a person is told who lacks something. The verb as a real process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from cfetch.base.errors import UsageError
from cfetch.plugins.spark import _register_source, download, register
from cfetch.plugins.spark.session import count_local_slots, mask_master, spark_session
from tests.cli.verbs import PROJECT
from tests.plugins.lab.tuning.records import metrics_file
from tests.plugins.spark.serving import manifest, serving
from tests.plugins.spark.session import JVM, needs_java

FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(8)}


def test_the_programs_own_session_is_used_and_left_running(spark):
    """A given one first, then the one that there is; neither is stopped."""
    given = spark.newSession()
    with spark_session("spark://nobody:1", given) as session:
        assert session is given
    with spark_session("spark://nobody:1") as session:
        assert session.range(3).count() == 3
    assert spark.range(3).count() == 3


@needs_java
def test_the_verb_makes_a_session_of_its_own(tmp_path):
    """As a process: progress and Spark's words go to stderr, and one document to stdout."""
    path, to = metrics_file(tmp_path / "m.jsonl"), tmp_path / "t"
    words = ("metrics", "load", path, "--to", to, "--spark-master", "local[1]", "--json")
    ended = subprocess.run(
        [sys.executable, "-m", "cfetch", *words],
        env=os.environ | {"PYTHONPATH": str(PROJECT), "JAVA_TOOL_OPTIONS": JVM},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["files"] == 5
    assert "starting Spark at local[1]\n" in ended.stderr
    assert "log level" not in ended.stderr  # Spark's advice for its own shells
    assert json.loads((to / "_tables.json").read_text()) == {"schema": "cfetch.tables/1"}


def test_a_format_that_spark_has_found_may_stay():
    """Spark 4.0 refuses to replace it; another refusal is raised."""
    conditions = ["DATA_SOURCE_ALREADY_EXISTS", "ANOTHER"]

    class Refusal(PySparkException):
        """Spark's error with the first of the conditions."""

        def getCondition(self):  # noqa: N802 - Spark's name
            return conditions[0]

    def refuse(source):
        raise Refusal("no")

    session: Any = SimpleNamespace(dataSource=SimpleNamespace(register=refuse))
    _register_source(session, object)
    conditions.pop(0)
    with pytest.raises(PySparkException):
        _register_source(session, object)


SUBMITTED = """
import json, os
from cfetch.plugins.spark import register
from cfetch.plugins.spark.session import spark_session
url, to = os.environ["MANIFEST_URL"], os.environ["TO"]  # Spark logs arguments
ours = {"spark.task.maxFailures": "7", "spark.speculation": "false"}
with spark_session(None, settings=ours) as spark:
    register(spark)
    spark.sql(f"CREATE TEMPORARY VIEW files USING cfetch OPTIONS (manifest_url '{url}', to '{to}')")
    assert spark.sql("SELECT count(*) FROM files").first()[0] == 8
    spark.sql("EXPLAIN EXTENDED SELECT * FROM files").show(100, False)
    assert spark.read.format("cfetch").options(manifest_url=url, to=to).load().count() == 8
    names = "master", "app.name", "task.maxFailures", "speculation", "ui.enabled"
    print(json.dumps([spark.conf.get(f"spark.{name}", "left") for name in names]))
"""
GIVEN = {
    "spark.task.maxFailures": "9",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.ui.port": "0",
}


@needs_java
def test_what_spark_submit_was_given_goes_first_and_its_event_log_has_no_signature(tmp_path):
    """Master, name and settings; the rest is as in any session that is made here.

    The signature is a manifest's, whose URL is told in a statement of SQL, and to a frame. The output has
    none either. One program does both, as a JVM takes ten seconds of a processor.
    """
    (tmp_path / "logs").mkdir()
    (tmp_path / "job.py").write_text(SUBMITTED)
    given = GIVEN | {
        "spark.eventLog.dir": str(tmp_path / "logs"),
        "spark.sql.warehouse.dir": str(tmp_path / "w"),
    }
    options = ["--master", "local[2]", "--name", "mine", "--driver-java-options", JVM]
    options += [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    with serving(FILES) as origin:
        origin.files = FILES | {"m.json": manifest(tmp_path / "m.json", origin, FILES).read_bytes()}
        job = {"MANIFEST_URL": f"{origin.url}m.json?sig=CANARY", "TO": str(tmp_path / "to")}
        ended = subprocess.run(
            [Path(sys.executable).parent / "spark-submit", *options, tmp_path / "job.py"],
            env=os.environ
            | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
            | job,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert any("CANARY" in (request.query or "") for request in origin.requests)
    assert json.loads(ended.stdout.splitlines()[-1]) == ["local[2]", "mine", "9", "false", "left"]
    logged = b"".join(path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert b"CreateTempViewUsing" in logged
    assert b"CANARY" not in logged
    assert "CANARY" not in ended.stdout + ended.stderr


def told(tmp_path, java=None, code="", **env):
    """What is said when a session is asked for with this ``java`` on PATH, after ``code``."""
    (tmp_path / "bin").mkdir()
    if java is not None:
        (tmp_path / "bin/java").write_text(f"#!/bin/sh\n{java}\n")
        (tmp_path / "bin/java").chmod(0o755)
    program = (
        f"{code}\nfrom cfetch.base.errors import UsageError\n"
        "from cfetch.plugins.spark.session import spark_session\n"
        "try:\n    spark_session('local[1]').__enter__()\nexcept UsageError as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(PROJECT), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize(
    ("java", "words"),
    [
        (None, "there is none on PATH"),
        ("exit 1", "the one of PATH does not run"),
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", "needs Java 17, and the one of PATH is 11"),
        ("""echo 'java version "1.8.0_292"' >&2""", "needs Java 17, and the one of PATH is 8"),
    ],
    ids=["none", "broken", "eleven", "eight"],
)
def test_without_a_java_that_spark_can_use(tmp_path, java, words):
    """One sentence that says what is wrong and what to install."""
    said = told(tmp_path, java)
    assert words in said
    assert "apt-get install default-jre-headless" in said


def test_java_home_goes_before_path(tmp_path):
    """As with Spark itself: the one on PATH, which is right, is not asked."""
    said = told(tmp_path, """echo 'openjdk version "17"' >&2""", JAVA_HOME=str(tmp_path / "gone"))
    assert "the one of JAVA_HOME does not run" in said


@pytest.mark.parametrize(
    ("package", "extra"), [("pyspark", "spark-local"), ("pyarrow", "spark"), ("pandas", "spark")]
)
def test_without_the_extra(tmp_path, package, extra):
    """The library is named, and the extra that brings it: PySpark is in none that a platform needs."""
    said = told(tmp_path, code=f"import sys; sys.modules[{package!r}] = None")
    assert (
        said == f"Spark needs the library {package}, which is not installed: pip install 'cfetch[{extra}]'\n"
    )


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_module_that_imports_spark_is_not_reached_without_it(package):
    """``from cfetch.plugins.spark import download`` names the library and the extra, as the commands do."""
    code = f"import sys; sys.modules[{package!r}] = None; from cfetch.plugins.spark import download"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert f"UsageError: Spark needs the library {package}, which is not installed" in said.stderr


def test_an_old_pyspark(tmp_path):
    """It is refused with the version that it takes, and a platform's is not to be replaced."""
    said = told(tmp_path, code="import pyspark; pyspark.__version__ = '3.4.4'")
    assert "cfetch needs Spark 3.5 or newer, and this is 3.4.4; use a newer release of the platform" in said


def test_each_use_says_which_spark_it_needs(spark, tmp_path, monkeypatch):
    """A data frame of links takes Spark 3.5; sources and manifests that Spark cuts name their own floors."""
    links = spark.createDataFrame([("http://127.0.0.1:1/x",)], "url string")
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    assert "executor" in download(links, to=tmp_path / "to").columns
    with pytest.raises(UsageError, match=r"a data source of cfetch needs Spark 4.0 or newer"):
        register(spark)


@pytest.mark.parametrize("master", ["sc://h:1/;use_ssl=true;token=CANARY", "spark://me:CANARY@h:1"])
def test_an_address_is_shown_without_its_secrets(master):
    """Neither a token of Spark Connect nor a password."""
    assert re.fullmatch(r"\w+://h:1/?", mask_master(master))


@pytest.mark.parametrize(
    ("master", "slots"), [("local", 1), ("local[3]", 3), ("local[*]", os.cpu_count()), ("spark://h:1", None)]
)
def test_the_slots_of_this_machine_are_known_without_a_session(master, slots):
    """As Spark counts them; those of a cluster are not."""
    assert count_local_slots(master) == slots
