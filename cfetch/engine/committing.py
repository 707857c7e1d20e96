"""Chooses how a run's entries are committed. No other module depends on the choice."""

from collections.abc import Sequence

from cfetch.config.engine import PlacementOptions
from cfetch.engine.commitment import Commitment
from cfetch.engine.flights import Flights
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.ledger import Ledger
from cfetch.engine.schedule import Schedule
from cfetch.engine.single import Single
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.surroundings import Surroundings
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume

MOST_PUT_BACK = 16  # entries per worker that may wait for their next try; with more, no new one is begun


def make_commitment(
    entries: Entries,
    placing: PlacementOptions,
    volumes: Sequence[Volume],
    ledger: Ledger,
    switch: StopSwitch,
    idle: IdleWorkers,
    flights: Flights,
    outside: Surroundings,
    *,
    concurrency: int,
    backwards: bool,
) -> Commitment:
    """Make the commitment of a run: to batches if there are several volumes or named batches, else to files.

    ``backwards``: the other end of the plan comes first; batches come in their own order.
    """
    most_put_back = MOST_PUT_BACK * concurrency
    schedule: Schedule[Transfer]
    if len(volumes) == 1 and entries.batch_of is None:
        schedule = Schedule(
            entries.sizes,
            entries.host_of,
            len(entries.hosts),
            most_put_back=most_put_back,
            backwards=backwards,
        )
        return Single(entries, volumes[0], schedule, ledger, switch, outside.clock)
    from cfetch.engine.batches.arrivals import Arrivals
    from cfetch.engine.batches.batched import Batched

    arrivals = Arrivals(entries, volumes, share=placing.batch_share if len(volumes) > 1 else 0.0)
    queues = arrivals.queues
    schedule = Schedule(entries.sizes, queues.of, len(queues), most_put_back=most_put_back, released=False)
    return Batched(
        entries,
        placing,
        volumes,
        arrivals,
        schedule,
        ledger,
        switch,
        idle,
        flights,
        outside,
        concurrency=concurrency,
    )
