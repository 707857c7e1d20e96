"""The values that a task gets and gives. A driver needs them, and none of the code that downloads."""

from typing import NamedTuple

import msgspec

from cfetch.base.config.settings import Settings
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.run.fresh_links import ManifestRef
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.shares.task_destination import TaskDestination


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that all tasks of a run need. It holds secrets, so it travels in the job and nowhere else.

    ``wall_start_s``: when the run started, by the driver's clock; all times in receipts count from it.
    ``part_s``: how often a task reports the files that have ended. ``at_a_time``: how many tasks may run.
    ``volumes``: instead of ``destination``, if there are several. ``grants``: a directory in which
    ``t<number>`` stands for as long as that task has its share; "": only a task's parent takes it away.
    ``searches``: a task may try more slots at a host; with very many tasks, each would measure the others.
    """

    settings: Settings
    headers: Headers
    env: dict[str, str]
    origin: ManifestRef
    instant: str
    epoch: int
    destination: TaskDestination
    volumes: tuple[TaskDestination, ...] = ()
    grants: str = ""
    receipts: str
    wall_start_s: float
    part_s: float
    at_a_time: int
    searches: bool = False
    knowledge: Knowledge = NOTHING
    hub: HubAddress | None = None


class Turn(NamedTuple):
    """The turn of a task at a share. No other turn of the run has its ``task`` number.

    ``attempt``: from 0; with another one, an earlier task may be bringing the share too. ``executor`` is a
    name for people.
    """

    share: int
    task: int
    attempt: int = 0
    executor: str = ""


class Share(NamedTuple):
    """The entries of one task; ``sharers``: how many tasks at a time ask the same host, itself included.

    ``batches``: how many of the entries are in each batch, in their order; none: named batches count, and all
    others are alone. ``volume``: the number of the volume, if the run has several.
    """

    entries: list[Entry]
    sharers: int
    batches: tuple[int, ...] = ()
    volume: int | None = None


class Order(NamedTuple):
    """What a process is told: to bring this share, as this turn."""

    share: Share
    turn: Turn


class ShareOutcome(NamedTuple):
    """The result of a task: how many entries it brought to their end, and how many of them failed.

    ``learned``: knowledge about hosts.
    """

    files: int
    failed: int
    learned: Knowledge = NOTHING
