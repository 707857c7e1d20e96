"""The marks of runs at a store: who sees whom, and what becomes of the marks of dead runs."""

import time

import msgspec
import pytest

from cfetch.base.errors import Held
from cfetch.run import store_marks
from cfetch.run.store_marks import RunMark, StoreMarks
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import this_owner

BEATS = Heartbeats(interval_s=1.0, misses=0)


@pytest.fixture
def elsewhere(monkeypatch):
    """All other processes are another machine's: nobody can prove whether they live."""
    monkeypatch.setattr(store_marks, "is_gone", lambda _: False)
    monkeypatch.setattr(store_marks, "is_alive", lambda _: False)


def marks_of(bucket, plan="a plan", beats=BEATS):
    return StoreMarks(bucket.url, plan, beats)


def mark_of(**changes):
    """The mark of a run on another machine."""
    owner = msgspec.structs.replace(this_owner("x"), host="far.example", pid=77, boot_id="another")
    mark = RunMark(
        plan="a plan",
        instant="20260101T000000000-0000",
        epoch=1,
        owner=owner,
        expiry_s=60.0,
        is_looking=False,
    )
    return msgspec.json.encode(msgspec.structs.replace(mark, **changes))


def names(bucket):
    return [key for key in bucket.keys() if key.startswith(".cfetch/runs/")]  # noqa: SIM118 - no mapping


def test_a_run_has_a_mark_until_its_end(bucket):
    """It is put again at each heartbeat."""
    with marks_of(bucket).stay("i", 1):
        (name,) = names(bucket)
        deadline_s = time.monotonic() + 30
        while msgspec.json.decode(bucket.get(name), type=RunMark).is_looking:
            assert time.monotonic() < deadline_s
        first = bucket.head(name)["last-modified"]
        while bucket.head(name)["last-modified"] == first:
            assert time.monotonic() < deadline_s
    assert names(bucket) == []


def test_a_second_run_of_the_plan_is_refused(bucket):
    """By name; a run of another plan is not."""
    with marks_of(bucket).stay("i", 1):
        with (
            pytest.raises(Held, match="brings the same files to s3://") as refused,
            marks_of(bucket).stay("j", 1),
        ):
            pass
        assert refused.value.is_certain  # a process of this machine, whose pid lives
        with marks_of(bucket, plan="another").stay("k", 1):
            assert len(names(bucket)) == 2
        assert len(names(bucket)) == 1


def test_a_far_run_is_watched(bucket, elsewhere):
    """Its mark is no proof of life at first; it is when it was put again."""
    marks = marks_of(bucket)
    bucket.put(".cfetch/runs/a.json", mark_of())
    with pytest.raises(Held, match=r"process 77 on far\.example") as refused:
        marks.refuse_same_plan()
    assert not refused.value.is_certain
    first = bucket.head(".cfetch/runs/a.json")["last-modified"]
    while bucket.head(".cfetch/runs/a.json")["last-modified"] == first:
        bucket.put(".cfetch/runs/a.json", mark_of())
    with pytest.raises(Held) as refused:
        marks.refuse_same_plan()
    assert refused.value.is_certain
    assert names(bucket) == [".cfetch/runs/a.json"]


@pytest.mark.parametrize(
    "changes",
    [
        {"expiry_s": -1.0},
        {"expiry_s": -1.0, "plan": "another"},
        {"instant": "i", "epoch": 1},
    ],
)
def test_marks_of_dead_runs_are_deleted(bucket, elsewhere, changes):
    """Those that are too old, by the store's clock, and those of earlier executions of the same plan."""
    bucket.put(".cfetch/runs/a.json", mark_of(**changes))
    with marks_of(bucket).stay("i", 2):
        assert ".cfetch/runs/a.json" not in names(bucket)


def test_the_mark_of_a_process_that_has_died(bucket):
    """Its pid is gone, so it is not waited for."""
    owner = msgspec.structs.replace(this_owner("x"), started=1)
    bucket.put(".cfetch/runs/a.json", mark_of(owner=owner))
    marks_of(bucket).refuse_same_plan()
    assert names(bucket) == []


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", mark_of(plan="another"), mark_of(is_looking=True)])
def test_marks_that_concern_nobody(bucket, elsewhere, data):
    """Unreadable ones stay, as they may be a newer version's; of two that look, the first by name goes on."""
    bucket.put(".cfetch/runs/zz.json", data)
    marks_of(bucket).refuse_same_plan()
    assert names(bucket) == [".cfetch/runs/zz.json"]


def test_of_two_that_begin_together_one_goes_on(bucket, elsewhere):
    """The other one, whose name comes later, waits."""
    bucket.put(".cfetch/runs/!.json", mark_of(is_looking=True))
    with pytest.raises(Held):
        marks_of(bucket).refuse_same_plan()


def test_a_store_that_does_not_answer_is_left_to_the_volume(bucket, monkeypatch):
    """A run goes on without a mark."""
    monkeypatch.setattr(store_marks, "TIMEOUT_S", 0.5)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with marks_of(bucket).stay("i", 1):
        pass
