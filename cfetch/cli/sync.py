"""``cfetch sync``: keep a directory like a source that has a list but no feed."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.download import print_document, run
from cfetch.cli.options import seconds, with_sync
from cfetch.config.kinds import count_or_share
from cfetch.config.layers import Resolved
from cfetch.errors import Held, UsageError

if TYPE_CHECKING:
    from cfetch.report.plan_view import SyncPreview

MAX_DELETE = count_or_share(0, 1_000_000_000, "")

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
    typer.Option("--delete", help="Delete the files put here by a sync that the source has no longer."),
]
MaxDelete = Annotated[
    str,
    typer.Option(
        help="Stop before anything is done if more files, or more per cent of them, were to be deleted.",
        metavar="N|P%",
    ),
]


@with_sync
def sync(
    *, source: Source, delete: Delete = False, max_delete: MaxDelete = "10%", resolved: Resolved
) -> None:
    """Keep a directory like a source that changes: fetch what is new or has changed, delete what has gone.

    The command reads the source's list and downloads as `cfetch download` does. It remembers what it has put
    in place, and deletes nothing else. With --dry-run it only says what it would fetch and delete.

    Examples:

      cfetch sync s3://bucket/data/ --to mirror/

      cfetch sync https://example.org/pub/ --to mirror/ --delete --dry-run

      cfetch sync hf://datasets/owner/name/ --to mirror/ --delete --max-delete 100 --json
    """
    from cfetch.app.sync import SyncOptions, prepare_sync
    from cfetch.report.plan_view import held_document

    settings = resolved.settings
    options = SyncOptions(delete=delete, max_delete=seconds("max-delete", max_delete, MAX_DELETE))

    def say(line: str) -> None:
        if not settings.quiet:
            print(line, file=sys.stderr, flush=True)

    try:
        with prepare_sync(source, settings, options, env=os.environ, emit_line=say) as prepared:
            if settings.dry_run:
                look = prepared.preview()
                _preview(look, as_json=settings.json)
                if look.refusal is not None:
                    raise typer.Exit(UsageError.exit_code)
                return
            ended = run(prepared, resolved)
            assert ended is not None
            summary = prepared.settle(ended)
    except Held as held:
        if settings.json:
            print_document(held_document(held))
        raise
    if settings.json:
        print_document(summary)
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


def _preview(document: "SyncPreview", *, as_json: bool) -> None:
    from cfetch.dashboard.preview import preview_lines, sync_lines

    if as_json:
        print_document(document)
        return
    lines = preview_lines(document.preview)
    changes = sync_lines(document)
    typer.echo("\n".join([*lines[:-1], *changes, *lines[-1:]]))
