"""The tables of the live page that no recorded run has: its volumes and its executors now. Pure."""

from collections.abc import Sequence

from cfetch.base.events import ExecutorView, Progress, VolumeView
from cfetch.base.secret import printable
from cfetch.show.format import count, plural, rate, size
from cfetch.show.live.executors import sort_by_trouble
from cfetch.show.live.trouble_texts import fraction_text
from cfetch.show.live.volumes import by_trouble
from cfetch.show.page.document import AnySection, Cell, PageTable

MOST_ROWS = 50  # a cluster may have thousands of executors; those in trouble come first


def list_places(progress: Progress | None) -> list[AnySection]:
    """Tables of the volumes and the executors, if the run has several places."""
    if progress is None:
        return []
    tables: list[AnySection] = []
    if progress.volumes:
        tables.append(_list_volumes(by_trouble(progress.volumes)))
    if progress.executors:
        tables.append(_list_executors(sort_by_trouble(progress.executors)))
    return tables


def _list_volumes(volumes: Sequence[VolumeView]) -> PageTable:
    used = sum(volume.breaker != "open" for volume in volumes)
    most_bytes = max(volume.bytes_done for volume in volumes)
    return PageTable(
        title="Volumes",
        note=f"{used} of {len(volumes)} in use{_describe_rest(len(volumes), 'volume')}",
        columns=[
            "volume",
            "in place",
            ">files under way",
            ">free",
            ">speed",
            ">batches",
            ">running",
            ">waiting",
            "state",
        ],
        rows=[_volume_row(volume, most_bytes) for volume in volumes[:MOST_ROWS]],
    )


def _volume_row(volume: VolumeView, most_bytes: int) -> list[Cell | str]:
    """The bar compares the volumes; it cannot show progress, as nobody knows how much comes to each."""
    return [
        printable(volume.name, 400),
        Cell(text=size(volume.bytes_done), bar=round(volume.bytes_done / max(most_bytes, 1), 3)),
        count(volume.load_files),
        size(volume.free_bytes),
        rate(volume.speed_bps),
        count(volume.batches_done),
        count(volume.running),
        count(volume.queued),
        _volume_state(volume),
    ]


def _volume_state(volume: VolumeView) -> Cell:
    if volume.breaker == "open":
        return Cell(text=f"× out of use: {printable(volume.reason or 'no reason was given')}", tone="bad")
    return Cell(text="● in use") if volume.breaker == "closed" else Cell(text="? on trial", tone="bad")


def _list_executors(executors: Sequence[ExecutorView]) -> PageTable:
    tasks = plural(sum(executor.tasks for executor in executors), "task")
    fastest_bps = max(executor.rate_bps for executor in executors) or 1.0
    return PageTable(
        title="Executors",
        note=f"{plural(len(executors), 'executor')}, {tasks}{_describe_rest(len(executors), 'executor')}",
        columns=["executor", ">tasks", ">files", "rate", "state"],
        rows=[
            [
                printable(executor.name, 200),
                count(executor.tasks),
                count(executor.files),
                Cell(text=rate(executor.rate_bps), bar=round(executor.rate_bps / fastest_bps, 3)),
                _executor_state(executor),
            ]
            for executor in executors[:MOST_ROWS]
        ],
    )


def _executor_state(executor: ExecutorView) -> Cell:
    if executor.fraction is not None:
        return Cell(text=f"▲ slow: {fraction_text(executor.fraction)}", tone="bad")
    return Cell(text="● ok") if executor.tasks else Cell(text="◌ idle", tone="dim")


def _describe_rest(number: int, noun: str) -> str:
    return f"; {plural(number - MOST_ROWS, f'further {noun}')} not shown" if number > MOST_ROWS else ""
