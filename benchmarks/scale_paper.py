"""How long runs of ten million to a billion files take on paper, and what gives way: docs/scale.md's table.

Arithmetic over ``Costs``, which ``scale_measure.py`` and ``scale_simulation.py`` have measured, and the cut's
own constants. No simulation.
"""

from typing import NamedTuple

from cfetch.plugins.spark.prepare.large import LARGE_BYTES
from cfetch.tasks.shares.cut import MICRO, MOST_FILES, ExpectedPace, choose_target
from cfetch.tasks.shares.driver import READING_PAUSES

__all__ = ["Costs", "Paper", "limits_of", "paper"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILES = (10**7, 10**8, 10**9)
SIZES = (64 * KIB, 16 * MIB)
EXECUTORS = (100, 1000)
SLOTS = 4  # of an executor


class Costs(NamedTuple):
    """Of the driver, one core; seconds and bytes. Where each is from: docs/scale.md."""

    launches_a_s: float = 230.0
    one_machine_s: float = 19e-6  # an entry: frozen, cut and written by the driver
    one_machine_bytes: float = 38.0 + 147.0  # an entry: held for the run, and besides while it is cut
    prepared_s: float = 31e-6  # an entry, of one slot: Spark does it
    digest_s: float = 0.1e-6  # an entry, of the driver in any case: 100 bytes at a gigabyte a second
    prepared_bytes: float = 1 / 8  # an entry: a bit says that it has come to its end
    batch_bytes: float = 100.0  # its cost, files and sharers
    row_bytes: float = 200.0  # of a manifest
    tell_s: float = 2.3e-6  # a file, in reports of 200: its sums taken in, its line copied
    reading_share: float = 1 / (1 + READING_PAUSES)  # of the driver's time while the job runs
    receipt_bytes: float = 845.0  # a file
    metrics_bytes: float = 705.0
    result_bytes: float = 316.0  # of a task
    beat_s: float = 140e-6


class Paper(NamedTuple):
    """One run. Seconds of each part, if nothing else were in the way; what is exceeded."""

    files: int
    size_bytes: int
    executors: int
    batches: int
    network_s: float
    parts_s: dict[str, float]
    held_bytes: float
    gives_way: tuple[str, ...]

    @property
    def slowest(self) -> str:
        """The part that takes longest."""
        return max(self.parts_s, key=self.parts_s.__getitem__)


def limits_of(files: int, size_bytes: int, executors: int, costs: Costs | None = None) -> Paper:
    """By the rules of ``shares`` and the costs of each step."""
    costs, pace, slots = costs or Costs(), ExpectedPace(), executors * SLOTS
    total_s = pace.cost_s(files, files * size_bytes)
    batches = max(round(total_s / choose_target(total_s, slots) * MICRO), -(-files // MOST_FILES))
    network_s = total_s / slots
    in_time = network_s * costs.reading_share / costs.tell_s  # files that are told while others come
    plan_s, held_bytes = files * costs.one_machine_s, files * costs.one_machine_bytes
    if files * costs.row_bytes >= LARGE_BYTES:
        plan_s = files * (costs.prepared_s / slots + costs.digest_s)
        held_bytes = files * costs.prepared_bytes + batches * costs.batch_bytes
    told_bytes = files * (costs.receipt_bytes + costs.metrics_bytes)
    over = {
        "driver's memory": held_bytes > 16 * GIB,
        "results": batches * costs.result_bytes > GIB,
        "hub": slots * costs.beat_s > 1,
        "driver's disk": told_bytes > 100 * GIB,
    }
    return Paper(
        files=files,
        size_bytes=size_bytes,
        executors=executors,
        batches=batches,
        network_s=network_s,
        parts_s={
            "network": network_s,
            "launches": batches / costs.launches_a_s,
            "plan": plan_s,
            "account": max(0.0, files - in_time) * costs.tell_s,
        },
        held_bytes=held_bytes,
        gives_way=tuple(what for what, is_over in over.items() if is_over),
    )


COLUMNS = (
    "files",
    "size",
    "executors",
    "shares",
    "network",
    "launches",
    "plan",
    "account",
    "driver holds",
    "longest",
    "gives way",
)


def paper(costs: Costs | None = None) -> str:
    """The table, as Markdown."""
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for size_bytes in SIZES:
        for files in FILES:
            rows += [row(limits_of(files, size_bytes, executors, costs)) for executors in EXECUTORS]
    return "\n".join(rows) + "\n"


def row(one: Paper) -> str:
    """A line of it."""
    cells = [
        f"10^{len(str(one.files)) - 1}",
        size(one.size_bytes),
        f"{one.executors:,}",
        f"{one.batches:,}",
        *(seconds(part_s) for part_s in one.parts_s.values()),
        size(one.held_bytes),
        one.slowest,
        ", ".join(one.gives_way),
    ]
    return f"| {' | '.join(cells)} |"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} PiB"


def seconds(count: float) -> str:
    """A time for people."""
    if count < 1:
        return "< 1 s"
    if count < 120:
        return f"{count:.0f} s"
    if count < 7200:
        return f"{count / 60:.0f} min"
    return f"{count / 3600:.0f} h" if count < 48 * 3600 else f"{count / 86400:.0f} d"
