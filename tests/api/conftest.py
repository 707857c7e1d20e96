"""What the tests of the library share."""

import pytest

from tests.api.slow_site import SlowSite


@pytest.fixture
def site():
    """A server of a few files, whose file ``slow`` ends when the test says so."""
    opened = SlowSite()
    yield opened
    opened.close()
