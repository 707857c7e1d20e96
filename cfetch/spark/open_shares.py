"""Which shares of a plan a run still has to bring, and which host is the slowest whatever they do."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from cfetch.hub.receipts import Account
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.report.format import duration, plural
from cfetch.secret import printable
from cfetch.spark.prepare.prepared import PreparedPlan
from cfetch.spark.share_files import ShareFiles, write_shares
from cfetch.spark.shares import Pace, count_sharers, cut_shares, find_floors

WORTH_A_NOTE_S = 60.0


class OpenShares(NamedTuple):
    """The shares ``numbers`` of ``files`` are to be brought; ``notes`` are for a person."""

    files: ShareFiles
    numbers: Sequence[int]
    notes: list[str]


class ShareSource(Protocol):
    """A plan as a Spark run asks for it: cut into shares."""

    @property
    def plan(self) -> Frozen:
        """The plan as a whole."""

    def find_open_shares(
        self, account: Account, directory: Path, *, pace: Pace, slots: int, per_host: int | None
    ) -> OpenShares:
        """The shares of all that is not in the account; they may be written to ``directory``.

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
        plan = self.plan
        left: Sequence[int] = range(len(plan))
        if account:
            left = [index for index in left if plan.entry(index).id not in account]
        sizes, hosts = [plan.sizes[i] for i in left], [plan.host_of[i] for i in left]
        cut = cut_shares(sizes, hosts, pace=pace, slots=slots)
        notes = []
        if left:
            floors_s = find_floors(cut, sizes, hosts, pace=pace, per_host=per_host)
            host = max(floors_s, key=floors_s.__getitem__, default=None)
            if host is not None:
                notes = _note_slow_host(plan.hosts[host], floors_s[host], sum(cut.cost_s) / slots)
        files = write_shares(directory, plan, left, cut, count_sharers(cut, hosts, slots=slots))
        return OpenShares(files, range(files.count), notes)


class PreparedShares:
    """The shares of a plan that Spark has prepared: cut already."""

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
        """A share that lacks an entry is brought again as a whole: its task passes over what is in place.

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
            notes += _note_slow_host(plan.floors[0].host, plan.floors[0].seconds, total_s / slots)
        return OpenShares(plan.share_files, numbers, notes)


def _note_slow_host(host: str, alone_s: float, all_s: float) -> list[str]:
    if alone_s <= max(WORTH_A_NOTE_S, all_s):
        return []
    takes = f"{printable(host)} alone takes about {duration(alone_s)}"
    return [f"{takes}, and more executors do not make that shorter"]
