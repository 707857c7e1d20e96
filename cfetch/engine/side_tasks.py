"""Starts the tasks of a pool, so that an error in one of them ends the run in good order.

In a bare task group an error cancels all other tasks, and none is left to end the entries under way, to
publish what is whole, or to hear of a signal. Here it stops the run as a local fault does: workers give up
what they hold, volumes publish what they have, and the pool raises the error at the end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from cfetch.base.errors import LocalFault
from cfetch.engine.stop_switch import StopSwitch


class SideTasks:
    """Tasks in ``group``, none of which raises anything but a cancellation."""

    def __init__(self, group: asyncio.TaskGroup, switch: StopSwitch) -> None:
        self._group = group
        self._switch = switch

    def create_task(self, work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None]:
        """Start a task."""
        task = self._group.create_task(self._guard(work), name=name)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled at once never begins it
        return task

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LocalFault as fault:
            self._switch.fail(fault)
        except Exception as bug:  # noqa: BLE001 - the pool raises it when all is in order
            self._switch.break_down(bug)
