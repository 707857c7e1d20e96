"""The main use case, and the one place where the rooms are wired together.

``prepare`` reads and validates the manifest and freezes it into a plan, ``prepare_document`` does so with a
manifest that is open already, ``prepare_entries`` with entries of a feed, and ``prepare_planned`` finds a
plan that is on the timeline. Each yields a ``Prepared``, which has ``run``. One listener gets everything that
happens as events; the summary is made from the same events.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from cfetch.app.engine_plan import EnginePlan, find_engine, frozen_elsewhere, frozen_here, load_frozen
from cfetch.app.engines import RunContext, check_for_spark
from cfetch.app.frozen_lists import Lists, freeze_lists
from cfetch.app.prepared import ORIGIN_NAME, Prepared, join_roots, read_origin
from cfetch.app.room import fit_to_room
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, LocalFault, ManifestError, Problem, UsageError
from cfetch.base.registry import load
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry as ManifestEntry
from cfetch.manifest.folding import KEEPS_NAMES, find_one_file
from cfetch.manifest.formats.sql_statement import statement_id_of
from cfetch.manifest.freezing import Opened, Part, freeze_entries
from cfetch.manifest.plan import Plan
from cfetch.run.directories import (
    Places,
    find_places,
    find_timeline,
    is_shared,
    make_heartbeats,
    make_own_directory,
    share_places,
)
from cfetch.run.fresh_links import ManifestRef, Renewal, StatementApi
from cfetch.run.header_hosts import aim_headers, aim_repository_token, note_unmet_hosts
from cfetch.run.labels import require_mount
from cfetch.run.open_manifest import (
    expand_manifests,
    is_elsewhere,
    make_part,
    name_list,
    open_manifest,
    shown_name,
)
from cfetch.run.volumes import Volumes
from cfetch.storage.descriptors import reserve_descriptors
from cfetch.storage.files import on_disk
from cfetch.storage.patience import call_within
from cfetch.timeline.states import Action, Entry, State, new_instant
from cfetch.timeline.table import Table, existing, on_this_machine, open_to_read
from cfetch.wire.network import make_network


@contextmanager
def prepare(
    manifest: str,
    settings: Settings,
    *,
    more: Sequence[str] = (),
    env: Mapping[str, str],
    clock: Clock | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Prepared]:
    """Validate everything that can be validated before the first request for a file.

    ``manifest`` is a path, an http(s) URL, ``-`` for standard input, a directory of manifests or a pattern;
    ``more`` are further manifests. With ``engine`` spark, Spark prepares a directory or a large manifest.
    ``env`` may hold DATABRICKS_TOKEN; ``progress`` gets the number of entries that have been read.

    Raises:
        UsageError: the manifest or a setting is wrong.
        LocalFault: the destination cannot be written or is too small.
    """
    clock = clock or SystemClock()
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = _find_places(settings)
    by_spark = not more and _is_for_spark(manifest, settings)
    if by_spark and not settings.paths.takes_all:
        raise ConfigError(
            "include and exclude are not for a list that Spark prepares; make a list of those files"
        )
    manifests, notes = ([manifest], []) if by_spark else expand_manifests([manifest, *more])
    name = name_list(manifests)
    manifest = manifests[0] if len(manifests) == 1 else name
    settings = aim_repository_token(settings, manifests, env)
    with ExitStack() as stack:
        settings = _fit_descriptors(settings, len(destinations.roots))
        api = _make_api(settings, env, clock)  # before the manifest is read: it refuses a missing token
        parts, statement = None, None
        if not by_spark:
            parts, statement = _open_lists(stack, manifests, settings, api, env, clock)
        volumes = _open_volumes(stack, settings)  # before the plan: it refuses a symlink as state
        directory = make_own_directory(stack, destinations.state, instant)
        if parts is not None:
            lists = Lists(parts, name, notes)
            plan = frozen_here(
                freeze_lists(stack, lists, directory, settings, env=env, clock=clock, progress=progress)
            )
        else:
            check_for_spark(volumes, settings)
            rejected = destinations.state / "rejected" / instant
            plan = _freeze_by_spark(stack, manifest, settings, directory / "prepared", rejected, progress)
        origin = ManifestRef(manifest, statement, settings.base_url, settings.reading)
        yield _make_prepared(stack, instant, plan, volumes, settings, env, clock, origin)


def _open_lists(
    stack: ExitStack,
    manifests: Sequence[str],
    settings: Settings,
    api: StatementApi,
    env: Mapping[str, str],
    clock: Clock,
) -> tuple[list[Part], str | None]:
    """The manifests for ``freeze_lists``; a single one is opened now, to find its SQL statement's id."""
    network = make_network(settings.network, env)
    if len(manifests) > 1:
        return [make_part(each, clock, network) for each in manifests], None
    opened = stack.enter_context(open_manifest(manifests[0], clock, network=network))
    statement = statement_id_of(opened.file)
    if statement is not None:
        opened = opened._replace(fetch_chunk=api.blocking(statement))
    return [Part(name_list(manifests), lambda: nullcontext(opened))], statement


