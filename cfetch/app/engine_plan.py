"""A frozen manifest in the form that each engine takes. No caller has to ask which kind of plan it is.

An engine that is a plug-in keeps the port ``EnginePlugin``, and is found by the name that ``--engine`` gives.
Only Spark prepares manifests itself; an engine of another distribution gets plans that were frozen here.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.registry import load
from cfetch.manifest.folding import Folding
from cfetch.manifest.plan import FILE_NAME, PREPARED_NAME, Plan, load_plan
from cfetch.run.frame import Engine
from cfetch.run.fresh_links import Renewal
from cfetch.run.volumes import Volumes
from cfetch.wire.network import Network

if TYPE_CHECKING:
    from cfetch.manifest.entries import Frozen

LOCAL = "local"  # the core's own engines, in this process and in others


class LargeManifest(NamedTuple):
    """A manifest that an engine prepares by itself; ``name``: in messages.

    ``directory``: for its plan; ``rejected``: for the table of wrong rows, if there are any. ``progress``
    gets the number of good rows. ``folding``: which names are one file at the destination.
    """

    manifest: str
    name: str
    settings: Settings
    directory: Path
    rejected: Path
    progress: Callable[[int], None] | None
    folding: Folding


class RunContext(NamedTuple):
    """What a prepared plan has opened for the engine. ``state``: of the destination."""

    volumes: Volumes
    state: Path
    settings: Settings
    network: Network
    renewal: Renewal
    clock: Clock


class EnginePlugin(Protocol):
    """What the core asks of an engine that runs elsewhere. It raises UsageError and LocalFault."""

    def is_large(self, path: Path, settings: Settings) -> bool:
        """Whether the engine prepares this manifest itself, as it is too large for one machine."""

    def prepare(self, stack: ExitStack, large: LargeManifest) -> "Frozen":
        """Check and freeze a manifest; ``stack`` keeps what the download needs too."""

    def load_prepared(self, directory: Path) -> "Frozen":
        """Read what ``prepare`` has left in ``directory``."""

    def make_engine(self, plan: "Frozen", context: RunContext) -> Engine:
        """Make the engine that brings ``plan`` to the only destination."""


def find_engine(name: str) -> EnginePlugin:
    """The plug-in of an engine. Raises UsageError: this installation has none of that name."""
    plugin: EnginePlugin = load("engines", name)()
    return plugin


class EnginePlan(NamedTuple):
    """``frozen`` for all engines, ``here`` for this machine; None if only a plug-in can bring it.

    A file called ``file_name`` marks a directory in which a plan of this kind was saved.
    """

    frozen: "Frozen"
    file_name: str
    here: Plan | None

    def forget_other_kind(self, directory: Path) -> None:
        """Remove the mark of the other kind of plan; a run that reads it has it open. Raises OSError."""
        for name in {PREPARED_NAME, FILE_NAME} - {self.file_name}:
            (directory / name).unlink(missing_ok=True)


def frozen_here(plan: Plan) -> EnginePlan:
    """Wrap a plan that this machine has frozen: every engine can bring it."""
    return EnginePlan(plan, FILE_NAME, plan)


def frozen_elsewhere(plan: "Frozen") -> EnginePlan:
    """Wrap a plan that Spark has prepared: only its tasks can bring it."""
    return EnginePlan(plan, PREPARED_NAME, None)


def load_frozen(stack: ExitStack, directory: Path) -> EnginePlan:
    """Read the plan that was saved in ``directory``; ``stack`` closes it. Raises LocalFault."""
    if (directory / PREPARED_NAME).exists():
        return frozen_elsewhere(find_engine("spark").load_prepared(directory))
    return frozen_here(stack.enter_context(load_plan(directory)))
