"""Brings the rounds of a follower to the destination: downloads by plans, and deletes within a bound."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from cfetch.app.delete_limit import DeleteLimit
from cfetch.app.given import prepare_entries
from cfetch.app.plans import archive_plans, list_plans, roll_back_plan
from cfetch.app.prepared import join_roots
from cfetch.app.room import DISK_RESERVE_BYTES
from cfetch.base.clock import Clock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Blocked, CfetchError, LocalFault, Refused, UsageError
from cfetch.base.events import EntryFinished, Event, Listener, fan_out
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry, SafePath, UnsafePathError, safe_path
from cfetch.plugins.follow.journal import STEP, Journal
from cfetch.plugins.follow.link_hosts import LinkHosts
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.source import Change
from cfetch.plugins.follow.use_cases.follow_text import mirror_text
from cfetch.run.directories import find_places
from cfetch.run.volumes import Volumes
from cfetch.show.format import plural
from cfetch.storage.claims import end_claims
from cfetch.storage.directory import Directory, Identity
from cfetch.storage.files import STATE_NAME
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
    ) -> None:
        """``max_delete`` as in ``FollowOptions``."""
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
            return failed, None
        if not self.compares:
            self._supersede([entry for entry in entries if entry.digest is None])

        def collect(event: Event) -> None:
            if isinstance(event, EntryFinished) and not event.record.is_in_place:
                failed.add(event.record.path)

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
            summary = prepared.run(fan_out(collect, listener, shown), removable=True)
        if summary is not None and summary.exit_code == 0:
            self._completed.append(summary.instant)
            if len(self._completed) >= MOST_PLANS:
                self.archive()
        if failed:
            self.clear_up()  # the failed changes become pending, so nobody needs the plan any more
        return failed, summary

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

    def list_others(self, has: Callable[[str], bool]) -> list[SafePath]:
        """List the files in the destinations whose paths the feed does not have."""
        others: list[SafePath] = []
        for directory in self._places.directories:
            with ReadOnlyTree(directory) as tree:
                for path, status, _ in tree.regular_files((STATE_NAME, STATE_DIRECTORY)):
                    if status is None or has(path) or self._places.state in (directory / path).parents:
                        continue
                    with suppress(UnsafePathError):  # no feed can name the file, so it came from elsewhere
                        others.append(safe_path(path))
        return others

    def delete(self, paths: Sequence[SafePath]) -> None:
        """Delete files; a directory in a file's place is left alone.

        Raises:
            LocalFault: a file cannot be deleted.
            Refused: more files would be deleted than may be; none of these was deleted.
        """
        with closing(self._open_volumes()) as volumes:
            standing = sum(
                any(volume.identify(path) is not None for volume in volumes.local) for path in paths
            )
            refusal = self._limit.take(standing, self._clock.monotonic(), self._count_files)
            if refusal is not None:
                raise Refused(f"{refusal}. Nothing of this step was deleted")
            for path in paths:
                for volume in volumes.local:
                    with suppress(Blocked):
                        volume.delete(path)
            for volume in volumes.local:
                strike_out(volume, paths)  # last: after a kill the round is applied again

    def move_renamed(self, deletes: Sequence[Change], upserts: Sequence[Change]) -> int:
        """Move files that are to be deleted to where the feed has the same bytes now; return how many.

        Otherwise a renamed file would be fetched again. Their hashes are proved before.
        """
        wanted: defaultdict[int, list[Entry]] = defaultdict(list)
        for change in upserts:
            entry = change.entry
            if entry is not None and entry.digest is not None and entry.piece is None and entry.size_bytes:
                wanted[entry.size_bytes].append(entry)
        count = 0
        with closing(self._open_volumes()) as volumes:
            for directory in volumes.local if wanted else ():
                with ReadOnlyTree(Path(directory.root)) as tree:
                    equal = _find_equal(directory, tree, [change.path for change in deletes], wanted)
                names = {path: entry.path for path, (entry, _) in equal.items()}
                name_too(directory, names)
                for path, (entry, identity) in equal.items():
                    if directory.move(path, entry.path, identity):
                        count += 1
                    elif entry.size_bytes:
                        wanted[entry.size_bytes].append(entry)
                if equal:
                    directory.flush()
                strike_out(directory, [*names, *names.values()])
        return count

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

    def _supersede(self, entries: Sequence[Entry]) -> None:
        """Mark the files in place as older versions.

        Without a hash, a new version may have the size and link of the old one.
        """
        if not entries:
            return
        with closing(self._open_volumes()) as volumes:
            for entry in entries:
                for volume in volumes.local:
                    volume.supersede(entry.path)

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
