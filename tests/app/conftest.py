"""What the tests of several use cases share."""

import pytest

from cfetch.base.config.settings import Settings
from tests.app.site import Runner, Site


@pytest.fixture
def in_place(tmp_path):
    """A manifest whose only file stands in its place already, and the settings to run it."""
    (tmp_path / "to").mkdir()
    (tmp_path / "to/a").write_bytes(b"0123456789")
    path = tmp_path / "m.json"
    path.write_text('{"version": 1, "files": [{"url": "http://nobody.test/a", "size": 10}]}')
    return str(path), Settings(to=(str(tmp_path / "to"),))


@pytest.fixture
def site():
    """A server of a few files."""
    opened = Site()
    yield opened
    opened.close()


@pytest.fixture
def run(site, tmp_path):
    """Downloads its list, as often as it is called."""
    return Runner(site, tmp_path)
