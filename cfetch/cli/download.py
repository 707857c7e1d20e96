"""``cfetch download``: the main job."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.layers import Resolved
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, UsageError, describe_bug
from cfetch.base.registry import load
from cfetch.cli.options import with_settings
from cfetch.cli.output import document_if_held, end_with, print_document
from cfetch.cli.streams import ReaderGone

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from cfetch.app.prepared import Prepared
    from cfetch.app.sync import PreparedSync
    from cfetch.base.events import Event, Listener
    from cfetch.base.records import Summary


Manifests = Annotated[
    list[str] | None,  # --show-config needs none
    typer.Argument(
        help="A path, a directory of manifests, an http(s) URL, a prefix like s3://bucket/run-7/, or - "
        "for standard input; or several.",
        metavar="MANIFEST...",
        show_default=False,
    ),
]


@with_settings
def download(*, manifests: Manifests = None, resolved: Resolved) -> None:
    """Download every file of a manifest: whole, verified, without stragglers.

    A manifest is JSON, JSON Lines, CSV, a list of URLs, or a SQL statement's reply with external links.

    Examples:

      cfetch download manifest.json --to data/

      cfetch download urls.txt --to data/ --concurrency 32 --limit-rate 50M

      curl -s https://example.org/list.csv | cfetch download - --to data/ --json

      cfetch download manifest.json --to - --ordered | tar -x
    """
    if not manifests:
        raise UsageError("missing argument 'MANIFEST'; cfetch download -h shows how it is used")
    if "-" in resolved.settings.to:
        from cfetch.cli.to_stdout import stream_out  # most downloads go to a directory

        stream_out(manifests, resolved, run=run, preview=preview)
        return
    with open_prepared(manifests, resolved.settings) as prepared:
        bring(prepared, resolved)


def open_prepared(manifests: list[str], settings: Settings) -> "AbstractContextManager[Prepared]":
    """Read the manifests, several as one, with lines of progress on stderr."""
    from cfetch.app.download import prepare
    from cfetch.base.secret import SecretUrl
    from cfetch.show.live.open import reading_lines

    manifest, *more = manifests
    shown = str(SecretUrl(manifest)) if "://" in manifest else manifest
    progress = reading_lines(shown, quiet=settings.quiet)
    return prepare(manifest, settings, more=more, env=os.environ, progress=progress)


def bring(prepared: "Prepared", resolved: Resolved) -> None:
    """Run or preview the prepared plan, print its document for ``--json``, exit with the summary's code."""
    settings = resolved.settings
    if settings.dry_run:
        preview(prepared, settings)
        return
    with document_if_held(json=settings.json):
        summary = run(prepared, resolved)
    assert summary is not None
    end_with(summary, json=settings.json)


def preview(prepared: "Prepared", settings: Settings) -> None:
    """Print the preview of ``--dry-run``."""
    from cfetch.show.live.preview import preview_lines

    document = prepared.preview()
    if settings.json:
        print_document(document)
    else:
        typer.echo("\n".join(preview_lines(document)))


def run(
    prepared: "Prepared | PreparedSync",
    resolved: Resolved,
    bring: "Callable[[Listener], Summary | None] | None" = None,
) -> "Summary | None":
    """Run a plan under the dashboard; None if another run has completed it already.

    ``bring``: how, if it is not by ``prepared.run``.
    """
    from cfetch.base.events import RunNoted, fan_out, tell_each
    from cfetch.show.live.open import open_dashboard

    settings = resolved.settings
    dashboard = open_dashboard(
        quiet=settings.quiet,
        progress=settings.progress_shown,
        no_color=not settings.color,
        explain=settings.explain,
        verbose=settings.verbose,
    )
    last = _LastSummary()
    try:
        with _send_telemetry(), serving(settings) as served, dashboard as shown:
            # tasks report many files together; each is to have its line
            listener = fan_out(last, tell_each(shown) if settings.verbose else shown, served)
            for note in (*resolved.notes, *prepared.notes):
                listener(RunNoted(t_s=0.0, note=note))
            return (bring or prepared.run)(listener)
    except (CfetchError, ReaderGone):
        raise
    except Exception as bug:
        if last.summary is None:
            raise
        if not isinstance(bug, MemoryError):
            print("\n".join(describe_bug(bug)), file=sys.stderr)
        return last.summary


class _LastSummary:
    """Keeps the summary of a run, which ends with it even if an error that nobody foresaw ends the run."""

    def __init__(self) -> None:
        self.summary: Summary | None = None

    def __call__(self, event: "Event") -> None:
        from cfetch.base.events import RunFinished

        if isinstance(event, RunFinished):
            self.summary = event.summary


def serving(settings: Settings) -> "AbstractContextManager[Listener]":
    """The listener that shows runs to others, as the settings say."""
    if settings.serve is None and settings.metrics_textfile is None:
        from contextlib import nullcontext

        return nullcontext(lambda _: None)
    page: AbstractContextManager[Listener] = load("parts", "page")(
        settings.serve, settings.metrics_textfile, token_env=settings.serve_token_env
    )
    return page


def _send_telemetry() -> "AbstractContextManager[None]":
    """Send spans and metrics, if the standard variables of OpenTelemetry ask for it."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        from contextlib import nullcontext

        return nullcontext()
    sending: AbstractContextManager[None] = load("parts", "telemetry")(os.environ)
    return sending
