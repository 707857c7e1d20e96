"""``cfetch manifest build|check|convert``: make manifests, look into them, turn them into other formats."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.output import print_document, print_message
from cfetch.cli.verb_options import JsonOption, ManifestsArgument, make_reader, with_reading

if TYPE_CHECKING:
    from cfetch.app.manifest_check import Checked
    from cfetch.base.config.settings import Settings


app = typer.Typer(
    help="Build manifests from lists and directories, check and convert them.",
    no_args_is_help=True,
)

SHOWN_HOSTS = 10  # in the text; --json has all of them

Manifest = Annotated[
    str,
    typer.Argument(
        help="A path, an http(s) URL, or - for standard input.", metavar="MANIFEST", show_default=False
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        help="Resolve relative URLs against this URL, which ends with a slash.",
        metavar="URL",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Write to this file instead of stdout.", metavar="FILE", show_default=False
    ),
]
ToFormat = Annotated[
    str,
    typer.Option(
        help="One of aria2, csv, curl, json, jsonl, sha256sum and urls.",
        metavar="FORMAT",
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        help="A directory, a list of URLs (a path, an http(s) URL, or - for standard input), or a prefix "
        "like hf://datasets/owner/name/.",
        metavar="SOURCE",
        show_default=False,
    ),
]
Probe = Annotated[bool, typer.Option(help="Ask the servers for the sizes that a list does not state.")]


@app.command(no_args_is_help=True)
@with_reading("")
def check(
    *, manifests: ManifestsArgument, base_url: BaseUrl = None, json: JsonOption = False, settings: "Settings"
) -> None:
    """Check a manifest, or several as one: name each fault with its line, or show what the manifest holds.

    The command downloads nothing. The exit code is 0 if there is no fault, and 2 otherwise. If only names of
    entries clash, it is 1: a download would bring all other files.

    Examples:

      cfetch manifest check manifest.json

      cfetch manifest check SHA256SUMS --base-url https://example.org/data/
    """
    from cfetch.app.manifest_check import check as checked
    from cfetch.base.errors import ManifestError

    try:
        overview = checked(
            *manifests, reader=make_reader(settings, manifests, base_url=base_url, prints_notes=False)
        )
    except ManifestError as error:
        if json:
            faults = [{"line": line, "message": message} for line, message, _ in error.problems]
            print_document({"schema": "cfetch.manifest/1", "faults": error.total, "first_faults": faults})
        raise
    if json:
        print_document(overview)
    else:
        _show_overview(overview)
    if overview.clashing:
        raise typer.Exit(1)


def _show_overview(overview: "Checked") -> None:
    import msgspec

    hosts = ", ".join(f"{host} ({files})" for host, files in list(overview.hosts.items())[:SHOWN_HOSTS])
    more = f" and {len(overview.hosts) - SHOWN_HOSTS} more" if len(overview.hosts) > SHOWN_HOSTS else ""
    shown = msgspec.structs.asdict(overview) | {"hosts": hosts + more}
    for name in ("schema", "notes", "first", "first_clashes", *(() if overview.clashing else ("clashing",))):
        del shown[name]
    rows = [("file", f"{file.path}  {file.url}") for file in overview.first]
    rows += [("clash", clash.message) for clash in overview.first_clashes]
    for name, value in (*shown.items(), *rows, *(("note", note) for note in overview.notes)):
        typer.echo(f"{name.replace('_', ' '):>14}  {'-' if value is None else value}")


@app.command(no_args_is_help=True)
@with_reading("nothing was written")
def convert(
    *,
    manifest: Manifest,
    to_format: ToFormat,
    base_url: BaseUrl = None,
    output: Output = None,
    settings: "Settings",
) -> None:
    """Convert a manifest to another format.

    The command names on stderr what the other format cannot express.

    Examples:

      cfetch manifest convert manifest.json --to-format aria2 -o list.txt

      cfetch manifest convert list.meta4 --to-format json | cfetch download - --to data/

      cfetch manifest convert manifest.json --to-format curl -o all.conf && curl --parallel --config all.conf
    """
    from cfetch.app.manifest_check import convert as converted

    reader = make_reader(settings, [manifest], base_url=base_url)
    lost = converted(manifest, to_format, output, reader)
    if lost:
        print_message(f"{to_format} has no place for some of it; left out: {'; '.join(lost)}")


@app.command(no_args_is_help=True)
@with_reading("nothing was written")
def build(
    *,
    source: Source,
    base_url: BaseUrl = None,
    probe: Probe = True,
    output: Output = None,
    settings: "Settings",
) -> None:
    """Build a manifest in JSON from a list of URLs, or from a directory.

    For a list, the command asks the servers for the sizes of the files. For a directory, it hashes the files
    (SHA-256) and writes URLs relative to the base URL. The exit code is 1 if a file of a list is not there.

    Examples:

      cfetch manifest build urls.txt -o manifest.json

      cfetch manifest build data/ --base-url https://example.org/data/ -o m.json
    """
    from cfetch.app.manifest_build import build_from_list, build_from_tree
    from cfetch.run.header_hosts import aim_repository_token, make_file_network
    from cfetch.run.manifest_reader import ManifestReader
    from cfetch.show.live.bar import progress_bar
    from cfetch.wire.network import make_network

    if source != "-" and os.path.isdir(source):
        with progress_bar("hashing") as advance:
            build_from_tree(Path(source), output, base_url=base_url, advance=advance, emit_line=print_message)
        return
    reader = ManifestReader(
        settings.reading,
        base_url,
        settings.allow_empty,
        make_network(aim_repository_token(settings, [source], os.environ).network, os.environ),
        emit_line=print_message,
    )
    with progress_bar("asking for sizes") as advance:
        failed = build_from_list(
            source,
            output,
            reader,
            probing=probe,
            file_network=lambda plan: make_file_network(settings, plan, os.environ),
            advance=advance,
        )
    if failed:
        raise typer.Exit(1)
