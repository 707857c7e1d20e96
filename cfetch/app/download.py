"""The main use case, and the one place where the rooms are wired together.

``prepare`` reads and validates the manifest and freezes it into a plan; ``given.py`` does so with what a
caller has, and ``planned.py`` finds a plan that is on the timeline. Each yields a ``Prepared``, which has
``run``. One listener gets everything that happens as events; the summary is made from the same events.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec.structs import replace as replace_fields

from cfetch.app.engine_plan import (
    EnginePlan,
    LargeManifest,
    RunContext,
    find_engine,
    frozen_elsewhere,
    frozen_here,
)
from cfetch.app.free_space import fit_to_room
from cfetch.app.frozen_lists import Lists, freeze_lists
from cfetch.app.prepared import Prepared
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.option_table import SLOTS
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.base.registry import load
from cfetch.manifest.formats.detection import statement_id_of
from cfetch.manifest.freezing import ManifestPart
from cfetch.run.directories import (
    Destinations,
    find_destinations,
    make_heartbeats,
    make_own_directory,
    open_to_group,
)
from cfetch.run.fresh_links import ManifestRef, Renewal, StatementApi
from cfetch.run.header_hosts import aim_headers, aim_repository_token, note_unmet_hosts
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
from cfetch.storage.hanging_calls import call_within
from cfetch.timeline.states import new_instant
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
    needs_room: bool = True,
) -> Iterator[Prepared]:
    """Validate everything that can be validated before the first request for a file.

    ``manifest`` is a path, an http(s) URL, ``-`` for standard input, a directory of manifests or a pattern;
    ``more`` are further manifests. With ``engine`` spark, Spark prepares a directory or a large manifest.
    ``env`` may hold DATABRICKS_TOKEN; ``progress`` gets the number of entries that have been read.
    ``needs_room``: the files go to the destination, which must have room for them.

    Raises:
        UsageError: the manifest or a setting is wrong.
        LocalFault: the destination cannot be written or is too small.
    """
    clock = clock or SystemClock()
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = prove_destinations(settings)
    by_spark = not more and _is_for_spark(manifest, settings)
    if by_spark and (settings.include or settings.exclude):
        raise ConfigError(
            "include and exclude are not for a list that Spark prepares; make a list of those files"
        )
    manifests, notes = ([manifest], []) if by_spark else expand_manifests([manifest, *more])
    name = name_list(manifests)
    manifest = manifests[0] if len(manifests) == 1 else name
    settings = aim_repository_token(settings, manifests, env)
    with ExitStack() as stack:
        settings = fit_descriptors(settings, len(destinations.roots))
        api = _make_api(settings, env, clock)  # before the manifest is read: it refuses a missing token
        parts, statement = None, None
        reading = stack.enter_context(ExitStack())  # of the lists, which a run needs no more
        if not by_spark:
            parts, statement = _open_lists(reading, manifests, settings, api, env, clock)
        volumes = open_volumes(stack, settings)  # before the plan: it refuses a symlink as state
        directory = make_own_directory(stack, destinations.state, instant)
        if parts is not None:
            lists = Lists(parts, name, notes)
            plan = frozen_here(
                freeze_lists(
                    stack, lists, directory, settings, volumes, env=env, clock=clock, progress=progress
                )
            )
            reading.close()
        else:
            from cfetch.app.task_engines import check_for_preparing  # only Spark reads such manifests

            check_for_preparing(volumes, settings)
            large = LargeManifest(
                manifest,
                shown_name(manifest),
                settings,
                directory / "prepared",
                destinations.state / "rejected" / instant,
                progress,
                volumes.find_folding(),
            )
            plan = frozen_elsewhere(find_engine(settings.engine).prepare(stack, large))
        origin = ManifestRef(manifest, statement, settings.base_url, settings.reading)
        if settings.clash == "rename":  # by the names alone nobody could tell which files are renamed
            origin = replace_fields(origin, folding=volumes.find_folding())
        yield make_prepared(
            stack, instant, plan, volumes, settings, env, clock, origin, needs_room=needs_room
        )


def _open_lists(
    stack: ExitStack,
    manifests: Sequence[str],
    settings: Settings,
    api: StatementApi,
    env: Mapping[str, str],
    clock: Clock,
) -> tuple[list[ManifestPart], str | None]:
    """The manifests for ``freeze_lists``; a single one is opened now, to find its SQL statement's id."""
    network = make_network(settings.network, env)
    if len(manifests) > 1:
        return [make_part(each, clock, network) for each in manifests], None
    opened = stack.enter_context(open_manifest(manifests[0], clock, network=network))
    statement = statement_id_of(opened.file)
    if statement is not None:
        opened = opened._replace(fetch_chunk=api.blocking(statement))
    return [ManifestPart(name_list(manifests), lambda: nullcontext(opened))], statement


