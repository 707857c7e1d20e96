"""The short job that loads the classes of Spark for ``class_archive.py``, which runs it as a process."""

import sys
from pathlib import Path
from shlex import quote  # Spark takes the options of a JVM apart as a shell does

from cfetch.plugins.spark.class_archive import SILENT
from cfetch.plugins.spark.session import LIGHT_JVM, QUIET, spark_session


def _train(made: Path) -> None:
    """Do once what the sessions of this program do: run Python over rows, group, write and read Parquet."""
    options = f"{QUIET} {LIGHT_JVM} {SILENT} {quote(f'-XX:ArchiveClassesAtExit={made}')}"
    with spark_session("local[2]", settings={"spark.driver.extraJavaOptions": options}) as session:
        frame = session.range(1000, numPartitions=2).selectExpr("id", "id % 7 AS share")
        frame.mapInArrow(lambda batches: batches, "id long, share long").groupBy("share").count().collect()
        table = str(made.with_suffix(".parquet"))
        frame.write.parquet(table)
        session.read.parquet(table).orderBy("id").toArrow()


if __name__ == "__main__":
    _train(Path(sys.argv[1]))
