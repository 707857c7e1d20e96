"""How often garbage in cycles is looked for."""

import gc

import pytest

from cfetch.run.collector import OBJECTS, collect_seldom


@pytest.fixture(autouse=True)
def threshold():
    """The process's own setting, which a test leaves as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("usual", "during"),
    [(700, OBJECTS), (2 * OBJECTS, 2 * OBJECTS), (0, 0)],
    ids=["usual", "seldom", "never"],
)
def test_garbage_is_looked_for_seldom_during_a_run(usual, during):
    """A process that looks still less often, or never, is left alone; all have their own setting again."""
    gc.set_threshold(usual, 10, 10)
    with collect_seldom():
        assert gc.get_threshold() == (during, 10, 10)
    assert gc.get_threshold() == (usual, 10, 10)
