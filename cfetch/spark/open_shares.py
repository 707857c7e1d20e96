"""Finds the shares of a plan that a run still has to bring, and a host that limits the whole run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from cfetch.hub.account import Account
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.report.format import plural
from cfetch.shares.cut import Pace
from cfetch.shares.plan_cut import cut_plan, note_slow_host
from cfetch.spark.prepare.prepared import PreparedPlan
from cfetch.spark.share_files import ShareFiles, write_shares


class OpenShares(NamedTuple):
    """The run has to bring the shares ``numbers`` of ``files``; ``notes`` are for a person."""

    files: ShareFiles
    numbers: Sequence[int]
    notes: list[str]


class ShareSource(Protocol):
    """A plan for a Spark run: cut into shares."""

    @property
    def plan(self) -> Frozen:
        """The plan as a whole."""

    def find_open_shares(
        self, account: Account, directory: Path, *, pace: Pace, slots: int, per_host: int | None
    ) -> OpenShares:
        """The shares of all entries not in the account; they may be written to ``directory``.

        Raises LocalFault.
        """


class PlanShares:
    """The shares of a plan that one machine has frozen: cut and written for each run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def find_open_shares(
        self, account: Account, directory: Path, *, pace: Pace, slots: int, per_host: int | None
    ) -> OpenShares:
        """Cut all entries that are not in the account. Raises LocalFault."""
        cut = cut_plan(self.plan, account, pace=pace, slots=slots, per_host=per_host)
        files = write_shares(directory, self.plan, cut.members, cut.sharers)
        return OpenShares(files, range(files.count), cut.notes)


class PreparedShares:
    """The shares of a plan that Spark has prepared, which are cut already."""

    def __init__(self, plan: PreparedPlan) -> None:
        self.plan = plan

    def find_open_shares(
        self,
        account: Account,
        directory: Path,  # noqa: ARG002 - the plan's own files hold its shares
        *,
        pace: Pace,  # noqa: ARG002
        slots: int,
        per_host: int | None,  # noqa: ARG002
    ) -> OpenShares:
        """Find the shares that lack an entry; each is brought again, and its task skips files in place.

        Raises LocalFault.
        """
        plan = self.plan
        numbers: Sequence[int] = range(plan.tasks)
        if account:
            shares = enumerate(plan.share_files.read_ids())
            numbers = [number for number, ids in shares if not all(entry_id in account for entry_id in ids)]
        notes = []
        if plan.merged:
            notes.append(f"{plural(plan.merged, 'repeated entry')} merged")
        if plan.floors:
            total_s = sum(plan.cost_s[number] for number in numbers)
            notes += note_slow_host(plan.floors[0].host, plan.floors[0].seconds, total_s / slots)
        return OpenShares(plan.share_files, numbers, notes)
