"""One Spark session for all tests that use it: in one process (see ``SparkTogether``), with one JVM."""

import os
import shutil
import sys

import pytest

from cfetch.spark.session import _QUIET as QUIET

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short runs: half the processor time of the default


@pytest.fixture(scope="session")
def spark():
    """A session on two threads of this machine."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none; on Debian and Ubuntu run: scripts/setup as root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .appName("cfetch-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.extraJavaOptions", f"{QUIET} {JVM}")
            .getOrCreate()
        )
    yield session
    session.stop()
