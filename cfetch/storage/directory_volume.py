"""A volume that is a directory: adapts ``Directory`` and its disk to the volume's port."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from cfetch.base.errors import Blocked, Unstorable
from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory, spare_foreign
from cfetch.storage.disk import INLINE, Disk, InlineDisk
from cfetch.storage.part import Part
from cfetch.storage.publisher import Publisher
from cfetch.storage.resume import BATCH
from cfetch.storage.standing_files import StandingFiles
from cfetch.storage.volume_values import BatchRecord, Ended, Holding, Standing, unless_changed

if TYPE_CHECKING:
    from cfetch.storage import volume
    from cfetch.storage.guarded_disk import GuardedDisk
    from cfetch.storage.joining import Publishable
    from cfetch.storage.lent_parts import LentParts
    from cfetch.storage.salvage import Salvage
    from cfetch.storage.staging import Leftover
    from cfetch.storage.volume import Search

LOOKED_FILES = 128  # at a time: the disk's thread waits for these looks, as both use the held directories


class DirectoryVolume:
    """Implements ``volume.Volume``. ``disk`` carries out all steps on the directory.

    ``existing``: how files in place are treated: ``trust``, ``check`` or ``refetch`` (``--existing``).
    ``keeps_time``: files get the time of their last change at the server.
    """

    def __init__(
        self,
        volume: Directory,
        *,
        durable: bool,
        disk: "InlineDisk | GuardedDisk" = INLINE,
        existing: str = "trust",
        keeps_time: bool = True,
    ) -> None:
        self.name = str(volume.root)
        trusts = disk.is_prompt and existing == "trust"
        self.search: Search | None = StandingFiles(volume) if trusts else None
        self._loans: LentParts | None = None
        self._is_open = False
        self._existing = existing
        self._keeps_time = keeps_time
        self._volume = volume
        self._disk = disk
        self._publisher = Publisher(volume, durable=durable, disk=disk)
        self._salvage: Salvage | None = None
        self._marked: set[str] = set()

    async def open(self) -> None:
        """Read the directories of dead runs. Raises VolumeFault."""
        leftovers = await self._disk.call(lambda: [*self._volume.leftovers()])
        self._is_open = True
        if leftovers or not self._disk.is_prompt:
            self._make_salvage(leftovers)

    def _make_salvage(self, leftovers: "list[Leftover]") -> "Salvage":
        from cfetch.storage.salvage import Salvage  # no dead run has left anything to most runs

        self._salvage = Salvage(self._volume, self._disk, leftovers)
        return self._salvage

    @property
    def loans(self) -> "LentParts | None":
        """What it lends to others, made when it is asked for first; None before ``open``."""
        if self._loans is None and self._is_open:
            from cfetch.storage.lent_parts import LentParts  # only batches ask: they may leave a volume

            salvage = self._salvage or self._make_salvage([])
            self._loans = LentParts(self._volume, self._disk, salvage)
        return self._loans

    @property
    def has_parts(self) -> bool:
        """Implements ``volume.Volume.has_parts``."""
        return self._loans is not None or (self._salvage is not None and self._salvage.has_parts)

    def new_part(self, entry: Entry) -> Part:
        """Make a part. It has no file before the first byte."""
        return Part(self._volume, entry, self._disk, keeps_time=self._keeps_time)

    def has_nothing_of(self, entry: Entry) -> bool:
        """Implements ``volume.Volume.has_nothing_of``, by one listing of each directory."""
        return self._disk.is_prompt and not self.has_parts and self._volume.was_free(entry.path)

    async def verify_existing(self, entry: Entry) -> Standing | None:
        """Verify the file by hash if the manifest has one.

        Else verify it by size, and by the link it came from if that is known; without a size, only by that
        link. The answer is the same for all pieces of a file.
        """
        standing = await _verify_file(self._volume, self._disk, self._existing, entry)
        if standing is None and entry.spares_others:  # before its bytes are fetched
            await self._disk.call(lambda: spare_foreign(self._volume, entry))
        self._volume.holds_files |= standing is not None
        return standing

    async def adopt_leftover(self, entry: Entry, part: "volume.PartPort") -> None:
        """Let the part continue the part of the entry that dead runs of this plan have left."""
        if self._salvage is not None:
            if self._loans is not None:
                await self._loans.wait_for(entry)
            await self._salvage.adopt_leftover(entry, cast("Part", part))

    def remove_leftovers(self, entries: Sequence[Entry]) -> None:
        """Call ``Salvage.remove_leftovers``, if dead runs have left anything."""
        if self._salvage is not None and self._salvage.has_parts:
            for entry in entries:
                self._salvage.remove_leftovers(entry)

    async def inspect_batches(self, batches: Sequence[tuple[str, Sequence[Entry]]]) -> list[Holding]:
        """Look up the batches' marks, their records, and the sizes of the files under their names."""
        begun = frozenset[str]() if self._salvage is None else self._salvage.begun_batches
        return await self._disk.call_reading(
            lambda: [
                _inspect_batch(self._volume, batch, entries, begun=batch in begun)
                for batch, entries in batches
            ]
        )

    def mark_batch(self, batch: str) -> None:
        """Create an empty file among the parts, as a mark."""
        if self._salvage is None or batch not in self._salvage.begun_batches:
            self._marked.add(batch)
            self._disk.do(self._volume.staging.mark, BATCH + batch)

    def unmark_batch(self, batch: str) -> None:
        """Remove the mark of the batch, soon."""
        if batch in self._marked:
            self._marked.discard(batch)
            self._disk.tidy(lambda: self._volume.staging.unmark(BATCH + batch))
        if self._salvage is not None:
            self._salvage.unmark_batch(batch)

    def publish(
        self, parts: "Sequence[volume.PartPort]", ended: Ended, record: BatchRecord | None = None
    ) -> None:
        """Publish in a group with others, if the files are to be durable."""
        self._publisher.add(_join_pieces(self._volume, parts), ended, record)

    def remove_older(self, entry: Entry) -> None:
        """Remove the file soon. A file that cannot be removed stays, and ``cfetch verify`` names it."""
        self._disk.tidy(lambda: self._volume.remove(entry.path, entry.replaces))

    @property
    def left_behind(self) -> int:
        """Passes on ``Publisher.left_behind``."""
        return self._publisher.left_behind

    def withdraw_batch(self, batch: str, parts: "Sequence[volume.PartPort]") -> None:
        """Remove record and files soon. A file that cannot be removed stays, without a record."""
        self._disk.tidy(lambda: self._volume.records.remove(batch))
        self._publisher.withdraw(_join_pieces(self._volume, parts))

    async def run(self) -> None:
        """Call ``Publisher.run``, then check that files and batches still stand, unless the disk hangs."""
        await self._publisher.run()
        if not self.is_stuck:
            await self._disk.call_reading(self._volume.confirm)

    def drain(self) -> None:
        """Call ``Publisher.drain``."""
        self._publisher.drain()

    @property
    def is_full(self) -> bool:
        """Passes on ``Publisher.is_full``."""
        return self._publisher.is_full

    async def wait_for_room(self) -> None:
        """Call ``Publisher.wait_for_room``."""
        await self._publisher.wait_for_room()

    async def free_bytes(self) -> int | None:
        """The free bytes as the file system states them, and those that parts of dead runs hold.

        0 for a volume that took no staging directory.
        """
        if not self._volume.staging.is_open:
            return 0
        free_bytes = await self._disk.glance(self._volume.free_bytes)
        if free_bytes is None or self._salvage is None:
            return free_bytes
        return free_bytes + self._salvage.kept_bytes

    @property
    def written_bytes(self) -> int | None:
        """The bytes that the disk has taken; None: the same as the bytes that were received."""
        return self._disk.written_bytes

    @property
    def is_behind(self) -> bool:
        """Passes on ``GuardedDisk.is_behind``."""
        return not isinstance(self._disk, InlineDisk) and self._disk.is_behind

    def oldest_s(self, now_s: float) -> float:
        """Call ``Disk.oldest_s``."""
        return self._disk.oldest_s(now_s)

    def abandon(self, why: str) -> None:
        """Abandon the disk, if it is guarded; with a single volume the run has to wait."""
        if not isinstance(self._disk, InlineDisk):
            self._disk.abandon(why)

    @property
    def is_stuck(self) -> bool:
        """Passes on ``GuardedDisk.is_stuck``."""
        return not isinstance(self._disk, InlineDisk) and self._disk.is_stuck

    async def close(self) -> None:
        """Carry out the remaining steps; if the disk hangs, leave the directory alone."""
        if not isinstance(self._disk, InlineDisk):
            await self._disk.close()
            if self._disk.is_stuck:
                self._volume.is_forsaken = True


