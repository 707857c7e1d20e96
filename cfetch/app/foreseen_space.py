"""Tells before a run over several volumes whether all of its batches will find room."""

from collections.abc import Sequence

from cfetch.app.free_space import count_record_bytes
from cfetch.base.config.settings import Settings
from cfetch.base.secret import printable
from cfetch.engine.placement.batches import Cut, cut
from cfetch.engine.placement.chooser import reserve_bytes
from cfetch.engine.placement.foresight import Foresight, foresee
from cfetch.manifest.plan import Plan
from cfetch.run.volumes import Volumes
from cfetch.show.format import percent, plural, size


def foresee_room(plan: Plan, volumes: Volumes, settings: Settings) -> list[str]:
    """Tell whether all batches will find room on the volumes, and when the disks will be full.

    Only for several volumes, all of which are directories. What is in place is looked up only if it matters.
    A batch without room is no reason to begin nothing: its files fail, and the others come.

    Raises LocalFault: a volume does not answer.
    """
    if len(volumes.roots) < 2 or not len(plan) or (disks := volumes.disks()) is None:
        return []
    record_bytes = count_record_bytes(len(plan), volumes, settings)  # on the first of the disks
    reserves = [
        max(reserve_bytes(room), 0 if number else record_bytes) for number, (_, room) in enumerate(disks)
    ]
    rooms = [max(0, room - reserve) for (_, room), reserve in zip(disks, reserves, strict=True)]
    free = ", ".join(f"{size(room)} free on {printable(name, 1000)}" for name, room in disks)
    if plan.sizes_unknown == len(plan):
        return [f"space: no size is stated, so it is not known whether all files will fit: {free}"]
    if not plan.sizes_unknown and plan.total_bytes <= min(rooms):  # millions of entries are not cut for this
        return [f"space: {size(plan.total_bytes)} will fit; no disk will be full: {free}"]
    cuts = cut(plan.sizes, plan.batch_of, fraction=settings.batch_share)
    batches: Sequence[int] = cuts.bytes
    seen = foresee(batches, rooms)
    if seen.homeless:
        batches = _count_missing(plan, volumes, cuts)
        seen = foresee(batches, rooms)
    unknown = ""
    if plan.sizes_unknown:
        unknown = f" ({plural(plan.sizes_unknown, 'file')} of unknown size taken for the mean of the others)"
    what = f"space: {size(sum(batches))}{unknown} in {_count_batches(len(batches))}"
    if seen.homeless:
        return [_tell_homeless(what, plan, cuts, batches, seen)]
    levels = ", ".join(
        f"{printable(name, 1000)} {size(left)} left of {size(room)}"
        for (name, room), left in zip(disks, seen.left_bytes, strict=True)
    )
    return [f"{what} will fit; no disk will be full: at the end about {levels}"]


def _tell_homeless(what: str, plan: Plan, cuts: Cut, batches: Sequence[int], seen: Foresight) -> str:
    first = seen.homeless[0]
    name = plan.entry(cuts.entries(first)[0]).batch if cuts.named[first] else None
    called = "the largest of them" if name is None else f"the largest of them, {printable(name)!r},"
    done = percent(seen.placed_bytes / sum(batches))
    needs = (
        f"{called} needs {size(batches[first])}, and the most that a disk has left is {size(seen.most_bytes)}"
    )
    return (
        f"{what} will not all fit: after {size(seen.placed_bytes)} ({done}) no disk has room for "
        f"{_count_batches(len(seen.homeless))}; {needs}. Their files will fail; free some space, or add a "
        "volume with --to"
    )


def _count_batches(number: int) -> str:
    return f"{number:,} batch" if number == 1 else f"{number:,} batches"


def _count_missing(plan: Plan, volumes: Volumes, cuts: Cut) -> list[int]:
    """The bytes of each batch that are not in place."""
    missing = list(cuts.bytes)
    for index, entry in enumerate(plan.entries()):
        is_there = entry.file_bytes is not None and volumes.existing(entry.path) == entry.file_bytes
        if is_there or entry.clash is not None:
            missing[cuts.batch_of[index]] -= entry.size_bytes or 0
    return missing
