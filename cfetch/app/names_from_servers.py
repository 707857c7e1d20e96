"""Gives a frozen plan the names that the files' servers state. Imported only where these are asked for."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.manifest.folding import Folding
from cfetch.manifest.plan import Plan
from cfetch.run.directories import find_destinations
from cfetch.run.header_hosts import make_file_network
from cfetch.run.known_names import KnownNames
from cfetch.run.server_names import name_by_servers

if TYPE_CHECKING:
    from cfetch.show.metrics_reading import Unfinished


def name_plan(
    stack: ExitStack,
    unnamed: Plan,
    directory: Path,
    settings: Settings,
    left: "Unfinished | None",
    *,
    env: Mapping[str, str],
    clock: Clock,
    progress: Callable[[int], None] | None,
    report: Callable[[int, str], None] | None,
    folding: Folding,
) -> Plan:
    """Freeze the plan anew in ``directory``, with these names. Raises as ``name_by_servers``."""
    return stack.enter_context(
        name_by_servers(
            unnamed,
            directory,
            network=make_file_network(settings, unnamed, env),
            clock=clock,
            progress=progress,
            report=report,
            only=left,
            paths=settings.reading.paths,
            known=stack.enter_context(KnownNames(find_destinations(settings).state)),
            asks_all=settings.existing != "trust",
            folding=folding,
            by_final_url=settings.name_by == "final-url",
            clash=settings.clash,
        )
    )