async def _verify_file(directory: Directory, disk: Disk, existing: str, entry: Entry) -> Standing | None:
    """The proof for the file under the entry's name, see ``DirectoryVolume.verify_existing``."""
    size_bytes = await disk.call(lambda: directory.existing(entry.path))  # it may be Blocked
    if size_bytes is None or entry.file_bytes not in (size_bytes, None) or existing == "refetch":
        return None
    if entry.piece is not None and existing == "check":  # no server knows the whole file
        return None
    if entry.digest is None or entry.piece is not None:
        source = await disk.call(lambda: directory.sources.find(entry.path))
        from cfetch.storage.standing_proofs import vouch  # a first run finds no file

        verified = vouch(source, entry, size_bytes)
        if verified is None or existing == "trust":
            return None if verified is None else Standing(verified)
        etag = None if source is None else source.etag
        changed_s = await disk.call(lambda: directory.sources.changed_s(entry.path))
        return unless_changed(verified, etag, changed_s, size_bytes)
    algorithm = entry.digest.algorithm
    descriptor = await disk.call(lambda: directory.open_existing(entry.path), undo=_close)
    if descriptor is None:
        return None
    from cfetch.storage.file_hash import hash_and_close  # few files stand before a run

    hex_digest = await hash_and_close(descriptor, algorithm, size_bytes, entry.path, disk)
    return Standing(algorithm) if hex_digest == entry.digest.hex else None


