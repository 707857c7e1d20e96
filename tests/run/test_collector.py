"""How often garbage in cycles is looked for."""

import gc
from contextlib import ExitStack

import pytest

from cfetch.run import collector
from cfetch.run.collector import OBJECTS, collect_seldom

MANY = 50_000  # objects: of those of earlier tests fewer go in the course of one test


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


@pytest.fixture
def nothing_frozen(monkeypatch):
    """As in a program; the tests themselves freeze all that they have loaded."""
    monkeypatch.setattr(collector, "_calls", collector._Calls())
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_from_before_are_left_out_until_the_last_end():
    """Also those that were made between two such calls, in whichever order these end."""
    with ExitStack() as outer, ExitStack() as inner:
        outer.enter_context(collect_seldom())
        first = gc.get_freeze_count()
        made: list[list[int]] = [[] for _ in range(MANY)]
        inner.enter_context(collect_seldom())
        # some of the objects of earlier tests, which are left out too, may have gone by now
        assert gc.get_freeze_count() > first + len(made) / 2
        outer.close()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] == OBJECTS
        inner.close()
        assert gc.get_freeze_count() == 0
        assert gc.get_threshold()[0] < OBJECTS


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_that_the_program_has_left_out_stay_so():
    """And no others join them, as nothing would take those back: each run's garbage would stay for ever."""
    gc.freeze()
    frozen = gc.get_freeze_count()
    made: list[list[int]] = [[] for _ in range(MANY)]
    for _ in range(2):
        with collect_seldom():
            assert frozen - len(made) < gc.get_freeze_count() <= frozen
        assert frozen - len(made) < gc.get_freeze_count() <= frozen


@pytest.mark.usefixtures("nothing_frozen")
def test_what_the_program_has_left_out_is_counted_once(monkeypatch):
    """The count visits each of them."""
    gc.freeze()
    asked: list[int] = []
    count = gc.get_freeze_count

    def counting():
        asked.append(count())
        return asked[-1]

    monkeypatch.setattr(gc, "get_freeze_count", counting)
    for _ in range(3):
        with collect_seldom():
            pass
    assert len(asked) == 1


@pytest.mark.usefixtures("nothing_frozen")
def test_a_process_of_tasks_leaves_its_libraries_out_for_good():
    """The garbage of a task is not left out by the next one, which would keep it for ever."""
    with collect_seldom(for_good=True):
        first = gc.get_freeze_count()
    made: list[list[int]] = [[] for _ in range(1000)]
    with collect_seldom(for_good=True):
        assert first >= gc.get_freeze_count() > len(made)
    assert gc.get_freeze_count() > 0
