"""What a run has to bring: the batches of its tasks, and which host is the slowest whatever they do."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cfetch.hub.receipts import Account
from cfetch.manifest.plan import Plan
from cfetch.report.format import duration, plural
from cfetch.secret import printable
from cfetch.spark.prepare.parts import Parts
from cfetch.spark.prepare.prepared import PreparedPlan
from cfetch.spark.shares import Pace, floors, sharers, shares
from cfetch.spark.work_file import write_work

__all__ = ["ToDo", "to_do"]

WORTH_A_NOTE_S = 60.0


class ToDo(NamedTuple):
    """``batches`` of them: numbered from 0 in the work file, or those ``numbers`` of ``parts``."""

    batches: int
    notes: list[str]
    parts: Parts | None = None
    numbers: Sequence[int] = ()


def to_do(
    plan: Plan | PreparedPlan, account: Account, path: Path, *, pace: Pace, slots: int, per_host: int | None
) -> ToDo:
    """What is not in the account, as batches; those of a plan of one machine are written to ``path``.

    Raises LocalFault.
    """
    if isinstance(plan, PreparedPlan):
        return _prepared(plan, account, slots)
    left: Sequence[int] = range(len(plan))
    if account:
        left = [index for index in left if plan.entry(index).id not in account]
    sizes, hosts = [plan.sizes[i] for i in left], [plan.host_of[i] for i in left]
    cut = shares(sizes, hosts, pace=pace, slots=slots)
    notes = []
    if left:
        found = floors(cut, sizes, hosts, pace=pace, per_host=per_host)
        host = max(found, key=found.__getitem__, default=None)
        if host is not None:
            notes = _notes(plan.hosts[host], found[host], sum(cut.cost_s) / slots)
    write_work(path, plan, left, cut, sharers(cut, hosts, slots=slots))
    return ToDo(len(cut.cost_s), notes)


def _prepared(plan: PreparedPlan, account: Account, slots: int) -> ToDo:
    """A batch of which anything is missing is brought again as a whole: its task passes over what stands."""
    numbers: Sequence[int] = range(len(plan.cost_s))
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
