"""The main use case, and the one place where the rooms are wired together.

``prepare`` reads and validates the manifest and freezes it into a plan; ``Prepared.run`` brings the plan to
its end. Everything that happens is told to one listener as events; the summary is made from the same events.
"""

import asyncio
import os
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cfetch import __version__
from cfetch.clock import Clock, SystemClock
from cfetch.config.settings import Settings
from cfetch.errors import Blocked, CfetchError, ConfigError, Interrupted, LocalFault
from cfetch.events import Event, Listener, RunFinished, RunStarted, Summary, fan_out
from cfetch.intake import is_url, open_manifest, shown_name
from cfetch.manifest.plan import Plan, freeze
from cfetch.manifest.sql_statement import statement_id_of
from cfetch.placement.descriptors import reserve_descriptors
from cfetch.placement.local import STATE_NAME, LocalVolume, local_fault
from cfetch.report.metrics import MetricsFile, failed_paths
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener
from cfetch.secret import SecretText, SecretUrl, printable
from cfetch.transfer.document import fetch_document, statement_chunks
from cfetch.transfer.http import HttpTransport, Transport
from cfetch.transfer.network import Network, network_of
from cfetch.transfer.pool import Pool
from cfetch.transfer.refresh import CommandRefresher, ManifestRefresher, StatementRefresher, UrlRefresher

