"""Keep directories like a source that has a list but no feed: a prefix, a repository, an index, a manifest.

The list becomes a plan, as for a download, and the engine skips files that are in place. A sync needs one
thing more, the catalogue (``run/catalogue.py``): it tells which files have another version in the list, and
which files the source no longer has. The former are fetched again. The latter are deleted on demand, up to a
limit, after the run has brought everything else.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from cfetch.app.delete_limit import SHARE, count_allowed, take_share
from cfetch.app.given import prepare_entries
from cfetch.app.plans import list_plans, roll_back_plan
from cfetch.app.prepared import Prepared
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.path_filter import ALL_PATHS, PathFilter
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Held, UsageError
from cfetch.base.events import EntryFinished, Event, Listener, fan_out, tell_each
from cfetch.base.records import FileRecord, Summary
from cfetch.base.schemes import is_repository_url
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.faults import BrokenDocumentError, Faults, ignore_fault
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.run.catalogue import Catalogue, Homes, Own, locate_catalogue, name_source
from cfetch.run.directories import find_destinations, open_to_group
from cfetch.run.header_hosts import aim_repository_token
from cfetch.run.listings import find_listing, list_files
from cfetch.run.manifest_reader import ManifestReader
from cfetch.run.open_manifest import refuse_empty, shown_name
from cfetch.run.rejected_rows import describe_skipped
from cfetch.run.volumes import Volumes
from cfetch.show.format import plural
from cfetch.show.plan_view import SyncPreview
from cfetch.storage.batch_record_edits import strike_out
from cfetch.storage.buckets.stores import find_store
from cfetch.storage.claims import end_claims
from cfetch.storage.directory import Directory
from cfetch.storage.etags import keep_etag
from cfetch.wire.network import Network, make_network

SHOWN_DELETES = 20  # before they are deleted; --dry-run names all
LISTED_DELETES = 1000  # in JSON

EmitLine = Callable[[str], None]
Versioned = tuple[Entry, str | None]


class SyncOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``max_delete``: a number of files; or, as a float, a share of the files that the sync has put there.

    None: a tenth of them, and ten in any case.
    """

    delete: bool = False
    max_delete: float | None = None


@contextmanager
def prepare_sync(
    source: str,
    settings: Settings,
    options: SyncOptions,
    *,
    env: Mapping[str, str],
    emit_line: EmitLine,
    clock: Clock | None = None,
) -> Iterator["PreparedSync"]:
    """Read the list, and compare it with what stands here. Nothing is changed yet.

    Raises:
        UsageError: the source or a setting is wrong, or the list is empty and that is not allowed.
        Held: another sync of this source to this destination is at work.
        LocalFault: as ``prepare_entries``.
    """
    clock = clock or SystemClock()
    where = find_destinations(settings)
    if source == "-":
        raise ConfigError("standard input has no name for a later run; give a file, a URL or a prefix")
    if len(where.directories) < len(where.roots):
        raise ConfigError("cfetch sync is for directories; give one as --to")
    states_versions = find_listing(source) is not None
    settings = replace(aim_repository_token(settings, [source], env), engine="local", failed_from=None)
    if not settings.dry_run:
        open_to_group(where, settings)
    path = locate_catalogue(
        where.state, source, where.roots, addresses=[settings.base_url, *_find_addresses(source, env)]
    )
    paths = settings.reading.paths or ALL_PATHS
    with ExitStack() as stack:
        is_look = settings.dry_run and not os.path.exists(path)
        catalogue = stack.enter_context(Catalogue(None if is_look else path, state=where.state, paths=paths))
        trusts = states_versions and not catalogue.is_empty()  # else the versions in place are unknown
        settings = replace(settings, existing="trust" if trusts else "check")
        network = make_network(settings.network, env)
        listed = (
            _list_prefix(source, settings, options, network, clock, emit_line)
            if states_versions
            else _list_manifest(source, settings, options, network, emit_line)
        )
        entries = _note_listed(listed, catalogue, paths)
        prepared = stack.enter_context(
            prepare_entries(entries, shown_name(source), settings, env=env, clock=clock)
        )
        catalogue.note_clashes(_list_clashing(prepared))
        if not settings.allow_empty:
            paths.refuse_none(len(prepared.plan), shown_name(source))
        refuse_empty(len(prepared.plan), shown_name(source), allowed=settings.allow_empty)
        volumes = Volumes(where.roots, state=where.state, write_timeout_s=settings.write_timeout)
        stack.callback(volumes.close)
        claims: dict[Path, int] = {}
        stack.callback(end_claims, claims)
        claim = partial(volumes.claim, name_source(source), claims)
        yield PreparedSync(prepared, catalogue, volumes.local, claim, settings, options, emit_line)


