"""What there is to show, reduced from events."""

import pytest

from cfetch.base.events import (
    BaselineView,
    FallbackTriggered,
    HostPaused,
    RunStopping,
    SlowdownSeen,
    WidthChanged,
)
from cfetch.show.live.files_under_way import by_risk
from cfetch.show.live.prediction import predict
from cfetch.show.live.view import View
from tests.show.records import active, attempt, cancelled, finished, progress, record, retry, started


def view(*events):
    shown = View()
    for event in events:
        shown.apply(event)
    return shown


def test_progress_goes_by_bytes_where_all_sizes_are_known():
    """A large file counts for more than a small one."""
    shown = view(started(2, 1000), progress(1.0, done=1, bytes_done=100, bytes_active=150))
    assert (shown.fraction, shown.bytes_in_hand, shown.settled_files) == (0.25, 250, 1)


def test_progress_goes_by_files_where_sizes_are_unknown():
    """A sum of sizes that leaves some out would say too much."""
    shown = view(started(4, 1000, sizes_unknown=1), progress(1.0, done=1, bytes_done=900))
    assert shown.fraction == 0.25


def test_entries_that_failed_are_not_waited_for():
    """Their bytes count as settled, so that the bar can reach its end."""
    failed = record(0, 600, attempt(size=10), status="failed")
    shown = view(started(2, 1000), *finished(failed), progress(4.0, failed=1, done=1, bytes_done=400))
    assert shown.fraction == 1.0
    assert predict(shown) == (0.0, False)


def test_files_that_wait_for_their_names_are_settled():
    """The first line does not say 0 % while the baseline speaks of hundreds of finished files."""
    shown = view(started(4, 0, sizes_unknown=4), progress(2.0, whole=2, waiting=2, bytes_active=9))
    assert (shown.settled_files, shown.fraction, predict(shown)) == (2, 0.5, (2.0, True))


def test_rate_is_that_of_the_last_seconds():
    """What was received long ago does not count."""
    shown = view(started(), *(progress(float(t), bytes_done=1000 * min(t, 10)) for t in range(1, 40)))
    assert shown.rate_bps == 0.0
    steady = view(started(), *(progress(t / 4, bytes_active=250 * t) for t in range(1, 80)))
    assert steady.rate_bps == pytest.approx(1000)


def test_bytes_that_were_already_there_are_no_rate():
    """A thousand skipped files do not look like a fast network."""
    there = [record(i, 1000, status="skipped") for i in range(3)]
    shown = view(started(4, 4000), *finished(*there), progress(1.0, skipped=3, bytes_done=3000))
    assert shown.rate_bps == 0.0
    assert shown.fraction == 0.75


def test_a_waiting_retry_does_not_make_the_rate_negative():
    """Bytes of an entry that is not active for a while are neither lost nor received twice."""
    shown = view(started(), progress(1.0, bytes_active=1000), progress(2.0))
    assert shown.rate_bps == 0.0
    shown.apply(progress(3.0, bytes_active=1000))
    shown.apply(progress(4.0, bytes_active=1600))
    assert (shown.rate_bps, min(shown.rates(60))) == (200.0, 0.0)


def test_the_last_minute_in_columns():
    """Full seconds only, the oldest first; a gap is spread over the seconds it took."""
    shown = view(
        started(),
        progress(0.5, bytes_done=500),
        progress(1.0, bytes_done=1000),
        progress(4.0, bytes_done=4000),
    )
    assert shown.rates(60) == [500.0, 500.0, 1000.0, 1000.0]
    for second in range(5, 200):
        shown.apply(progress(float(second), bytes_done=4000 + 10 * (second - 4)))
    assert shown.rates(60) == [10.0] * 60
    assert shown.rates(30) == [10.0] * 30


def test_eta_by_bytes():
    """Bytes that are left by the rate of the last seconds."""
    shown = view(
        started(9, 10_000), *(progress(float(t), bytes_done=1000 * t, waiting=3) for t in range(1, 6))
    )
    assert predict(shown) == (5.0, False)


def test_eta_with_unknown_sizes_is_rough():
    """It goes by files so far and says so; before the first file there is none."""
    unknown = started(10, 0, sizes_unknown=10)
    assert predict(view(unknown, progress(4.0, done=2, waiting=3, bytes_done=5))) == (16.0, True)
    assert predict(view(unknown, progress(4.0, waiting=3))) is None
    still = [progress(float(t), done=2, waiting=3, bytes_done=5) for t in range(4, 60)]
    assert predict(view(unknown, *still)) is None  # the average of the past would say longer each second


