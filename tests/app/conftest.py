"""What the tests of several use cases share."""

import pytest

from cfetch.config.settings import Settings


@pytest.fixture
def in_place(tmp_path):
    """A manifest whose only file stands in its place already, and the settings to run it."""
    (tmp_path / "to").mkdir()
    (tmp_path / "to/a").write_bytes(b"0123456789")
    path = tmp_path / "m.json"
    path.write_text('{"version": 1, "files": [{"url": "http://nobody.test/a", "size": 10}]}')
    return str(path), Settings(to=(str(tmp_path / "to"),))