def make_prepared(
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
    needs_room: bool = True,
) -> Prepared:
    """Do the last steps, which all ways of preparing share. Raises ConfigError, ManifestError, LocalFault."""
    if needs_room:
        settings = fit_to_room(plan.frozen, volumes, settings)
    if needs_room and plan.here is not None and len(volumes.roots) > 1:
        from cfetch.app.foreseen_space import foresee_room  # a plain run has one destination

        plan.here.add_notes(foresee_room(plan.here, volumes, settings))
    if plan.here is not None:
        plan.here.add_notes(volumes.note_left_out())
    if plan.here is not None and not plan.frozen.more_hosts:
        plan.here.add_notes(note_unmet_hosts(settings, plan.frozen.host_files))
    # the user's headers are for the plan's only host, if the settings name none
    settings = aim_headers(settings, plan.frozen.host_files, more=plan.frozen.more_hosts)
    network = make_network(settings.network, env)
    if plan.here is not None:
        plan.here.add_notes(network.notes)
    renewal = Renewal(origin, _make_api(settings, env, clock), stack)
    context = RunContext(volumes, find_destinations(settings).state, settings, network, renewal, clock)
    return Prepared(instant, plan, context, is_scheduled=is_scheduled)


def _make_api(settings: Settings, env: Mapping[str, str], clock: Clock) -> StatementApi:
    return StatementApi(settings.statement_host, env, make_network(settings.network, env), clock)


def fit_descriptors(settings: Settings, volumes: int) -> Settings:
    """Settings with no more downloads at a time than the system permits. Raises ConfigError."""
    page = 0
    if settings.serve is not None:
        page = load("parts", "page-descriptors")
    needed = settings.concurrency if settings.max_concurrency is None else settings.most_at_once
    is_default = settings.concurrency == SLOTS and settings.max_concurrency is None
    most = reserve_descriptors(
        needed, most=settings.most_at_once, volumes=volumes, others=page, can_lower=is_default
    )
    if most == settings.most_at_once:
        return settings
    return replace(settings, concurrency=min(most, settings.concurrency), max_concurrency=most)


def prove_destinations(settings: Settings) -> Destinations:
    """Return the destinations; with ``mounted``, prove each before anything is read or written there.

    Raises ConfigError, LocalFault.
    """
    where = find_destinations(settings)
    for root in where.directories if settings.mounted else ():
        from cfetch.run.labels import require_mount  # only --mounted asks for it

        with on_disk(root):
            limit_s = settings.write_timeout if len(where.roots) > 1 else None
            call_within(limit_s, str(root), partial(require_mount, root))
    return where


def open_volumes(stack: ExitStack, settings: Settings) -> Volumes:
    """Open the destinations until ``stack`` ends. Raises UsageError, LocalFault."""
    where = find_destinations(settings)
    open_to_group(where, settings)
    volumes = Volumes(
        where.roots,
        state=where.state,
        write_timeout_s=settings.write_timeout,
        mounted=settings.mounted,
        keep_free=settings.keep_free,
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
