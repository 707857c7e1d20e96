"""``download`` and ``get``, each in two forms: one that waits, and one for asyncio.

Both forms and both use cases are the same job: prepare a plan, run it, look at the summary. A job runs in a
thread of its own (``own_thread.py``).
"""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

from cfetch.api.entry import Entry
from cfetch.api.own_session import lend
from cfetch.api.own_thread import Stop, await_apart, run_apart
from cfetch.api.sources import Source, prepare_source
from cfetch.api.sources import read_manifest as read_source
from cfetch.app.get import prepare_get
from cfetch.app.prepared import Prepared
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Incomplete
from cfetch.base.events import Event, Listener, RunNoted, RunStopping, tell_each
from cfetch.base.records import Summary
from cfetch.show.format import plural
from cfetch.wire.network import OwnSession

Places: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A directory or a prefix of an object store; several of them share the files."""


def download(
    source: Source,
    *,
    to: Places | None = None,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """Download every file of ``source``: whole, verified, without stragglers.

    Args:
        source: a manifest (a path, an http(s) URL, a prefix such as ``s3://bucket/run-7/``), a data frame
            of pandas, polars or pyarrow, or an iterable of ``Entry``, mappings with the keys of a manifest's
            entry, or URLs.
        to: where the files go; it counts more than ``settings.to``. Default: the current directory.
        settings: the options of ``cfetch download``. Default: their defaults; no file and no environment
            variable is read.
        on_event: gets each event of the run, in the thread of the download. An error that it raises ends
            the run in good order.
        session: asks by this session of aiohttp, with its middlewares, cookies and tracing: a function that
            makes it, or an ``aiohttp.ClientSession`` whose event loop goes on meanwhile.

    Returns:
        The summary that ``cfetch download --json`` prints. Files that were in place count as skipped.

    Raises:
        Incomplete: files are missing at the end; ``.summary`` names them. ``Settings(max_failures=…)``
            permits some.
        UsageError: the manifest or a setting is wrong (ManifestError, ConfigError); nothing was downloaded.
        LocalFault: this machine cannot take the files; nothing was downloaded.
        Held: another live run has the same plan.
        KeyboardInterrupt: after the run has ended in good order. The same call continues it.
    """
    return run_apart(lend(session, _make_download(source, to, settings, on_event), waits=True))


async def download_async(
    source: Source,
    *,
    to: Places | None = None,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """``download`` for asyncio. If the task is cancelled, the run ends in good order first."""
    return await await_apart(lend(session, _make_download(source, to, settings, on_event), waits=False))


def get(
    urls: str | Iterable[str],
    *,
    to: Places | None = None,
    output: str | None = None,
    sha256: str | None = None,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """Download one or a few files by their URLs: whole, verified, over several connections.

    Args:
        urls: a URL, or several; also of objects (``s3://``, ``gs://``, ``az://``, ``hf://``) and prefixes.
        to: as for ``download``.
        output: the name of a single file, below ``to``. Default: the last segment of the URL.
        sha256: the hash of a single file, or ``beside``: each hash is read from ``URL.sha256``.
        settings: as for ``download``.
        on_event: as for ``download``.
        session: as for ``download``.

    Returns and raises as ``download``.
    """
    return run_apart(lend(session, _make_get(urls, to, output, sha256, settings, on_event), waits=True))


async def get_async(
    urls: str | Iterable[str],
    *,
    to: Places | None = None,
    output: str | None = None,
    sha256: str | None = None,
    settings: Settings | None = None,
    on_event: Listener | None = None,
    session: OwnSession | None = None,
) -> Summary:
    """``get`` for asyncio. If the task is cancelled, the run ends in good order first."""
    return await await_apart(
        lend(session, _make_get(urls, to, output, sha256, settings, on_event), waits=False)
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
    return run_apart(lambda _: read_source(manifest, settings or Settings()))


def _make_download(
    source: Source, to: Places | None, settings: Settings | None, on_event: Listener | None
) -> Callable[[Stop], Summary]:
    chosen = _choose_settings(to, settings)
    return lambda stop: _run(prepare_source(source, chosen, lambda _: stop.check()), stop, _Relay(on_event))


def _make_get(
    urls: str | Iterable[str],
    to: Places | None,
    output: str | None,
    sha256: str | None,
    settings: Settings | None,
    on_event: Listener | None,
) -> Callable[[Stop], Summary]:
    several = [urls] if isinstance(urls, str) else list(urls)
    preparing = prepare_get(
        several, _choose_settings(to, settings), output=output, sha256=sha256, env=os.environ
    )
    return lambda stop: _run(preparing, stop, _Relay(on_event))


def _choose_settings(to: Places | None, settings: Settings | None) -> Settings:
    settings = settings or Settings()
    if settings.dry_run:
        raise ConfigError("dry_run is for the command line; from Python, see the entries by read_manifest")
    if to is None:
        return settings
    places = (to,) if isinstance(to, str | os.PathLike) else tuple(to)
    return replace(settings, to=tuple(os.fspath(place) for place in places))


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


def _run(preparing: AbstractContextManager[Prepared], stop: Stop, relay: _Relay) -> Summary:
    """Prepare and run a plan. Raises as ``download``."""
    with preparing as prepared:
        relay.end_run = prepared.interrupt
        stop.end_by(prepared.interrupt)
        for note in prepared.notes:
            relay(RunNoted(t_s=0.0, note=note))
        summary = prepared.run(relay)
    assert summary is not None  # only a plan of an earlier call can be completed by another run
    if relay.error is not None:
        raise relay.error
    if summary.exit_code:
        raise Incomplete(_describe_missing(summary, relay.stopping), summary)
    return summary


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
