"""Run a pool over a fake transport on virtual time, and look at what came of it."""

import asyncio
import hashlib
import itertools
import os
from typing import Any

from cfetch.base.clock import RunClock
from cfetch.base.config.option_table import FORMULA
from cfetch.base.config.settings import Settings
from cfetch.base.events import (
    EntryFinished,
    Event,
    Progress,
    StragglerCancelled,
    StragglerCancelling,
    tell_each,
)
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.show.counts import LiveCounts
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.straggler.knowledge import NOTHING
from tests.engine.fake import FakeTransport
from tests.show.records import started

__all__ = ["ListPlan", "Outcome", "drive", "entries_for", "entry_of", "split", "tree"]

KIB = 1024
_FOLDERS = itertools.count()


class ListPlan:
    """A plan in memory; no headers for all unless given."""

    def __init__(self, entries, headers=()):
        self._entries = entries
        self.headers = headers
        hosts = [entry.url.host() for entry in entries]
        self.hosts = tuple(dict.fromkeys(hosts))
        self.host_of = [self.hosts.index(host) for host in hosts]
        names = [entry.batch for entry in entries]
        numbers = {name: n for n, name in enumerate(dict.fromkeys(filter(None, names)))}
        self.batch_of = [numbers.get(name, -1) for name in names] if numbers else None
        self.names_mirrors = any(entry.mirrors for entry in entries)
        self.sizes = [-1 if e.size_bytes is None else e.size_bytes for e in entries]

    def __len__(self):
        return len(self._entries)

    def entry(self, index):
        return self._entries[index]

    def block(self, first, end):
        return self._entries[first:end]


def entry_of(number, path, body, *, size=True, digest=False, host="origin.test", query="", **more):
    """An entry whose manifest states ``body``'s size and hash where asked to."""
    known: dict[str, Any] = {}
    if size is not False:
        known["size_bytes"] = len(body) if size is True else size
    if digest:
        known["digest"] = Digest("sha256", hashlib.sha256(body).hexdigest())
    if "headers" in more:
        more["headers"] = tuple((k, SecretText(v)) for k, v in more["headers"].items())
    return Entry(
        id=number,
        path=safe_path(path),
        url=SecretUrl(f"http://{host}/{path}{query}"),
        **known,
        **more,
    )


def entries_for(scripts, **how):
    """One entry per script, in order, after the body of its last reply."""
    return [entry_of(i, path, _last(script).body, **how) for i, (path, script) in enumerate(scripts.items())]


def _last(script):
    return script[-1] if isinstance(script, list) else script


class Outcome:
    """What a run left behind: ``events`` and records, the ``tree`` of files, ``parts``, ``tasks``."""

    def __init__(self, root, events, transport, pool):
        self.root = root
        self.events = events
        self.transport = transport
        self.pool = pool
        self.elapsed_s = 0.0
        self.tasks = set()
        self.parts = []
        self.tree = {}

    def of(self, kind):
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def all_records(self):
        return [event.record for event in self.of(EntryFinished)]

    @property
    def records(self):
        return {record.path: record for record in self.all_records}

    @property
    def statuses(self):
        return [record.status for _, record in sorted(self.records.items())]

    @property
    def flagged(self):
        """The ids that were found to be stragglers, in order."""
        return [event.id for event in self.of(StragglerCancelling)]

    @property
    def cancelled(self):
        return self.of(StragglerCancelled)

    @property
    def last_progress(self):
        return self.of(Progress)[-1]


def split(ranges, segment, at):
    """Two disjoint streams of one: it goes on to ``at``, the one that is returned is sent for the rest."""
    end, segment.end = segment.end, at
    return ranges.join(at, end)


def tree(root):
    """Every file below ``root`` but cfetch's own, by relative path."""
    found = {}
    for folder, names, files in os.walk(root):
        if ".cfetch" in names:
            names.remove(".cfetch")
        for name in files:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                found[os.path.relpath(full, root)] = file.read()
    return found


def drive(
    tmp_path,
    scripts,
    entries=None,
    *,
    stop_at=None,
    stop_on=(),
    stop_first=False,
    refresher=None,
    clock=None,
    jitter=lambda: 0.5,
    listener=None,
    headers=(),
    before=None,
    transport=None,
    knowledge=NOTHING,
    **settings,
):
    """Run to the end, until ``stop_at`` or the first event of a kind of ``stop_on``.

    ``before(root)`` may put files in place first; ``transport`` may do more than ``scripts`` say.
    """
    root = tmp_path / f"run{next(_FOLDERS)}"
    root.mkdir()
    if before is not None:
        before(root)
    transport = transport or FakeTransport(scripts)
    plan: Any = ListPlan(entries_for(scripts) if entries is None else entries, headers)
    events: list[Event] = []
    pools: list[Pool] = []
    counts = LiveCounts()
    known = [size for size in plan.sizes if size >= 0]
    counts(started(len(plan), sum(known), sizes_unknown=len(plan) - len(known)))

    def emit(event):
        events.append(event)
        counts(event)
        if listener is not None:
            listener(event)
        if isinstance(event, stop_on):
            pools[0].stop("the test says so")

    async def main():
        volume = Directory(root, "attempts/i/0")
        if "concurrency" in settings:  # a search has tests of its own
            settings.setdefault("max_concurrency", settings["concurrency"])
        meant = {"policy": "cloudfetch"} if settings.keys() & set(FORMULA) else {}  # as ``resolve`` does
        resolved = Settings(
            **{"durability": "crash", **meant, **settings}
        )  # group commit has tests of its own
        pool = Pool(
            plan,
            resolved,
            [DirectoryVolume(volume, durable=resolved.durability == "power")],
            transport,
            PoolInputs(
                instant="i",
                clock=RunClock(clock or VirtualClock()),
                jitter=jitter,
                emit=tell_each(emit),
                counts=counts,
            ),
            refresher=refresher,
            knowledge=knowledge,
        )
        pools.append(pool)
        outcome = Outcome(root, events, transport, pool)
        loop = asyncio.get_running_loop()
        if stop_first:
            pool.stop("the test says so")
        if stop_at is not None:
            loop.call_later(stop_at, pool.stop, "the test says so")
        try:
            await pool.run()
        finally:
            outcome.elapsed_s = loop.time()
            outcome.tasks = asyncio.all_tasks() - {asyncio.current_task()}
            outcome.parts = [
                str(p) for p in (root / ".cfetch").rglob("*") if p.is_file() and p.name != "owner.json"
            ]
            volume.close()
        outcome.tree = tree(root)
        return outcome

    return run_virtual(main())
