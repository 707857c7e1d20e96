"""Freezes the lists of a download into one plan, as its settings select and name the entries."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.config.reading import ASKING
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.base.registry import find_source
from cfetch.base.schemes import OBJECT_STARTS, OBJECT_STORES, scheme_of
from cfetch.manifest.folding import Folding
from cfetch.manifest.freezing import ManifestPart, freeze
from cfetch.manifest.plan import Plan
from cfetch.manifest.reading import LOOKED_AT
from cfetch.run.directories import find_destinations
from cfetch.run.open_manifest import refuse_empty
from cfetch.run.volumes import Volumes
from cfetch.show.format import plural
from cfetch.storage.files import make_private

if TYPE_CHECKING:
    from cfetch.show.metrics_reading import Unfinished
UNNAMED = "unnamed"  # a directory below the plan's: the plan before servers were asked for names


class Lists(NamedTuple):
    """The lists of one plan. ``name`` is for messages, and ``notes`` are about the lists themselves."""

    parts: Sequence[ManifestPart]
    name: str
    notes: Sequence[str] = ()


def freeze_lists(
    stack: ExitStack,
    lists: Lists,
    directory: Path,
    settings: Settings,
    volumes: Volumes,
    *,
    env: Mapping[str, str],
    clock: Clock,
    progress: Callable[[int], None] | None,
) -> Plan:
    """Freeze the lists in ``directory``, for ``volumes``; ``stack`` closes the plan.

    Of entries whose names clash at the volumes, the later one fails in the run, unless ``settings`` name
    another way. Raises as ``freeze``, and UsageError: there is nothing to do.
    """
    left = None
    if settings.failed_from:
        from cfetch.show.metrics_reading import read_unfinished  # a run reads no other metrics

        left = read_unfinished(Path(settings.failed_from))
    rejected = None
    if settings.bad_rows == "skip":
        from cfetch.run.rejected_rows import RejectedRows  # a fault ends other runs before they begin

        place = find_destinations(settings).state / "rejected" / f"{directory.name.lstrip('.')}.jsonl"
        rejected = stack.enter_context(RejectedRows(place))
    freezing = _Freezing(
        settings=settings,
        folding=volumes.find_folding(),
        progress=progress,
        report=None if rejected is None else rejected.add,
    )
    if settings.reading.name_by in ASKING:
        from cfetch.app.names_from_servers import name_plan  # other names are known without asking

        make_private(directory / UNNAMED)
        plan = name_plan(
            stack,
            stack.enter_context(freezing.freeze(lists, directory / UNNAMED, None)),
            directory,
            settings,
            left,
            env=env,
            clock=clock,
            progress=progress,
            report=freezing.report,
            folding=freezing.folding,
        )
    else:
        plan = stack.enter_context(freezing.freeze(lists, directory, left))
    about_rows = () if rejected is None else rejected.notes()
    plan.add_notes((*lists.notes, *about_rows, *_note_useless_headers(plan, settings)))
    _refuse_nothing(plan, left, settings)
    return plan


class _Freezing(NamedTuple):
    """How lists are frozen: ``folding`` of the destination, and where progress and faulty rows are told."""

    settings: Settings
    folding: Folding
    progress: Callable[[int], None] | None
    report: Callable[[int, str], None] | None

    def freeze(self, lists: Lists, directory: Path, only: "Unfinished | None") -> Plan:
        """Freeze the lists by the names that they state. Raises as ``freeze``."""
        return freeze(
            lists.parts,
            name=lists.name,
            directory=directory,
            progress=self.progress,
            base_url=self.settings.base_url,
            options=self.settings.reading,
            report=self.report,
            only=only,
            folding=self.folding,
        )


def _refuse_nothing(plan: Plan, left: "Unfinished | None", settings: Settings) -> None:
    """Raise UsageError if the plan is empty, unless that is allowed or all files are in place."""
    if left is not None and left.failed and not len(plan):
        raise ConfigError(
            f"failed_from is {settings.failed_from}, which names {plural(len(left.failed), 'failed file')}, "
            "but the manifest has none of them; give the metrics of a run over this manifest"
        )
    if (paths := settings.reading.paths) is not None and left is None and not settings.allow_empty:
        paths.refuse_none(len(plan), plan.source)
    refuse_empty(len(plan), plan.source, allowed=settings.allow_empty or left is not None)


def _note_useless_headers(plan: Plan, settings: Settings) -> Sequence[str]:
    """Return notes if the user gives headers, and files are of schemes that do not get them."""
    if not (settings.header or settings.bearer_env):
        return ()
    schemes = dict.fromkeys(scheme_of(entry.url.value) for entry in islice(plan.entries(), LOOKED_AT))
    rows = [row for scheme in schemes if (row := find_source(scheme)) is not None and not row.gets_headers]
    notes = [
        f"--header and --bearer-env do not go to files of {row.name}://, whose requests have no headers"
        for row in rows
        if row.name not in OBJECT_STORES
    ]
    if len(notes) < len(rows):
        notes.append(
            f"--header and --bearer-env do not go to objects of a store ({', '.join(OBJECT_STARTS)}): their "
            "links are signed with the store's own login"
        )
    return notes
