"""What is in place on each of several volumes, and what cannot be read there any more when the run ends.

Files of the run's list count, found or brought by the run, and the batches that it has committed.
"""

from cfetch.base.records import Summary
from cfetch.show.counts import Counts


class VolumeTally:
    """What is in place on one of several volumes."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.batches = 0
        self.out_of_use: str | None = None

    def describe(self, name: str) -> Summary.Volume:
        """Its part of the summary."""
        return Summary.Volume(
            volume=name,
            files=self.counts.in_place,
            bytes=self.counts.in_place_bytes,
            batches=self.batches,
            out_of_use=self.out_of_use,
        )


def take_back(run: Counts, volume: VolumeTally | None, left: int) -> None:
    """Count only ``left`` of the files on a volume as in place: the others cannot be read any more.

    ``volume`` None: the run's only one. Bytes and batches are in proportion to the files.
    """
    held = run if volume is None else volume.counts
    lost = max(0, held.in_place - left)
    if volume is not None:
        volume.batches = volume.batches * (held.in_place - lost) // max(1, held.in_place)
    done = min(held.done, lost)
    skipped = lost - done
    done_bytes = held.done_bytes * done // max(1, held.done)
    skipped_bytes = held.skipped_bytes * skipped // max(1, held.skipped)
    for counts in (run,) if volume is None else (run, held):
        counts.done -= done
        counts.done_bytes -= done_bytes
        counts.skipped -= skipped
        counts.skipped_bytes -= skipped_bytes
        counts.missing_bytes += done_bytes + skipped_bytes
