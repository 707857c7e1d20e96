"""``cfetch get``: download one or a few files, without a manifest."""

import os
from typing import Annotated

import typer

from cfetch.base.config.layers import Resolved
from cfetch.cli.download import bring
from cfetch.cli.verb_options import with_get

Urls = Annotated[
    list[str],
    typer.Argument(
        help="The files' URLs: http(s)://, s3://, gs://, az:// or hf://, also a prefix.",
        metavar="URL...",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="The file's name, or its path seen from --to (default: the last segment of the URL). A "
        "directory takes the files under their own names.",
        metavar="FILE|DIR",
        show_default=False,
    ),
]
Sha256 = Annotated[
    str | None,
    typer.Option(
        help="The file's SHA-256, or the word beside: the hash is read from URL.sha256.",
        metavar="HEX|beside",
        show_default=False,
    ),
]


@with_get
def get(*, urls: Urls, output: Output = None, sha256: Sha256 = None, resolved: Resolved) -> None:
    """Download one or a few files by their URLs: whole, verified, over several connections.

    The engine is that of `cfetch download`. It replaces a slow connection, fetches a large file in segments,
    and continues an interrupted download when the same command is run again.

    Examples:

      cfetch get https://example.org/disk.iso

      cfetch get https://example.org/disk.iso -o linux.iso --sha256 beside

      cfetch get https://example.org/a.zip https://example.org/b.zip --to data/

      cfetch get 's3://bucket/run-7/*.parquet' --to data/ --json
    """
    from cfetch.app.get import prepare_get

    with prepare_get(urls, resolved.settings, output=output, sha256=sha256, env=os.environ) as prepared:
        bring(prepared, resolved)
