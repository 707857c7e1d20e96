"""What a run has to bring: the batches of its tasks, and which host is the slowest whatever they do."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from cfetch.hub.receipts import Account
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.report.format import duration, plural
from cfetch.secret import printable
from cfetch.spark.prepare.parts import Parts
from cfetch.spark.prepare.prepared import PreparedPlan
from cfetch.spark.shares import Pace, floors, sharers, shares
from cfetch.spark.work_file import write_work

__all__ = ["PlanTasks", "PreparedTasks", "TaskSource", "ToDo"]

WORTH_A_NOTE_S = 60.0


class ToDo(NamedTuple):
    """``batches`` of them: numbered from 0 in the work file, or those ``numbers`` of ``parts``."""

    batches: int
    notes: list[str]
    parts: Parts | None = None
    numbers: Sequence[int] = ()


class TaskSource(Protocol):
    """A plan as a Spark run asks for it: cut into the batches of tasks."""

    @property
    def plan(self) -> Frozen:
        """The plan as a whole."""

    def to_do(self, account: Account, path: Path, *, pace: Pace, slots: int, per_host: int | None) -> ToDo:
        """Cut what is not in the account into batches; ``path`` is where they may be written.

        Raises LocalFault.
        """


class PlanTasks:
    """The tasks of a plan that one machine has frozen: cut now, and written to the work file."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def to_do(self, account: Account, path: Path, *, pace: Pace, slots: int, per_host: int | None) -> ToDo:
        """Cut all entries that are not in the account. Raises LocalFault."""
        plan = self.plan
        left: Sequence[int] = range(len(plan))
        if account:
            left = [index for index in left if plan.entry(index).id not in account]
        sizes, hosts = [plan.sizes[i] for i in left], [plan.host_of[i] for i in left]
        cut = shares(sizes, hosts, pace=pace, slots=slots)
        notes = []
        if left:
            floors_s = floors(cut, sizes, hosts, pace=pace, per_host=per_host)
            host = max(floors_s, key=floors_s.__getitem__, default=None)
            if host is not None:
                notes = _notes(plan.hosts[host], floors_s[host], sum(cut.cost_s) / slots)
        write_work(path, plan, left, cut, sharers(cut, hosts, slots=slots))
        return ToDo(len(cut.cost_s), notes)


class PreparedTasks:
    """The tasks of a plan that Spark has prepared: cut already."""

    def __init__(self, plan: PreparedPlan) -> None:
        self.plan = plan

    def to_do(
        self,
        account: Account,
        path: Path,  # noqa: ARG002 - the plan's own files hold its batches
        *,
        pace: Pace,  # noqa: ARG002
        slots: int,
        per_host: int | None,  # noqa: ARG002
    ) -> ToDo:
        """A batch of which anything is missing is brought again as a whole: its task passes over what stands.

        Raises LocalFault.
        """
        plan = self.plan
        numbers: Sequence[int] = range(plan.tasks)
        if account:
            ids = enumerate(plan.parts.ids())
            numbers = [batch for batch, some in ids if not all(one in account for one in some)]
        notes = []
        if plan.merged:
            notes.append(f"{plural(plan.merged, 'repeated entry')} merged")
        if plan.floors:
            total_s = sum(plan.cost_s[number] for number in numbers)
            notes += _notes(plan.floors[0].host, plan.floors[0].seconds, total_s / slots)
        return ToDo(len(numbers), notes, plan.parts, numbers)


def _notes(host: str, alone_s: float, all_s: float) -> list[str]:
    if alone_s <= max(WORTH_A_NOTE_S, all_s):
        return []
    takes = f"{printable(host)} alone takes about {duration(alone_s)}"
    return [f"{takes}, and more executors do not make that shorter"]
