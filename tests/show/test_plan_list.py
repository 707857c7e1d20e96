"""The list of plans fits a terminal of 80 columns, with long names of processes and rollbacks too."""

from cfetch.show.format import cells
from cfetch.show.plan_view import ListedPlan, detail_lines, plan_lines

FIELDS = {"action": "download", "kind": "immutable", "state": "completed", "owner": None, "live": False}


def plan(**more):
    fields = {**FIELDS, "instant": "20261121T160430123Z-1a2b", "released": False, "epoch": 2, **more}
    return ListedPlan(heartbeat_age_s=None, **fields)


def test_a_row_fits_and_breaks_no_word():
    """A row of facts, and below it the run that has the plan."""
    owner = "process 123456 on a-very-long-host-name.compute.example.internal"
    running = plan(owner=owner, live=True, state="inflight", files=12_345_678, bytes=2**50, kind="removable")
    header, row, below = plan_lines([running])
    assert max(map(cells, (header, row))) <= 80
    assert row.split() == ["20261121T160430123Z-1a2b", "download", "inflight", "12,345,678", "1.0", "PiB"]
    assert below == f"  removable; run 2, {owner} (alive)"


def test_a_rollback_names_its_plan():
    """On the line below, where there is room."""
    _, row, below = plan_lines([plan(action="rollback", target="20261121T150000000Z-ffff", epoch=0)])
    assert row.split()[:3] == ["20261121T160430123Z-1a2b", "rollback", "completed"]
    assert below == "  of 20261121T150000000Z-ffff; not begun yet"


def test_the_run_of_a_plan_that_waits_for_another_one_has_ended():
    """In words for people who know nothing of epochs; ``plan show`` says the same."""
    waiting = plan(owner="process 12 on vm", released=True, state="inflight")
    *_, below = plan_lines([waiting])
    assert below == "  run 2 has ended; cfetch plan run goes on with it"
    text = " ".join("\n".join(detail_lines([waiting])).split())
    assert "kind stays until it is complete state inflight run 2 owner none; the last was process 12" in text
    assert "run not begun yet" in " ".join("\n".join(detail_lines([plan(epoch=0)])).split())


def test_an_empty_timeline_says_so():
    """There is no header without rows."""
    assert [*plan_lines([])] == ["there is no plan on this timeline"]
