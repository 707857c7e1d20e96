"""An origin for the tests of a module, and a parent of children that have imported everything for all."""

import pytest

from tests.crash.scene import FILES, Children, can_trace, serving


@pytest.fixture(scope="module")
def url():
    with serving(FILES) as origin:
        yield origin.url


@pytest.fixture(scope="session")
def children():
    """A process that takes a second of a processor to start; the tests of volumes have it too."""
    with Children() as made:
        yield made


@pytest.fixture(scope="session")
def strace():
    """Skips the test where there is none."""
    if why := can_trace():
        pytest.skip(why)
