"""The events about batches and volumes, from the placer's values, and what people see of volumes."""

from collections.abc import Callable, Sequence

from cfetch.base.breaker import BreakerState
from cfetch.base.errors import VolumeFault
from cfetch.base.events import BatchCommitted, BatchPlaced, BreakerClosed, Event, VolumePaused, VolumeView
from cfetch.engine.batches.staging import Batch, BatchStaging
from cfetch.engine.placement.books import Placed
from cfetch.engine.placement.chooser import Mode, explain, reserve_bytes
from cfetch.engine.placement.placer import Placer
from cfetch.storage.volume import Volume


def explain_placement(batch: Batch, placed: Placed, names: Sequence[str]) -> str:
    """Explain in one line why a batch goes to its volume."""
    if placed.choice is None:
        return placed.why
    if placed.choice.mode is Mode.FINISH and batch.size.unknown == len(batch.entries):
        return f"{placed.why}, as far as can be told without sizes"
    return explain(placed.choice, names).removeprefix(f"{names[placed.volume]}: ")


def make_batch_placed(now_s: float, batch: Batch, placed: Placed, names: Sequence[str]) -> BatchPlaced:
    """Make the event: a batch has a volume."""
    return BatchPlaced(
        t_s=now_s,
        batch=batch.shown,
        files=len(batch.entries),
        size_bytes=batch.size.known_bytes,
        sizes_unknown=batch.size.unknown,
        volume=names[placed.volume],
        why=explain_placement(batch, placed, names),
        moved_from=None if placed.stolen_from is None else names[placed.stolen_from],
    )


def make_batch_committed(now_s: float, staging: BatchStaging, name: str) -> BatchCommitted:
    """Make the event: a batch was committed on its volume."""
    return BatchCommitted(
        t_s=now_s,
        batch=staging.batch.shown,
        files=len(staging.staged),
        size_bytes=staging.staged_bytes,
        volume=name,
    )


def make_unplaced_fault(batch: Batch, why: str, reasons: Sequence[str], names: Sequence[str]) -> VolumeFault:
    """Make the fault: no volume takes a batch; it names the last reason of each volume."""
    said = [f"{name}: {reason}" for name, reason in zip(names, reasons, strict=True) if reason]
    unknown = f" and {batch.size.unknown:,} of unknown size" if batch.size.unknown else ""
    joined = f", and {batch.joined_bytes:,} more while its pieces are joined" if batch.joined_bytes else ""
    return VolumeFault(
        f"no volume takes a batch of {len(batch.entries):,} files with "
        f"{batch.size.known_bytes:,} bytes{unknown}{joined} "
        f"({'; '.join([why, *said])}); repair one of them and run the same command again"
    )


def make_left_behind(now_s: float, name: str, files: int, why: str) -> VolumePaused:
    """Make the event that tells the user that files are on two volumes."""
    reason = (
        f"{why}; {files:,} whole files were left here although their batches went elsewhere, as cfetch could "
        "not remove them: `cfetch verify` names them"
    )
    return VolumePaused(t_s=now_s, volume=name, pause_s=None, reason=reason)


class VolumesInUse:
    """What has come to each volume, its room, and which are out of use; ``emit`` gets the events about it."""

    def __init__(
        self,
        volumes: Sequence[Volume],
        placer: Placer,
        now_s: Callable[[], float],
        emit: Callable[[Event], None],
    ) -> None:
        self._volumes = volumes
        self._placer = placer
        self._now_s = now_s
        self._emit = emit
        self._free_bytes: list[int | None] = [None] * len(volumes)
        self._done_batches = [0] * len(volumes)
        self._out_of_use: set[int] = set()

    def note_done(self, index: int) -> None:
        """A batch is over there: if it was the probe after a pause, the volume is in use again."""
        self._done_batches[index] += 1
        if index in self._out_of_use and self._placer.view(index).breaker is not BreakerState.OPEN:
            self._out_of_use.discard(index)
            self._emit(BreakerClosed(t_s=self._now_s(), volume=self._volumes[index].name))

    def pause(self, index: int) -> None:
        """A volume is not used for a while."""
        self._out_of_use.add(index)
        now_s, view = self._now_s(), self._placer.view(index)
        self._emit(
            VolumePaused(
                t_s=now_s,
                volume=self._volumes[index].name,
                pause_s=max(0.0, view.until_s - now_s),
                reason=view.reason,
            )
        )

    async def measure_room(self, index: int, count_landed: Callable[[int], int]) -> None:
        """Ask for the free space, and add the bytes that batches under way have taken of it already."""
        free_bytes = self._free_bytes[index] = await self._volumes[index].free_bytes()
        if free_bytes is not None:
            landed_bytes = count_landed(index)
            reserve = reserve_bytes(free_bytes + landed_bytes)
            self._placer.set_room(index, max(0, free_bytes - reserve) + landed_bytes)

    def make_views(self, done_bytes: Sequence[int]) -> list[VolumeView]:
        """The volumes at this moment; ``done_bytes``: of the files that this run has brought there."""
        return [
            VolumeView(
                name=volume.name,
                load_bytes=view.load_bytes,
                load_files=view.load_count,
                running=view.running,
                queued=view.queued,
                speed_bps=view.speed_bps,
                breaker=view.breaker.value,
                reason=view.reason or None,
                free_bytes=self._free_bytes[index],
                batches_done=self._done_batches[index],
                bytes_done=done_bytes[index],
            )
            for index, volume in enumerate(self._volumes)
            for view in (self._placer.view(index),)
        ]
