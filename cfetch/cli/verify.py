"""``cfetch verify``: whether a tree is what its manifest says."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.options import JsonOption, with_network

if TYPE_CHECKING:
    from cfetch.transfer.network import Network
    from cfetch.verify import Difference, Verification

__all__ = ["verify"]


@with_network
def verify(
    *,
    manifest: Annotated[
        str,
        typer.Argument(
            help="A path, an http(s) URL, or - for standard input.", metavar="MANIFEST", show_default=False
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="The directory to look at.", metavar="DIR")] = Path(),
    quick: Annotated[bool, typer.Option("--quick", help="Compare sizes only; hash nothing.")] = False,
    json: JsonOption = False,
    network: "Network",
) -> None:
    """Hash a directory again and compare it with its manifest. Nothing is written.

    Named are files that are missing, have another size or hash, are no regular files, cannot be read, or that
    the manifest does not name. The exit code is 0 if there are none, and 1 otherwise.

    Examples:

      cfetch verify manifest.json --to data/

      cfetch verify SHA256SUMS --to data/ --quick

      cfetch verify manifest.json --to data/ --json | jq .found
    """
    from cfetch.dashboard.bar import progress_bar
    from cfetch.dashboard.open import reading_lines
    from cfetch.verify import verification

    told = reading_lines(manifest.partition("?")[0])
    with verification(manifest, to, quick=quick, progress=told, network=network) as comparison:
        files, size_bytes = comparison.files, comparison.total_bytes
        with progress_bar("verifying", files=files, size_bytes=size_bytes) as advance:
            differences = comparison.differences(advance)
            (_print_json if json else _print_lines)(comparison, differences)
    if comparison.found:
        raise typer.Exit(1)


def _print_json(comparison: "Verification", differences: Iterator["Difference"]) -> None:
    """One document, written as it is found: a million differences are not kept in memory."""
    import msgspec

    sys.stdout.write('{"schema":"cfetch.verification/1","differences":[')
    for position, difference in enumerate(differences):
        sys.stdout.write(("," if position else "") + "\n" + msgspec.json.encode(difference).decode())
    rest = {
        "files": comparison.files,
        "quick": comparison.quick,
        "good": comparison.good,
        "found": comparison.found,
    }
    sys.stdout.write("],\n" + msgspec.json.encode(rest).decode()[1:] + "\n")


def _print_lines(comparison: "Verification", differences: Iterator["Difference"]) -> None:
    from cfetch.secret import printable

    for one in differences:
        print(f"{one.kind}: {printable(one.path, len(one.path) + 1)}: {one.message}")
    good = ", ".join(
        f"{number:,} there but not checked, as the manifest has neither size nor hash"
        if by == "none"
        else f"{number:,} by {by}"
        for by, number in comparison.good.items()
    )
    bad = ", ".join(f"{number:,} {kind}" for kind, number in comparison.found.items())
    print(f"good: {good or 'none'}; found: {bad or 'nothing wrong'}", file=sys.stderr)