__all__ = ["Prepared", "Preview", "prepare"]

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MANY_HOSTS = 256  # an idle connection is kept for 15 s, and 1,024 descriptors are a usual limit
DISK_RESERVE_BYTES = 16 << 20  # metrics, plan and directories need room too


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--dry-run`` tells (``cfetch.preview/1``): nothing was downloaded."""

    schema: str = "cfetch.preview/1"
    files: int
    in_place: int
    bytes_known: int
    sizes_unknown: int
    merged: int
    hosts: dict[str, int]
    destination: str
    free_bytes: int


@contextmanager
def prepare(
    manifest: str,
    settings: Settings,
    *,
    env: Mapping[str, str],
    clock: Clock | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator["Prepared"]:
    """Validate everything that can be validated before the first byte is asked for.

    ``manifest`` is a path, an http(s) URL, or ``-`` for standard input; ``env`` may hold DATABRICKS_TOKEN;
    ``progress`` is told how many entries have been read.

    Raises:
        UsageError: the manifest or a setting is wrong.
        LocalFault: the destination cannot be written or is too small.
    """
    clock = clock or SystemClock()
    instant = (
        datetime.fromtimestamp(clock.wall(), UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
        + "Z-"
        + secrets.token_hex(2)
    )
    root = Path(settings.to).absolute()
    state = Path(settings.state).absolute() if settings.state else root / STATE_NAME
    with ExitStack() as stack:
        reserve_descriptors(settings.concurrency)
        network = network_of(settings, env)
        api = _StatementApi(settings, env, network, clock)
        source = stack.enter_context(open_manifest(manifest, clock, network=network))
        statement = statement_id_of(source)
        volume = LocalVolume(root, f"attempts/{instant}/0")  # before the plan: it refuses a symlink as state
        stack.callback(volume.close)
        plan_directory = state / "plans" / instant
        try:
            _make_private(plan_directory)
        except OSError as error:
            raise local_fault(error, f"cannot write to {state}") from None
        stack.callback(_remove, plan_directory, state)
        fetch_chunk = api.blocking(statement) if statement else None
        failed = failed_paths(Path(settings.failed_from)) if settings.failed_from else None
        plan = stack.enter_context(
            freeze(
                source,
                name=shown_name(manifest),
                directory=plan_directory,
                fetch_chunk=fetch_chunk,
                progress=progress,
                base_url=settings.base_url,
                only=failed,
            )
        )
        if failed and not len(plan):
            raise ConfigError(
                f"failed_from is {settings.failed_from}, which names {len(failed)} failed files, but the "
                "manifest has none of them; give the metrics of a run over this manifest"
            )
        _check_room(plan, volume)
        refreshing = _Refreshing(manifest, statement, api, stack)
        yield Prepared(instant, plan, volume, settings, state, clock, network, refreshing)


def _check_room(plan: Plan, volume: LocalVolume) -> None:
    """Raise LocalFault unless what is not in place yet fits; looks at the files only where it must."""
    free_bytes = max(0, volume.free_bytes() - DISK_RESERVE_BYTES)
    if plan.total_bytes <= free_bytes:
        return
    sizes = ((entry.size_bytes or 0, entry.path) for entry in map(plan.entry, range(len(plan))))
    missing_bytes = sum(size for size, path in sizes if volume.existing(path) != size)
    if missing_bytes > free_bytes:
        raise LocalFault(
            f"the plan needs {missing_bytes:,} more bytes, and {volume.root} has room for {free_bytes:,} (a "
            f"reserve of {DISK_RESERVE_BYTES:,} set aside); free some space or choose another --to. "
            "Nothing was downloaded"
        )


class Prepared:
    """A validated plan with its destination, ready to run."""

    def __init__(
        self,
        instant: str,
        plan: Plan,
        volume: LocalVolume,
        settings: Settings,
        state: Path,
        clock: Clock,
        network: Network,
        refreshing: "_Refreshing",
    ) -> None:
        self.instant = instant
        self.plan = plan
        self._volume = volume
        self._settings = settings
        self._state = state
        self._clock = clock
        self._network = network
        self._refreshing = refreshing

    def preview(self) -> Preview:
        """What a run would do."""
        counts = [0] * len(self.plan.hosts)
        for host in self.plan.host_of:
            counts[host] += 1
        return Preview(
            files=len(self.plan),
            in_place=self._in_place(),
            bytes_known=self.plan.total_bytes,
            sizes_unknown=self.plan.sizes_unknown,
            merged=self.plan.merged,
            hosts={printable(host): count for host, count in zip(self.plan.hosts, counts, strict=True)},
            destination=str(self._volume.root),
            free_bytes=self._volume.free_bytes(),
        )

    def _in_place(self) -> int:
        """Files that stand at the destination with the stated size; hashes are not looked at."""
        found = 0
        for index, size_bytes in enumerate(self.plan.sizes):
            with suppress(Blocked):
                found += size_bytes >= 0 and self._volume.existing(self.plan.entry(index).path) == size_bytes
        return found

    def _sweep_plans(self) -> None:
        """The plans of runs that died hold signed links and are of no more use."""
        for instant in self._volume.dead_instants:
            shutil.rmtree(self._state / "plans" / instant, ignore_errors=True)

    def run(self, listener: Listener) -> Summary:
        """Download. Never raises for what happens to entries: the summary tells it, with the exit code."""
        metrics = MetricsFile(self._metrics_path())
        tally = Tally()
        tracing = tracing_listener()
        tell = fan_out(*(one for one in (tally, metrics, tracing, listener) if one is not None))
        try:
            return asyncio.run(self._run(tell, tally, metrics))
        finally:
            metrics.close()

    def _metrics_path(self) -> Path:
        if self._settings.metrics:
            path = Path(self._settings.metrics).absolute()
        else:
            path = self._state / "metrics" / f"{self.instant}.jsonl"
        try:
            if self._settings.metrics:
                path.parent.mkdir(parents=True, exist_ok=True)
            else:
                _make_private(path.parent)
            if path.is_file():
                with path.open("rb") as file:
                    head = file.read(200)
                if head and b'"cfetch.run/1"' not in head:
                    raise ConfigError(f"metrics is {path}, which holds something else; name another file")
        except OSError as error:
            raise local_fault(error, f"cannot write metrics to {path}") from None
        if path.is_relative_to(self._volume.root):
            target = str(path.relative_to(self._volume.root))
            if self.plan.find(target) is not None:
                raise ConfigError(f"metrics is {path}, where the manifest wants a file; name another file")
        return path

    async def _run(self, tell: Listener, tally: Tally, metrics: MetricsFile) -> Summary:
        clock, settings = self._clock, self._settings
        start_s = clock.monotonic()
        transport = HttpTransport(
            connect_timeout_s=settings.connect_timeout,
            keep_alive=len(self.plan.hosts) <= MANY_HOSTS,
            network=self._network,
        )

        def emit(event: Event) -> None:
            try:
                tell(event)
            except LocalFault as fault:  # the metrics file cannot grow any more
                pool.fail(fault)

        pool = Pool(
            self.plan,
            settings,
            self._volume,
            transport,
            instant=self.instant,
            clock=clock,
            jitter=random.random,
            emit=emit,
            refresher=self._refreshing.refresher(settings, transport, clock),
        )
        self._sweep_plans()
        ended_by: list[CfetchError] = []
        try:
            with _signals(pool, ended_by):
                emit(self._started(clock))
                await pool.run()
        finally:
            await transport.close()
        try:
            metrics.close()
        except LocalFault as fault:  # its last lines did not fit: said in the summary, not after it
            pool.fail(fault)
        error = ended_by[0] if ended_by else pool.fault
        summary = tally.summary(clock.monotonic() - start_s, error=error, metrics=str(metrics.path))
        emit(RunFinished(t_s=clock.monotonic() - start_s, summary=summary))
        return summary

    def _started(self, clock: Clock) -> RunStarted:
        return RunStarted(
            t_s=0.0,
            instant=self.instant,
            wall_start=datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="milliseconds"),
            version=__version__,
            host=socket.gethostname(),
            files=len(self.plan),
            bytes_known=self.plan.total_bytes,
            sizes_unknown=self.plan.sizes_unknown,
            concurrency=self._settings.concurrency,
            destination=str(self._volume.root),
            settings=self._settings.public(),
        )


@contextmanager
def _signals(pool: Pool, ended_by: list[CfetchError]) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP ends the run in good order; the second ends the process at once.

    What the caller has set to be ignored stays so, as ``nohup`` does with SIGHUP.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: object) -> None:
        if ended_by:
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the live view had hidden the cursor
            os._exit(128 + number)
        ended_by.append(Interrupted(number))
        loop.call_soon_threadsafe(
            pool.stop,
            f"{signal.Signals(number).name}: closing what is under way; once more to leave at once",
        )

    mine = threading.current_thread() is threading.main_thread()  # elsewhere signals are somebody else's
    for number in HANDLED_SIGNALS if mine else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, on_signal)  # to the end: closing may wait for a slow resolver's thread
    yield


class _StatementApi:
    """Who to ask for links of a SQL statement's result, if anybody."""

    def __init__(self, settings: Settings, env: Mapping[str, str], network: Network, clock: Clock) -> None:
        self._host = settings.statement_host or env.get("DATABRICKS_HOST")
        self._token = env.get("DATABRICKS_TOKEN")
        self._network = network
        self._clock = clock
        if settings.statement_host and not self._token:
            raise ConfigError("--statement-host needs a token in the environment variable DATABRICKS_TOKEN")

    def chunks(self, statement_id: str, transport: Transport) -> Callable[[int], Awaitable[bytes]] | None:
        """How to ask; None without host and token."""
        if not self._host or not self._token:
            return None
        token = SecretText(self._token)
        return statement_chunks(
            self._host, token, statement_id, transport=transport, clock=self._clock, jitter=random.random
        )

    def blocking(self, statement_id: str) -> Callable[[int], bytes] | None:
        """How to ask while the manifest is read, before there is a loop."""
        if not self._host or not self._token:
            return None

        async def ask(index: int) -> bytes:
            transport = HttpTransport(connect_timeout_s=10.0, network=self._network)
            try:
                chunk = self.chunks(statement_id, transport)
                assert chunk is not None
                return await chunk(index)
            finally:
                await transport.close()

        return lambda index: asyncio.run(ask(index))


