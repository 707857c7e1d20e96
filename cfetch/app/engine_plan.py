"""A frozen manifest in the form that each engine takes. No caller has to ask which kind of plan it is."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import FILE_NAME, PREPARED_NAME, Plan, load_plan

if TYPE_CHECKING:
    from cfetch.plugins.spark.prepare.prepared import PreparedPlan


class EnginePlan(NamedTuple):
    """``frozen`` for all engines, ``here`` for this machine; None if only Spark can bring it.

    A file called ``file_name`` marks a directory in which a plan of this kind was saved.
    """

    frozen: Frozen
    file_name: str
    here: Plan | None

    def forget_other_kind(self, directory: Path) -> None:
        """Remove the mark of the other kind of plan; a run that reads it has it open. Raises OSError."""
        for name in {PREPARED_NAME, FILE_NAME} - {self.file_name}:
            (directory / name).unlink(missing_ok=True)


def frozen_here(plan: Plan) -> EnginePlan:
    """Wrap a plan that this machine has frozen: every engine can bring it."""
    return EnginePlan(plan, FILE_NAME, plan)


def frozen_by_spark(plan: "PreparedPlan") -> EnginePlan:
    """Wrap a plan that Spark has prepared: only its tasks can bring it."""
    return EnginePlan(plan, PREPARED_NAME, None)


def load(stack: ExitStack, directory: Path) -> EnginePlan:
    """Read the plan that was saved in ``directory``; ``stack`` closes it. Raises LocalFault."""
    if (directory / PREPARED_NAME).exists():
        from cfetch.plugins.spark.prepare.prepared import load_prepared

        return frozen_by_spark(load_prepared(directory))
    return frozen_here(stack.enter_context(load_plan(directory)))
