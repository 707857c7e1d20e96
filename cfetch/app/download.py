"""The main use case, and the one place where the rooms are wired together.

``prepare`` reads and validates the manifest and freezes it into a plan. ``Prepared.run`` puts the plan on
the destination's timeline, or finds it pending there, and brings it to its end under the guard of a
heartbeat. ``prepare_planned`` does the same for a plan that stands there already, ``prepare_entries`` for
entries of a feed. Everything that happens is told to one listener as events; the summary is made from the
same events.
"""

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from cfetch.app.engine_plan import EnginePlan, frozen_by_spark, frozen_here, load
from cfetch.app.engines import Surroundings, check_for_spark, choose_engine
from cfetch.clock import Clock, SystemClock
from cfetch.config.reading import ReadingOptions
from cfetch.config.settings import Settings
from cfetch.errors import ConfigError, Held, LocalFault, UsageError
from cfetch.events import Listener, PlanWaiting, RunNoted, fan_out
from cfetch.manifest.entries import Frozen
from cfetch.manifest.entry import Entry as ManifestEntry
from cfetch.manifest.formats.sql_statement import statement_id_of
from cfetch.manifest.freezing import Opened, Part, freeze_entries, freeze_parts
from cfetch.manifest.plan import Plan
from cfetch.manifest.reading import STANDARD
from cfetch.manifest.source import FetchChunk
from cfetch.records import NOT_DECODED, Summary
from cfetch.report.metrics import MetricsFile, read_unfinished
from cfetch.report.plan_view import Preview, Scheduled
from cfetch.run.directories import is_shared, own_directory, places, timeline
from cfetch.run.failed_manifest import FailedEntries
from cfetch.run.frame import Frame
from cfetch.run.fresh_links import ManifestRef, Renewal, StatementApi
from cfetch.run.header_hosts import aim_headers, aim_repository_token
from cfetch.run.host_baseline import keep_baseline, read_baseline
from cfetch.run.open_manifest import (
    expand_manifests,
    is_elsewhere,
    open_manifest,
    refuse_empty,
    shown_name,
)
from cfetch.run.rejected_rows import RejectedRows
from cfetch.run.result_files import find_metrics_path, refuse_wanted_place
from cfetch.run.threads import prove_threads
from cfetch.run.volumes import Volumes
from cfetch.secret import printable
from cfetch.storage.descriptors import reserve_descriptors
from cfetch.storage.files import local_fault, make_private, replace_file
from cfetch.storage.resume import useful_parts
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.timeline.clean import tidy_up
from cfetch.timeline.execution import Completed, Execution, schedule, start
from cfetch.timeline.owner import sign
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Action, Entry, Kind, State, new_instant
from cfetch.timeline.table import Table, existing, open_existing, open_table
from cfetch.wire.network import Network, make_network

DISK_RESERVE_BYTES = 16 << 20  # metrics, plan and directories need room too
KEEP_S = 30 * 86_400.0  # completed plans stay on the timeline for a month, then in its archive
ORIGIN_NAME = "origin.json"


class _ManifestRef(msgspec.Struct, frozen=True, kw_only=True):
    """Says where fresh links of a frozen plan come from. It may hold secrets, as the plan does."""

    manifest: str
    statement: str | None = None
    base_url: str | None = None
    options: ReadingOptions = STANDARD


