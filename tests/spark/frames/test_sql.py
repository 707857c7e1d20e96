"""Tables and views of SQL over a manifest, in real sessions; the Python that these start."""

import sys

import pytest

from cfetch.errors import ConfigError, UsageError
from cfetch.spark import register
from cfetch.spark.frames.source import FilesSource
from tests.spark.serving import asked, manifest, serving

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