def _inspect_batch(directory: Directory, batch: str, entries: Sequence[Entry], *, begun: bool) -> Holding:
    standing: list[int] = []
    other: list[int] = []
    blocked: dict[int, Blocked | Unstorable] = {}
    learned: dict[int, int] = {}
    for first in range(0, len(entries), LOOKED_FILES):
        with directory.one_look():
            for position, entry in enumerate(entries[first : first + LOOKED_FILES], first):
                try:
                    size_bytes = None if directory.was_free(entry.path) else directory.existing(entry.path)
                except (Blocked, Unstorable) as error:
                    blocked[position] = error
                    continue
                if size_bytes is not None:
                    (standing if entry.file_bytes in (size_bytes, None) else other).append(position)
                    if entry.file_bytes is None:
                        learned[position] = size_bytes
    return Holding(directory.records.has(batch), begun, standing, blocked, other, learned)


def _close(late: int | None) -> None:
    """Close a file that was opened too late, when its caller no longer waited."""
    if late is not None:
        os.close(late)


def _join_pieces(directory: Directory, parts: "Sequence[volume.PartPort]") -> "Sequence[Publishable]":
    own = cast("Sequence[Part]", parts)
    if all(part.entry.piece is None for part in own):
        return own
    from cfetch.storage.joining import join_pieces  # few manifests have pieces of files

    return join_pieces(directory, own)
