"""The engine of one machine: a transport, the volumes and a pool in an event loop of their own."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError
from cfetch.base.events import VolumePaused
from cfetch.engine.committing import make_commitment
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Guard, Run
from cfetch.run.signals import listen_in_loop
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.wire.fresh_link import UrlRefresher
from cfetch.wire.loop import make_loop
from cfetch.wire.network import Network
from cfetch.wire.transport import RunTransport, Transport

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment
    from cfetch.storage.volume import Volume

MANY_HOSTS = 256  # an idle connection is kept for 15 s, and 1,024 descriptors are a usual limit
_Order = Callable[[Pool, Guard], None]


class LocalEngine:
    """A pool in this process; ``refresher`` makes the way to fresh links from its transport. Used once.

    ``knowledge`` comes from earlier runs; ``learned`` from this run, when it is over, however it ended.
    """

    def __init__(
        self,
        plan: Plan,
        volumes: Volumes,
        settings: Settings,
        *,
        network: Network,
        refresher: Callable[[Transport], UrlRefresher | None],
        knowledge: Knowledge = NOTHING,
    ) -> None:
        self.learned = NOTHING
        self._knowledge = knowledge
        self._plan = plan
        self._volumes = volumes
        self._settings = settings
        self._network = network
        self._refresher = refresher
        self._runner = asyncio.Runner(loop_factory=make_loop)
        self._orders: deque[_Order] = deque()  # from other threads and signal handlers
        self._wake: Callable[[], object] | None = None
        self._lost_by: CfetchError | None = None
        self._commit_by: Callable[..., Commitment] = make_commitment

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open an event loop. Closing it may have to wait for the thread of a slow resolver."""
        with self._runner:
            yield

    def bring(self, run: Run) -> CfetchError | None:
        """Implements ``Engine.bring``."""
        self._earlier = self._volumes.find_earlier()
        return self._runner.run(self._bring_heard(run))

    def stop(self, reason: str) -> None:
        """Implements ``Engine.stop``."""
        self._order(lambda pool, _: pool.stop(reason))

    def lose(self, why: str) -> None:  # noqa: ARG002 - the guard says it again when it is asked
        """Implements ``Engine.lose``."""
        self._order(self._confirm)

    def _order(self, order: _Order) -> None:
        self._orders.append(order)
        if self._wake is not None:
            self._wake()

    def _confirm(self, pool: Pool, guard: Guard) -> None:
        try:
            guard.confirm()
        except CfetchError as error:
            self._lost_by = error
            pool.stop(str(error), again=True)

    async def _bring_heard(self, run: Run) -> CfetchError | None:
        with listen_in_loop():
            return await self._bring(run)

    async def _bring(self, run: Run) -> CfetchError | None:
        transport = RunTransport(
            connect_timeout_s=self._settings.connect_timeout,
            keep_alive=len(self._plan.hosts) <= MANY_HOSTS,
            network=self._network,
        )
        volumes = self._make_volumes(run)
        pool = Pool(
            self._plan,
            self._settings,
            volumes,
            transport,
            PoolInputs(
                instant=run.guard.instant,
                clock=run.clock,
                jitter=random.random,
                emit=run.emit,
                counts=run.counts,
                confirm=run.guard.confirm,
                earlier=self._earlier,
            ),
            refresher=self._refresher(transport),
            knowledge=self._knowledge,
            commit_by=self._commit_by,
        )
        with self._orders_obeyed(pool, run.guard):
            try:
                for name, fault in self._volumes.refused:
                    run.emit(VolumePaused(t_s=0.0, volume=name, pause_s=None, reason=str(fault)))
                await pool.run()
            finally:
                self.learned = pool.collect_knowledge()
                await transport.close()
                await asyncio.gather(*(volume.close() for volume in volumes))
        return self._lost_by or pool.fault

    def _make_volumes(self, run: Run) -> "Sequence[Volume]":
        """Make the volumes of the run, inside its event loop."""
        return self._volumes.volumes(
            durable=self._settings.durability == "power",
            existing=self._settings.existing,
            keeps_time=self._settings.mtime,
            clock=run.clock,
            run_id=run.guard.run_id,
            confirm=run.guard.confirm,
        )

    @contextmanager
    def _orders_obeyed(self, pool: Pool, guard: Guard) -> Iterator[None]:
        """Carry orders out in the pool's own loop; first the orders that came before it ran."""
        loop = asyncio.get_running_loop()

        def obey() -> None:
            while self._orders:
                self._orders.popleft()(pool, guard)

        self._wake = lambda: loop.call_soon_threadsafe(obey)
        obey()
        try:
            yield
        finally:
            self._wake = None
