"""Chooses how a run's entries are committed. No other module depends on the choice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfetch.base.config.engine import PlacementOptions
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.schedule import MOST_PUT_BACK, Schedule
from cfetch.engine.single import Single
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer

if TYPE_CHECKING:
    from cfetch.engine.batches.borne import Bears
    from cfetch.engine.commitment import Commitment
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume


def make_commitment(
    entries: "Entries",
    placing: PlacementOptions,
    volumes: "Sequence[Volume]",
    entry_records: EntryRecords,
    switch: StopSwitch,
    idle: IdleWorkers,
    in_flight: AttemptsUnderWay,
    outside: PoolInputs,
    *,
    backwards: bool,
    bears: "Bears",
) -> "Commitment":
    """Make the commitment of a run: to batches if there are several volumes or named batches, else to files.

    ``backwards``: the other end of the plan comes first; batches come in their own order. ``bears``: what
    hosts bear now, which several volumes share.
    """
    if len(volumes) == 1 and outside.earlier is None and entries.batch_of is None:
        schedule: Schedule[Transfer] = Schedule(
            entries.sizes,
            entries.host_of,
            len(entries.hosts),
            most_put_back=MOST_PUT_BACK * placing.concurrency,
            backwards=backwards,
        )
        return Single(entries, volumes[0], schedule, entry_records, switch, outside.clock)
    from cfetch.engine.batches.batched import Batched

    return Batched(entries, placing, volumes, entry_records, switch, idle, in_flight, outside, bears)