class _Refreshing:
    """Which of the ways to a fresh link this run has."""

    def __init__(self, manifest: str, statement_id: str | None, api: _StatementApi, stack: ExitStack) -> None:
        self._manifest = manifest
        self._statement_id = statement_id
        self._api = api
        self._stack = stack

    def refresher(self, settings: Settings, transport: Transport, clock: Clock) -> UrlRefresher | None:
        """The user's command first, then the statement's API, then the manifest's own URL."""
        if settings.refresh_command:
            return CommandRefresher(settings.refresh_command)
        chunks = self._api.chunks(self._statement_id, transport) if self._statement_id else None
        if chunks is not None:
            return StatementRefresher(chunks, clock)
        if not is_url(self._manifest):
            return None
        url = SecretUrl(self._manifest)

        async def reread() -> Plan:
            try:
                with tempfile.TemporaryDirectory(prefix="cfetch-") as name, tempfile.TemporaryFile() as spool:
                    await fetch_document(url, spool, transport=transport, clock=clock, jitter=random.random)
                    return await asyncio.to_thread(
                        freeze,
                        spool,
                        name=str(url),
                        directory=Path(name),
                        base_url=settings.base_url,
                    )
            except OSError as error:
                raise local_fault(error, "cannot keep the manifest that was read again") from None

        refresher = ManifestRefresher(reread, clock)
        self._stack.callback(refresher.close)
        return refresher


def _make_private(directory: Path) -> None:
    """A directory of the state; all that are missing are made for their owner only, whatever the umask."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _remove(plan_directory: Path, state: Path) -> None:
    """The plan file goes, and the directories that nothing else has come to live in."""
    shutil.rmtree(plan_directory, ignore_errors=True)
    for directory in (plan_directory.parent, state):
        try:
            directory.rmdir()
        except OSError:
            return
