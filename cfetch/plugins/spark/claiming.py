"""The work of a Spark task in a run with several volumes: it asks the driver for shares until all are over.

::

    ask the hub for a share; "nothing now": ask again; all is over: end
    read the share's file, bring it; meanwhile say each second that the work moves
    say how it ended, and ask for the next one
    the connection breaks: the driver takes the share back, so bring it to its end, and ask anew
"""

import asyncio
import time
from contextlib import suppress

import msgspec

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.tasks.hub.connection import HubConnection, connect
from cfetch.tasks.hub.messages import (
    EVERY_S,
    MOST_ORDERS_BYTES,
    Dealt,
    HubAddress,
    ShareClaim,
    ShareEnded,
    StillAlive,
    TaskFault,
)
from cfetch.tasks.shares.lending import read_order
from cfetch.tasks.shares.task import STILL_S, bring_share
from cfetch.tasks.shares.task_destination import is_granted
from cfetch.tasks.shares.work import RunSpec

ANSWER_S = 30.0  # the hub answers a claim within 5 s, or the driver stands still
UNHEARD_S = 120.0  # for which a task tries to reach the hub before it fails
AGAIN_S = 1.0

BROKEN = (OSError, EOFError, *NOT_DECODED)  # TimeoutError is one of the first


def bring_shares(spec: RunSpec, executor: str) -> None:
    """Bring one share after the other, until the driver has none left.

    Raises:
        LocalFault: this executor cannot work, or the driver cannot be reached.
    """
    asyncio.run(_Claimant(spec, executor).serve())


class _Claimant:
    """One process that asks for shares."""

    def __init__(self, spec: RunSpec, executor: str) -> None:
        assert spec.hub is not None
        self._spec = spec
        self._executor = executor
        self._address: HubAddress = spec.hub
        self._heard_s = time.monotonic()

    async def serve(self) -> None:
        """Use one connection after the other."""
        while True:
            with suppress(*BROKEN):
                await self._use_connection()
                return
            if time.monotonic() - self._heard_s > UNHEARD_S:
                raise LocalFault(
                    f"the driver cannot be reached at {self._address.host}, port {self._address.port}, and "
                    "only it knows which volume a batch goes to; see spark.driver.host and docs/spark.md"
                )
            await asyncio.sleep(AGAIN_S)

    async def _use_connection(self) -> None:
        """Ask and bring over one connection, until all is over. Raises one of ``BROKEN``, LocalFault."""
        async with connect(self._address, within_s=ANSWER_S) as hub:
            while True:
                await _say(hub, ShareClaim(executor=self._executor))
                async with asyncio.timeout(ANSWER_S):
                    dealt = msgspec.msgpack.decode(await hub.read(MOST_ORDERS_BYTES), type=Dealt)
                self._heard_s = time.monotonic()
                if dealt.task is not None:
                    await self._bring(dealt.task, hub)
                elif dealt.is_over:
                    return

    async def _bring(self, task: int, hub: HubConnection) -> None:
        order = await asyncio.to_thread(read_order, self._spec.grants, task)
        if order is None:
            raise ConnectionError("the share was taken back")
        moved_s = time.monotonic()

        def note_life() -> None:
            """The work moves."""
            nonlocal moved_s
            moved_s = time.monotonic()

        bringing = asyncio.create_task(asyncio.to_thread(bring_share, self._spec, *order, on_life=note_life))
        broken: Exception | None = None
        while not (await asyncio.wait({bringing}, timeout=EVERY_S))[0]:
            if broken is None and time.monotonic() - moved_s <= STILL_S:
                try:
                    await _say(hub, StillAlive(task=task))
                except OSError as lost:
                    broken = lost
        self._heard_s = time.monotonic()
        error = bringing.exception()
        if error is not None and not isinstance(error, LocalFault):
            raise error  # a bug
        if broken is not None:
            raise broken
        if error is not None and not await asyncio.to_thread(is_granted, self._spec.grants, f"t{task}"):
            raise ConnectionError("the share was taken back")
        await _say(hub, ShareEnded(task=task, fault=None if error is None else TaskFault.describe(error)))
        if error is not None and not isinstance(error, VolumeFault):
            raise error


async def _say(hub: HubConnection, message: ShareClaim | StillAlive | ShareEnded) -> None:
    """Send a message while the hub takes it. Raises OSError."""
    async with asyncio.timeout(ANSWER_S):
        await hub.send(message)
