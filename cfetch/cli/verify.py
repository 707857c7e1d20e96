"""``cfetch verify``: check that a tree has the files that its manifest states."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.errors import ConfigError
from cfetch.base.secret import encode_json, printable
from cfetch.cli.output import print_message
from cfetch.cli.verb_options import JsonOption, ManifestsArgument, make_reader, with_reading

if TYPE_CHECKING:
    from cfetch.app.verify import Difference, Verification
    from cfetch.base.config.settings import Settings

SHOWN = 20  # lines of each kind that a person reads in a terminal

Roots = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        help="The directory or store to verify; repeat it if the files were shared out (default: .).",
        metavar="DIR|URL",
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Compare sizes only; do not hash.")]
NeedHashes = Annotated[
    bool, typer.Option("--need-hashes", help="Fail if the manifest has no hash of a file that is there.")
]


@with_reading("nothing was compared")
def verify(
    *,
    manifests: ManifestsArgument,
    to: Roots = None,
    quick: Quick = False,
    need_hashes: NeedHashes = False,
    json: JsonOption = False,
    settings: "Settings",
) -> None:
    """Hash files and compare them with the manifest. Nothing is written.

    The command names each file that is missing, has another size or hash, is no regular file, cannot be read,
    or is not in the manifest, and each entry whose name clashes with another entry's; in a terminal, the
    first twenty of each kind. The exit code is 0 if there is nothing of that kind, and 1 otherwise.

    A file that the manifest has no hash of is compared by its size. If the manifest has no size either, the
    file is counted as present, but not checked. Neither is wrong, but with --need-hashes the exit code is 1.

    If there are several directories, each file must be in one of them. A file that is in two of them is
    named, but it does not count as wrong. If one of them is not there, nothing is compared: leave it out to
    compare the others.

    All objects of a store (s3://, gs://, az://) are read, to hash them. With --quick no object is read: their
    sizes come from the store's listing.

    Examples:

      cfetch verify manifest.json --to data/

      cfetch verify SHA256SUMS --to data/ --quick

      cfetch verify manifest.json --to /data1 --to /data2

      cfetch verify manifest.json --to s3://bucket/prefix --quick

      cfetch verify manifest.json --to data/ --need-hashes

      cfetch verify manifest.json --to data/ --json | jq .found
    """
    from cfetch.app.verify import open_verification
    from cfetch.show.format import plural

    if quick and need_hashes:
        raise ConfigError("--quick compares no hashes, and --need-hashes asks for them; leave one out")

    with open_verification(
        manifests[0],
        _find_roots(to or ["."]),
        more=manifests[1:],
        quick=quick,
        reader=make_reader(settings, manifests),
    ) as comparison:
        print_verification(comparison, json=json)
    lacking = comparison.without_hash if need_hashes else 0
    if lacking and not json:
        print_message(
            f"--need-hashes: the manifest has no hash of {plural(lacking, 'file')} found there; state "
            "hashes in it, for example those of the publisher's checksum list"
        )
    if comparison.found or lacking:
        raise typer.Exit(1)


def print_verification(comparison: "Verification", *, json: bool) -> None:
    """Compare, and print what is found meanwhile."""
    from cfetch.show.live.bar import progress_bar

    with progress_bar("verifying", files=comparison.files, size_bytes=comparison.total_bytes) as advance:
        (_print_json if json else _print_lines)(comparison, comparison.differences(advance))


def _find_roots(to: list[str]) -> tuple[str | Path, ...]:
    from cfetch.base.config.settings import KINDS
    from cfetch.run.directories import find_roots

    try:
        KINDS["to"].check(tuple(to))
    except ValueError as error:
        raise ConfigError(f"to {error}") from None
    return find_roots(to)


def _print_json(comparison: "Verification", differences: Iterator["Difference"]) -> None:
    """Write one document while differences are found, so that a million of them are not kept in memory."""
    sys.stdout.write('{"schema":"cfetch.verification/1","differences":[')
    for position, difference in enumerate(differences):
        sys.stdout.write(("," if position else "") + "\n" + encode_json(difference))
    sys.stdout.write('],"duplicates":[')
    for position, duplicate in enumerate(comparison.duplicates):
        sys.stdout.write(("," if position else "") + "\n" + encode_json(duplicate))
    rest = {
        "files": comparison.files,
        "quick": comparison.quick,
        "good": comparison.good,
        "without_hash": comparison.without_hash,
        "found": comparison.found,
    }
    sys.stdout.write("],\n" + encode_json(rest)[1:] + "\n")


def _list_lines(comparison: "Verification", differences: Iterator["Difference"]) -> Iterator[tuple[str, str]]:
    """The kind and the line of each difference, and then of each file that stands on several volumes."""
    for difference in differences:
        where = "" if difference.volume is None else f" (on {printable(difference.volume, 1000)})"
        path = printable(difference.path, len(difference.path) + 1)
        yield difference.kind, f"{difference.kind}: {path}: {difference.message}{where}"
    for duplicate in comparison.duplicates:
        where = ", ".join(printable(volume, 1000) for volume in duplicate.volumes)
        path = printable(duplicate.path, len(duplicate.path) + 1)
        yield "duplicate", f"duplicate: {path}: it stands on {where}"


def _print_lines(comparison: "Verification", differences: Iterator["Difference"]) -> None:
    is_read = sys.stdout.isatty()  # programs get all lines
    kinds: Counter[str] = Counter()
    for kind, line in _list_lines(comparison, differences):
        kinds[kind] += 1
        if not is_read or kinds[kind] <= SHOWN:
            print(line)
    if left := [
        f"{number - SHOWN:,} more {kind}" for kind, number in kinds.items() if is_read and number > SHOWN
    ]:
        print(f"and {', '.join(left)}; --json, or a pipe, names all")
    proved = ", ".join(f"{number:,} by {by}" for by, number in comparison.good.items() if by != "none")
    unchecked, nothing = "", "nothing wrong"
    if number := comparison.good.get("none", 0):
        unknown = "no size, and --quick reads no bytes" if comparison.quick else "neither size nor hash"
        unchecked = f"; {number:,} present, but not checked, as the manifest has {unknown}"
        checked = comparison.good.total() - number
        nothing_to_check = "nothing to check; give a list with sizes or hashes, such as SHA256SUMS"
        nothing = f"nothing wrong in the {checked:,} that could be checked" if checked else nothing_to_check
    bad = ", ".join(f"{number:,} {kind}" for kind, number in comparison.found.items())
    twice = f"; {kinds['duplicate']:,} on several volumes" if kinds["duplicate"] else ""
    print(f"good: {proved or 'none'}{unchecked}; found: {bad or nothing}{twice}", file=sys.stderr)
