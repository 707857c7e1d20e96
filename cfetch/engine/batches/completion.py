"""The end of a batch: when the last of its entries has ended, its parts are published together, or held back.

An entry ends as staged (whole, and waiting for the others) or as settled (in place already, or failed). If
an entry of a named batch has failed, nothing of the batch is published: its bytes are kept for a later run.
Files of a batch that was cut by size do not wait for those that failed.
"""

from collections.abc import Sequence
from functools import partial

from cfetch.base.errors import Blocked, CfetchError, HeldBack, LocalFault, Unstorable, VolumeFault
from cfetch.base.records import Status
from cfetch.engine.batches.staging import BatchStaging
from cfetch.engine.batches.stagings import Stagings
from cfetch.engine.batches.volume_events import make_batch_committed
from cfetch.engine.batches.volume_watch import VolumeWatch
from cfetch.engine.placement.placer import Placer
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer
from cfetch.storage.volume import PartPort, Volume


class BatchCompletion:
    """Publishes batches, or holds them back; ``watch`` hears of what the volumes refuse."""

    def __init__(
        self,
        volumes: list[Volume],
        placer: Placer,
        stagings: Stagings,
        watch: VolumeWatch,
        switch: StopSwitch,
        outside: PoolInputs,
    ) -> None:
        self._volumes = volumes
        self._placer = placer
        self._stagings = stagings
        self._watch = watch
        self._switch = switch
        self._instant = outside.instant
        self._clock = outside.clock
        self._emit = outside.emit

    def settle(
        self,
        staging: BatchStaging,
        transfer: Transfer,
        status: Status,
        *,
        kept_bytes: int,
        error: CfetchError | None = None,
    ) -> None:
        """End an entry about which nothing more is to be done, wherever its batch goes."""
        if status == "skipped":
            staging.batch.in_place[transfer.index] = transfer.entry
        self._stagings.finish(transfer, status, kept_bytes=kept_bytes, error=error)
        self._end_entry(staging)

    def skip(self, staging: BatchStaging, transfer: Transfer) -> None:
        """Note that an entry of a named batch is in place, which counts only if the batch stays here."""
        staging.skipped.append(transfer)
        self._end_entry(staging)

    def stage(self, staging: BatchStaging, transfer: Transfer) -> None:
        """Let a whole and verified part wait for the others of its batch."""
        staging.staged.append(transfer)
        self._placer.note_progress(staging.batch.number)
        if not transfer.mitigations:
            self._placer.steady(staging.volume_index)
        self._end_entry(staging)

    def settle_if_ended(self, staging: BatchStaging) -> None:
        """Publish the batch, or hold it back, if all its entries have ended."""
        batch = staging.batch
        if staging.left or staging.is_over:
            return
        if batch.failed and batch.name is not None:
            self._hold_back(staging)
        elif staging.staged:
            parts = [transfer.part for transfer in staging.staged]
            record = staging.record(self._instant)
            self._volumes[staging.volume_index].publish(
                parts, partial(self._end_commit, staging, parts), record
            )
        elif staging.lacks_record:
            record = staging.record(self._instant)
            self._volumes[staging.volume_index].publish((), partial(self._end_record, staging), record)
        else:
            self._watch.remove_others(staging)
            self._close(staging)

    def cancel_rest(self) -> None:
        """End the batches that were not committed when the run is over; keep their bytes for the next run."""
        for staging in self._stagings.under_way.values():
            self._stagings.finish_skipped(staging)
            for transfer in staging.staged:
                self._stagings.finish(
                    transfer, "cancelled", kept_bytes=transfer.part.keep_leftover(whole=True)
                )

    def _end_entry(self, staging: BatchStaging) -> None:
        staging.left -= 1
        self.settle_if_ended(staging)

    def _hold_back(self, staging: BatchStaging) -> None:
        batch = staging.batch
        error = HeldBack(
            f"held back, as {len(batch.failed)} of the {len(batch.entries)} files of batch {batch.name} "
            "failed; run the same command again to go on"
        )
        for transfer in staging.staged:
            self._stagings.finish(
                transfer, "failed", kept_bytes=transfer.part.keep_leftover(whole=True), error=error
            )
        self._close(staging, come_back=True)

    def _end_commit(
        self, staging: BatchStaging, parts: Sequence[PartPort], error: CfetchError | None
    ) -> None:
        """End a batch whose files have been published and recorded, or cannot be."""
        volume = self._volumes[staging.volume_index]
        if staging.is_over:  # meanwhile the batch has gone to another volume
            if error is None:
                volume.withdraw_batch(staging.batch.id, parts)
            else:
                for part in parts:
                    part.discard()
            return
        if isinstance(error, VolumeFault) and self._watch.can_move(error):
            # the bytes are copied to join pieces: without room for that, another download would be in vain
            self._watch.leave(staging, error, for_good=staging.batch.joined_bytes > 0)
            return
        for transfer in staging.staged:
            if error is None:
                self._stagings.finish(transfer, "done", kept_bytes=transfer.part.position)
            else:
                if not staging.batch.joined_bytes:  # else joining has failed: a later run uses the pieces
                    transfer.part.discard()
                self._stagings.finish(transfer, "failed", error=error)
        if error is None:
            self._emit(make_batch_committed(self._clock.now(), staging, volume.name))
            self._watch.note_committed(staging)
        self._close(staging)
        if error is not None and not isinstance(error, Blocked | Unstorable):
            self._switch.fail(error if isinstance(error, LocalFault) else LocalFault(str(error)))

    def _end_record(self, staging: BatchStaging, error: CfetchError | None) -> None:
        """End a batch that was whole without a record. If it can have none, its files are in place anyway."""
        if staging.is_over:
            if error is None:
                self._volumes[staging.volume_index].withdraw_batch(staging.batch.id, ())
            return
        if error is None:
            self._watch.remove_others(staging)
        self._close(staging)

    def _close(self, staging: BatchStaging, *, come_back: bool = False) -> None:
        self._stagings.close(staging, come_back=come_back)
        self._placer.finish(staging.batch.number, self._clock.now(), of=staging.volume_index)
        self._stagings.changed.set()