def _make_prepared(
    stack: ExitStack,
    instant: str,
    plan: EnginePlan,
    volumes: Volumes,
    settings: Settings,
    env: Mapping[str, str],
    clock: Clock,
    origin: ManifestRef,
    *,
    is_scheduled: bool = False,
) -> Prepared:
    """Do the last steps, which all ways of preparing share. Raises ConfigError, ManifestError, LocalFault."""
    if plan.here is not None:
        _refuse_one_file(plan.here, volumes)
    settings = fit_to_room(plan.frozen, volumes, settings)
    if plan.here is not None and not plan.frozen.more_hosts:
        plan.here.add_notes(note_unmet_hosts(settings, plan.frozen.host_files))
    # the user's headers are for the plan's only host, if the settings name none
    settings = aim_headers(settings, plan.frozen.host_files, more=plan.frozen.more_hosts)
    network = make_network(settings.network, env)
    if plan.here is not None:
        plan.here.add_notes(network.notes)
    renewal = Renewal(origin, _make_api(settings, env, clock), stack)
    context = RunContext(volumes, find_places(settings).state, settings, network, renewal, clock)
    return Prepared(instant, plan, context, is_scheduled=is_scheduled)


def _refuse_one_file(plan: Plan, volumes: Volumes) -> None:
    """Raise ManifestError if two entries would be one file at the destination, as it changes names."""
    folding = volumes.find_folding()
    if folding == KEEPS_NAMES:
        return
    pair = find_one_file(lambda: (entry.path for entry in plan.entries()), folding)
    if pair is not None:
        first, second = map(printable, pair)
        problem = (
            f"{first!r} and {second!r} have one place in {join_roots(volumes.roots)}, as the file system "
            "there drops dots and blanks at the end of a name, or letters that nobody sees; rename one, or "
            "name another destination"
        )
        raise ManifestError(plan.source, (Problem(0, problem),), 1)


def _make_api(settings: Settings, env: Mapping[str, str], clock: Clock) -> StatementApi:
    return StatementApi(settings.statement_host, env, make_network(settings.network, env), clock)


def _freeze_by_spark(
    stack: ExitStack,
    manifest: str,
    settings: Settings,
    directory: Path,
    rejected: Path,
    progress: Callable[[int], None] | None,
) -> EnginePlan:
    name = shown_name(manifest)
    prepare = find_engine(settings.engine).prepare
    return frozen_elsewhere(prepare(stack, manifest, name, settings, directory, rejected, progress))


def _fit_descriptors(settings: Settings, volumes: int) -> Settings:
    """Settings with no more downloads at a time than the system permits. Raises ConfigError."""
    page = 0
    if settings.serve is not None:
        page = load("parts", "page-descriptors")
    needed = settings.concurrency if settings.max_concurrency is None else settings.most_at_once
    most = reserve_descriptors(needed, most=settings.most_at_once, volumes=volumes, others=page)
    return settings if most == settings.most_at_once else replace(settings, max_concurrency=most)


@contextmanager
def prepare_document(
    file: BinaryIO,
    name: str,
    settings: Settings,
    *,
    env: Mapping[str, str],
    progress: Callable[[int], None] | None = None,
) -> Iterator[Prepared]:
    """Prepare a plan of the manifest in a seekable ``file``, called ``name``. Raises as ``prepare``."""
    clock = SystemClock()
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = _find_places(settings)
    with ExitStack() as stack:
        settings = _fit_descriptors(settings, len(destinations.roots))
        volumes = _open_volumes(stack, settings)
        directory = make_own_directory(stack, destinations.state, instant)
        lists = Lists([Part(name, lambda: nullcontext(Opened(file)))], name)
        plan = frozen_here(
            freeze_lists(stack, lists, directory, settings, env=env, clock=clock, progress=progress)
        )
        yield _make_prepared(stack, instant, plan, volumes, settings, env, clock, ManifestRef(name))


@contextmanager
def prepare_entries(
    entries: Iterable[ManifestEntry], name: str, settings: Settings, *, env: Mapping[str, str], clock: Clock
) -> Iterator[Prepared]:
    """Prepare a plan, called ``name``, of entries that are checked already. Raises as ``prepare``."""
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = _find_places(settings)
    with ExitStack() as stack:
        settings = _fit_descriptors(settings, len(destinations.roots))
        volumes = _open_volumes(stack, settings)
        directory = make_own_directory(stack, destinations.state, instant)
        plan = frozen_here(stack.enter_context(freeze_entries(entries, name=name, directory=directory)))
        yield _make_prepared(stack, instant, plan, volumes, settings, env, clock, ManifestRef(name))


