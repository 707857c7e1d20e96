"""Finds the shares of a plan that a run still has to bring, and a host that limits the whole run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.plugins.spark.prepare.prepared import PreparedPlan
from cfetch.plugins.spark.share_files import ShareFiles, write_shares
from cfetch.show.format import plural
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.plan_cut import cut_plan, note_slow_host


class OpenShares(NamedTuple):
    """The run has to bring the shares ``numbers`` of ``files``; ``notes`` are for a person."""

    files: ShareFiles
    numbers: Sequence[int]
    notes: list[str]


def find_open_shares(
    plan: Frozen, account: Account, directory: Path, *, pace: ExpectedPace, slots: int, per_host: int | None
) -> OpenShares:
    """Find the shares of all entries that are not in the account.

    A plan that Spark has prepared is cut already: a share that lacks an entry is brought again, and its task
    skips files in place. A plan that this machine has frozen is cut now, and written to ``directory``.

    Raises LocalFault.
    """
    if isinstance(plan, PreparedPlan):
        return _find_prepared(plan, account, slots)
    assert isinstance(plan, Plan)
    cut, notes = cut_plan(plan, account, pace=pace, slots=slots, per_host=per_host)
    files = write_shares(directory, cut)
    return OpenShares(files, range(files.count), notes)


def _find_prepared(plan: PreparedPlan, account: Account, slots: int) -> OpenShares:
    numbers: Sequence[int] = range(plan.tasks)
    if account:
        shares = enumerate(plan.share_files.read_ids())
        numbers = [number for number, ids in shares if not all(entry_id in account for entry_id in ids)]
    notes = [f"{plural(plan.merged, 'repeated entry')} merged"] if plan.merged else []
    for host, alone_s in list(plan.floors_s.items())[:1]:  # the slowest
        notes += note_slow_host(host, alone_s, sum(plan.cost_s[number] for number in numbers) / slots)
    return OpenShares(plan.share_files, numbers, notes)
