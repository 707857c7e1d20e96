"""Workers that have nothing but Python: cfetch comes to them in the archive of ``cfetch spark pack``."""

import json
import os
import subprocess
import sys

import pytest

from tests.cluster.scene import LATE, ended
from tests.cluster.standalone import PROJECT, Cluster
from tests.tasks.scene import files_of, served, write_manifest

pytestmark = pytest.mark.cluster

FILES = files_of(200, 16 << 10)
BARE_PYTHON = os.path.realpath(sys.executable)  # without the packages of the virtual environment


def run(*words, env=None):
    """The command's standard output."""
    command = [sys.executable, "-m", "cfetch", *map(str, words)]
    return subprocess.run(command, cwd=PROJECT, env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="this Python is no virtual environment's")
def test_workers_that_have_nothing_but_python(tmp_path):
    """Without the archive the look at the executors names what they lack; with it the job runs."""
    packed = json.loads(run("spark", "pack", "-o", tmp_path / "pack.tar.gz", "--json"))
    assert packed["size_bytes"] < 100 << 20
    to = tmp_path / "to"
    words = ("download", tmp_path / "m.json", "--to", to, "--engine", "spark", "--json")
    with Cluster(tmp_path, has_cfetch=False) as cluster, served(FILES, LATE) as origin:
        write_manifest(tmp_path / "m.json", origin, FILES)
        bare = cluster.environment() | {"PYSPARK_PYTHON": BARE_PYTHON}
        shipped = bare | {"PYSPARK_SUBMIT_ARGS": f"{packed['submit']} pyspark-shell"}
        with pytest.raises(subprocess.CalledProcessError) as refused:
            run(*words, "--spark-master", cluster.url, env=bare)
        assert (refused.value.returncode, "executor" in refused.value.stderr) == (3, True), (
            refused.value.stderr
        )
        driver = subprocess.Popen(
            [sys.executable, "-m", "cfetch", *map(str, words), "--spark-master", cluster.url],
            env=shipped,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        found = ended(driver, origin, to, files=FILES)
    assert (found.code, found.is_whole) == (0, True), found.said
