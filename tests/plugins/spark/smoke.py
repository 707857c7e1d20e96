"""Tries each use of Spark once on the PySpark that is installed: ``python -m tests.plugins.spark.smoke``.

``scripts/spark-matrix`` runs it on several versions. A use that this version is too old for must say so in
one sentence, with the version that it needs. The last line is a row of a table in Markdown.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow
import pyspark
from pyspark.sql import DataFrame, SparkSession

from cfetch.base.errors import UsageError
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.plugins.spark import download, register
from cfetch.plugins.spark.prepare.manifests import prepare
from cfetch.plugins.spark.session import find_spark_version
from tests.plugins.follow.follow_world import Served
from tests.plugins.spark.serving import asked, manifest, serving

SLOW_S = 1800.0  # a session takes five minutes on two cores that thirty programs want
FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(20)}
OLDEST = {  # the first version of Spark that each use works on, as the pages say
    "command": (3, 5),
    "prepare": (3, 5),
    "function": (3, 5),
    "source": (4, 0),
    "shards": (4, 0),
    "stream": (4, 0),
}


def check(is_right: bool, what: object) -> None:
    """Raise RuntimeError if it is wrong: asserts may be switched off."""
    if not is_right:
        raise RuntimeError(f"not as it should be: {what}")


class Smoke:
    """The uses, each on files of its own below ``root``."""

    def __init__(self, spark: SparkSession, origin: Origin, root: Path) -> None:
        self.spark = spark
        self.origin = origin
        self.root = root

    def _make_frame(self) -> DataFrame:
        self.origin.requests.clear()
        rows = [(self.origin.url + name, name) for name in FILES]
        return self.spark.createDataFrame(rows, "url string, name string")

    def _check_files(self, root: Path) -> None:
        written = {name: (root / name).read_bytes() for name in FILES}
        check(written == FILES, f"the files in {root}")

    def command(self) -> None:
        """``cfetch download --engine spark`` as a process of its own."""
        path, to = manifest(self.root / "m.json", self.origin, FILES), self.root / "command"
        words = ("download", path, "--to", to, "--engine", "spark", "--spark-master", "local[2]", "--quiet")
        subprocess.run([sys.executable, "-m", "cfetch", *words], check=True, timeout=SLOW_S)
        self._check_files(to)

    def prepare(self) -> None:
        """A list in which each entry stands twice, checked and cut by Spark."""
        path = self.root / "p.jsonl"
        rows = [f'{{"url": "{self.origin.url}{name}", "path": "{name}"}}\n' for name in (*FILES, *FILES)]
        path.write_text("".join(rows))
        plan = prepare(self.spark, [path], self.root / "plan", slots=2, unit_bytes=500)
        check((plan.rejected, plan.merged) == (0, len(FILES)), "the number of repeats")
        check(sorted(entry.path for entry in plan.entries()) == sorted(FILES), "the entries")

    def function(self) -> None:
        """``download`` to a directory, which is evaluated twice, and of contents."""
        to = self.root / "function"
        results = download(self._make_frame(), to=to, path="name")
        for _ in range(2):
            check([row.status for row in results.collect()] == ["done"] * len(FILES), "the statuses")
        self._check_files(to)
        check(asked(self.origin) == dict.fromkeys(FILES, 1), "a request for each file")
        contents = download(self._make_frame(), path="name", content=True).collect()
        check({row.name: bytes(row.content) for row in contents} == FILES, "the contents")

    def source(self) -> None:
        """``read.format("cfetch")`` and a view of SQL."""
        register(self.spark)
        path, to = manifest(self.root / "s.json", self.origin, FILES), self.root / "source"
        frame = self.spark.read.format("cfetch").options(manifest=str(path), to=str(to)).load()
        check(frame.where("status = 'done'").count() == len(FILES), "the rows")
        self._check_files(to)
        self.spark.sql(f"CREATE TEMPORARY VIEW v USING cfetch OPTIONS (manifest '{path}', to '{to}')")
        check(self.spark.sql("SELECT path FROM v").count() == len(FILES), "the rows of the view")

    def shards(self) -> None:
        """Tar files for webdataset, and tables with the bytes."""
        register(self.spark)
        for form in ("cfetch.webdataset", "cfetch.parquet"):
            sink = self._make_frame().repartition(2).write.format(form).mode("append")
            sink.option("path_column", "name").save(str(self.root / form))
        names: list[str] = []
        for path in (self.root / "cfetch.webdataset").glob("*.tar"):
            with tarfile.open(path) as tar:
                names += [name for name in tar.getnames() if name.endswith(".bin")]
        check(sorted(names) == sorted(FILES), "the names in the shards")
        table = self.spark.read.parquet(str(self.root / "cfetch.parquet" / "*.parquet"))
        check({row.name: bytes(row.content) for row in table.collect()} == FILES, "the contents of shards")

    def stream(self) -> None:
        """``readStream.format("cfetch.feed")`` and ``download``, until all that is there has come."""
        register(self.spark)
        to = self.root / "stream"
        with closing(Served(self.root / "published")) as served:
            served.write({name: content.decode() for name, content in FILES.items()})
            source = self.spark.readStream.format("cfetch.feed").option("feed", served.url)
            rows = source.option("state", str(self.root / "state")).load()
            results = download(rows, to=to, path="path", size="size", sha256="digest", headers="headers")
            sink = results.writeStream.format("memory").queryName("stream").outputMode("append")
            sink = sink.option("checkpointLocation", str(self.root / "checkpoint"))
            sink.trigger(availableNow=True).start().awaitTermination()
        check(self.spark.table("stream").where("status = 'done'").count() == len(FILES), "the stream's rows")
        self._check_files(to)


def run(use: Callable[[], None], oldest: tuple[int, int]) -> str:
    """``works``, or the version that it says it needs."""
    try:
        use()
    except Exception as error:  # in a stream it comes as Spark's
        said = re.search(r"needs Spark ([0-9.]+) or newer", str(error))
        if find_spark_version() >= oldest or said is None:
            raise
        return f"says that it needs {said[1]}"
    check(find_spark_version() >= oldest, f"it works before {oldest}; state the true version")
    return "works"


def main() -> None:
    """Run all uses and print the row."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory(prefix="cfetch-smoke-") as name, serving(FILES) as origin:
        smoke = Smoke(builder.getOrCreate(), origin, Path(name))
        cells = [run(getattr(smoke, use), oldest) for use, oldest in OLDEST.items()]
        smoke.spark.stop()
    print(f"| {pyspark.__version__} | {pyarrow.__version__} | {' | '.join(cells)} |")


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(str(error))
