"""Before a run begins anything: the entries whose files stand in place already are ended, block after block.

A worker could find that out for each entry by itself, as it does for what this search leaves to it. But then
each entry would cost what an entry costs that is brought.
"""

from cfetch.clock import RunClock
from cfetch.engine.ledger import Ledger
from cfetch.engine.schedule import Schedule
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume

BLOCK = 512  # entries; some milliseconds, for which nothing else is done


async def end_standing(
    entries: Entries,
    volume: Volume,
    schedule: Schedule[Transfer],
    ledger: Ledger,
    switch: StopSwitch,
    clock: RunClock,
) -> None:
    """End what stands, in the manifest's order, and leave it out of the schedule."""
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
        await clock.sleep(0)  # for signals, and for the view
    schedule.leave_out(ended)
