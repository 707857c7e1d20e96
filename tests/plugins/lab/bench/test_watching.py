"""The runs of a bench, live: what their metrics tell while they are written."""

from cfetch.base.events import EntryFinished, Event, Progress, RunExplained, RunFinished, RunStarted
from cfetch.plugins.lab.bench.watching import watch_metrics
from cfetch.plugins.monitors.page_state import PageState
from cfetch.show.metrics import MetricsFile
from cfetch.show.summary import Tally
from tests.show.records import attempt, finished, record, started


def play(path, listener, *records, torn=b""):
    """A run of ``records`` that is watched; ``torn`` stands at the end of its metrics."""
    tally = Tally()
    with watch_metrics(path, listener), MetricsFile(path) as metrics:
        for event in (started(files=2), *finished(*records)):
            tally(event)
            metrics(event)
        if not torn:
            end = tally.end(9.0)
            metrics(RunExplained(t_s=9.0, record=end))
    return tally.summary(9.0)


def test_a_run_is_told_by_the_metrics_that_it_writes(tmp_path):
    """Its files, its numbers and its summary, each once."""
    events: list[Event] = []
    summary = play(tmp_path / "m.jsonl", events.append, record(0, 100, attempt()), record(1, 50, attempt()))
    told = [event for event in events if not isinstance(event, Progress)]
    assert [type(event) for event in told] == [
        *(RunStarted, EntryFinished, EntryFinished),
        *(RunExplained, RunFinished),
    ]
    assert isinstance(told[-1], RunFinished)
    assert told[-1].summary == summary
    numbers = [event for event in events if isinstance(event, Progress)][-1]
    assert (numbers.done, numbers.bytes_done) == (2, 150)


def test_a_run_that_was_killed_has_no_end(tmp_path):
    """Its process wrote none; one that wrote nothing at all is no run."""
    events: list[Event] = []
    play(tmp_path / "m.jsonl", events.append, record(0, 100, attempt()), torn=True)
    with watch_metrics(tmp_path / "none.jsonl", events.append):
        pass
    assert isinstance(events[-1], Progress)
    assert not any(isinstance(event, RunFinished) for event in events)


def test_runs_are_shown_side_by_side(tmp_path):
    """The page has those that have ended and the one under way, by their names; no time left is guessed."""
    page = PageState(("ideal", "alone", "mitigated"))
    play(tmp_path / "1.jsonl", page.apply, record(0, 100, attempt()), record(1, 50, attempt()))
    assert page.make_live().text.startswith("ideal: completed: 2 of 2")
    play(tmp_path / "2.jsonl", page.apply, record(0, 100, attempt()), torn=True)
    assert page.make_live().text.startswith("alone: 1 of 2 files in place, 100 B")
    assert page.make_live().left_s is None
    assert [part.title for part in page.make_page().parts] == ["Overview", "ideal", "alone", "Settings"]
