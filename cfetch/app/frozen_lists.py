"""The lists that a download is for, frozen into one plan, with what its settings leave out or add."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import ConfigError
from cfetch.manifest.freezing import Opened, Part, freeze_parts
from cfetch.manifest.plan import Plan
from cfetch.manifest.source import FetchChunk
from cfetch.report.metrics import read_unfinished
from cfetch.run.directories import places
from cfetch.run.header_hosts import aim_headers
from cfetch.run.open_manifest import open_manifest, refuse_empty, shown_name
from cfetch.run.rejected_rows import RejectedRows
from cfetch.run.server_names import name_by_servers
from cfetch.storage.files import make_private
from cfetch.wire.network import Network, make_network

UNNAMED = "unnamed"  # below the plan's directory: the plan before servers were asked for names


def make_part(manifest: str, opened: Opened | None, clock: Clock, network: Network) -> Part:
    """One of the lists; ``opened``: if it is open already."""

    def open_now() -> AbstractContextManager[Opened]:
        return open_manifest(manifest, clock, network=network) if opened is None else nullcontext(opened)

    return Part(shown_name(manifest), open_now)


def freeze_lists(
    stack: ExitStack,
    parts: Sequence[Part],
    *,
    notes: Sequence[str],
    name: str,
    directory: Path,
    fetch_chunk: FetchChunk | None,
    progress: Callable[[int], None] | None,
    settings: Settings,
    env: Mapping[str, str],
    clock: Clock,
) -> Plan:
    """Freeze ``parts`` in ``directory``; ``stack`` closes the plan. ``notes`` are of the lists themselves.

    Raises as ``freeze_parts``, and UsageError: nothing is to be done.
    """
    left = read_unfinished(Path(settings.failed_from)) if settings.failed_from else None
    rejected = stack.enter_context(
        RejectedRows(places(settings).state / "rejected" / f"{directory.name.lstrip('.')}.jsonl")
    )
    asks_names = settings.reading.name_by == "header"
    if asks_names:
        make_private(directory / UNNAMED)
    plan = stack.enter_context(
        freeze_parts(
            parts,
            name=name,
            directory=directory / UNNAMED if asks_names else directory,
            fetch_chunk=fetch_chunk,
            progress=progress,
            base_url=settings.base_url,
            options=settings.reading,
            report=rejected.add,
            only=None if asks_names else left,
        )
    )
    if asks_names:
        plan = stack.enter_context(
            name_by_servers(
                plan,
                directory,
                network=make_network(aim_headers(settings, plan.host_files).network, env),
                clock=clock,
                progress=progress,
                report=rejected.add if settings.bad_rows == "skip" else None,
                only=left,
            )
        )
    plan.add_notes((*notes, *rejected.notes()))
    if left is not None and left.failed and not len(plan):
        raise ConfigError(
            f"failed_from is {settings.failed_from}, which names {len(left.failed)} failed files, but the "
            "manifest has none of them; give the metrics of a run over this manifest"
        )
    refuse_empty(plan, allowed=settings.allow_empty or left is not None)
    return plan
