"""Numbered states in the form of planet.openstreetmap.org: order, gaps, restarts, a source that goes back."""

import re

import pytest

from cfetch.base.errors import HostileFeed, StaleAnswer, UsageError
from tests.plugins.follow.upstream_site import Mirror, open_site

STATE = "#Thu Nov 26 10:00:00 UTC 2026\nsequenceNumber={}\ntimestamp=2026-11-26T09\\:59\\:59Z\n"


class Planet:
    """``last`` is the newest number; ``missing`` are not to be had."""

    def __init__(self):
        self.last, self.missing, self.asked = 6_330_001, set(), []
        self.state = STATE

    def answer(self, path, _query, _headers):
        self.asked.append(path)
        if path == "/minute/state.txt":
            return 200, self.state.format(self.last).encode()
        number = int("".join(re.findall(r"\d{3}", path)))
        if number in self.missing or number > self.last:
            return 404, b""
        return 200, (STATE.format(number) if path.endswith(".state.txt") else path).encode()


@pytest.fixture
def planet():
    return Planet()


@pytest.fixture
def mirror(planet, tmp_path):
    with open_site(planet.answer) as url:
        yield Mirror(f"osm+{url}/minute", tmp_path)


def test_a_mirror_begins_with_the_last_number_and_goes_on(planet, mirror):
    mirror.follow()
    assert mirror.names() == ["006/330/001.osc.gz", "006/330/001.state.txt", "state.txt"]
    planet.last += 2
    assert mirror.follow().files.done == 5
    assert mirror.read("state.txt") == STATE.format(6_330_003)
    assert mirror.read("006/330/003.osc.gz") == "/minute/006/330/003.osc.gz"
    planet.asked.clear()
    mirror.follow()
    assert set(planet.asked) == {"/minute/state.txt"}


def test_from_an_earlier_number(planet, mirror, monkeypatch):
    """In pieces, over the borders of directories."""
    monkeypatch.setattr("cfetch.plugins.follow.backends.osm.NUMBERS", 2)
    mirror.feed += "?from=6329998"
    mirror.follow()
    assert [name for name in mirror.names() if name.endswith("gz")] == [
        "006/329/998.osc.gz", "006/329/999.osc.gz", "006/330/000.osc.gz", "006/330/001.osc.gz",
    ]  # fmt: skip


def test_its_state_waits_for_the_files_that_it_names(planet, mirror):
    """Who reads the mirror never finds a number in it without its file."""
    mirror.follow()
    planet.last += 1
    planet.missing = {planet.last}
    assert mirror.follow().exit_code == 1
    assert mirror.read("state.txt") == STATE.format(6_330_001)
    planet.last += 1
    assert mirror.follow().exit_code == 1
    assert mirror.read("state.txt") == STATE.format(6_330_001)
    planet.missing = set()
    assert mirror.follow().exit_code == 0
    assert mirror.read("state.txt") == STATE.format(6_330_003)


def test_a_source_that_goes_back_is_told(planet, mirror):
    mirror.follow()
    planet.last -= 1
    with pytest.raises(StaleAnswer, match="has gone back, from number 6330001 to 6330000; with --resync"):
        mirror.follow()


def test_a_page_in_place_of_the_state(planet, mirror):
    planet.state = "<html>maintenance</html>"
    with pytest.raises(HostileFeed, match="states no sequenceNumber"):
        mirror.follow()


def test_a_first_number_that_is_none(mirror):
    mirror.feed += "?from=yesterday"
    with pytest.raises(UsageError, match="from= is the first number"):
        mirror.follow()
