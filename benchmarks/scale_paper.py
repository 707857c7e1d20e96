"""How long runs of a million to a billion files take on paper, and what gives way first: docs/scale.md's table.

Arithmetic over ``Costs``, which ``scale_measure.py`` and ``scale_simulation.py`` have measured, and the cut's
own constants. No simulation.
"""

from typing import NamedTuple

from cfetch.pipeline.receipts import Receipt
from cfetch.pipeline.shares import MOST_FILES, Pace, target_s

__all__ = ["Costs", "Paper", "limits_of", "paper"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILES = (10**6, 10**7, 10**8, 10**9)
SIZES = (64 * KIB, 16 * MIB)
EXECUTORS = (10, 100, 1000)
SLOTS = 4  # of an executor


class Costs(NamedTuple):
    """Of the driver, one core; seconds and bytes. Where each is from: docs/scale.md."""

    launches_a_s: float = 230.0
    freeze_s: float = 12.5e-6  # an entry
    cut_s: float = 2.5e-6
    write_s: float = 4.0e-6
    held_bytes: float = 38.0  # an entry, for the whole run
    cut_bytes: float = 147.0  # an entry, while it is cut
    tell_s: float = 10.0e-6  # a file: read in a part and in a receipt, and told on
    reading_share: float = 0.1  # of the driver's time while the job runs: cluster_run.READING_PAUSES
    receipt_bytes: float = 734.0  # a file, in a part and again in the receipt
    group_s: float = 1.7e-6  # a row group, for each task that reads the footer
    result_bytes: float = 2_000.0  # of a task
    beat_s: float = 80e-6
    name_s: float = 1 / 5_000  # a file that gets its name: what a file server bears, an assumption


class Paper(NamedTuple):
    """One run. Seconds of each part, if nothing else were in the way; what is exceeded."""

    files: int
    size_bytes: int
    executors: int
    batches: int
    network_s: float
    parts_s: dict[str, float]
    names_a_s: float
    beats_share: float
    held_bytes: float
    receipts_bytes: float
    gives_way: tuple[str, ...]

    @property
    def slowest(self) -> str:
        """The part that takes longest."""
        return max(self.parts_s, key=self.parts_s.__getitem__)


def limits_of(files: int, size_bytes: int, executors: int, costs: Costs | None = None) -> Paper:
    """By the rules of ``shares`` and the costs of each step."""
    costs, pace, slots = costs or Costs(), Pace(), executors * SLOTS
    total_s = pace.cost_s(files, files * size_bytes)
    batches = max(round(total_s / target_s(total_s, slots)), -(-files // MOST_FILES))
    network_s = total_s / slots
    in_time = network_s * costs.reading_share / costs.tell_s  # files that are told while others come
    parts_s = {
        "sources and network": network_s,
        "launches": batches / costs.launches_a_s,
        "plan": files * (costs.freeze_s + costs.cut_s + costs.write_s),
        "account": max(0.0, files - in_time) * costs.tell_s,
        "finding row groups": batches / slots * batches * costs.group_s,
        "names": files * costs.name_s,
    }
    held = files * costs.held_bytes
    gives_way = tuple(
        what
        for what, is_over in {
            "driver's memory": held + files * costs.cut_bytes > 16 * GIB,
            "results": batches * costs.result_bytes > GIB,
            "work file": batches * costs.group_s > 0.1 * total_s / batches,
        }.items()
        if is_over
    )
    return Paper(
        files=files,
        size_bytes=size_bytes,
        executors=executors,
        batches=batches,
        network_s=network_s,
        parts_s=parts_s,
        names_a_s=files / network_s,
        beats_share=slots * costs.beat_s,
        held_bytes=held,
        receipts_bytes=files * costs.receipt_bytes,
        gives_way=gives_way,
    )
