"""Fresh links: the ways by which a run can get them, and the API that has a SQL statement's links."""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.reading import ASKING, STANDARD, ReadingOptions
from cfetch.base.errors import ConfigError, UsageError
from cfetch.base.schemes import is_web
from cfetch.base.secret import SecretText, SecretUrl, printable
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.plan import Plan
from cfetch.storage.files import local_fault
from cfetch.wire.fresh_link import UrlRefresher
from cfetch.wire.network import Network
from cfetch.wire.transport import Transport


class StatementApi:
    """The API that gives links to a SQL statement's result, if host and token are known."""

    def __init__(
        self, statement_host: str | None, env: Mapping[str, str], network: Network, clock: Clock
    ) -> None:
        self._host = statement_host or env.get("DATABRICKS_HOST")
        self._token = env.get("DATABRICKS_TOKEN")
        self._network = network
        self._clock = clock
        if statement_host and not self._token:
            raise ConfigError("--statement-host needs a token in the environment variable DATABRICKS_TOKEN")

    def chunks(self, statement_id: str, transport: Transport) -> Callable[[int], Awaitable[bytes]] | None:
        """A function that asks for a chunk's links; None without host and token."""
        if not self._host or not self._token:
            return None
        from cfetch.wire.document import make_chunk_fetcher  # only results of statements have such links

        token = SecretText(self._token)
        return make_chunk_fetcher(
            self._host, token, statement_id, transport=transport, clock=self._clock, jitter=random.random
        )

    def blocking(self, statement_id: str) -> Callable[[int], bytes] | None:
        """The same function for the time before there is an event loop, while the manifest is read."""
        if not self._host or not self._token:
            return None
        from cfetch.run.request_connections import open_transport  # the same

        async def ask(index: int) -> bytes:
            async with open_transport(self._network) as transport:
                chunk = self.chunks(statement_id, transport)
                assert chunk is not None
                return await chunk(index)

        return lambda index: asyncio.run(ask(index))


class ManifestRef(msgspec.Struct, frozen=True, rename={"statement_id": "statement"}):
    """A manifest's name, the statement whose result it is, if any, and how it is read.

    ``folding``: of the destination, if names that clash there decide how files are named.

    It is kept beside a plan, from which any process can then get fresh links. It may hold secrets. Making one
    raises UsageError: the name of a file is not UTF-8.
    """

    manifest: str
    statement_id: str | None = None
    base_url: str | None = None
    options: ReadingOptions = STANDARD
    folding: Folding = KEEPS_NAMES

    def __post_init__(self) -> None:
        try:
            self.manifest.encode()
        except UnicodeEncodeError:
            name = printable(self.manifest)
            raise UsageError(f"the name {name} is not UTF-8: rename the file, or pipe it to `-`") from None


class Renewal:
    """The ways to a fresh link that this run has."""

    def __init__(self, origin: ManifestRef, api: StatementApi, stack: ExitStack) -> None:
        """``origin`` is what another process needs to make an equal ``Renewal``."""
        self.origin = origin
        self._api = api
        self._stack = stack

    def refresher(self, command: str | None, transport: Transport, clock: Clock) -> UrlRefresher | None:
        """The user's command first, then the statement's API, then the manifest's own URL."""
        # each way to a fresh link is loaded by the run that has it
        if command:
            from cfetch.wire.refresh import CommandRefresher

            return CommandRefresher(command)
        origin = self.origin
        chunks = self._api.chunks(origin.statement_id, transport) if origin.statement_id else None
        if chunks is not None:
            from cfetch.wire.refresh import StatementRefresher

            return StatementRefresher(chunks, clock)
        if not is_web(origin.manifest) or origin.options.name_by in ASKING:  # its entries have no names
            return None
        from cfetch.wire.document import fetch_document
        from cfetch.wire.refresh import ManifestRefresher

        url = SecretUrl(origin.manifest)

        async def reread() -> Plan:
            # all readers of manifests; most runs renew no link
            from cfetch.manifest.freezing import ManifestPart, Opened, freeze
            from cfetch.manifest.spool import open_spool

            try:
                with tempfile.TemporaryDirectory(prefix="cfetch-") as name, open_spool() as spool:
                    fetched = await fetch_document(
                        url, spool, transport=transport, clock=clock, jitter=random.random
                    )
                    opened = Opened(spool, fetched.place.reveal(), content_type=fetched.content_type)
                    return await asyncio.to_thread(
                        freeze,
                        [ManifestPart(str(url), lambda: nullcontext(opened))],
                        name=str(url),
                        directory=Path(name),
                        base_url=origin.base_url,
                        options=origin.options,
                        folding=origin.folding,
                    )
            except OSError as error:
                raise local_fault(error, "cannot keep the manifest that was read again") from None

        refresher = ManifestRefresher(reread, clock)
        self._stack.callback(refresher.close)
        return refresher
