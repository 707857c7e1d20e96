"""Brings the rounds of a follower to the destination: downloads by plans, and deletes within a bound."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import msgspec

from cfetch.app.delete_limit import DeleteLimit
from cfetch.app.download import prepare_entries
from cfetch.app.plans import archive_plans, list_plans, roll_back_plan
from cfetch.app.prepared import join_roots
from cfetch.app.room import DISK_RESERVE_BYTES
from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, LocalFault, Refused, UsageError
from cfetch.base.events import EntryFinished, Event, Listener, fan_out, tell_each
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry, SafePath, UnsafePathError, safe_path
from cfetch.plugins.follow.journal import STEP, Journal
from cfetch.plugins.follow.link_hosts import LinkHosts
from cfetch.plugins.follow.path_filter import PathFilter
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.use_cases.follow_text import (
    adopted_text,
    kept_lines,
    mirror_text,
    no_record_text,
)
from cfetch.plugins.follow.use_cases.own_files import OwnFiles, prove_by
from cfetch.run.catalogue import Homes, Own
from cfetch.run.directories import find_places
from cfetch.run.volumes import Volumes
from cfetch.show.format import plural
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.files import STATE_NAME
from cfetch.storage.occupancy import end_claims
from cfetch.storage.taken_back import name_too, strike_out
from cfetch.storage.tree import ReadOnlyTree

MOST_PLANS = 100  # completed plans that a follower leaves on the timeline; each run reads their names
MOST_COUNTED = 100_000  # files are counted at a follower's end: half a second


class FeedPlans:
    """Brings rounds to the destination, each by a plan of its own.

    ``shortage``: why files of the last round wait for room; "" if none does. ``compares``: files without a
    hash may be the feed's versions already; then their servers are asked. Otherwise they are fetched.
    """

    def __init__(
        self,
        journal: Journal,
        feed: str,
        settings: Settings,
        env: Mapping[str, str],
        dashboard: Callable[[], AbstractContextManager[Listener]],
        clock: Clock,
        hosts: LinkHosts,
        max_delete: float,
        own: OwnFiles,
        emit_line: Callable[[str], None],
    ) -> None:
        """``max_delete`` as in ``FollowOptions``."""
        self._own = own
        self._emit_line = emit_line
        self._kept: set[str] = set()  # paths of files that were named as kept
        self._hosts = hosts
        self._limit = DeleteLimit(max_delete)
        self.shortage = ""
        self.compares = False
        self._name = printable(str(journal.directory / STEP), 1000)  # of this follower's plans
        self._settings = settings
        self._env = env
        self._dashboard = dashboard
        self._clock = clock
        self._places = find_places(settings)
        self._journal = journal
        self._completed: list[str] = []
        self._feed = feed
        self._claims: dict[Path, int] = {}
        self.metrics = str(self._places.state / "metrics")

    def claim_destinations(self) -> None:
        """Keep other followers of the feed away from the directories. Raises Held, LocalFault."""
        self._open_volumes().close()

    def leave_destinations(self) -> None:
        """Let others follow the feed into the directories."""
        end_claims(self._claims)

    def settle(self, *, tells_lack: bool) -> None:
        """Note the files that a killed run has put in place. Raises Held, LocalFault.

        ``tells_lack``: tell if an earlier version, which kept no record, has put files here.
        """
        with closing(self._open_volumes()) as volumes:
            self._own.settle(Homes(volumes.local))
        if tells_lack and self._own.is_new and self._journal.has_checkpoint() and self._places.directories:
            self._emit_line(no_record_text())

    def adopt(self, paths: PathFilter) -> None:
        """Take all files in the destinations whose paths are taken for own ones. Raises Held, LocalFault."""
        with closing(self._open_volumes()) as volumes:
            homes, count = Homes(volumes.local), 0
            for directory in volumes.local:
                for path in self._list_files(Path(directory.root)):
                    identity = directory.identify(path) if paths.takes(path) else None
                    if identity is None or all(found.is_own for found in self._own.look(path, homes)):
                        continue
                    self._own.enter(Own(path, str(directory.root), identity), None)
                    count += 1
        self._own.commit()
        self._emit_line(adopted_text(count))

    def clear_up(self) -> None:
        """Roll back the plans of rounds that were not completed. Raises Held, LocalFault."""
        with suppress(UsageError):  # there is no timeline yet
            plans = [plan for plan in list_plans(self._settings).plans if plan.manifest == self._name]
            dead = {plan.instant for plan in plans if plan.action == "download" and plan.state != "completed"}
            for instant in sorted(dead):
                roll_back_plan(self._settings, instant, remove=False)
            if dead:
                rollbacks = [plan for plan in list_plans(self._settings).plans if plan.target in dead]
                self._completed += [rollback.instant for rollback in rollbacks]

    def bring(self, upserts: Sequence[Change], listener: Listener) -> tuple[set[str], Summary | None]:
        """Download one round; return the paths that failed or find no room, and the summary.

        Raises as ``Prepared.run``.
        """
        entries, failed = self._take_fitting(upserts)
        if not entries:
            self._own.end()
            return failed, None
        with closing(self._open_volumes()) as volumes:
            homes = Homes(volumes.local)
            entries, foreign = self._begin(entries, homes)
            summary = self._run(entries, failed, homes, listener)
        self._own.end()
        self._tell_kept(path for path in foreign if path in failed)
        if failed:
            self.clear_up()  # the failed changes become pending, so nobody needs the plan any more
        return failed, summary

    def _begin(self, entries: Sequence[Entry], homes: Homes) -> tuple[list[Entry], list[SafePath]]:
        """Note what is about to be brought, and mark own files in place as older versions.

        Without a hash, a new version may have the size and link of the old one. Return the entries, which
        may replace only own files, and the paths that have other files.
        """
        begun, sparing, foreign, older = [], [], [], []
        for entry in entries:
            found = self._own.look(entry.path, homes)
            own = [one for one in found if one.is_own]
            sparing.append(
                msgspec.structs.replace(entry, replaces=tuple(one.identity.content for one in own))
            )
            if len(own) == len(found):
                begun.append((entry.path, prove_by(entry)))
            else:
                foreign.append(entry.path)
            if entry.digest is None and not self.compares:
                older += [(one.directory, entry.path) for one in own]
        self._own.begin(begun)
        for directory, path in older:
            directory.supersede(path)
        return sparing, foreign

    def _run(
        self, entries: Sequence[Entry], failed: set[str], homes: Homes, listener: Listener
    ) -> Summary | None:
        """Download, add the paths that fail to ``failed``, and enter the files that arrive."""
        proofs = {str(entry.path): prove_by(entry) for entry in entries}

        def collect(event: Event) -> None:
            if not isinstance(event, EntryFinished):
                return
            record = event.record
            directory = homes.directories.get(record.volume)
            if not record.is_in_place:
                failed.add(record.path)
            elif record.status == "done" and directory is not None:
                path = SafePath(record.path)
                identity = directory.identify(path)
                if identity is not None:
                    self._own.enter(Own(path, record.volume, identity), proofs[record.path])

        settings = self._settings
        if self.compares and settings.existing == "trust":
            settings = replace(settings, existing="check")
        is_proxied = settings.proxy or settings.proxy_from_env  # a proxy looks up names itself
        if not is_proxied and self._hosts.is_public_feed():
            settings = replace(settings, public_only=True)
        with (
            prepare_entries(entries, self._name, settings, env=self._env, clock=self._clock) as prepared,
            self._dashboard() as shown,
        ):
            summary = prepared.run(fan_out(tell_each(collect), listener, shown), removable=True)
        if summary is not None and summary.exit_code == 0:
            self._completed.append(summary.instant)
            if len(self._completed) >= MOST_PLANS:
                self.archive()
        return summary

    def check_links(self, changes: Iterable[Change]) -> None:
        """Raise FeedError if a link leads to a host that is not allowed."""
        self._hosts.check_links(changes)

    def _take_fitting(self, upserts: Sequence[Change]) -> tuple[list[Entry], set[str]]:
        """The entries that there is room for, in the feed's order, and the paths of the others.

        Without this a full disk would be for ever: a later delete of the feed may make room.
        """
        entries = [change.entry for change in upserts if change.entry is not None]
        self.shortage = ""
        with closing(self._open_volumes()) as volumes:
            free = volumes.free_bytes()
            room = None if free is None else free - DISK_RESERVE_BYTES
            if room is None or sum(entry.size_bytes or 0 for entry in entries) <= room:
                return entries, set()
            fitting, waiting, missing_bytes = [], set(), 0
            for entry in entries:
                needed = 0 if volumes.existing(entry.path) == entry.file_bytes else entry.size_bytes or 0
                if needed <= room:
                    fitting.append(entry)
                    room -= needed
                else:
                    waiting.add(str(entry.path))
                    missing_bytes += needed
        if waiting:
            files = plural(len(waiting), "file")
            self.shortage = (
                f"there is no room for {files} of the feed with {missing_bytes:,} bytes in "
                f"{join_roots(volumes.roots)}"
            )
        return fitting, waiting

    def archive(self) -> None:
        """Archive completed plans: a follower that runs for years would fill the timeline with them."""
        if self._completed:
            with suppress(LocalFault):  # a later run tidies up
                archive_plans(self._settings, self._completed)
            self._completed = []

    def list_others(self, has: Callable[[str], bool], paths: PathFilter) -> tuple[list[SafePath], int]:
        """List own files that the feed does not have, and count the others that it does not have."""
        own: dict[SafePath, None] = {}
        others = 0
        with closing(self._open_volumes()) as volumes:
            homes = Homes(volumes.local)
            for directory in volumes.local:
                for path in self._list_files(Path(directory.root)):
                    if has(path) or not paths.takes(path):
                        continue
                    if any(found.is_own for found in self._own.look(path, homes)):
                        own[path] = None
                    else:
                        others += 1
        return list(own), others

    def _list_files(self, directory: Path) -> Iterator[SafePath]:
        with ReadOnlyTree(directory) as tree:
            for path, status, _ in tree.regular_files((STATE_NAME, STATE_DIRECTORY)):
                if status is None or self._places.state in (directory / path).parents:
                    continue
                with suppress(UnsafePathError):  # no feed can name the file, so it came from elsewhere
                    yield safe_path(path)

    def delete(self, paths: Sequence[SafePath]) -> None:
        """Delete own files; all others are named, and stay.

        Raises:
            LocalFault: a file cannot be deleted.
            Refused: more files would be deleted than may be; none of these was deleted.
        """
        with closing(self._open_volumes()) as volumes:
            homes = Homes(volumes.local)
            found = {path: self._own.look(path, homes) for path in paths}
            standing = sum(any(one.is_own for one in files) for files in found.values())
            refusal = self._limit.take(standing, self._clock.monotonic(), self._own.count)
            if refusal is not None:
                raise Refused(f"{refusal}. Nothing of this step was deleted")
            for path, files in found.items():
                for one in files:
                    if one.is_own:
                        one.directory.delete_exactly(path, one.identity)
                if self._own.has(path):
                    for volume in volumes.local:  # a follower may have died after it had deleted the file
                        volume.remove_empty(path)
                self._own.forget(path)
            for volume in volumes.local:
                strike_out(volume, paths)  # last: after a kill the round is applied again
            self._own.commit()
            self._tell_kept(
                path
                for path, files in found.items()
                if any(not one.is_own for one in files)
                or any(volume.has_odd_file(path) for volume in volumes.local)
            )

    def _tell_kept(self, paths: Iterable[SafePath]) -> None:
        """Name files that stay as they are not own, each once."""
        kept = [path for path in paths if path not in self._kept]
        self._kept.update(kept)
        for line in kept_lines(kept):
            self._emit_line(line)

    def move_renamed(self, deletes: Sequence[Change], upserts: Sequence[Change]) -> int:
        """Move own files that are to be deleted to where the feed has the same bytes now; return how many.

        Otherwise a renamed file would be fetched again. Their hashes are proved before.
        """
        wanted: defaultdict[int, list[Entry]] = defaultdict(list)
        for change in upserts:
            entry = change.entry
            if entry is not None and entry.digest is not None and entry.piece is None and entry.size_bytes:
                wanted[entry.size_bytes].append(entry)
        count = 0
        with closing(self._open_volumes()) as volumes:
            homes = Homes(volumes.local)
            own = {change.path: self._own.look(change.path, homes) for change in deletes if wanted}
            for directory in volumes.local if wanted else ():
                paths = [
                    path
                    for path, files in own.items()
                    if any(one.is_own and one.directory is directory for one in files)
                ]
                with ReadOnlyTree(Path(directory.root)) as tree:
                    equal = _find_equal(directory, tree, paths, wanted)
                names = {path: entry.path for path, (entry, _) in equal.items()}
                name_too(directory, names)
                self._own.begin(
                    (entry.path, prove_by(entry))
                    for entry, _ in equal.values()
                    if not self._own.look(entry.path, homes)
                )
                for path, (entry, identity) in equal.items():
                    if directory.move(path, entry.path, identity):
                        count += 1
                        self._note_moved(directory, entry)
                    elif entry.size_bytes:
                        wanted[entry.size_bytes].append(entry)
                if equal:
                    directory.flush()
                strike_out(directory, [*names, *names.values()])
        return count

    def _note_moved(self, directory: Directory, entry: Entry) -> None:
        identity = directory.identify(entry.path)
        if identity is not None:
            self._own.enter(Own(entry.path, str(directory.root), identity), prove_by(entry))

    def tell_mirror(self, emit_line: Callable[[str], None], *, is_stopped: bool) -> None:
        """Say how many files are in the destinations, and how far in the feed they are."""
        with suppress(CfetchError, OSError):  # the follower's own end is said already
            files = self._count_files(MOST_COUNTED + 1) if self._places.directories else None
            in_step_s = self._journal.in_step_s()
            emit_line(mirror_text(files, MOST_COUNTED, in_step_s, is_stopped=is_stopped))

    def _count_files(self, most: int | None = None) -> int:
        """Count the files in the destinations, up to ``most``."""
        with ExitStack() as stack:
            trees = [stack.enter_context(ReadOnlyTree(directory)) for directory in self._places.directories]
            listed = chain.from_iterable(tree.regular_files((STATE_NAME, STATE_DIRECTORY)) for tree in trees)
            return sum(1 for _ in islice((path for path, status, _ in listed if status is not None), most))

    def _open_volumes(self) -> Volumes:
        volumes = Volumes(
            self._places.roots, state=self._places.state, write_timeout_s=self._settings.write_timeout
        )
        try:
            volumes.claim(self._feed, self._claims)  # a volume may have come back meanwhile
        except BaseException:
            volumes.close()
            raise
        return volumes


def _find_equal(
    directory: Directory, tree: ReadOnlyTree, paths: Iterable[SafePath], wanted: Mapping[int, list[Entry]]
) -> dict[SafePath, tuple[Entry, Identity]]:
    """Find for each file a ``wanted`` entry, by size, with its hash; the entry leaves the list."""
    equal: dict[SafePath, tuple[Entry, Identity]] = {}
    for path in paths:
        identity = directory.identify(path)
        entries = wanted.get(identity.size_bytes, []) if identity is not None else []
        digests: dict[str, str] = {}
        for entry in entries:
            assert entry.digest is not None
            algorithm = entry.digest.algorithm
            if algorithm not in digests:
                with suppress(OSError):
                    digests[algorithm] = tree.hash_of(path, algorithm, lambda _: None)[0]
            if identity is not None and digests.get(algorithm) == entry.digest.hex:
                entries.remove(entry)
                equal[path] = entry, identity
                break
    return equal