@contextmanager
def prepare(
    manifest: str,
    settings: Settings,
    *,
    more: Sequence[str] = (),
    env: Mapping[str, str],
    clock: Clock | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator["Prepared"]:
    """Validate everything that can be validated before the first byte is asked for.

    ``manifest`` is a path, an http(s) URL, ``-`` for standard input, a directory of manifests or a pattern;
    ``more`` are further ones. With ``engine`` spark, a directory or a large one is prepared by Spark. ``env``
    may hold DATABRICKS_TOKEN; ``progress`` is told how many entries have been read.

    Raises:
        UsageError: the manifest or a setting is wrong.
        LocalFault: the destination cannot be written or is too small.
    """
    clock = clock or SystemClock()
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = places(settings)
    by_spark = not more and _is_for_spark(manifest, settings)
    manifests, notes = ([manifest], []) if by_spark else expand_manifests([manifest, *more])
    manifest = manifests[0] if len(manifests) == 1 else f"a list of {len(manifests)} manifests"
    settings = aim_repository_token(settings, manifests, env)
    with ExitStack() as stack:
        settings = _fit_descriptors(settings, len(destinations.roots))
        network = make_network(settings.network, env)
        api = StatementApi(settings.statement_host, env, network, clock)
        opened = None
        if not by_spark and len(manifests) == 1:
            opened = stack.enter_context(open_manifest(manifest, clock, network=network))
        statement = None if opened is None else statement_id_of(opened.file)
        volumes = _open_volumes(stack, settings)  # before the plan: it refuses a symlink as state
        directory = own_directory(stack, destinations.state, instant)
        name = shown_name(manifest)
        if not by_spark:
            parts = [_make_part(each, opened, clock, network) for each in manifests]
            fetch_chunk = api.blocking(statement) if statement else None
            plan = frozen_here(
                _freeze_manifest(stack, parts, notes, name, directory, fetch_chunk, progress, settings)
            )
        else:
            from cfetch.spark.prepare.large import prepare_on_spark

            check_for_spark(volumes, settings)
            rejected = destinations.state / "rejected" / instant
            plan = frozen_by_spark(
                prepare_on_spark(stack, manifest, name, settings, directory / "prepared", rejected, progress)
            )
        _check_room(plan.frozen, volumes)
        settings, network = _aim(settings, plan.frozen, env)
        origin = _ManifestRef(
            manifest=manifest, statement=statement, base_url=settings.base_url, options=settings.reading
        )
        renewal = Renewal(_renewal_ref(origin), api, stack)
        yield Prepared(instant, plan, volumes, settings, clock, network, renewal, origin=origin)


def _make_part(manifest: str, opened: Opened | None, clock: Clock, network: Network) -> Part:
    """``opened``: the manifest, if it is open already."""

    def open_now() -> AbstractContextManager[Opened]:
        return open_manifest(manifest, clock, network=network) if opened is None else nullcontext(opened)

    return Part(shown_name(manifest), open_now)


def _renewal_ref(origin: _ManifestRef) -> ManifestRef:
    return ManifestRef(origin.manifest, origin.statement, origin.base_url, origin.options)


def _fit_descriptors(settings: Settings, volumes: int) -> Settings:
    """Settings with no more downloads at a time than the system permits. Raises ConfigError."""
    needed = settings.concurrency if settings.max_concurrency is None else settings.most_at_once
    most = reserve_descriptors(needed, most=settings.most_at_once, volumes=volumes)
    return settings if most == settings.most_at_once else replace(settings, max_concurrency=most)


@contextmanager
def prepare_entries(
    entries: Iterable[ManifestEntry], name: str, settings: Settings, *, env: Mapping[str, str], clock: Clock
) -> Iterator["Prepared"]:
    """The same for entries that a feed has checked. The plan bears ``name``. Raises as ``prepare``."""
    instant = new_instant(clock.wall(), secrets.token_hex(2))
    destinations = places(settings)
    with ExitStack() as stack:
        settings = _fit_descriptors(settings, len(destinations.roots))
        volumes = _open_volumes(stack, settings)
        directory = own_directory(stack, destinations.state, instant)
        plan = frozen_here(stack.enter_context(freeze_entries(entries, name=name, directory=directory)))
        settings, network = _aim(settings, plan.frozen, env)
        _check_room(plan.frozen, volumes)
        origin = _ManifestRef(manifest=name)
        api = StatementApi(settings.statement_host, env, network, clock)
        renewal = Renewal(_renewal_ref(origin), api, stack)
        yield Prepared(instant, plan, volumes, settings, clock, network, renewal, origin=origin)


def _open_volumes(stack: ExitStack, settings: Settings) -> Volumes:
    volumes = Volumes(places(settings).roots, write_timeout_s=settings.write_timeout)
    stack.callback(volumes.close)
    return volumes


def _aim(settings: Settings, plan: Frozen, env: Mapping[str, str]) -> tuple[Settings, Network]:
    """Aim the user's headers at the plan's only host, if the settings name none. Raises ConfigError."""
    settings = aim_headers(settings, plan.host_files, more=plan.more_hosts)
    return settings, make_network(settings.network, env)


def _is_for_spark(manifest: str, settings: Settings) -> bool:
    """Whether Spark prepares it. Raises UsageError: nobody can as ``settings`` are."""
    if manifest == "-" or is_elsewhere(manifest):
        return False
    path, is_spark = Path(manifest), settings.engine == "spark"
    if path.is_dir() and is_spark:
        shown = shown_name(manifest)
        if settings.failed_from:
            raise ConfigError(f"failed_from is for one manifest, and {shown} is a directory; name one in it")
        return True
    if not is_spark or settings.failed_from:
        return False
    from cfetch.spark.prepare.large import is_large

    return is_large(path)


def _freeze_manifest(
    stack: ExitStack,
    parts: Sequence[Part],
    notes: Sequence[str],
    name: str,
    directory: Path,
    fetch_chunk: FetchChunk | None,
    progress: Callable[[int], None] | None,
    settings: Settings,
) -> Plan:
    left = read_unfinished(Path(settings.failed_from)) if settings.failed_from else None
    rejected = stack.enter_context(
        RejectedRows(places(settings).state / "rejected" / f"{directory.name.lstrip('.')}.jsonl")
    )
    plan = freeze_parts(
        parts,
        name=name,
        directory=directory,
        fetch_chunk=fetch_chunk,
        progress=progress,
        base_url=settings.base_url,
        options=settings.reading,
        report=rejected.add,
        only=left,
    )
    stack.enter_context(plan)
    plan.notes += (*notes, *rejected.notes())
    if left is not None and left.failed and not len(plan):
        raise ConfigError(
            f"failed_from is {settings.failed_from}, which names {len(left.failed)} failed files, but the "
            "manifest has none of them; give the metrics of a run over this manifest"
        )
    refuse_empty(plan, allowed=settings.allow_empty or left is not None)
    return plan


@contextmanager
def prepare_planned(
    instant: str, settings: Settings, *, env: Mapping[str, str], clock: Clock | None = None
) -> Iterator["Prepared | None"]:
    """The same for a plan that stands on the destination's timeline; None if it is completed.

    Raises:
        UsageError: there is no such plan, or it is for another destination.
        LocalFault: its frozen manifest cannot be read, or as ``prepare``.
    """
    clock = clock or SystemClock()
    destinations = places(settings)
    with ExitStack() as stack:
        with open_existing(*timeline(settings)) as table:
            entry = existing(table, table.store.entries(), instant)
            if entry.state is State.COMPLETED:
                yield None
                return
            there = _elsewhere(settings, table, entry)
        if there:
            raise UsageError(f"plan {instant} is for {there}; give that as --to")
        settings = _fit_descriptors(settings, len(destinations.roots))
        directory = destinations.state / "plans" / instant
        plan = load(stack, directory)
        origin = _read_origin(directory / ORIGIN_NAME)
        settings = aim_repository_token(settings, [origin.manifest], env)
        settings, network = _aim(settings, plan.frozen, env)
        volumes = _open_volumes(stack, settings)
        _check_room(plan.frozen, volumes)
        api = StatementApi(settings.statement_host, env, network, clock)
        renewal = Renewal(_renewal_ref(origin), api, stack)
        yield Prepared(instant, plan, volumes, settings, clock, network, renewal)


def pending(settings: Settings) -> list[str]:
    """The plans of this destination that wait for a run, oldest first. Raises UsageError, LocalFault."""
    with open_existing(*timeline(settings)) as table:
        return [
            entry.instant
            for entry in table.store.entries()
            if entry.action is Action.DOWNLOAD
            and entry.state is not State.COMPLETED
            and not _elsewhere(settings, table, entry)
        ]


def _elsewhere(settings: Settings, table: Table, entry: Entry) -> str:
    """Name the destination of another run's plan on a shared timeline.

    A timeline moves with its destination.
    """
    with suppress(FileNotFoundError):  # it has moved on, so it is in somebody's hands
        record = table.store.read_plan(entry)
        if record is None or not (is_shared(settings) or " " in record.fingerprint):
            return ""
        if sorted(record.destinations) != sorted(map(str, places(settings).roots)):
            return printable(", ".join(record.destinations), 1000)
    return ""


def _check_room(plan: Frozen, volumes: Volumes) -> None:
    """Raise LocalFault unless what is not in place yet fits; looks at the files only where it must."""
    free = volumes.free_bytes()
    if free is None or plan.total_bytes <= (free_bytes := max(0, free - DISK_RESERVE_BYTES)):
        return
    missing_bytes = sum(
        entry.size_bytes or 0
        for entry in plan.entries()
        if volumes.existing(entry.path) != (entry.file_bytes or 0)
    )
    if missing_bytes > free_bytes:
        raise LocalFault(
            f"the plan needs {missing_bytes:,} more bytes, and {_join_roots(volumes.roots)} has room for "
            f"{free_bytes:,} (a reserve of {DISK_RESERVE_BYTES:,} set aside); free some space or choose "
            "another --to. Nothing was downloaded"
        )


def _join_roots(roots: Sequence[str | Path]) -> str:
    return ", ".join(map(str, roots))


class Prepared:
    """A validated plan with its destination, ready to run. Without ``origin`` it is scheduled already."""

    def __init__(
        self,
        instant: str,
        plan: EnginePlan,
        volumes: Volumes,
        settings: Settings,
        clock: Clock,
        network: Network,
        renewal: Renewal,
        *,
        origin: _ManifestRef | None = None,
    ) -> None:
        self.plan = plan.frozen
        self._for_engines = plan
        self._instant = instant
        self._volumes = volumes
        self._settings = settings
        self._state = places(settings).state
        self._clock = clock
        self._network = network
        self._renewal = renewal
        self._origin = origin

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know of the manifest that was read just now."""
        here = self._for_engines.here
        return () if here is None else here.notes

    def preview(self) -> Preview:
        """What a run would do."""
        return Preview(
            files=len(self.plan),
            in_place=0
            if self._settings.existing == "refetch"
            else self._volumes.count_in_place(self.plan.entries()),
            bytes_known=self.plan.total_bytes,
            sizes_unknown=self.plan.sizes_unknown,
            merged=self.plan.merged,
            hosts={printable(host): count for host, count in self.plan.host_files.items()},
            more_hosts=self.plan.more_hosts,
            batches=self.plan.tasks,
            floors={printable(host): floor_s for host, floor_s in self.plan.floors_s.items()},
            destination=_join_roots(self._volumes.roots),
            free_bytes=self._volumes.free_bytes(),
            volumes=self._volumes.rooms() if len(self._volumes.roots) > 1 else {},
            notes=list(self.notes),
        )

    def schedule(self, *, removable: bool = False) -> Scheduled:
        """Put the plan on the timeline, or find it pending there. Raises LocalFault."""
        with self._table() as table:
            instant = self._put(table, Kind.REMOVABLE if removable else Kind.IMMUTABLE)
        return Scheduled(
            instant=instant,
            was_pending=instant != self._instant,
            files=len(self.plan),
            bytes_known=self.plan.total_bytes,
        )

    def run(self, listener: Listener, *, removable: bool = False) -> Summary | None:
        """Download. What happens to entries is told by the summary, with the exit code.

        None: the plan was scheduled before, and another run has completed it meanwhile. ``removable``: the
        plan is of no use to anybody else, as its caller knows how to make it again.

        Raises:
            Held: another live run has this plan.
            UsageError: it is removable and had its one attempt.
            LocalFault: the timeline, the metrics or the parts cannot be written.
            ConfigError: the system does not permit what a run needs.
        """
        prove_threads(len(self._volumes.roots))
        with self._table() as table:
            knowledge, note = self._earlier_runs()
            outside = Surroundings(
                self._volumes, self._state, self._settings, self._network, self._renewal, self._clock
            )
            engine, about_engine = choose_engine(self._for_engines, outside, knowledge)
            kind = Kind.REMOVABLE if removable else Kind.IMMUTABLE
            execution = self._start(table, kind, engine.lose, listener)
            if execution is None:
                return None
            self.plan.forget_others(self._state / "plans" / execution.instant)
            with ExitStack() as stack:
                stack.callback(execution.release)
                stack.enter_context(
                    self._volumes.stage_parts(execution.staging, execution.instant, self._state)
                )
                metrics, failed = MetricsFile(self._metrics_path(execution)), FailedEntries()
                failures = self._failures_path()
                for line in (note, about_engine):
                    if line is not None:
                        listener(RunNoted(t_s=0.0, note=line))
                frame = Frame(engine, self.plan, self._volumes.roots, self._settings, self._clock)
                summary = frame.go(execution, metrics, fan_out(listener, failed) if failures else listener)
                if failures:
                    failed.write(failures, self.plan)
                keep_baseline(self._state, engine.learned, self._clock.wall())
            if summary.status == "completed":
                shutil.rmtree(self._state / "plans" / execution.instant, ignore_errors=True)
                with suppress(LocalFault):  # all is in place; a later run tidies up a volume that failed
                    tidy_up(table, KEEP_S)
            return summary

    def _earlier_runs(self) -> tuple[Knowledge, str | None]:
        settings = self._settings
        if settings.policy != "adaptive" or settings.engine != "local":
            return NOTHING, None
        return read_baseline(self._state)

    def _table(self) -> AbstractContextManager[Table]:
        state, _, heartbeats = timeline(self._settings)
        return open_table(state, self._volumes.states, heartbeats)

    def _start(
        self, table: Table, kind: Kind, on_lost: Callable[[str], None], listener: Listener
    ) -> Execution | None:
        announced: set[str] = set()

        def waiting(held: Held) -> None:
            if held.host not in announced:
                announced.add(held.host)
                listener(PlanWaiting(t_s=0.0, reason=str(held)))

        while True:
            instant = self._instant if self._origin is None else self._put(table, kind)
            execution = start(
                table,
                instant,
                on_lost=on_lost,
                salvage=lambda dead: useful_parts(dead.names),
                waiting=waiting,
            )
            if not isinstance(execution, Completed):
                return execution
            if self._origin is None:
                return None
            self._instant = table.new_instant()  # another run was faster: see what it has left to do

    def _put(self, table: Table, kind: Kind) -> str:
        """The instant of this plan on the timeline, with its frozen manifest beside it."""
        roots = tuple(map(str, self._volumes.roots))
        where = f" {' '.join(sorted(roots))}" if is_shared(self._settings) else ""
        record = PlanRecord(
            kind=kind,
            fingerprint=self.plan.digest + where,
            manifest=printable(self.plan.source, 1000),
            destinations=roots,
            files=len(self.plan),
            bytes=self.plan.total_bytes,
        )
        directory = self._state / "plans"
        try:
            with ExitStack() as stack:
                stack.callback(self._tidy_unless_scheduled, table)
                self._lay_down(directory / self._instant)  # first: whoever finds the plan finds its manifest
                instant = schedule(table, self._instant, record)
                if instant != self._instant:
                    self._lay_down_anew(table, instant)
        except OSError as error:
            raise local_fault(error, f"cannot keep the plan in {directory}") from None
        return instant

    def _tidy_unless_scheduled(self, table: Table) -> None:
        """Remove the frozen manifest, unless the plan is on the timeline: an error may come after that."""
        with suppress(OSError, LocalFault):
            if table.store.entry(self._instant) is None:
                shutil.rmtree(self._state / "plans" / self._instant, ignore_errors=True)

    def _lay_down_anew(self, table: Table, instant: str) -> None:
        """The same plan with links that were signed anew; none if it is being completed and tidied up now."""
        try:
            self._lay_down(self._state / "plans" / instant)
        except (OSError, LocalFault):
            entry = table.store.entry(instant)
            if entry is not None and entry.state is not State.COMPLETED:
                raise

    def _lay_down(self, directory: Path) -> None:
        make_private(directory, state=self._state)
        sign(directory)
        self.plan.save(directory)
        self._for_engines.forget_other_kind(directory)
        replace_file(directory / ORIGIN_NAME, msgspec.json.encode(self._origin))

    def _metrics_path(self, execution: Execution) -> Path:
        path = find_metrics_path(self._settings, self._state, execution.instant, execution.epoch)
        refuse_wanted_place("metrics", path, self._volumes, self.plan)
        return path

    def _failures_path(self) -> Path | None:
        if self._settings.failures is None:
            return None
        path = Path(self._settings.failures).absolute()
        refuse_wanted_place("failures", path, self._volumes, self.plan)
        return path


def _read_origin(path: Path) -> _ManifestRef:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_ManifestRef)
    except (OSError, *NOT_DECODED):
        raise LocalFault(f"cannot read {path}; schedule the manifest again") from None
