"""The archive for workers: it is enough for a task, small, and the same each time."""

import hashlib
import json
import subprocess
import sys
import tarfile

import pytest

from cfetch.base.errors import LocalFault, UsageError
from cfetch.plugins.spark.pack import DIRECTORY, write_pack
from tests.cli.verbs import cfetch

TASK = "import cfetch.tasks.shares.task, cfetch.engine.pool, cfetch.wire.http, cfetch.storage.directory"


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """The archive without the packages that have hundreds of megabytes."""
    return write_pack(tmp_path_factory.mktemp("pack") / "slim.tar.gz", slim=True)


def test_a_task_needs_nothing_else(slim, tmp_path):
    """Only numpy is left out, which a task loads with many attempts; PySpark is the workers' own."""
    with tarfile.open(slim.path) as archive:
        archive.extractall(tmp_path, filter="data")
    code = f"{TASK}; import sys; print('pyspark' in sys.modules, cfetch.__file__)"
    clean = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-S", "-c", code], env=clean, cwd="/", capture_output=True, text=True, check=True
    )
    assert found.stdout == f"False {tmp_path / 'cfetch/__init__.py'}\n"


def test_it_is_small_and_holds_nothing_of_this_machine(slim):
    assert slim.size_bytes < 16 << 20
    with tarfile.open(slim.path) as archive:
        entries = archive.getmembers()
    assert len(entries) == slim.files
    assert {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in entries} == {
        (0, 0, "", "", 0)
    }
    names = {entry.name for entry in entries}
    assert {"cfetch/__init__.py", "cfetch/py.typed", "cfetch/plugins/spark/log4j2.properties"} <= names
    packages = {name.partition("/")[0] for name in names}
    assert {"aiohttp", "msgspec", "yarl", "obstore", "blake3", "google_crc32c"} <= packages
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "tests"} & packages
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]


async def test_the_command_makes_the_same_archive_and_names_the_options_that_ship_it(slim, tmp_path):
    """The same packages make the same bytes, whoever asks; the options are for people and for machines."""
    found = await cfetch("spark", "pack", "--slim", "-o", tmp_path / "p.tar.gz")
    options = f"--archives {tmp_path}/p.tar.gz#{DIRECTORY} --conf spark.executorEnv.PYTHONPATH={DIRECTORY}"
    assert (found.code, f"spark-submit {options} JOB.py" in found.out) == (0, True), found
    again = hashlib.sha256((tmp_path / "p.tar.gz").read_bytes()).digest()
    assert again == hashlib.sha256(slim.path.read_bytes()).digest()
    machine = await cfetch("spark", "pack", "--slim", "-o", tmp_path / "p.tar.gz", "--json")
    document = json.loads(machine.out)
    assert (document["submit"], document["python"]) == (
        options,
        f"{sys.version_info[0]}.{sys.version_info[1]}",
    )


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("cfetch.plugins.spark.pack.ARROW", ("pandas", "no-such-package"))
    with pytest.raises(UsageError, match=r"needs the library no-such-package.*cfetch\[spark\]"):
        write_pack(tmp_path / "p.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(LocalFault, match="cannot write"):
        write_pack(tmp_path / "nowhere/p.tar.gz", slim=True)