def _find_places(settings: Settings) -> Places:
    """Return the places; with ``mounted``, prove each before anything is read or written there.

    Raises ConfigError, LocalFault.
    """
    where = find_places(settings)
    for root in where.directories if settings.mounted else ():
        with on_disk(root):
            limit_s = settings.write_timeout if len(where.roots) > 1 else None
            call_within(limit_s, str(root), partial(require_mount, root))
    return where


def _open_volumes(stack: ExitStack, settings: Settings) -> Volumes:
    where = find_places(settings)
    share_places(where, settings)
    volumes = Volumes(
        where.roots,
        state=where.state,
        write_timeout_s=settings.write_timeout,
        mounted=settings.mounted,
        heartbeats=make_heartbeats(settings),
    )
    stack.callback(volumes.close)
    return volumes


def _is_for_spark(manifest: str, settings: Settings) -> bool:
    """Whether Spark prepares the manifest. Raises UsageError: with these settings, no engine can."""
    if manifest == "-" or is_elsewhere(manifest):
        return False
    path, is_spark = Path(manifest), settings.engine == "spark"
    if is_spark and os.path.isdir(path):
        shown = shown_name(manifest)
        if settings.failed_from:
            raise ConfigError(f"failed_from is for one manifest, and {shown} is a directory; name one in it")
        return True
    if not is_spark or settings.failed_from:
        return False
    return find_engine(settings.engine).is_large(path, settings)


@contextmanager
def prepare_planned(
    instant: str, settings: Settings, *, env: Mapping[str, str], clock: Clock | None = None
) -> Iterator[Prepared | None]:
    """Prepare a plan that is on the destination's timeline already; None if it is completed.

    Raises:
        UsageError: there is no such plan, or it is for another destination.
        LocalFault: its frozen manifest cannot be read, or as ``prepare``.
    """
    clock = clock or SystemClock()
    destinations = _find_places(settings)
    with ExitStack() as stack:
        directory = destinations.state / "plans" / instant
        if destinations.bucket is not None:  # a copy of this process's own
            directory = make_own_directory(stack, destinations.state, f"{instant}.{secrets.token_hex(8)}")
        with open_to_read(*find_timeline(settings)) as table:
            entry = existing(table, table.store.entries(), instant)
            if entry.state is State.COMPLETED:
                yield None
                return
            there = _elsewhere(settings, table, entry)
            if there:
                raise UsageError(f"plan {instant} is for {there}; give that as --to")
            if table.bucket is not None and not _bring_frozen(table, instant, directory):
                yield None
                return
        settings = _fit_descriptors(settings, len(destinations.roots))
        plan = load_frozen(stack, directory)
        origin = read_origin(directory / ORIGIN_NAME)
        settings = aim_repository_token(settings, [origin.manifest], env)
        volumes = _open_volumes(stack, settings)
        yield _make_prepared(stack, instant, plan, volumes, settings, env, clock, origin, is_scheduled=True)


def _bring_frozen(table: Table, instant: str, directory: Path) -> bool:
    """Copy a plan's manifest to a directory of this process; False: another run has completed the plan.

    Raises UsageError: it is on the timeline no more, LocalFault.
    """
    assert table.bucket is not None
    with on_this_machine(f"cannot copy plan {instant} to {directory}"):
        with suppress(FileNotFoundError):
            table.bucket.get_directory(f"plans/{instant}", directory)
            return True
        # whoever ends a plan removes its manifest afterwards, so the timeline knows it by now
        entry = existing(table, table.store.entries(), instant)
    if entry.state is State.COMPLETED:
        return False
    raise LocalFault(
        f"the manifest of plan {instant} is missing; if nobody rolls the plan back just now, `cfetch plan "
        f"rollback {instant} --remove` removes it, then give the download again"
    )


def pending(settings: Settings) -> list[str]:
    """The plans of this destination that wait for a run, oldest first. Raises UsageError, LocalFault."""
    _find_places(settings)
    with open_to_read(*find_timeline(settings)) as table:
        return [
            entry.instant
            for entry in table.store.entries_twice()
            if entry.action is Action.DOWNLOAD
            and entry.state is not State.COMPLETED
            and not _elsewhere(settings, table, entry)
        ]


def _elsewhere(settings: Settings, table: Table, entry: Entry) -> str:
    """Name the destination of another run's plan on a shared timeline.

    A timeline moves with its destination.
    """
    with suppress(FileNotFoundError):  # the plan has changed its state, so another run has it
        record = table.store.read_plan(entry)
        if record is None or not (is_shared(settings) or " " in record.fingerprint):
            return ""
        if sorted(record.destinations) != sorted(map(str, find_places(settings).roots)):
            return printable(", ".join(record.destinations), 1000)
    return ""
