"""The archive of Spark's classes: made whole or not at all, and harmless where it does not fit."""

import os
import subprocess
import sys

import pytest

from cfetch.base.errors import LocalFault
from cfetch.plugins.spark import session
from cfetch.plugins.spark.class_archive import archive_path, make_archive, reading_options
from tests.cli.verbs import PROJECT
from tests.plugins.spark.session import needs_java


def test_its_place_is_the_users_cache_and_tells_spark_and_java(tmp_path):
    first = archive_path("17.0.1", {"XDG_CACHE_HOME": str(tmp_path)})
    assert first.parent == tmp_path / "cfetch"
    assert "java-17.0.1-" in first.name
    others = [archive_path("21", {"XDG_CACHE_HOME": str(tmp_path)})]
    others.append(archive_path("17.0.1", {"XDG_CACHE_HOME": str(tmp_path), "SPARK_HOME": "/opt/spark"}))
    assert len({first, *others}) == 3


@pytest.mark.parametrize("is_there", [False, True])
def test_a_local_session_uses_it_where_it_is(tmp_path, monkeypatch, is_there):
    """A session on a cluster does not: its driver is this machine's too, but its settings are the user's."""
    archive = tmp_path / "a b.jsa"
    if is_there:
        archive.touch()
    options = {}

    class Builder:
        def config(self, *, map):  # noqa: A002 - PySpark's name
            options.update(map)
            return self

        def getOrCreate(self):  # noqa: N802 - PySpark's name
            return self

    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr(session, "_require_java", lambda: "17")
    monkeypatch.setattr(session, "archive_path", lambda _: archive)
    for master in ("local[1]", "spark://h:1"):
        session._make_session(master, {}, is_light=False)
        uses = f"'-XX:SharedArchiveFile={archive}'" in options["spark.driver.extraJavaOptions"]
        assert uses == (is_there and master == "local[1]")


@needs_java
@pytest.mark.parametrize("body", [b"", b"no archive" * 1000])
def test_a_broken_one_is_passed_over_without_a_word(tmp_path, body):
    archive = tmp_path / "a.jsa"
    archive.write_bytes(body)
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    ended = subprocess.run(
        [java, *reading_options(archive).split(), "-version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "archive" not in ended.stderr.lower()


def python_that(tmp_path, monkeypatch, does):
    """Let this shell script take the place of the training's Python."""
    (tmp_path / "python").write_text(f"#!/bin/sh\n{does}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def test_it_appears_whole(tmp_path, monkeypatch):
    archive = tmp_path / "cache/cfetch/a.jsa"
    python_that(tmp_path, monkeypatch, f"[ -e {archive} ] && exit 1; printf four >$3")
    assert make_archive(archive) == 4
    assert [path.name for path in archive.parent.iterdir()] == ["a.jsa"]


def test_a_java_that_makes_none(tmp_path, monkeypatch):
    """Its last words are told; an archive from before stays."""
    archive = tmp_path / "a.jsa"
    archive.write_bytes(b"old")
    python_that(tmp_path, monkeypatch, "echo 'Unrecognized VM option' >&2; echo; exit 1")
    with pytest.raises(LocalFault, match="made no archive of Spark's classes: Unrecognized VM option"):
        make_archive(archive)
    assert archive.read_bytes() == b"old"
    (tmp_path / "file").touch()
    with pytest.raises(LocalFault, match="cannot write"):
        make_archive(tmp_path / "file/a.jsa")


@pytest.mark.slow
@needs_java
def test_the_command_makes_one_that_a_session_maps(tmp_path):
    """Half a minute, with real JVMs."""
    env = os.environ | {"PYTHONPATH": str(PROJECT), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "cfetch", "spark", "cache-classes"], env=env, check=True)
    program = (
        "from cfetch.plugins.spark.session import spark_session\nfrom pyspark import SparkContext\n"
        "with spark_session('local[1]', is_light=True):\n"
        "    print(open(f'/proc/{SparkContext._gateway.proc.pid}/maps').read().count('.jsa'))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) > 0