def _find_addresses(source: str, env: Mapping[str, str]) -> list[str | None]:
    """Return the addresses in the environment that say where the source is. Raises UsageError."""
    if is_repository_url(source):
        return [find_endpoint()]
    store = find_store(source)
    return [] if store is None else [env.get(name) for name in store.addresses]


def _list_clashing(prepared: Prepared) -> Iterator[str]:
    """The paths that no entry of the plan has but such as clash with entries of other paths."""
    for entry in prepared.plan.entries():
        if entry.clash is not None and entry.clash.other != entry.path:
            yield entry.path


def _note_listed(listed: Iterator[Versioned], catalogue: Catalogue, paths: PathFilter) -> Iterator[Entry]:
    for entry, version in listed:
        if not paths.takes(entry.path):
            continue
        if entry.clash is None:  # else another entry of the list has this name
            catalogue.add_listed(entry.path, version, has_size=entry.size_bytes is not None)
        yield entry


def _list_prefix(
    source: str,
    settings: Settings,
    options: SyncOptions,
    network: Network,
    clock: Clock,
    emit_line: EmitLine,
) -> Iterator[Versioned]:
    """The files of a store or a repository, whose lists state versions. Raises UsageError."""
    listing = find_listing(source)
    assert listing is not None
    skips = settings.reading.bad_rows == "skip"
    faults, document = Faults(ignore_fault) if skips else Faults(gives_up=True), Document(hub=find_endpoint)
    try:
        for index, file in enumerate(list_files(listing, clock, network)):
            entry = check_row(Row(0, file.row), index, document, faults)
            if entry is not None:
                yield entry, file.version
        faults.skippable = faults.total
    except BrokenDocumentError as error:
        faults.note_break(error)
    if skips and faults.total:
        _refuse_skipped(source, options)
        emit_line(describe_skipped(faults.total))
        faults.forgive(0)
    faults.raise_if_any(shown_name(source))


def _refuse_skipped(source: str, options: SyncOptions) -> None:
    """Raise UsageError if files are to be deleted by a list of which rows were skipped."""
    if options.delete:
        raise UsageError(
            f"rows of {shown_name(source)} were skipped, so nobody can tell which files have gone; "
            "correct them, or sync without --delete"
        )


def _list_manifest(
    source: str, settings: Settings, options: SyncOptions, network: Network, emit_line: EmitLine
) -> Iterator[Versioned]:
    """Yield a manifest's entries, each with its hash as version; without one, the server is asked later."""
    reader = ManifestReader(settings.reading, settings.base_url, network=network, emit_line=emit_line)
    with reader.freeze(source, whole_tree=True) as plan:
        if plan.skipped:
            _refuse_skipped(source, options)
        if plan.partial is not None and options.delete:
            raise UsageError(
                f"the list {shown_name(source)} may be incomplete, so it cannot tell which files have gone: "
                f"{plan.partial}; or sync without --delete"
            )
        if plan.partial is not None and plan.partial not in plan.notes:
            emit_line(f"files may be missing from the list: {plan.partial}")
        for entry in plan.entries():
            digest = entry.digest
            version = None if digest is None else f"{digest.algorithm}:{digest.hex}"
            yield msgspec.structs.replace(entry, headers=(*plan.headers, *entry.headers)), version


@dataclass
class _Doubts:
    """Listed ``files`` that may be pages of directories here, whose own files are ``spared``.

    So many of them have ``failed``, as a directory is in their place.
    """

    files: set[str] = field(default_factory=set)
    spared: set[SafePath] = field(default_factory=set)
    failed: int = 0


