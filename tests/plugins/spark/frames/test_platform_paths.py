"""Destinations as platforms write them."""

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.plugins.spark.frames.download import _choose_options
from cfetch.plugins.spark.frames.options import read_options

AZURE = "abfss://box@acct.dfs.core.windows.net/set"


@pytest.mark.parametrize(
    ("written", "to"),
    [
        ("s3a://bucket/set", "s3://bucket/set"),
        ("S3N://bucket/set/", "s3://bucket/set"),
        (AZURE, "az://box/set"),
        ("dbfs:/set", "/dbfs/set"),
        ("dbfs:///set", "/dbfs/set"),
        ("file:///data/set", "/data/set"),
        ("file:/data/set", "/data/set"),
        ("/Volumes/c/s/v/set", "/Volumes/c/s/v/set"),
        ("gs://bucket/set", "gs://bucket/set"),
    ],
)
def test_the_names_of_platforms(written, to, monkeypatch):
    """Each is the store or the directory that it means there; the account of Azure goes to the tasks."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    options = _choose_options(written, Settings(), content=False, content_limit="1MiB")
    assert options.settings.to == (to,)
    assert options.env.get("AZURE_STORAGE_ACCOUNT_NAME") == ("acct" if written == AZURE else None)
    if to.startswith("/"):  # a data source takes directories only
        assert read_options({"manifest": "m", "to": written}, needed="manifest").root.as_posix() == to


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("hdfs://nn/set", "is in HDFS, which cfetch cannot write; name an object store"),
        ("abfss://box/set", "must be as abfss://container@account"),
        (AZURE, "names the account acct, and AZURE_STORAGE_ACCOUNT_NAME another one"),
    ],
)
def test_names_that_cannot_be_followed(written, said, monkeypatch):
    """The message says what can."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    with pytest.raises(ConfigError, match=said):
        _choose_options(written, Settings(), content=False, content_limit="1MiB")
