"""``cfetch sync``: keep a directory equal to a source that has a list but no feed."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.layers import Resolved
from cfetch.base.errors import UsageError
from cfetch.cli.download import run
from cfetch.cli.output import document_if_held, end_with, print_document, progress_printer
from cfetch.cli.verb_options import MAX_DELETE, parse_option, with_sync

if TYPE_CHECKING:
    from cfetch.show.plan_view import SyncPreview


Source = Annotated[
    str,
    typer.Argument(
        help="A prefix like s3://bucket/data/ or hf://datasets/owner/name/, a directory index, or a manifest "
        "(a path or a URL).",
        metavar="SOURCE",
        show_default=False,
    ),
]
Delete = Annotated[
    bool,
    typer.Option(
        "--delete", help="Delete files that the source no longer has; only those that a sync has put here."
    ),
]
MaxDelete = Annotated[
    str | None,
    typer.Option(
        help="Delete at most so many files, or per cent of them; else stop before anything is done (default: "
        "10%, and 10 files in any case).",
        metavar="N|P%",
        show_default=False,
    ),
]


@with_sync
def sync(*, source: Source, delete: Delete = False, max_delete: MaxDelete = None, resolved: Resolved) -> None:
    """Keep a directory equal to a source: fetch new and changed files, and delete those that are gone.

    The command reads the source's list and downloads as `cfetch download` does. It remembers what it has put
    in place, and deletes nothing else. With --dry-run it only says what it would fetch and delete.

    Examples:

      cfetch sync s3://bucket/data/ --to mirror/

      cfetch sync https://example.org/pub/ --to mirror/ --delete --dry-run

      cfetch sync hf://datasets/owner/name/ --to mirror/ --delete --max-delete 100 --json
    """
    from cfetch.app.sync import SyncOptions, prepare_sync

    settings = resolved.settings
    most = None if max_delete is None else parse_option("max-delete", max_delete, MAX_DELETE)
    options = SyncOptions(delete=delete, max_delete=most)
    emit_line = progress_printer(quiet=settings.quiet)
    with (
        document_if_held(json=settings.json),
        prepare_sync(source, settings, options, env=os.environ, emit_line=emit_line) as prepared,
    ):
        if settings.dry_run:
            _preview(prepared.preview(), as_json=settings.json)
            return
        ended = run(prepared, resolved)
        assert ended is not None
        summary = prepared.settle(ended)
    end_with(summary, json=settings.json)


def _preview(document: "SyncPreview", *, as_json: bool) -> None:
    """Print what a run would do; exit with 2 if it would refuse to delete so much."""
    from cfetch.show.live.preview import preview_lines, sync_lines

    if as_json:
        print_document(document)
    else:
        lines = preview_lines(document.preview)
        changes = sync_lines(document)
        typer.echo("\n".join([*lines[:-1], *changes, *lines[-1:]]))
    if document.refusal is not None:
        raise typer.Exit(UsageError.exit_code)
