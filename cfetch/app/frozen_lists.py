"""Freezes the lists of a download into one plan, as its settings select and name the entries."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.errors import ConfigError
from cfetch.manifest.freezing import Part, freeze_parts
from cfetch.manifest.object_urls import is_object_url
from cfetch.manifest.plan import Plan
from cfetch.manifest.reading import LOOKED_AT
from cfetch.manifest.source import FetchChunk
from cfetch.report.metrics import read_unfinished
from cfetch.run.directories import find_places
from cfetch.run.header_hosts import make_file_network
from cfetch.run.known_names import KnownNames
from cfetch.run.open_manifest import refuse_empty
from cfetch.run.rejected_rows import RejectedRows
from cfetch.run.server_names import name_by_servers
from cfetch.storage.files import make_private

UNNAMED = "unnamed"  # a directory below the plan's: the plan before servers were asked for names


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
    """Freeze ``parts`` in ``directory``; ``stack`` closes the plan. ``notes`` are about the lists themselves.

    Raises as ``freeze_parts``, and UsageError: there is nothing to do.
    """
    left = read_unfinished(Path(settings.failed_from)) if settings.failed_from else None
    rejected = stack.enter_context(
        RejectedRows(find_places(settings).state / "rejected" / f"{directory.name.lstrip('.')}.jsonl")
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
                network=make_file_network(settings, plan, env),
                clock=clock,
                progress=progress,
                report=rejected.add if settings.bad_rows == "skip" else None,
                only=left,
                known=stack.enter_context(KnownNames(find_places(settings).state)),
                asks_all=settings.existing != "trust",
            )
        )
    plan.add_notes((*notes, *rejected.notes(), *_note_useless_headers(plan, settings)))
    if left is not None and left.failed and not len(plan):
        raise ConfigError(
            f"failed_from is {settings.failed_from}, which names {len(left.failed)} failed files, but the "
            "manifest has none of them; give the metrics of a run over this manifest"
        )
    refuse_empty(plan, allowed=settings.allow_empty or left is not None)
    return plan


def _note_useless_headers(plan: Plan, settings: Settings) -> Sequence[str]:
    """Return a note if the user gives headers, and files are objects of a store, which do not get them."""
    has_headers = settings.header or settings.bearer_env
    first = islice(plan.entries(), LOOKED_AT)
    if not has_headers or not any(is_object_url(entry.url.value) for entry in first):
        return ()
    note = (
        "--header and --bearer-env do not go to objects of a store (s3://, gs://, az://): their links are "
        "signed with the store's own login"
    )
    return (note,)
