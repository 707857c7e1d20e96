"""For sources of all kinds."""

import pytest


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    """A single run ends at once with a stale answer; its patience has a test of its own."""
    monkeypatch.setattr("cfetch.plugins.follow.use_cases.follow.STALE_ONCE_S", 0.0)
