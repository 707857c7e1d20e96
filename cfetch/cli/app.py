"""The command line: one file per verb, each options -> call -> render. Exit codes are decided here, once.

0 all entries done; 1 some failed; 2 usage, configuration or manifest; 3 local fault; 130 and 143 signals;
70 a bug in cfetch. Errors are one message on stderr, never a traceback.
"""

import os
import sys
import traceback
from typing import Annotated

import typer

from cfetch import __version__
from cfetch.errors import CfetchError

__all__ = ["app", "main"]

app = typer.Typer(
    name="cfetch",
    help="Download a very large set of files whole, verified and without stragglers.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cfetch {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Download a very large set of files whole, verified and without stragglers."""


def _verbs() -> None:
    from cfetch.cli.bench import bench
    from cfetch.cli.download import download
    from cfetch.cli.manifest import app as manifest
    from cfetch.cli.report import report
    from cfetch.cli.verify import verify

    app.add_typer(manifest, name="manifest")
    for verb in (download, bench, report, verify):
        app.command(rich_help_panel=None, no_args_is_help=verb is not bench)(verb)


def main() -> None:
    """Run the command line and leave with its exit code."""
    _verbs()
    try:
        app()
    except CfetchError as error:
        print(f"cfetch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of stdout has gone; nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as bug:  # noqa: BLE001 - the last line of defence; its text may hold a secret, so only places are shown
        _tell_places(bug)
        sys.exit(CfetchError.exit_code)


def _tell_places(bug: BaseException) -> None:
    if isinstance(bug, BaseExceptionGroup):
        for inner in bug.exceptions:
            _tell_places(inner)
        return
    print(f"cfetch: a bug in cfetch, {type(bug).__name__}, at:", file=sys.stderr)
    for frame in traceback.extract_tb(bug.__traceback__):
        print(f"  {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
