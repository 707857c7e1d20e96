"""How many downloads the limit of open files is enough for."""

import resource

import pytest

from cfetch.base.errors import ConfigError
from cfetch.storage import descriptors
from cfetch.storage.descriptors import directories_for, most_downloads, reserve_descriptors


@pytest.mark.parametrize(("limit", "directories", "downloads"), [
    (0, 1, 0), (20, 2, 0), (64, 6, 16), (256, 25, 102), (1024, 64, 467), (1 << 20, 64, 524_243),
])  # fmt: skip
def test_c99_the_table(limit, directories, downloads):
    """Two for each download, some for directories, a few for the rest; never more than there are."""
    assert (directories_for(limit), most_downloads(limit)) == (directories, downloads)
    assert downloads == 0 or 2 * downloads + directories + 20 <= limit


@pytest.fixture
def limits(monkeypatch):
    """The limits of a process that is not this one."""
    state = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: state["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, values: state.update(now=values))
    return state


ALL = resource.RLIM_INFINITY


@pytest.mark.parametrize(("before", "concurrency", "after"), [
    ((1024, 4096), 467, (1024, 4096)),
    ((1024, 4096), 468, (1026, 4096)),
    ((64, 4096), 1024, (2138, 4096)),
    ((64, ALL), 1024, (2138, ALL)),
    ((ALL, ALL), 1024, (ALL, ALL)),
])  # fmt: skip
def test_c99_the_limit_is_raised_no_more_than_is_needed(limits, before, concurrency, after):
    """And never lowered."""
    limits["now"] = before
    assert reserve_descriptors(concurrency, most=concurrency) == concurrency
    assert limits["now"] == after


def test_c99_too_few_are_refused_with_the_figures(limits):
    """What is asked for, what there is, what that is enough for."""
    limits["now"] = (64, 128)
    with pytest.raises(
        ConfigError, match=r"concurrency is 256, .* open 128 files .* for 45 downloads at a time"
    ):
        reserve_descriptors(256, most=256)
    assert limits["now"] == (64, 128)


def test_what_a_server_may_take_is_reserved_beside_the_downloads(limits):
    """The limit is raised by it, or fewer downloads are permitted."""
    limits["now"] = (64, 4096)
    reserve_descriptors(1024, most=1024, others=104)
    assert limits["now"] == (2242, 4096)
    limits["now"] = (64, 128)
    assert reserve_descriptors(4, most=64, others=20) == 36


def test_c99_growth_ends_where_the_limit_does(limits):
    """As many as are asked for fit; of those that a run would grow to, so many as fit beside them."""
    limits["now"] = (64, 128)
    assert reserve_descriptors(16, most=64) == most_downloads(128) == 45
    assert limits["now"] == (128, 128)


def test_what_nobody_asked_for_is_lowered_with_a_note(limits):
    """The default does; of none at all the refusal stays."""
    limits["now"] = (40, 40)
    assert reserve_descriptors(16, most=64, can_lower=True) == 5
    assert "enough for 5 downloads at a time, not 16" in descriptors.notes.pop()
    with pytest.raises(ConfigError, match="or give --concurrency 5"):
        reserve_descriptors(16, most=64)
    limits["now"] = (20, 20)
    with pytest.raises(ConfigError, match="enough for 0 downloads"):
        reserve_descriptors(16, most=64, can_lower=True)
