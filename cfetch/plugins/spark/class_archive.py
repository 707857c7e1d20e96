"""An archive of Spark's classes, by the JVM's class data sharing: local Spark starts in half the time.

Without it a JVM reads, checks and links some 20,000 classes at each start. A short job in a JVM that notes
its classes makes the archive; later sessions map it into memory. A JVM proves the archive by itself, and
goes on without it where Java or Spark's jars are others than those that made it.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from shlex import quote  # Spark takes the options of a JVM apart as a shell does

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # an archive that does not fit costs time, and no word
TRAINING_S = 600.0  # a slow machine takes a minute


def archive_path(java_version: str, env: Mapping[str, str] = os.environ) -> Path:
    """The place of the archive for this Spark and this Java, in the user's cache."""
    import pyspark

    home = env.get("SPARK_HOME") or str(pyspark.__file__)
    place = hashlib.sha256(home.encode()).hexdigest()[:8]  # the archive is bound to its jars' paths
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cfetch" / f"spark-{pyspark.__version__}-java-{java_version}-{place}.jsa"


def reading_options(archive: Path) -> str:
    """The options of a JVM that uses the archive; none if there is none."""
    return f"{quote(f'-XX:SharedArchiveFile={archive}')} {SILENT}" if archive.is_file() else ""


def make_archive(archive: Path) -> int:
    """Make the archive anew; return its size in bytes. It takes half a minute.

    Raises:
        LocalFault: the archive cannot be written, or this Java makes none.
    """
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
            made = Path(directory) / archive.name
            words = _run_training(made)
            if not made.is_file():
                raise LocalFault(f"this Java made no archive of Spark's classes: {printable(words, 300)}")
            made.replace(archive)
        return archive.stat().st_size
    except OSError as error:
        raise local_fault(error, f"cannot write {archive}") from None


def _run_training(made: Path) -> str:
    """Run the short job as a process of its own, to the end of its JVM; return its last line."""
    try:
        ended = subprocess.run(  # noqa: S603 - this Python, and this file
            [sys.executable, "-m", "cfetch.plugins.spark.class_training", str(made)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # the JVM has it too: its end is the JVM's, which writes the archive last
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TRAINING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TRAINING_S:.0f} s"
    return next((line for line in reversed(ended.stdout.splitlines()) if line.strip()), "it said nothing")
