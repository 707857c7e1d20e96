"""A destination of one attempt at the plan ``i``."""

import pytest

from cfetch.storage.directory import Directory


@pytest.fixture
def root(tmp_path):
    """Where its files go."""
    return tmp_path / "to"


@pytest.fixture
def volume(root):
    """It, opened."""
    made = Directory(root, "attempts/i/0")
    yield made
    made.close()
