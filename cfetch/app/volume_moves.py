"""Moves batches between volumes: empties volumes, or makes them level. Nothing is downloaded here.

A plan of moves is made once (``engine/placement/relocation.py``), and carried out batch by batch
(``storage/moves.py``). Meanwhile no run may be at work on the volumes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cfetch.app.volume_set import (
    Advance,
    VolumeStanding,
    read_all,
    read_volume,
    refuse_stores,
    size_of,
)
from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, ConfigError, Held, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.relocation import (
    Move,
    PlacedBatch,
    Relocation,
    Shelf,
    level_shares,
    plan_drain,
    plan_rebalance,
)
from cfetch.run.directories import find_destinations, find_timeline
from cfetch.run.labels import Labels
from cfetch.show.volume_view import BatchMoves, MovedBatch, RecoveredBatch, StayedBatch
from cfetch.storage.batch_record_edits import strike_out_replaced
from cfetch.storage.batch_records import Unread, read_record, record_path
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME, on_disk
from cfetch.storage.moves import move_batch, recover
from cfetch.storage.occupancy import leave, occupy
from cfetch.storage.tree import ReadOnlyTree
from cfetch.storage.volume_values import BatchRecord
from cfetch.timeline.opening import open_existing
from cfetch.timeline.states import State
from cfetch.timeline.table import on_this_machine

POLL_S = 1.0  # between looks at whether another run has ended


class _Group(NamedTuple):
    """The records of a volume that share files, by their ids, the newest first; they move as one batch."""

    home: int
    ids: tuple[str, ...]
    name: str | None
    files: int
    bytes: int


class OpenedVolumes(NamedTuple):
    """Volumes that nobody else is at work on; interrupted moves are ended."""

    roots: tuple[Path, ...]
    standings: tuple[VolumeStanding, ...]
    labels: Labels
    recovered: tuple[RecoveredBatch, ...]

    def groups(self) -> tuple[list[_Group], list[StayedBatch]]:
        """The batches of all volumes that can move, and those that cannot, with reasons."""
        groups: list[_Group] = []
        stayed: list[StayedBatch] = []
        for home, root in enumerate(self.roots):
            records: list[BatchRecord] = []
            for record in read_all(root):
                if isinstance(record, Unread):
                    which = "a newer version of cfetch has written it" if record.is_newer else "it is damaged"
                    why = f"its record cannot be read: {which}"
                    batch = record.name.removesuffix(".json")
                    stayed.append(StayedBatch(batch=batch, name=None, volume=str(root), why=why))
                elif record.paths is None:
                    why = (
                        "an earlier version of cfetch has written its record, which does not name its files; "
                        "cfetch download with --existing refetch writes it anew"
                    )
                    stayed.append(StayedBatch(batch=record.id, name=record.name, volume=str(root), why=why))
                else:
                    records.append(record)
            with ReadOnlyTree(root) as tree:
                for joined in _join_overlapping(records):
                    paths = {path for record in joined for path in record.paths or ()}
                    size_bytes = sum(size_of(tree, path) or 0 for path in paths)
                    ids = tuple(record.id for record in joined)
                    groups.append(_Group(home, ids, joined[0].name, len(paths), size_bytes))
        return groups, stayed

    def shelves(self, groups: Sequence[_Group]) -> list[Shelf]:
        """The volumes as the planner sees them; one that does not say its room has room for all batches."""
        ample_bytes = 2 * sum(group.bytes for group in groups)
        return [
            Shelf(
                sum(group.bytes for group in groups if group.home == index),
                sum(group.files for group in groups if group.home == index),
                ample_bytes if standing.free_bytes is None else standing.free_bytes,
                standing.state in ("mounted", "full"),
            )
            for index, standing in enumerate(self.standings)
        ]


class PreparedMoves:
    """Moves that are planned, on volumes that are kept for them. ``files`` and ``bytes`` are to be moved."""

    def __init__(
        self,
        volumes: OpenedVolumes,
        groups: Sequence[_Group],
        relocation: Relocation,
        stayed: Sequence[StayedBatch],
        shelves: Sequence[Shelf],
        bound_bytes: int | None = None,
    ) -> None:
        self._roots = volumes.roots
        self._labels = volumes.labels
        self._groups = groups
        self._relocation = relocation
        self._stayed = list(stayed) + [self._stay(number, why) for number, why in relocation.stuck]
        self._recovered = list(volumes.recovered)
        self._shelves = shelves
        self._bound_bytes = bound_bytes

    @property
    def files(self) -> int:
        """The files that are to be moved."""
        return sum(self._groups[move.unit].files for move in self._relocation.moves)

    @property
    def bytes(self) -> int:
        """The bytes that are to be moved."""
        return sum(self._groups[move.unit].bytes for move in self._relocation.moves)

    def preview(self) -> BatchMoves:
        """Tell what would be moved."""
        return self._document(self._relocation.moves, dry_run=True)

    def carry_out(self, advance: Advance) -> BatchMoves:
        """Move the batches one after the other. A batch that cannot be moved stays, and the others go on."""
        done: list[Move] = []
        for move in self._relocation.moves:
            group = self._groups[move.unit]
            try:
                self._carry_out_move(move, group, advance)
            except CfetchError as error:
                self._stayed.append(self._stay(move.unit, str(error)))
            else:
                done.append(move)
        return self._document(done, dry_run=False)

    def _carry_out_move(self, move: Move, group: _Group, advance: Advance) -> None:
        source, target = self._roots[move.source], self._roots[move.target]
        records = [
            record
            for batch in group.ids
            if isinstance(record := read_record(record_path(source, batch)), BatchRecord)
        ]
        if len(records) < len(group.ids):
            raise LocalFault(f"its record on {source} is gone; see who else works there")
        self._labels.put(target)
        with closing(Directory(source, sharers=2)) as directory:
            move_batch(directory, target, records, advance)

    def _stay(self, number: int, why: str) -> StayedBatch:
        group = self._groups[number]
        return StayedBatch(batch=group.ids[0], name=group.name, volume=str(self._roots[group.home]), why=why)

    def _document(self, moves: Sequence[Move], *, dry_run: bool) -> BatchMoves:
        level = off_bytes = None
        if self._bound_bytes is not None:
            held = [shelf.bytes for shelf in self._shelves]
            for move in moves:
                held[move.source] -= self._groups[move.unit].bytes
                held[move.target] += self._groups[move.unit].bytes
            shares = level_shares(self._shelves)
            off_bytes = max(abs(own - share) for own, share in zip(held, shares, strict=True))
            level = off_bytes <= self._bound_bytes
        return BatchMoves(
            dry_run=dry_run,
            moves=[self._describe(move) for move in moves],
            stayed=self._stayed,
            recovered=self._recovered,
            bound_bytes=self._bound_bytes,
            level=level,
            off_bytes=off_bytes,
        )

    def _describe(self, move: Move) -> MovedBatch:
        group = self._groups[move.unit]
        return MovedBatch(
            batch=group.ids[0],
            name=group.name,
            source=str(self._roots[move.source]),
            target=str(self._roots[move.target]),
            files=group.files,
            bytes=group.bytes,
            why=move.why,
        )


@contextmanager
def prepare_drain(
    settings: Settings, leaving: Sequence[str], *, pause: Callable[[float], None], note: Callable[[str], None]
) -> Iterator[PreparedMoves]:
    """Plan how all batches of ``leaving`` go to the volumes of ``settings``, by ``--placement``.

    Raises:
        Held: a run is at work there, and is not waited for.
        ConfigError, UsageError, LocalFault: a volume cannot be used.
    """
    for root in leaving:
        if not is_object_store(root) and not Path(root).is_dir():
            raise UsageError(f"from is {printable(root)}, and there is no such directory; is it mounted?")
        if not is_object_store(root) and not Path(root, STATE_NAME).exists():
            raise UsageError(
                f"from is {printable(root)}, which is no volume: no download has put files there"
            )
    # The leaving volumes are opened behind those of --to, so that batches of both are known; the placer then
    # gets them as ``away``: it takes from them and gives them nothing. What moves are groups: records that
    # share files move as one batch, as a file that two records name can stand on one volume only.
    everything = replace(settings, to=(*settings.to, *leaving))
    away = frozenset(range(len(settings.to), len(everything.to)))
    with open_occupied(everything, pause, note) as volumes:
        groups, stayed = volumes.groups()
        emptied = {str(volumes.roots[index]) for index in away}
        stayed = [batch for batch in stayed if batch.volume in emptied]
        shelves = volumes.shelves(groups)
        relocation = plan_drain(
            [PlacedBatch(group.home, group.bytes, group.files) for group in groups],
            shelves,
            [str(root) for root in volumes.roots],
            away,
            Mode(settings.placement),
        )
        yield PreparedMoves(volumes, groups, relocation, stayed, shelves)


@contextmanager
def prepare_rebalance(
    settings: Settings, within: float, *, pause: Callable[[float], None], note: Callable[[str], None]
) -> Iterator[PreparedMoves]:
    """Plan how the volumes get level: none further off its share than ``within``, of the mean of all.

    Raises the same as ``prepare_drain``.
    """
    if not 0 <= within <= 1:  # also if it is no number
        raise UsageError(f"within is {within} but must be from 0 to 1")
    if len(settings.to) < 2:
        raise UsageError("one volume is always level; name all volumes, each with --to")
    with open_occupied(settings, pause, note) as volumes:
        groups, stayed = volumes.groups()
        shelves = volumes.shelves(groups)
        bound_bytes = int(within * sum(shelf.bytes for shelf in shelves) / len(shelves))
        relocation = plan_rebalance(
            [PlacedBatch(group.home, group.bytes, group.files) for group in groups],
            shelves,
            [str(root) for root in volumes.roots],
            bound_bytes,
        )
        yield PreparedMoves(volumes, groups, relocation, stayed, shelves, bound_bytes)


def _join_overlapping(records: Sequence[BatchRecord]) -> list[list[BatchRecord]]:
    """Join the records that share files, directly or by others; the newest of each group comes first.

    A changed batch has another id, and the record that it had before stays beside it.
    """
    group_of: dict[str, list[BatchRecord]] = {}  # by path
    groups: dict[int, list[BatchRecord]] = {}
    for record in sorted(records, key=lambda record: record.instant, reverse=True):
        touched = {id(group_of[path]): group_of[path] for path in record.paths or () if path in group_of}
        joined = [*(earlier for group in touched.values() for earlier in group), record]
        for key in touched:
            del groups[key]
        groups[id(joined)] = joined
        for member in joined if touched else (record,):
            group_of.update(dict.fromkeys(member.paths or (), joined))
    return [sorted(group, key=lambda record: record.instant, reverse=True) for group in groups.values()]


@contextmanager
def open_occupied(
    settings: Settings, pause: Callable[[float], None], note: Callable[[str], None]
) -> Iterator[OpenedVolumes]:
    """Open the volumes, keep runs away, and end moves that were interrupted. Raises Held, LocalFault."""
    refuse_stores(settings)
    where = find_destinations(settings)
    roots = where.directories
    labels = Labels(where.state)
    with ExitStack() as stack:
        standings = tuple(
            read_volume(root, labels, settings.write_timeout, keep_free=settings.keep_free) for root in roots
        )
        for standing in standings:
            if standing.state == "missing" and (standing.root.exists() or standing.root in labels.roots):
                raise LocalFault(f"{standing.root}: {standing.why}")
        # a volume that is read-only stays as it is: the others go on without it
        writable = [standing.root for standing in standings if standing.state != "read-only"]
        directories = []
        for root in writable:
            directory = Directory(root, sharers=len(roots))
            stack.callback(directory.close)
            directories.append(directory)
        _occupy_all(directories, settings, pause, note)
        with on_disk(where.state):
            recovered = tuple(
                RecoveredBatch(batch=ended.batch, volume=str(ended.root), done=ended.is_done)
                for ended in recover(writable)
            )
        strike_out_replaced(directories)
        standings = tuple(
            read_volume(root, labels, settings.write_timeout, keep_free=settings.keep_free) for root in roots
        )
        yield OpenedVolumes(roots, standings, labels, recovered)


def _occupy_all(
    directories: Sequence[Directory],
    settings: Settings,
    pause: Callable[[float], None],
    note: Callable[[str], None],
) -> None:
    """Keep runs away from the directories. Raises Held if one is at work, and is not waited for."""
    is_noted = False
    while True:
        try:
            for directory in directories:
                occupy(directory)
            _refuse_live_runs(settings)
        except Held as held:
            for directory in directories:
                leave(directory)
            if not settings.wait:
                raise
            if not is_noted:
                note(f"waiting: {held}")
                is_noted = True
            pause(POLL_S)
        else:
            return


def _refuse_live_runs(settings: Settings) -> None:
    """Raise Held if a run on any machine, by its heartbeat, is at work on the timeline of the volumes."""
    with suppress(UsageError, ConfigError), open_existing(*find_timeline(settings)) as table:
        with on_this_machine("cannot read the timeline"), table.lock.hold() as now_s:
            entries = table.store.entries()
        for entry in entries:
            if entry.state is State.INFLIGHT:
                with suppress(FileNotFoundError):
                    verdict = table.verdict(entry, now_s)
                    if verdict.is_live:
                        raise table.make_held_error(entry.instant, verdict)
