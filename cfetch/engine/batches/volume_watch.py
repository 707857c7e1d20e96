"""Reacts to volumes that fail or bring stragglers: they are not used for a while.

A volume that refuses one batch loses that batch; one that does not answer loses all batches. In both cases
the placer's breaker decides when it is asked again. With a single volume there is no other to go to: the run
fails.
"""

from cfetch.base.breaker import BreakerState
from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.events import VolumeView
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.batches.health import Health
from cfetch.engine.batches.staging import BatchStaging
from cfetch.engine.batches.stagings import Stagings
from cfetch.engine.batches.volume_events import VolumesInUse, make_left_behind
from cfetch.engine.placement.placer import Placer
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.stop_switch import StopSwitch
from cfetch.storage.volume import Volume


class VolumeWatch:
    """Takes volumes out of use, and moves their batches. ``health`` looks at each volume."""

    def __init__(
        self,
        volumes: list[Volume],
        placer: Placer,
        stagings: Stagings,
        in_flight: AttemptsUnderWay,
        switch: StopSwitch,
        outside: PoolInputs,
        *,
        patience_s: float,
    ) -> None:
        self._volumes = volumes
        self._placer = placer
        self._stagings = stagings
        self._switch = switch
        self._clock = outside.clock
        self._emit = outside.emit
        self._confirm = outside.confirm
        self._done_bytes = [0] * len(volumes)
        self._in_use = VolumesInUse(volumes, placer, outside.clock.now, outside.emit)
        self._short_of_room: set[int] = set()  # batches that have just left a full volume
        self.health = Health(
            volumes,
            placer,
            stagings,
            in_flight,
            outside.clock,
            patience_s=patience_s,
            in_use=self._in_use,
            gone=self.leave_all,
        )

    def can_move(self, fault: LocalFault) -> bool:
        """Whether what a volume refuses may go to another one."""
        return isinstance(fault, VolumeFault) and len(self._volumes) > 1

    def note_committed(self, staging: BatchStaging) -> None:
        """A batch has been published as a whole."""
        self._placer.add_held(staging.volume_index, staging.staged_bytes, len(staging.staged))
        self._done_bytes[staging.volume_index] += staging.staged_bytes
        self._in_use.note_done(staging.volume_index)
        self.remove_others(staging)

    def remove_others(self, staging: BatchStaging) -> None:
        """Remove what other volumes have of a batch that is whole here: first the record, then the files."""
        for volume_index in staging.recorded_elsewhere:
            self._volumes[volume_index].withdraw_batch(staging.batch.id, ())
        for volume_index, entry in staging.copies_elsewhere():
            self._volumes[volume_index].remove_older(entry)

    def leave(self, staging: BatchStaging, fault: VolumeFault, *, for_good: bool = False) -> None:
        """Move a batch that the volume cannot take to another one; ``for_good``: its room will not do."""
        if not self._blames_volume(fault):
            return
        volume_index, number = staging.volume_index, staging.batch.number
        before = self._placer.view(volume_index).breaker
        now_s = self._clock.now()
        reason, no_room = str(fault), fault.no_room
        self._placer.fail(number, now_s, of=volume_index, reason=reason, no_room=no_room, for_good=for_good)
        self._stagings.withdraw(staging)
        if fault.no_room:
            self._short_of_room.add(number)
            self.health.note_full(volume_index)
        if self._placer.view(volume_index).breaker is not before:
            self._in_use.pause(volume_index)
        self._stagings.changed.set()

    def take_short_of_room(self) -> set[int]:
        """The batches that have left a full volume since the last call."""
        short, self._short_of_room = self._short_of_room, set()
        return short

    def leave_all(self, volume_index: int, fault: LocalFault) -> None:
        """Move all batches away from a volume that takes nothing any more."""
        if not self._blames_volume(fault):
            return
        was_open = self._placer.view(volume_index).breaker is BreakerState.OPEN
        self._placer.volume_failed(volume_index, self._clock.now(), str(fault))
        for staging in self._stagings.here(volume_index):
            self._stagings.withdraw(staging)
        if not was_open:
            self._in_use.pause(volume_index)
        self._stagings.changed.set()

    def note_straggler(self, volume_index: int) -> None:
        """A file on this volume was far slower than the rest."""
        if self._placer.note_straggler(volume_index, self._clock.now()):
            self._in_use.pause(volume_index)
            self._stagings.changed.set()

    def views(self) -> list[VolumeView]:
        """The volumes at this moment."""
        return self._in_use.make_views(self._done_bytes)

    def report_left_behind(self) -> None:
        """Name the volumes on which files stand twice."""
        for volume_index, volume in enumerate(self._volumes):
            if volume.left_behind:
                reason = self._placer.view(volume_index).reason
                self._emit(make_left_behind(self._clock.now(), volume.name, volume.left_behind, reason))

    def _blames_volume(self, fault: LocalFault) -> bool:
        """Whether to go to another volume: there is one, and the plan was not simply taken from this run."""
        if self.can_move(fault):
            try:
                self._confirm()  # a plan that another run has taken may look like volumes that fail
            except LocalFault as state:  # the volume may be well
                fault = state
            except CfetchError:
                pass  # at its end the run checks again, and names the owner of the plan
            else:
                return True
        self._switch.fail(fault)
        return False
