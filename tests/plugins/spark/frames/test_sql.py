"""Tables and views of SQL over a manifest, in real sessions; the Python that these start."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cfetch.base.errors import ConfigError, UsageError
from cfetch.plugins.spark import register
from cfetch.plugins.spark.frames import options
from cfetch.plugins.spark.frames.feed_source import FeedDataSource
from cfetch.plugins.spark.frames.options import adopt_variables, pick_variables, read_options
from cfetch.plugins.spark.frames.shard_sink import WebdatasetSink
from cfetch.plugins.spark.frames.source import FilesSource
from tests.plugins.spark.serving import asked, manifest, serving

FILES = {f"d/{n}.bin": b"%d " % n * 100 for n in range(8)}


@pytest.fixture
def sql(spark):
    """Statements of a session that knows the formats. Table ``files`` and view ``seen`` go at the end."""
    register(spark)
    yield spark.sql
    spark.sql("DROP TABLE IF EXISTS files")
    spark.sql("DROP VIEW IF EXISTS seen")


@pytest.mark.parametrize("what", ["TABLE files", "TEMPORARY VIEW seen"])
def test_a_statement_makes_a_table(sql, tmp_path, what):
    """Each action reads it anew, and each file is asked for once."""
    with serving(FILES) as origin:
        path = manifest(tmp_path / "m.json", origin, FILES, "gone.bin")
        sql(f"CREATE {what} USING cfetch OPTIONS (manifest '{path}', to '{tmp_path / 'to'}')")
        name = what.split()[-1]
        assert sql(f"SELECT count(*) FROM {name}").first()[0] == len(FILES) + 1
        rows = sql(f"SELECT path, status, hash.hex FROM {name} WHERE id < 2 ORDER BY id").collect()
        assert [(row.path, row.status) for row in rows] == [("d/0.bin", "done"), ("d/1.bin", "done")]
        failed = sql(f"SELECT error FROM {name} WHERE status = 'failed'").collect()
        assert [row.error for row in failed] == ["HTTP 404"]
        assert {one: count for one, count in asked(origin).items() if one in FILES} == dict.fromkeys(FILES, 1)


def test_load_may_name_the_manifest(spark, tmp_path):
    """As its argument."""
    register(spark)
    with serving(FILES) as origin:
        path = manifest(tmp_path / "m.json", origin, FILES)
        assert spark.read.format("cfetch").option("to", str(tmp_path / "to")).load(str(path)).count() == 8


@pytest.mark.parametrize(
    "url", ["https://h/m.json?X-Amz-Signature=s", "https://me:word@h/m.json", "http://[?x"]
)
@pytest.mark.parametrize("name", ["manifest", "path"])
def test_a_url_that_may_hold_a_secret_has_its_own_option(tmp_path, name, url):
    """Spark shows all options but those with ``url`` in their names. The message repeats nothing of it."""
    with pytest.raises(ConfigError, match=f"option {name} is a URL .* call it manifest_url") as caught:
        FilesSource({name: url, "to": str(tmp_path)}).schema()
    assert "h/" not in str(caught.value)


SECRET_OPTIONS = {
    "header": "X-Key: word",
    "refresh_command": "sign --key word",
    "proxy": "http://me:word@127.0.0.1:1",
}


@pytest.mark.parametrize("name", SECRET_OPTIONS)
def test_an_option_that_may_hold_a_secret_takes_a_name_that_spark_redacts(tmp_path, name):
    """Under its own name a view would have it in the event log. The message repeats nothing of it."""
    needed = {"manifest": "/m.json", "to": str(tmp_path), "header_host": "h"}
    with pytest.raises(
        ConfigError, match=f"option {name} may hold a secret, .* call the option {name}_url"
    ) as caught:
        FilesSource({**needed, name: SECRET_OPTIONS[name]}).schema()
    assert "word" not in str(caught.value)
    given = {**needed, f"{name}_url": SECRET_OPTIONS[name]}
    plain = read_options(needed, needed="manifest").settings
    assert getattr(read_options(given, needed="manifest").settings, name) != getattr(plain, name)


def test_spark_redacts_the_header_of_a_view_and_the_server_gets_it(spark, sql, tmp_path):
    """By the rule by which Spark writes the options of a statement to its event log."""
    shown = str(spark._jsparkSession.sessionState().conf().redactOptions(
        spark._jvm.PythonUtils.toScalaMap({f"{name}_url": "word" for name in SECRET_OPTIONS})
    ))  # fmt: skip
    assert "header_url" in shown
    assert "word" not in shown
    with serving(FILES) as origin:
        path = manifest(tmp_path / "m.json", origin, FILES)
        host = origin.url.split("/")[2]
        options = f"manifest '{path}', to '{tmp_path / 'to'}', header_url 'X-Key: word', header_host '{host}'"
        sql(f"CREATE TEMPORARY VIEW seen USING cfetch OPTIONS ({options})")
        assert sql("SELECT count(*) FROM seen WHERE status = 'done'").first()[0] == len(FILES)
        assert {request.headers.get("x-key") for request in origin.requests} == {"word"}


@pytest.mark.parametrize("name", ["header", "header_url", "refresh_command_url", "proxy_url"])
def test_a_table_with_an_option_that_may_hold_a_secret_is_refused(tmp_path, name):
    """Spark has written all options of the statement to its event log, also those with ``url``."""
    value = SECRET_OPTIONS[name.removesuffix("_url")]
    options = {"manifest": "/m.json", "to": str(tmp_path), name: value}
    with pytest.raises(ConfigError, match="an option of CREATE TABLE is a header") as caught:
        FilesSource(
            {"provider": "cfetch", **{f"option.{key}": given for key, given in options.items()}}
        ).schema()
    assert "word" not in str(caught.value)


def test_a_python_without_cfetch_is_named_with_the_remedy(spark, tmp_path, monkeypatch):
    """As where no environment is activated, and Spark starts the python3 on PATH."""
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without installed packages
    other.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    with pytest.raises(
        UsageError, match=r"the Python .* lacks the library \w+; set PYSPARK_PYTHON"
    ) as caught:
        register(spark)
    assert str(caught.value).endswith(f"that is {sys.executable}, set before the session is made")
    monkeypatch.undo()
    register(spark)


def test_a_thread_that_registers_can_write(spark, tmp_path):
    """Spark looks the format up in the session that is active in the writing thread; a new one has none."""
    path = str(tmp_path / "shards")

    def write():
        register(spark)
        rows = spark.range(1).selectExpr("'not a link' as url")
        rows.write.format("cfetch.webdataset").mode("append").save(path)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(write).result()
    assert [row.status for row in spark.read.parquet(f"{path}/*.parquet").collect()] == ["failed"]


def test_a_write_has_the_login_that_the_program_has(spark, bucket):
    """The process that plans it began with the JVM's environment: a later login comes with ``register``."""
    assert spark._jvm.System.getenv("AWS_ACCESS_KEY_ID") is None
    register(spark)
    rows = spark.range(1).selectExpr("'not a link' as url")
    rows.write.format("cfetch.webdataset").mode("append").save(f"{bucket.url}/set")
    objects = bucket.keys
    assert "set/_SUCCESS" in objects()


