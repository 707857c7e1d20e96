"""Cuts a plan that this machine has frozen into shares of the entries that a run still has to bring."""

from array import array
from collections.abc import Sequence

from cfetch.base.secret import printable
from cfetch.manifest.plan import Plan
from cfetch.manifest.plan_file import NO_BATCH
from cfetch.show.format import duration
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.cut import ExpectedPace, count_sharers, cut_shares, find_floors
from cfetch.tasks.shares.dealing import CutShares

WORTH_A_NOTE_S = 60.0


def cut_plan(
    plan: Plan, account: Account, *, pace: ExpectedPace, slots: int, per_host: int | None
) -> tuple[CutShares, list[str]]:
    """Cut all entries that are not in the account, and the whole of their batches; with notes for a person.

    Raises LocalFault.
    """
    left: Sequence[int] = range(len(plan))
    sizes, hosts, batches = plan.sizes, plan.host_of, plan.batch_of
    if account:
        left = _list_left(plan, account)
        sizes, hosts = [sizes[index] for index in left], [hosts[index] for index in left]
        batches = None if batches is None else [batches[index] for index in left]
    cut = cut_shares(sizes, hosts, pace=pace, slots=slots, batch_of=batches)
    notes: list[str] = []
    if left:
        floors_s = find_floors(cut, sizes, hosts, pace=pace, per_host=per_host)
        host = max(floors_s, key=floors_s.__getitem__, default=None)
        if host is not None:
            notes = note_slow_host(plan.hosts[host], floors_s[host], sum(cut.cost_s) / slots)
    return CutShares(plan, cut.list_members(left), count_sharers(cut, hosts, slots=slots)), notes


def _list_left(plan: Plan, account: Account) -> Sequence[int]:
    left = array("I", (index for index in range(len(plan)) if plan.entry(index).id not in account))
    if (batch_of := plan.batch_of) is None:
        return left
    alone, begun = set(left), {batch_of[index] for index in left} - {NO_BATCH}
    return array("I", (index for index in range(len(plan)) if index in alone or batch_of[index] in begun))


def note_slow_host(host: str, alone_s: float, all_s: float) -> list[str]:
    """Make a note if one host alone takes longer than all shares."""
    if alone_s <= max(WORTH_A_NOTE_S, all_s):
        return []
    takes = f"{printable(host)} alone takes about {duration(alone_s)}"
    return [f"{takes}, and more executors do not make that shorter"]
