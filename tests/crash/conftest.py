"""An origin, and a parent of children that have imported everything, for all tests of a module."""

import pytest

from tests.crash.scene import FILES, Children, can_trace, serving


@pytest.fixture(scope="module")
def url():
    with serving(FILES) as origin:
        yield origin.url


@pytest.fixture(scope="module")
def children():
    with Children() as made:
        yield made


@pytest.fixture(scope="session")
def strace():
    """Skips the test where there is none."""
    if why := can_trace():
        pytest.skip(why)
