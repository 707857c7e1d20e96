"""One Spark session for all tests that use it: in one process (see ``SparkTogether``), with one JVM."""

import os
import shutil
import sys

import pytest

from cfetch.plugins.spark.session import QUIET

HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ
NO_JAVA = "Spark needs Java, and there is none; on Debian and Ubuntu run: scripts/setup as root"
needs_java = pytest.mark.skipif(not HAS_JAVA, reason=NO_JAVA)
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short runs: half the processor time of the default


@pytest.fixture(scope="session")
def spark():
    """A session on two threads of this machine."""
    if not HAS_JAVA:
        pytest.skip(NO_JAVA)
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
            # most queries run once or twice: to make and compile code for each takes a fifth of the time
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.driver.extraJavaOptions", f"{QUIET} {JVM}")
            .getOrCreate()
        )
    yield session
    session.stop()
