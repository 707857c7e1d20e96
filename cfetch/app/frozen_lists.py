"""Freezes the lists of a download into one plan, as its settings select and name the entries."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.freezing import Part, freeze
from cfetch.manifest.object_urls import is_object_url
from cfetch.manifest.plan import Plan
from cfetch.manifest.reading import LOOKED_AT
from cfetch.run.directories import find_places
from cfetch.run.header_hosts import make_file_network
from cfetch.run.known_names import KnownNames
from cfetch.run.open_manifest import refuse_empty, refuse_unmatched
from cfetch.run.rejected_rows import RejectedRows
from cfetch.run.server_names import name_by_servers
from cfetch.show.format import plural
from cfetch.show.metrics import Unfinished, read_unfinished
from cfetch.storage.files import make_private

UNNAMED = "unnamed"  # a directory below the plan's: the plan before servers were asked for names


class Lists(NamedTuple):
    """The lists of one plan. ``name`` is for messages, and ``notes`` are about the lists themselves."""

    parts: Sequence[Part]
    name: str
    notes: Sequence[str] = ()


def freeze_lists(
    stack: ExitStack,
    lists: Lists,
    directory: Path,
    settings: Settings,
    *,
    env: Mapping[str, str],
    clock: Clock,
    progress: Callable[[int], None] | None,
) -> Plan:
    """Freeze the lists in ``directory``; ``stack`` closes the plan.

    Raises as ``freeze``, and UsageError: there is nothing to do.
    """
    left = read_unfinished(Path(settings.failed_from)) if settings.failed_from else None
    state = find_places(settings).state
    rejected = stack.enter_context(RejectedRows(state / "rejected" / f"{directory.name.lstrip('.')}.jsonl"))

    def freeze_in(where: Path, only: Unfinished | None) -> Plan:
        return stack.enter_context(
            freeze(
                lists.parts,
                name=lists.name,
                directory=where,
                progress=progress,
                base_url=settings.base_url,
                options=settings.reading,
                report=rejected.add,
                only=only,
            )
        )

    if settings.reading.name_by == "header":
        make_private(directory / UNNAMED)
        unnamed = freeze_in(directory / UNNAMED, None)
        plan = stack.enter_context(
            name_by_servers(
                unnamed,
                directory,
                network=make_file_network(settings, unnamed, env),
                clock=clock,
                progress=progress,
                report=rejected.add if settings.bad_rows == "skip" else None,
                only=settings.paths.narrow(left),
                known=stack.enter_context(KnownNames(state)),
                asks_all=settings.existing != "trust",
            )
        )
    else:
        plan = freeze_in(directory, left)
    plan.add_notes((*lists.notes, *rejected.notes(), *_note_useless_headers(plan, settings)))
    _refuse_nothing(plan, left, settings)
    return plan


def _refuse_nothing(plan: Plan, left: Unfinished | None, settings: Settings) -> None:
    """Raise UsageError if the plan is empty, unless that is allowed or all files are in place."""
    if left is not None and left.failed and not len(plan):
        raise ConfigError(
            f"failed_from is {settings.failed_from}, which names {plural(len(left.failed), 'failed file')}, "
            "but the manifest has none of them; give the metrics of a run over this manifest"
        )
    if not settings.paths.takes_all and left is None:
        refuse_unmatched(len(plan), plan.source, allowed=settings.allow_empty)
    refuse_empty(len(plan), plan.source, allowed=settings.allow_empty or left is not None)


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