class PreparedSync:
    """A validated plan with what it changes here, ready to run."""

    def __init__(
        self,
        prepared: Prepared,
        catalogue: Catalogue,
        directories: list[Directory],
        claim: Callable[[], None],
        settings: Settings,
        options: SyncOptions,
        emit_line: EmitLine,
    ) -> None:
        """``claim`` keeps others away from the directories. Raises Held, LocalFault."""
        self._prepared = prepared
        self._catalogue = catalogue
        self._claim = claim
        self._homes = Homes(directories)
        self._directories = self._homes.directories
        self._settings = settings
        self._options = options
        self._emit_line = emit_line
        self._changed = sum(1 for _ in catalogue.find_changed())
        self._gone = sum(1 for _ in catalogue.find_gone())
        self._deletes = options.delete and len(prepared.plan) > 0
        self._doubts = self._find_doubts() if self._deletes else _Doubts()
        self._deleted = self._kept = 0
        self._struck: list[SafePath] = []

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user about the list."""
        return [
            *self._prepared.notes,
            *map(_explain_doubt, islice(sorted(self._doubts.files), SHOWN_DELETES)),
        ]

    def preview(self) -> SyncPreview:
        """Tell what a run would do."""
        preview = self._prepared.preview()
        most = LISTED_DELETES if self._deletes else 0
        deletes: list[str] = [file.path for file in islice(self._find_gone(), most)]
        return SyncPreview(
            preview=msgspec.structs.replace(
                preview, in_place=max(0, preview.in_place - self._changed), notes=self.notes
            ),
            changed=self._changed,
            gone=self._gone,
            deletes=deletes,
            refusal=self._find_refusal(),
        )

    def run(self, listener: Listener) -> Summary:
        """Fetch files that are new or have changed.

        Raises:
            UsageError: more files would be deleted than may be; nothing was changed.
            LocalFault, Held: as ``Prepared.run``.
        """
        refusal = self._find_refusal()
        if refusal is not None:
            raise UsageError(f"{refusal}. Nothing was downloaded or deleted")
        self._claim()
        for directory in self._directories.values():
            for path in self._catalogue.find_changed():
                self._mark_older(directory, SafePath(path))
            if self._settings.existing == "trust":
                for path, version in self._catalogue.find_new():
                    if not _has_version(directory, SafePath(path), version):
                        _supersede(directory, SafePath(path))
        self._catalogue.commit()
        self._catalogue.note_unproven()
        self._drop_older_plans()
        if self._deletes:
            self._clear_the_way()
        summary = self._prepared.run(fan_out(tell_each(self._enter), listener))
        assert summary is not None
        return summary

    def settle(self, summary: Summary) -> Summary:
        """Delete files that the source no longer has, if that is wanted and the run has brought all others.

        Raises LocalFault.
        """
        self._catalogue.commit()
        if self._gone and self._options.delete and not self._deletes:
            self._emit_line(f"files not deleted, as the list is empty: {self._gone}")
        elif self._gone and not self._deletes:
            self._emit_line(f"files that the source has no longer: {self._gone}; --delete deletes them")
        elif self._gone and not self._has_all(summary):
            self._emit_line(f"files not deleted, as the run has not brought all: {self._gone}")
        elif self._gone:
            self._delete_gone()
        sync = Summary.Sync(changed=self._changed, gone=self._gone, deleted=self._deleted, kept=self._kept)
        return msgspec.structs.replace(summary, sync=sync)

    def _mark_older(self, directory: Directory, path: SafePath) -> None:
        """Mark an older version. The mark changes a time of an own file, which stays own."""
        own = self._catalogue.find_own(path)
        identity = directory.identify(path)
        _supersede(directory, path)
        marked = directory.identify(path)
        is_own = own is not None and (own.volume, own.identity) == (str(directory.root), identity)
        if is_own and marked is not None:
            self._catalogue.renew(path, marked)

    def _drop_older_plans(self) -> None:
        """Remove plans of older lists: nobody needs them, and they would fill the timeline in time."""
        scheduled = self._prepared.schedule()
        name = printable(self._prepared.plan.source, 1000)
        roots = set(map(str, find_destinations(self._settings).roots))
        for plan in list_plans(self._settings).plans:
            is_left = plan.action == "download" and plan.state != "completed"
            is_older = plan.instant != scheduled.instant and plan.manifest == name
            if is_left and is_older and set(plan.destinations) == roots:
                with suppress(Held):
                    roll_back_plan(self._settings, plan.instant, remove=True)

    def _find_refusal(self) -> str | None:
        if not self._deletes:
            return None
        most, own_files = self._options.max_delete, self._catalogue.count_own()
        if most is None:
            allowed = count_allowed(SHARE, own_files)
        else:
            allowed = take_share(most, own_files) if isinstance(most, float) else int(most)
        gone = self._gone - len(self._doubts.spared)
        if gone <= allowed:
            return None
        return (
            f"files here that the source's list no longer has: {gone}, and --max-delete allows "
            f"{allowed}; if the list is right, give --max-delete {gone}"
        )

    def _find_doubts(self) -> "_Doubts":
        doubts = _Doubts()
        for file, own in self._catalogue.find_below_unproven():
            directory = self._directories.get(own.volume)
            if directory is not None and directory.identify(own.path) is not None:
                doubts.files.add(file)
                doubts.spared.add(own.path)
        return doubts

    def _find_gone(self) -> Iterator[Own]:
        """The own files that the source no longer has, but for such as a directory's page may stand for."""
        return (own for own in self._catalogue.find_gone() if own.path not in self._doubts.spared)

    def _has_all(self, summary: Summary) -> bool:
        """Whether the run has brought all files, but for such as may be pages of directories here."""
        if summary.status == "completed":
            return True
        return summary.status == "partial" and summary.files.failed == self._doubts.failed

    def _enter(self, event: Event) -> None:
        if isinstance(event, EntryFinished) and event.record.path in self._doubts.files:
            self._doubts.failed += event.record.status == "failed"
        if isinstance(event, EntryFinished) and event.record.is_in_place:
            path = SafePath(event.record.path)
            if event.record.status == "done" and self._catalogue.take_unproven(path):
                self._changed += 1
            self._catalogue.enter(path, self._find_own(path, event.record))

    def _find_own(self, path: SafePath, record: FileRecord) -> Own | None:
        """Return the file in place, if this run or an earlier one brought it and it has not changed."""
        former = None if record.status == "done" else self._catalogue.find_own(path)
        volume = record.volume if record.status == "done" else "" if former is None else former.volume
        directory = self._directories.get(volume)
        identity = None if directory is None else directory.identify(path)
        if former is not None and former.identity != identity:
            return self._homes.find_moved(former)
        return None if identity is None else Own(path, volume, identity)

    def _clear_the_way(self) -> None:
        """Delete before the run: files where the source has a directory now, or a file above them."""
        in_the_way = list(self._catalogue.find_in_the_way())
        for own in (own for own in in_the_way if own.path not in self._doubts.spared):
            self._emit_line(f"to be deleted first, as it is in the way: {printable(own.path)}")
            self._delete(own)
        self._strike_out()
        self._catalogue.commit()

    def _delete_gone(self) -> None:
        gone = list(self._find_gone())
        if not gone:
            return
        self._emit_line(f"deleting {plural(len(gone), 'file')} that the source no longer has:")
        for own in gone[:SHOWN_DELETES]:
            self._emit_line(f"  {printable(own.path)}")
        if len(gone) > SHOWN_DELETES:
            self._emit_line(f"  and {len(gone) - SHOWN_DELETES} more")
        for own in gone:
            self._delete(own)
        self._strike_out()

    def _delete(self, own: Own) -> None:
        """Delete a file, if it is still the file that a sync has put there; count it as deleted or kept."""
        directory = self._directories.get(own.volume)
        if directory is not None and directory.identify(own.path) != own.identity:
            own = self._homes.find_moved(own) or own
            directory = self._directories[own.volume]
        if directory is None:
            self._emit_line(f"not deleted, as {own.volume} is out of use: {printable(own.path)}")
            return
        if directory.delete_exactly(own.path, own.identity):
            self._deleted += 1
        elif directory.identify(own.path) is not None:
            self._emit_line(f"kept, as it was changed here: {printable(own.path)}")
            self._kept += 1
        else:
            self._emit_line(f"not there any more: {printable(own.path)}")
        self._catalogue.forget(own.path)
        self._struck.append(own.path)

    def _strike_out(self) -> None:
        """Name the deleted files no more, before the catalogue forgets them for good."""
        for directory in self._directories.values():  # a move of its batch may have been killed
            strike_out(directory, self._struck)
        self._struck = []


def _explain_doubt(file: str) -> str:
    return (
        f"{printable(file)} is a file without size and hash in the list and a directory here, which is kept: "
        "it may be the page of that directory; if the source has made a file of it, remove what is here"
    )


def _supersede(directory: Directory, path: SafePath) -> None:
    if directory.identify(path) is not None:  # if a pipe were in its place, opening it would wait
        directory.supersede(path)


def _has_version(directory: Directory, path: SafePath, version: str | None) -> bool:
    source = directory.sources.find(path)
    return source is not None and source.etag is not None and source.etag == keep_etag(version)
