"""What the conditions' tests share: an environment without settings, no dice, and spans that can be read."""

import os

import pytest

from tests.conditions.runner import SECRETS
from tests.spans import spans  # noqa: F401 - a fixture


@pytest.fixture
def bare(monkeypatch):
    """No setting of the person who runs the tests; a token as the one variable that cfetch reads."""
    for name in os.environ:
        if name.upper().startswith(("CFETCH_", "DATABRICKS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DATABRICKS_TOKEN", SECRETS["token"])
    monkeypatch.setattr("cfetch.run.local_run.random.random", lambda: 0.0)  # tries follow each other at once
