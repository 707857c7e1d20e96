"""``cfetch download``: the main job."""

import os
import sys
from typing import Annotated

import typer

from cfetch.cli.options import config_document, with_settings
from cfetch.config.layers import Resolved, show

__all__ = ["download"]


@with_settings
def download(
    *,
    ctx: typer.Context,
    manifest: Annotated[
        str | None,
        typer.Argument(
            help="A path, an http(s) URL, or - for standard input.", metavar="MANIFEST", show_default=False
        ),
    ] = None,
    resolved: Resolved,
    show_config: bool,
) -> None:
    """Download every file of a manifest: whole, verified, without stragglers.

    A manifest is JSON, JSON Lines, CSV, a list of URLs, or a SQL statement's reply with external links.

    Examples:

      cfetch download manifest.json --to data/

      cfetch download urls.txt --to data/ --concurrency 32 --padding 1s

      curl -s https://example.org/list.csv | cfetch download - --to data/ --json
    """
    settings = resolved.settings
    if show_config:
        typer.echo(config_document(resolved) if settings.json else show(resolved))
        return
    if manifest is None:
        ctx.fail("Missing argument 'MANIFEST'.")
    import msgspec

    from cfetch.dashboard.open import open_dashboard, reading_lines
    from cfetch.download import prepare
    from cfetch.secret import SecretUrl

    shown = str(SecretUrl(manifest)) if "://" in manifest else manifest
    told = reading_lines(shown, quiet=settings.quiet)
    with prepare(manifest, settings, env=os.environ, progress=told) as prepared:
        if settings.dry_run:
            document: msgspec.Struct = prepared.preview()
            code = 0
        else:
            with open_dashboard(
                quiet=settings.quiet, log_format=settings.log_format, no_color=not settings.color
            ) as listener:
                document = summary = prepared.run(listener)
            code = summary.exit_code
    if settings.json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    elif settings.dry_run:
        from cfetch.dashboard.preview import preview_lines

        typer.echo("\n".join(preview_lines(**msgspec.structs.asdict(document))))
    if code:
        raise typer.Exit(code)
