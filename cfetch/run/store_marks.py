"""Marks of runs at an object store: which plans are being brought there, and by whom.

Runs with timelines of their own, as on two machines without a common disk, see each other only by these
marks. A mark is an object ``.cfetch/runs/<token>.json``. Its run puts it again at each heartbeat, and deletes
it in the end. Its age is measured by the store's clock alone, which has also dated the reader's own mark.

A mark only saves the second run useless work. Safety does not depend on marks, as each object appears as a
whole. So a store that refuses marks is used without them, and two runs that begin in the same second may both
go on.
"""

import asyncio
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from cfetch.base.errors import VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.base.threads import start_thread
from cfetch.storage.buckets.object_store import RUNS, ObjectStore
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import Owner, is_alive, is_gone, make_same_plan_error, this_owner

TIMEOUT_S = 10.0  # for all tries of one request: without an answer the run goes on without a mark
MARK_SCHEMA = "cfetch.run-mark/1"


class RunMark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a mark. ``plan``: the digest of its entries.

    ``expiry_s``: an older mark is a dead run's. ``is_looking``: its run has not begun yet.
    """

    schema: str = MARK_SCHEMA
    plan: str
    instant: str
    epoch: int
    owner: Owner
    expiry_s: float
    is_looking: bool


class StoreMarks:
    """The marks at the store at ``url``, and this run's own for ``plan``. Raises UsageError, VolumeFault."""

    def __init__(self, url: str, plan: str, heartbeats: Heartbeats) -> None:
        self._url = url
        self._plan = plan
        self._heartbeats = heartbeats
        self._store = ObjectStore(url, timeout_s=TIMEOUT_S)
        self._owner = this_owner(secrets.token_hex(8))
        self._seen: dict[str, float] = {}  # when other marks were put, at the first look

    def refuse_same_plan(self) -> None:
        """Raise Held if another run brings the plan to the store; ``Held.is_certain`` says if it lives."""
        with self._put_for_a_look("", 0):
            pass

    @contextmanager
    def stay(self, instant: str, epoch: int) -> Iterator[None]:
        """Have a mark of this run at the store. Raises Held as ``refuse_same_plan``."""
        with self._put_for_a_look(instant, epoch), self._keep_beating(self._encode(instant, epoch)):
            yield

    @contextmanager
    def _put_for_a_look(self, instant: str, epoch: int) -> Iterator[None]:
        """Put the own mark, look for others, and delete the own mark in the end."""
        try:
            with suppress(VolumeFault):  # the volume itself says so when it is opened
                self._put(self._encode(instant, epoch, is_looking=True))
                self._refuse_running(instant, epoch)
            yield
        finally:
            with suppress(VolumeFault):
                asyncio.run(self._store.delete([self._own_key]))

    @property
    def _own_key(self) -> str:
        return f"{RUNS}/{self._owner.token}.json"

    def _encode(self, instant: str, epoch: int, *, is_looking: bool = False) -> bytes:
        mark = RunMark(
            plan=self._plan,
            instant=instant,
            epoch=epoch,
            owner=self._owner,
            expiry_s=self._heartbeats.expiry_s,
            is_looking=is_looking,
        )
        return msgspec.json.encode(mark)

    def _put(self, data: bytes) -> None:
        asyncio.run(self._store.put(self._own_key, data))

    def _refuse_running(self, instant: str, epoch: int) -> None:
        own_name = self._own_key.rpartition("/")[2]
        others = [name for name in asyncio.run(self._store.names(RUNS)) if name != own_name]
        own = asyncio.run(self._store.read(self._own_key)) if others else None
        for name in others:
            small = asyncio.run(self._store.read(f"{RUNS}/{name}"))
            if small is None or own is None:
                continue
            with suppress(*NOT_DECODED):  # a newer version's mark says nothing that is known here
                mark = msgspec.json.decode(small.data, type=RunMark)
                age_s = own.changed_s - small.changed_s
                is_former = mark.instant == instant and mark.epoch < epoch
                if is_gone(mark.owner) or age_s > mark.expiry_s or is_former:
                    asyncio.run(self._store.delete([f"{RUNS}/{name}"]))
                elif mark.plan == self._plan and not (mark.is_looking and own_name < name):
                    self._refuse(name, mark, small.changed_s, age_s)

    def _refuse(self, name: str, mark: RunMark, changed_s: float, age_s: float) -> None:
        first_s = self._seen.setdefault(name, changed_s)
        raise make_same_plan_error(
            mark.owner,
            printable(self._url),
            age_s=age_s,
            is_certain=is_alive(mark.owner) or changed_s != first_s,
        )

    @contextmanager
    def _keep_beating(self, data: bytes) -> Iterator[None]:
        over = threading.Event()

        def beat() -> None:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they wake the main thread
            while not over.is_set():
                with suppress(VolumeFault):
                    self._put(data)
                over.wait(self._heartbeats.pause_s)

        thread = start_thread(beat, "store mark")
        try:
            yield
        finally:
            over.set()
            thread.join(TIMEOUT_S)
