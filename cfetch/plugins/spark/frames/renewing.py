"""Where fresh links come from for rows whose links expire: the user's function, a command, or a manifest."""

import asyncio
import logging
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark import TaskContext

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Refused, SourceError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import UrlError
from cfetch.manifest.fields import FieldError, check_headers
from cfetch.manifest.freezing import freeze
from cfetch.manifest.plan import Plan
from cfetch.manifest.urls import resolve_url
from cfetch.run.open_manifest import make_part
from cfetch.wire.fresh_link import Link, UrlRefresher
from cfetch.wire.network import make_network
from cfetch.wire.refresh import CommandRefresher, ManifestRefresher

Renew = Callable[[str, str], str | Mapping[str, object]]
AT_ONCE = 8  # calls of the user's function, which mostly waits for a server
MOST_LOGGED = 5  # errors of it, with their tracebacks; the rows count them
LOG = logging.getLogger("cfetch.spark")
KEPT_LINKS = 100_000  # that copies of a task, and rows of one file, may want too: some 50 MB


class LinkSource(NamedTuple):
    """What the user has named. It is opened on the driver, or in a task that cannot reach the driver."""

    function: Renew | None
    command: str | None
    manifest: str | None
    settings: Settings
    env: dict[str, str]

    def open(self, stack: ExitStack) -> UrlRefresher:
        """The source itself, for the event loop that runs now, until ``stack`` ends."""
        if self.function is not None:
            return _Known(_FunctionRefresher(self.function))
        if self.command is not None:
            return _Known(CommandRefresher(self.command))
        assert self.manifest is not None
        refresher = ManifestRefresher(
            partial(asyncio.to_thread, self._freeze), SystemClock(), takes_more=True
        )
        stack.callback(refresher.close)
        return refresher

    def _freeze(self) -> Plan:
        assert self.manifest is not None
        network = make_network(self.settings.network, self.env)
        with tempfile.TemporaryDirectory(prefix="cfetch-") as name:
            return freeze(
                [make_part(self.manifest, SystemClock(), network)],
                name=str(SecretUrl(self.manifest)),
                directory=Path(name),
                base_url=self.settings.base_url,
                options=self.settings.reading,
            )


class _Known:
    """Asks once for a link that several rows or copies of a task want at a time, and keeps the answers."""

    def __init__(self, source: UrlRefresher) -> None:
        self._source = source
        self._links: OrderedDict[str, Link] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Link]] = {}
        self._clock = SystemClock()

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        known = self._links.get(entry.path)
        if known is not None and not known.is_used_up(stale, self._clock.wall()):
            return known
        task = self._asking.get(entry.path)
        if task is None:
            task = self._asking[entry.path] = asyncio.create_task(self._ask(entry, stale))
            task.add_done_callback(lambda _: self._asking.pop(entry.path, None))
        return await asyncio.shield(task)

    async def _ask(self, entry: Entry, stale: Link) -> Link:
        link = msgspec.structs.replace(await self._source.refresh(entry, stale), made_s=self._clock.wall())
        self._links[entry.path] = link
        self._links.move_to_end(entry.path)
        if len(self._links) > KEPT_LINKS:
            self._links.popitem(last=False)
        return link


class _FunctionRefresher:
    """Calls the user's function with the old link and the path, in a thread; what it raises is a refusal."""

    def __init__(self, function: Renew) -> None:
        self._function = function
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._raised = 0

    async def refresh(self, entry: Entry, stale: Link) -> Link:
        """Find a fresh link, as ``UrlRefresher`` says."""
        async with self._slots:
            try:
                answer = await asyncio.to_thread(self._function, stale.url.reveal(), entry.path)
            except SourceError:
                raise
            except Exception as error:  # it is the user's; its text may hold a link
                kind, self._raised = type(error).__name__, self._raised + 1
                if self._raised <= MOST_LOGGED:
                    LOG.exception("the function of renew raised %s for %s", kind, printable(entry.path))
                where = "driver" if TaskContext.get() is None else "executor"
                said = f"the function of renew raised {kind}; the log of the {where} has its text"
                raise Refused(said) from None
        return _read_answer(answer)


def _read_answer(answer: object) -> Link:
    fields = {"url": answer} if isinstance(answer, str) else answer
    if not isinstance(fields, Mapping) or not isinstance(fields.get("url"), str):
        kind = type(answer).__name__
        raise Refused(f"the function of renew returned a {kind}, and neither a URL nor a mapping with url")
    expires_at = fields.get("expires_at")
    if expires_at is not None and not isinstance(expires_at, int | float):
        raise Refused("expires_at of the function of renew must be seconds since 1970")
    try:
        url = SecretUrl(resolve_url(str(fields["url"]), lambda: None))
        return Link(url, expires_at, check_headers(fields.get("headers") or {}))
    except (UrlError, FieldError) as error:
        raise Refused(f"the function of renew returned what cannot be requested: {error}") from None
