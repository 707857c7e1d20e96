"""Runs one task for each volume, which publishes verified parts while the workers bring the next ones."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfetch.base.errors import LocalFault, Vanished
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch

if TYPE_CHECKING:
    from cfetch.storage.volume import Volume


class Publishing:
    """One task for each volume, from ``start`` until ``finish``."""

    def __init__(self, volumes: "Sequence[Volume]", switch: StopSwitch) -> None:
        self._volumes = volumes
        self._switch = switch
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: SideTasks) -> None:
        """Begin to publish what the volumes are given."""
        self._tasks = [tasks.create_task(self._publish(volume)) for volume in self._volumes]

    async def finish(self) -> None:
        """Wait until all given parts are published, when no more will come."""
        for volume in self._volumes:
            volume.drain()
        await asyncio.wait(self._tasks)

    async def _publish(self, volume: "Volume") -> None:
        try:
            await volume.run()
        except Vanished as fault:
            self._switch.lose_files(volume.name, fault)
        except LocalFault as fault:  # the last published names could not be made durable
            self._switch.fail(fault)
