"""Ends the entries whose files stand in place already, block after block, before a run begins any other.

A worker could also find such an entry in place, and it does so for the entries that this search leaves to it.
But then each of these entries would cost as much as an entry that is downloaded.
"""

from cfetch.clock import RunClock
from cfetch.engine.ledger import Ledger
from cfetch.engine.schedule import Schedule
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume

BLOCK = 512  # entries; they take some milliseconds, in which the event loop does nothing else


async def end_standing(
    entries: Entries,
    volume: Volume,
    schedule: Schedule[Transfer],
    ledger: Ledger,
    switch: StopSwitch,
    clock: RunClock,
) -> None:
    """End the entries in place, in the manifest's order, and leave them out of the schedule."""
    search = volume.search
    if search is None or not search.has_any():
        return
    ended = bytearray(len(entries))
    hosts, host_of = entries.hosts, entries.host_of
    for first in range(0, len(entries), BLOCK):
        if switch.is_stopping:
            break
        block = [entries.entry(index) for index in range(first, min(first + BLOCK, len(entries)))]
        now_s = clock.now()
        for index, vouched_for in enumerate(search.find(block), first):
            if vouched_for is not None:
                entry = block[index - first]
                volume.remove_leftovers(entry)
                ledger.skip(entry, hosts[host_of[index]], vouched_for, volume=volume.name, now_s=now_s)
                ended[index] = 1
        await clock.sleep(0)  # lets signals and the view have their turn
    schedule.leave_out(ended)
