"""Brings the rounds of a follower to the destination: downloads by plans, and deletes within a bound."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from cfetch.app.delete_limit import DeleteLimit
from cfetch.app.free_space import DISK_RESERVE_BYTES
from cfetch.app.given import prepare_entries
from cfetch.app.plans import archive_plans, list_plans, roll_back_plan
from cfetch.app.prepared import join_roots
from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, Refused, UsageError
from cfetch.base.events import EntryFinished, Event, Listener, fan_out, tell_each
from cfetch.base.records import Summary
from cfetch.manifest.entry import Entry, SafePath
from cfetch.plugins.follow.link_hosts import LinkHosts
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.use_cases.mirror import Mirror
from cfetch.plugins.follow.use_cases.own_files import prove_by
from cfetch.run.catalogue import Homes, Own
from cfetch.show.format import plural
from cfetch.storage.batch_record_edits import name_too, strike_out
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.tree import ReadOnlyTree

MOST_PLANS = 100  # completed plans that a follower leaves on the timeline; each run reads their names


class FeedPlans:
    """Brings rounds to the destination, each by a plan of its own.

    ``shortage``: why files of the last round wait for room; "" if none does. ``compares``: files without a
    hash may be the feed's versions already; then their servers are asked. Otherwise they are fetched.
    """

    def __init__(
        self,
        mirror: Mirror,
        name: str,
        settings: Settings,
        env: Mapping[str, str],
        dashboard: Callable[[], AbstractContextManager[Listener]],
        clock: Clock,
        hosts: LinkHosts,
        max_delete: float,
    ) -> None:
        """``name``: of this follower's plans. ``max_delete`` as in ``FollowOptions``."""
        self.mirror = mirror
        self._own = mirror.own
        self._hosts = hosts
        self._limit = DeleteLimit(max_delete)
        self.shortage = ""
        self.compares = False
        self._name = name
        self._settings = settings
        self._env = env
        self._dashboard = dashboard
        self._clock = clock
        self._completed: list[str] = []

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
        with closing(self.mirror.open_volumes()) as volumes:
            homes = Homes(volumes.local)
            entries, foreign = self._begin(entries, homes)
            summary = self._run(entries, failed, homes, listener)
        self._own.end()
        self.mirror.tell_kept(path for path in foreign if path in failed)
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
            here = self._own.find_here(entry.path, homes)
            own = [file for file in here if file.is_own]
            sparing.append(
                msgspec.structs.replace(entry, replaces=tuple(file.identity.content for file in own))
            )
            if len(own) == len(here):
                begun.append((entry.path, prove_by(entry)))
            else:
                foreign.append(entry.path)
            if entry.digest is None and not self.compares:
                older += [(file.directory, entry.path) for file in own]
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
        with closing(self.mirror.open_volumes()) as volumes:
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

    def delete(self, paths: Sequence[SafePath]) -> None:
        """Delete own files; all others are named, and stay.

        Raises:
            LocalFault: a file cannot be deleted.
            Refused: more files would be deleted than may be; none of these was deleted.
        """
        with closing(self.mirror.open_volumes()) as volumes:
            homes = Homes(volumes.local)
            here = {path: self._own.find_here(path, homes) for path in paths}
            standing = sum(any(file.is_own for file in files) for files in here.values())
            refusal = self._limit.take(standing, self._clock.monotonic(), self._own.count)
            if refusal is not None:
                raise Refused(f"{refusal}. Nothing of this step was deleted")
            for path, files in here.items():
                for file in files:
                    if file.is_own:
                        file.directory.delete_exactly(path, file.identity)
                if self._own.has(path):
                    for volume in volumes.local:  # a follower may have died after it had deleted the file
                        volume.remove_empty(path)
                self._own.forget(path, homes)
            for volume in volumes.local:
                strike_out(volume, paths)  # last: after a kill the round is applied again
            self._own.commit()
            self.mirror.tell_kept(
                path
                for path, files in here.items()
                if any(not file.is_own for file in files)
                or any(volume.has_odd_file(path) for volume in volumes.local)
            )

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
        with closing(self.mirror.open_volumes()) as volumes:
            homes = Homes(volumes.local)
            own = {change.path: self._own.find_here(change.path, homes) for change in deletes if wanted}
            for directory in volumes.local if wanted else ():
                paths = [
                    path
                    for path, files in own.items()
                    if any(file.is_own and file.directory is directory for file in files)
                ]
                with ReadOnlyTree(Path(directory.root)) as tree:
                    equal = _find_equal(directory, tree, paths, wanted)
                names = {path: entry.path for path, (entry, _) in equal.items()}
                name_too(directory, names)
                self._own.begin(
                    (entry.path, prove_by(entry))
                    for entry, _ in equal.values()
                    if not self._own.find_here(entry.path, homes)
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
