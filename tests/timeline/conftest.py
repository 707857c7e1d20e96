"""Processes on a directory of the test's own."""

import pytest

from tests.timeline.real import Processes


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    made.close()
