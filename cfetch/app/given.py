"""Prepares a plan of what a caller has: the file of a manifest, or checked entries."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cfetch.app.download import fit_descriptors, make_prepared, open_volumes, prove_destinations
from cfetch.app.engine_plan import frozen_here
from cfetch.app.frozen_lists import Lists, freeze_lists
from cfetch.app.prepared import Prepared
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.manifest.checked_entries import freeze_entries
from cfetch.manifest.entry import Entry as ManifestEntry
from cfetch.manifest.freezing import ManifestPart, Opened
from cfetch.run.directories import make_own_directory
from cfetch.run.fresh_links import ManifestRef
from cfetch.timeline.states import new_instant

if TYPE_CHECKING:
    from cfetch.run.traces import Traces


@contextmanager
def prepare_document(
    file: BinaryIO,
    name: str,
    settings: Settings,
    *,
    env: Mapping[str, str],
    progress: Callable[[int], None] | None = None,
    needs_room: bool = True,
) -> Iterator[Prepared]:
    """Prepare a plan of the manifest in a seekable ``file``, called ``name``. Raises as ``prepare``."""
    clock = SystemClock()
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = prove_destinations(settings)
    with ExitStack() as stack:
        settings = fit_descriptors(settings, len(destinations.roots))
        volumes = open_volumes(stack, settings)
        directory = make_own_directory(stack, destinations.state, instant)
        lists = Lists([ManifestPart(name, lambda: nullcontext(Opened(file)))], name)
        plan = frozen_here(
            freeze_lists(stack, lists, directory, settings, volumes, env=env, clock=clock, progress=progress)
        )
        yield make_prepared(
            stack, instant, plan, volumes, settings, env, clock, ManifestRef(name), needs_room=needs_room
        )


@contextmanager
def prepare_entries(
    entries: Iterable[ManifestEntry],
    name: str,
    settings: Settings,
    *,
    env: Mapping[str, str],
    clock: Clock,
    traces: "Callable[[Path, str, Settings], Traces] | None" = None,
) -> Iterator[Prepared]:
    """Prepare a plan, called ``name``, of entries that are checked already. Raises as ``prepare``.

    ``traces``: the run leaves none beside its files, if nobody wants them.
    """
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = prove_destinations(settings)
    with ExitStack() as stack:
        own_traces = None if traces is None else traces(destinations.state, name, settings)
        if own_traces is not None:
            stack.callback(own_traces.remove)  # last, when this run's own directory has gone
        settings = fit_descriptors(settings, len(destinations.roots))
        volumes = open_volumes(stack, settings)
        directory = make_own_directory(stack, destinations.state, instant)
        folding, clash = volumes.find_folding(), settings.clash
        if clash == "fail" and settings.bad_rows == "skip":  # as rows of a list that clash are left out then
            clash = "skip"
        frozen = freeze_entries(entries, name=name, directory=directory, folding=folding, clash=clash)
        plan = frozen_here(stack.enter_context(frozen))
        prepared = make_prepared(stack, instant, plan, volumes, settings, env, clock, ManifestRef(name))
        prepared.traces = own_traces
        yield prepared