def test_a_process_that_plans_again_has_no_variable_of_before(monkeypatch):
    """As where a program has changed temporary keys for others: their token goes, and the JVM's own stay."""
    monkeypatch.setattr(options, "_BEFORE", {"AWS_REGION": "r"})
    monkeypatch.setattr(os, "environ", {"AWS_REGION": "r", "HOME": "/h"})
    given = {"AWS_SESSION_TOKEN": "t", "https_proxy": "p", "CFETCH_DURABILITY": "crash", "OTHER": "o"}
    adopt_variables(pick_variables({**given, "AWS_REGION": "s"}))
    del given["OTHER"]
    assert os.environ == {"AWS_REGION": "s", "HOME": "/h", **given}
    adopt_variables({"AWS_ACCESS_KEY_ID": "k"})
    assert os.environ == {"AWS_REGION": "r", "HOME": "/h", "AWS_ACCESS_KEY_ID": "k"}
    adopt_variables({})
    assert "AWS_ACCESS_KEY_ID" in os.environ


@pytest.mark.parametrize(
    ("source", "plan"),
    [
        (FilesSource, FilesSource.schema),
        (FeedDataSource, FeedDataSource.schema),
        (WebdatasetSink, lambda sink: sink.writer(None, False)),
    ],
)
def test_each_source_has_the_variables_that_come_with_its_class(source, plan, monkeypatch):
    """Before it reads its options."""
    monkeypatch.setattr(os, "environ", {**os.environ})
    with_variables: Any = type(source.__name__, (source,), {"variables": {"CFETCH_NEVER": "1"}})
    made = with_variables({"manifest": "m", "to": "/x", "feed": "f", "state": "/x"})
    with pytest.raises(ConfigError):
        plan(made)
    assert os.environ["CFETCH_NEVER"] == "1"


def test_sql_finds_the_format_without_python(spark, tmp_path):
    """A session in which nobody has called ``register`` reads a manifest: Spark has found the package."""
    path = tmp_path / "m.json"
    path.write_text('{"version": 1, "files": [{"url": "http://127.0.0.1:1/a", "path": "a"}]}')
    session = spark.newSession()
    session.sql(f"CREATE TEMPORARY VIEW found USING cfetch OPTIONS (manifest '{path}', to '{tmp_path}')")
    assert session.table("found").columns[:2] == ["id", "path"]