def test_at_the_tail_the_slowest_attempt_decides():
    """When nothing waits, the time left is that of the slowest attempt; one that stands still has none."""
    fast, slow = active(0, rate_bps=900.0), active(1, rate_bps=10.0)
    shown = view(
        started(9, 10_000),
        progress(1.0, bytes_done=8000),
        progress(5.0, bytes_done=8200, active=[fast, slow]),
    )
    assert predict(shown) == (90.0, False)
    shown.apply(progress(6.0, active=[fast, active(1, rate_bps=0.0)]))
    assert predict(shown) is None


def test_a_straggler_at_the_tail_is_expected_to_start_afresh():
    """Past or near its limit it is broken off soon: the rest of the limit and a normal run are left."""
    slow = active(1, rate_bps=1.0, elapsed_s=8.0, expected_s=10.0)
    baseline = BaselineView(median_bps=500.0, finished=9, required=6)
    assert predict(
        view(started(9, 10_000), progress(5.0, bytes_done=8000, active=[slow], baseline=baseline))
    ) == (4.0, True)
    last_try = active(1, rate_bps=1.0, elapsed_s=8.0, expected_s=10.0, is_spared=True)
    assert predict(
        view(started(9, 10_000), progress(5.0, bytes_done=8000, active=[last_try], baseline=baseline))
    ) == (
        900.0,
        False,
    )


def test_nothing_is_known_at_first():
    """Before the first progress there is no rate, no time left, nothing done."""
    assert (View().rate_bps, predict(View()), View().fraction, View().settled_files) == (0.0, None, 0.0, 0)


def test_attempts_by_risk():
    """Stragglers first, then slow ones, then by how much of the limit is used, then by age."""
    attempts = [
        active(0, elapsed_s=1.0),
        active(1, elapsed_s=7.6),
        active(2, state="slow", elapsed_s=9.0),
        active(3, elapsed_s=3.0),
        active(4, state="straggler", elapsed_s=2.0),
        active(5, elapsed_s=99.0, expected_s=None),
        active(6, state="retrying", elapsed_s=0.0),
    ]
    assert [attempt.id for attempt in by_risk(attempts)] == [4, 2, 6, 1, 5, 3, 0]


def test_rows_keep_their_places():
    """Two attempts that grow older side by side do not swap while neither is near its limit."""
    young = [active(i, elapsed_s=e, expected_s=limit) for i, e, limit in ((0, 2.0, 50.0), (1, 1.0, 6.0))]
    older = [active(i, elapsed_s=e, expected_s=limit) for i, e, limit in ((0, 3.5, 50.0), (1, 2.5, 6.0))]
    assert [attempt.id for attempt in by_risk(young)] == [attempt.id for attempt in by_risk(older)] == [0, 1]


def test_notes_keep_the_last_three():
    """Failures, stragglers and fallback are kept; retries only replace one another."""
    failed = record(5, 9, attempt(), status="failed", error="HTTP 404")
    shown = view(started(), *finished(failed), cancelled(), *(retry(2.0 + i) for i in range(9)))
    assert [note.kind for note in shown.notes] == ["failed", "straggler", "retry"]
    assert (shown.notes[0].text, shown.notes[2].t_s) == ("HTTP 404", 10.0)
    shown.apply(FallbackTriggered(t_s=11.0, stragglers=10, threshold=10))
    assert [note.kind for note in shown.notes] == ["straggler", "retry", "fallback"]
    for pause_s in (2.0, 4.0):
        shown.apply(HostPaused(t_s=12.0, host="h", pause_s=pause_s, reason="HTTP 429"))
    assert [note.kind for note in shown.notes] == ["retry", "fallback", "pause"]
    assert shown.notes[2].text == "HTTP 429; no request there for 4.0s"
    for slots in (8, 4):
        shown.apply(WidthChanged(t_s=13.0, host="h", slots=slots, before=2 * slots, reason="slow"))
    shown.apply(SlowdownSeen(t_s=14.0, active=16, reason="7 of 16 are slow at once"))
    assert [note.kind for note in shown.notes] == ["pause", "width", "slowdown"]
    assert shown.notes[1].text == "4 downloads at a time instead of 8: slow"
    assert shown.notes[2].text == "7 of 16 are slow at once; no download is cancelled for it"


def test_a_won_race_is_no_cancellation():
    """An attempt whose last byte came while it was being cancelled is neither counted nor noted."""
    shown = view(started(), cancelled(completed=True))
    assert (shown.cancelled, list(shown.notes)) == (0, [])


def test_stopping_is_remembered():
    """Why the run stops is kept for the title and the closing words."""
    assert view(started(), RunStopping(t_s=1.0, reason="SIGINT")).stopping == "SIGINT"


def test_stragglers_are_counted_by_file():
    """The tasks of a job add up cancelled attempts, and only of files that have ended."""
    slow = [cancelled(id=entry) for entry in (1, 1, 2)]
    assert view(started(9, 9), *slow, progress(1.0, stragglers=0)).stragglers == 2
    assert view(started(9, 9), progress(1.0, stragglers=3)).stragglers == 3
