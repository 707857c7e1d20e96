"""``download`` and ``get``, each in two forms: one that waits, and one for asyncio.

Both forms and both use cases are the same job: prepare a plan, run it, look at the summary. A job runs in a
thread of its own (``own_thread.py``).
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar, overload

from cfetch.api.entry import Entry, from_manifest
from cfetch.api.keywords import DestinationPaths, Usual
from cfetch.api.own_session import lend
from cfetch.api.own_thread import Stop, await_apart, run_apart
from cfetch.api.progress import show_progress
from cfetch.api.sources import Source, prepare_source
from cfetch.api.sources import read_manifest as read_source
from cfetch.api.words import explain_in_python
from cfetch.app.get import prepare_get
from cfetch.app.prepared import Prepared
from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Incomplete, UsageError
from cfetch.base.events import EntryFinished, Event, Listener, RunNoted, RunStopping, fan_out, tell_each
from cfetch.base.records import Summary
from cfetch.manifest.entries import Frozen
from cfetch.show.format import plural
from cfetch.wire.network import OwnSession

T = TypeVar("T")


def download(
    source: Source,
    *,
    to: DestinationPaths | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """Download every file of ``source``: whole, verified, without stragglers.

    Args:
        source: a manifest (a path, an http(s) URL, a prefix such as ``s3://bucket/run-7/``), a data frame
            of pandas, polars or pyarrow, a mapping from URLs to file names, or an iterable of ``Entry``,
            mappings with the keys of a manifest's entry, or URLs.
        to: where the files go: a directory, an object store, or several. Default: the current directory.
        headers: headers for the files' host, such as ``{"Authorization": "Bearer …"}``.
        concurrency: downloads at the same time, at the start. Default: 16.
        per_host: downloads at the same time from one host. Default: no limit of its own.
        limit_rate: bytes per second of all downloads together, as a number or as "10M".
        retries: how often a failed try of a file is repeated. Default: 4.
        timeout: seconds without a byte after which a try is given up. Default: 30.
        proxy: the URL of an HTTP proxy.
        existing: "trust" files in place, "check" them with the server, or "refetch" all.
        max_failures: so many files, or a share as "1%", may fail without an error.
        progress: show a bar: on a terminal, in a notebook, or as lines in a log.
        settings: all other options, see ``help(cfetch.Settings)``. A keyword counts more.
        on_event: gets each event of the run, in the thread of the download. An error that it raises ends
            the run in good order.
        session: asks by this session of aiohttp, with its middlewares, cookies and tracing: a function that
            makes it, or an ``aiohttp.ClientSession`` whose event loop goes on meanwhile.

    Returns:
        The summary that ``cfetch download --json`` prints. Files that were in place count as skipped.

    Raises:
        Incomplete: files are missing at the end. ``.summary.failures`` names them, and the ``entry`` of each
            can be downloaded again.
        UsageError: the manifest or an option is wrong (ManifestError, ConfigError); nothing was downloaded.
        LocalFault: this machine cannot take the files; nothing was downloaded.
        Held: another live run has the same plan.
        KeyboardInterrupt: after the run has ended in good order. The same call continues it.
    """
    usual = Usual(
        to, headers, concurrency, per_host, limit_rate, retries, timeout, proxy, existing, max_failures
    )
    job = _make_download(source, usual, settings, progress, on_event)
    return run_apart(lend(session, job, waits=True))


async def download_async(
    source: Source,
    *,
    to: DestinationPaths | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,  # noqa: ASYNC109 - of silence, not of the call
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """``download`` for asyncio. If the task is cancelled, the run ends in good order first."""
    usual = Usual(
        to, headers, concurrency, per_host, limit_rate, retries, timeout, proxy, existing, max_failures
    )
    return await await_apart(
        lend(session, _make_download(source, usual, settings, progress, on_event), waits=False)
    )


@overload
def get(  # type: ignore[overload-overlap]
    urls: str,
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Path: ...


@overload
def get(
    urls: Iterable[str],
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> list[Path]: ...


def get(
    urls: str | Iterable[str],
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Path | list[Path]:
    """Download one or a few files by their URLs: whole, verified, over several connections.

    Args:
        urls: a URL, or several; also of objects (``s3://``, ``gs://``, ``az://``, ``hf://``) and prefixes.
        to: a directory. Default: the current one.
        output: the name of a single file, below ``to``. Default: the last segment of the URL.
        sha256: the hash of a single file, or ``beside``: each hash is read from ``URL.sha256``.
        headers: headers for the files' host, such as ``{"Authorization": "Bearer …"}``.
        concurrency: connections at the same time, at the start. Default: 16.
        per_host: connections at the same time to one host. Default: no limit of its own.
        limit_rate: bytes per second, as a number or as "10M".
        retries: how often a failed try of a file is repeated. Default: 4.
        timeout: seconds without a byte after which a try is given up. Default: 30.
        proxy: the URL of an HTTP proxy.
        existing: "trust" files in place, "check" them with the server, or "refetch" all.
        max_failures: so many files, or a share as "1%", may fail without an error.
        progress: show a bar: on a terminal, in a notebook, or as lines in a log.
        settings: all other options, see ``help(cfetch.Settings)``. A keyword counts more.
        on_event: gets each event of the run, in the thread of the download.
        session: as for ``download``.

    Returns:
        The path of the file; for several URLs the list of their paths. For a prefix or a pattern it is the
        directory of the files.

    Raises as ``download``.
    """
    usual = Usual(
        to, headers, concurrency, per_host, limit_rate, retries, timeout, proxy, existing, max_failures
    )
    return run_apart(
        lend(session, _make_get(urls, usual, output, sha256, settings, progress, on_event), waits=True)
    )


@overload
async def get_async(  # type: ignore[overload-overlap]
    urls: str,
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,  # noqa: ASYNC109 - of silence, not of the call
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Path: ...


@overload
async def get_async(
    urls: Iterable[str],
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,  # noqa: ASYNC109 - of silence, not of the call
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> list[Path]: ...


async def get_async(
    urls: str | Iterable[str],
    *,
    to: DestinationPaths | None = None,
    output: str | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    per_host: int | None = None,
    limit_rate: int | str | None = None,
    retries: int | None = None,
    timeout: float | str | None = None,  # noqa: ASYNC109 - of silence, not of the call
    proxy: str | None = None,
    existing: str | None = None,
    max_failures: float | str | None = None,
    progress: bool = False,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Path | list[Path]:
    """``get`` for asyncio. If the task is cancelled, the run ends in good order first."""
    usual = Usual(
        to, headers, concurrency, per_host, limit_rate, retries, timeout, proxy, existing, max_failures
    )
    return await await_apart(
        lend(session, _make_get(urls, usual, output, sha256, settings, progress, on_event), waits=False)
    )


def read_manifest(manifest: str | os.PathLike[str], settings: Settings | None = None) -> list[Entry]:
    """The entries of a manifest in any format that cfetch reads, checked as before a download.

    Args:
        manifest: a path, an http(s) URL, or a prefix such as ``s3://bucket/run-7/``.
        settings: how it is read (``from_format``, ``url_column`` …), and logins for its server.

    Raises:
        ManifestError: it has faults; all are named, with their lines.
        UsageError: it cannot be had.
        LocalFault: this machine cannot store it.
    """
    return run_apart(lambda _: _tell_in_python(lambda: read_source(manifest, settings or Settings())))


def _make_download(
    source: Source, usual: Usual, settings: Settings | None, progress: bool, on_event: Listener | None
) -> Callable[[Stop], Summary]:
    chosen = usual.lay_over(settings)

    def bring(stop: Stop) -> Summary:
        preparing = prepare_source(source, chosen, lambda _: stop.check())
        return _run(preparing, stop, _Relay(on_event), progress=progress)

    return lambda stop: _tell_in_python(lambda: bring(stop))


def _make_get(
    urls: str | Iterable[str],
    usual: Usual,
    output: str | None,
    sha256: str | None,
    settings: Settings | None,
    progress: bool,
    on_event: Listener | None,
) -> Callable[[Stop], Path | list[Path]]:
    several = [urls] if isinstance(urls, str) else list(urls)
    chosen = usual.lay_over(settings)
    if any(map(is_object_store, chosen.to)):
        raise UsageError("get returns paths of this machine; for an object store, use download([URL], to=…)")
    preparing = prepare_get(several, chosen, output=output, sha256=sha256, env=os.environ)
    places = _Places()

    def bring(stop: Stop) -> Path | list[Path]:
        relay = _Relay(places if on_event is None else fan_out(places, on_event))
        _run(preparing, stop, relay, progress=progress)
        paths = places.in_order()
        if not isinstance(urls, str):
            return paths
        return paths[0] if len(paths) == 1 and "*" not in urls else Path(chosen.to[0]).absolute()

    return lambda stop: _tell_in_python(lambda: bring(stop))


def _tell_in_python(job: Callable[[], T]) -> T:
    """Do a job; its errors name keywords in place of flags."""
    try:
        return job()
    except UsageError as error:
        raise explain_in_python(error) from None


class _Places:
    """A listener that notes where files stand."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, EntryFinished) and event.record.is_in_place:
            self._paths[event.record.id] = Path(event.record.volume, event.record.path)

    def in_order(self) -> list[Path]:
        """The paths in the order of their entries."""
        return [path for _, path in sorted(self._paths.items())]


class _Relay:
    """Passes events to the caller's listener, until that raises an error; then it ends the run."""

    def __init__(self, on_event: Listener | None) -> None:
        self._on_event = tell_each(on_event) if on_event is not None else (lambda _: None)
        self.end_run: Callable[[], None] = lambda: None
        self.error: BaseException | None = None
        self.stopping: str | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStopping):
            self.stopping = event.reason
        if self.error is None:
            try:
                self._on_event(event)
            except BaseException as error:  # noqa: BLE001 - it is raised when the run has ended
                self.error = error
                self.end_run()


def _run(
    preparing: AbstractContextManager[Prepared], stop: Stop, relay: _Relay, *, progress: bool
) -> Summary:
    """Prepare and run a plan. Raises as ``download``."""
    with preparing as prepared:
        relay.end_run = prepared.interrupt
        stop.end_by(prepared.interrupt)
        with show_progress(is_wanted=progress) as shown:
            listener = fan_out(relay, shown)
            for note in prepared.notes:
                listener(RunNoted(t_s=0.0, note=note))
            summary = prepared.run(listener)
        if summary is not None and summary.failures:
            _let_failures_carry_entries(summary, prepared.plan)
    assert summary is not None  # only a plan of an earlier call can be completed by another run
    if relay.error is not None:
        raise relay.error
    if summary.exit_code:
        raise Incomplete(_describe_missing(summary, relay.stopping), summary)
    return summary


def _let_failures_carry_entries(summary: Summary, plan: Frozen) -> None:
    failures = {failure.id: failure for failure in summary.failures}
    for entry in plan.entries():
        if entry.id in failures:
            failures[entry.id].carry(from_manifest(entry, plan.headers))


def _describe_missing(summary: Summary, stopping: str | None) -> str:
    files = summary.files
    in_place = files.done + files.skipped
    parts = [f"missing: {files.total - in_place:,} of {plural(files.total, 'file')}"]
    if stopping is not None:
        parts.append(f"the run was stopped: {stopping}")
    if summary.failures:
        first = summary.failures[0]
        parts.append(f"the first: {first.path}: {first.message}")
    if summary.metrics is not None:
        parts.append(f"all attempts are in {summary.metrics}")
    return "; ".join(parts)
