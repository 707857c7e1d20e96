"""The Spark session: a given one, else the active one, else one that is made here and stopped at the end.

No code in this room uses RDDs or ``sparkContext``, so that Spark Connect (``sc://host``) works too.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.base.errors import UsageError
from cfetch.base.schemes import SPARK_CONNECT, scheme_of
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OLDEST_SPARK = (3, 5)  # the first whose jobs have tags, also by Spark Connect
OLDEST_SOURCES = (4, 0)  # the first with data sources in Python
OLDEST_JAVA = {3: 8, 4: 17}  # by the first number of Spark's version
JAVA_ANSWERS_S = 30.0  # enough for a cold disk; a shim that waits for a person never answers

EXTRAS = {"pyspark": "spark-local", "pyarrow": "spark", "pandas": "spark"}  # a platform has its own PySpark

QUIET = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it starts with half the processor time
_OWN_SETTINGS = {
    "spark.app.name": "cfetch",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": QUIET,
}


@contextmanager
def spark_session(
    master: str | None,
    given: "SparkSession | None" = None,
    *,
    settings: Mapping[str, str] | None = None,
    is_light: bool = False,
) -> Iterator["SparkSession"]:
    """Open a session for as long as the ``with`` lasts.

    ``given`` is used first, then a session that this program has already; both keep their settings and are
    left running. Otherwise a session is made: for ``master`` (``sc://host`` is Spark Connect; if None, that
    of ``spark-submit``, else ``local[*]``), with this Python for its workers unless ``PYSPARK_PYTHON`` names
    another; it is stopped at the end. ``settings`` are for a session that is made, by Spark's names. Settings
    given to ``spark-submit`` take precedence. ``is_light``: Spark itself has little to do, as Python does it.

    Raises:
        UsageError: PySpark, Java or a library of the extra ``spark`` is missing or too old, or ``master``
            gives no session.
    """
    require_libraries()
    session = given or _find_active()
    if session is not None:
        yield session
        return
    made = _make_session(master, settings or {}, is_light=is_light)
    try:
        yield made
    finally:
        made.stop()


def require_libraries() -> None:
    """Raise UsageError if a library of the extra ``spark`` is missing or too old: else it can be imported."""
    for package in ("pyspark", "pyarrow", "pandas"):  # mapInArrow needs pandas too
        if find_spec(package) is None:
            raise UsageError(missing_library("Spark", package, EXTRAS[package]))
    refuse_older_spark(OLDEST_SPARK, "cfetch")


def refuse_older_spark(oldest: tuple[int, int], user: str) -> None:
    """Raise UsageError if PySpark is older than ``user`` needs."""
    if find_spark_version() < oldest:
        import pyspark

        raise UsageError(
            f"{user} needs Spark {'.'.join(map(str, oldest))} or newer, and this is {pyspark.__version__}; "
            "use a newer release of the platform, or, where PySpark is your own, "
            "pip install --upgrade 'cfetch[spark-local]'"
        )


def find_spark_version() -> tuple[int, ...]:
    """The first two numbers of PySpark's version."""
    import pyspark

    return tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))


def name_condition(error: BaseException) -> str | None:
    """Spark's name for what went wrong; None: it is no error of Spark's, or has no name."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return None
    read = getattr(error, "getCondition", None) or error.getErrorClass  # Spark 3.5 knows the old name only
    name = read()
    return None if name is None else str(name)


def _find_active() -> "SparkSession | None":
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()  # this thread's, or another's, which getOrCreate would share
    except PySparkRuntimeError:
        return None


def _make_session(given_master: str | None, settings: Mapping[str, str], *, is_light: bool) -> "SparkSession":
    from pyspark.sql import SparkSession

    submitted = _read_submitted_settings()
    master = given_master or submitted.get("spark.master", "local[*]")
    is_connect = scheme_of(master) == SPARK_CONNECT
    if not is_connect:
        _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use the python3 on PATH
    own = dict(_OWN_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no other machine needs to reach it
        own["spark.driver.extraJavaOptions"] = f"{QUIET} {LIGHT_JVM}" if is_light else QUIET
        if not submitted:  # the page of a run that the terminal shows: a port and half a second for nobody
            own["spark.ui.enabled"] = "false"
    builder = SparkSession.builder
    if is_connect:
        builder = builder.appName("cfetch").remote(master)  # the server decides the settings
    else:
        builder = builder.config(map={**own, **settings, **submitted, "spark.master": master})
    try:
        return builder.getOrCreate()
    except ImportError:
        raise UsageError(
            "Spark Connect needs libraries that are not installed: pip install 'cfetch[spark-connect]'"
        ) from None
    except Exception as error:  # noqa: BLE001 - py4j, gRPC and Spark each have a tree of their own
        raise UsageError(
            f"no Spark session at {mask_master(master)} ({name_condition(error) or type(error).__name__}); "
            "check --spark-master, and that the cluster is up and reachable from here"
        ) from None


def _read_submitted_settings() -> dict[str, str]:
    """The settings that ``spark-submit`` gave to this program's JVM; empty without ``spark-submit``."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # only after this a SparkConf has the JVM's settings
    return dict(SparkConf().getAll())


def count_local_slots(master: str) -> int | None:
    """How many tasks ``master`` runs at a time, if that is this machine alone; else None."""
    match = re.fullmatch(r"local(?:\[(\*|\d+)(?:,.*)?\])?", master)
    if match is None:
        return None
    return os.cpu_count() if match[1] == "*" else int(match[1] or 1)


def mask_master(master: str) -> str:
    """``master`` for a person: without the ``;token=…`` of a Connect address, or a password before an @."""
    return printable(re.sub(r"//[^/@]*@", "//", master.partition(";")[0]))


def _require_java() -> None:
    """Check that there is a Java that Spark can use."""
    oldest = OLDEST_JAVA.get(find_spark_version()[0], max(OLDEST_JAVA.values()))
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = "JAVA_HOME" if home else "PATH"
    remedy = f"install Java {oldest} or newer (Debian: apt-get install default-jre-headless)"
    if java is None:
        raise UsageError(f"Spark needs Java, and there is none on PATH; {remedy}, or set JAVA_HOME")
    try:
        answer = subprocess.run(  # noqa: S603 - only a run proves that it works: the name may be a shim's
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        raise UsageError(f"Spark needs Java, and the one of {where} does not run; {remedy}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version is not None and int(version[1]) < oldest:
        raise UsageError(f"Spark needs Java {oldest}, and the one of {where} is {version[1]}; {remedy}")
