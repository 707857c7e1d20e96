"""Ends the entries whose files stand in place already, block after block, before a run begins any other.

A worker could also find such an entry in place, and it does so for the entries that this search leaves to it.
But then each of these entries would cost as much as an entry that is downloaded.
"""

from typing import TYPE_CHECKING

from cfetch.base.clock import RunClock
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.schedule import Schedule
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.transfer import Transfer

if TYPE_CHECKING:
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume

BLOCK = 512  # entries; they take some milliseconds, in which the event loop does nothing else
HASHED_BLOCK = 64  # entries that may have to be read: as long at ten times the cost of each


async def end_standing(
    entries: "Entries",
    volume: "Volume",
    schedule: Schedule[Transfer],
    entry_records: EntryRecords,
    switch: StopSwitch,
    clock: RunClock,
) -> None:
    """End the entries in place, in the manifest's order, and leave them out of the schedule."""
    search = volume.search
    if search is None or not search.has_any():
        return
    ended = bytearray(len(entries))
    hosts, host_of = entries.hosts, entries.host_of
    first = 0
    while first < len(entries) and not switch.is_stopping:
        block = entries.block(first, first + BLOCK)
        if any(entry.digest is not None for entry in block):
            block = block[:HASHED_BLOCK]
        end = first + len(block)
        proofs = search.find(block)
        standing = [
            (entry, hosts[host], proof)
            for entry, host, proof in zip(block, host_of[first:end], proofs, strict=True)
            if proof is not None
        ]
        if standing:
            volume.remove_leftovers([entry for entry, _, _ in standing])
            entry_records.skip(standing, volume=volume.name, now_s=clock.now())
        ended[first:end] = bytes(proof is not None for proof in proofs)
        first = end
        await clock.sleep(0)  # lets signals and the view have their turn
    schedule.leave_out(ended)
