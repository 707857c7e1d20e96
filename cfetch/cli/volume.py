"""``cfetch volume``: which files are on which volume, pauses, and batches that move between volumes."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.settings import Settings
from cfetch.cli.output import print_message, print_result
from cfetch.cli.verb_options import JsonOption, with_moves, with_still_volumes, with_volumes

if TYPE_CHECKING:
    from cfetch.app.volume_moves import PreparedMoves

app = typer.Typer(
    help="List which files are on which volume; pause volumes, empty them, or balance them.",
    no_args_is_help=True,
)


@app.command(name="list")
@with_volumes
def list_(*, json: JsonOption = False, settings: Settings) -> None:
    """List each volume: its state, its batches, their files and bytes, its free space.

    The states are mounted, paused, full, read-only and missing. Volumes that earlier runs have used together
    with those of --to are listed too. The command reads the records of the batches, and looks at each file.

    Examples:

      cfetch volume list --to /data1

      cfetch volume list --to /data1 --json | jq '.volumes[] | select(.state == "missing")'
    """
    from cfetch.app.volume_set import list_volumes
    from cfetch.show.live.bar import progress_bar
    from cfetch.show.volume_view import volume_lines

    with progress_bar("looking at files") as advance:
        volumes = list_volumes(settings, advance)
    print_result(volumes, volume_lines(volumes), json=json)


@app.command(no_args_is_help=True)
@with_volumes
def where(
    *,
    paths: Annotated[
        list[str],
        typer.Argument(
            help="A file as the manifest names it, or its place on a volume; or several.",
            metavar="PATH...",
            show_default=False,
        ),
    ],
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """Say which volume and which batch has a file.

    The exit code is 1 if a file is on no volume that can be read; stderr names it.

    Examples:

      cfetch volume where shards/0017.tar --to /data1

      cfetch volume where shards/0017.tar shards/0018.tar --to /data1 --json | jq -r '.holders[].volume'
    """
    from cfetch.app.volume_set import find_files
    from cfetch.base.secret import printable
    from cfetch.show.volume_view import where_lines

    whereabouts = find_files(settings, paths)
    print_result(whereabouts, where_lines(whereabouts), json=json)
    for path in whereabouts.nowhere:
        print_message(f"{printable(path, 5000)} is on no volume")
    if whereabouts.nowhere:
        raise typer.Exit(1)


DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say which batches would move; move nothing.")]


@app.command(no_args_is_help=True)
@with_moves
def drain(
    *,
    leaving: Annotated[
        list[str],
        typer.Option(
            "--from", help="The volume to empty; repeat it for several.", metavar="DIR", show_default=False
        ),
    ],
    dry_run: DryRun = False,
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """Move all batches of a volume to the other ones: --from names it, each --to one of the others.

    --placement chooses the volume for each batch, as in a download. A batch is copied, compared, and then
    removed from the volume; it is whole on one volume at every moment, also if the command is killed. The
    same command goes on. The exit code is 1 if a batch stays; the output says which, and why.

    Examples:

      cfetch volume drain --from /data1 --to /data2 --to /data3

      cfetch volume drain --from /data1 --to /data2 --dry-run
    """
    from cfetch.app.volume_moves import prepare_drain

    with prepare_drain(settings, leaving, pause=time.sleep, note=print_message) as prepared:
        _move(prepared, dry_run=dry_run, json=json)


@app.command(no_args_is_help=True)
@with_moves
def rebalance(
    *,
    within: Annotated[
        float,
        typer.Option(
            help="How far a volume may be off its share, of the mean bytes of all.",
            min=0.0,
            max=1.0,
            metavar="X",
        ),
    ] = 0.05,
    dry_run: DryRun = False,
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """Move batches until the volumes are level; as few bytes as that needs.

    Volumes of one size are level if their batches have the same bytes; a larger volume has more. What moves
    beyond the least bytes possible is at most one batch for each volume. Moves are as safe as those of
    `cfetch volume drain`.

    Examples:

      cfetch volume rebalance --to /data1 --to /data2 --to /data3

      cfetch volume rebalance --to /data1 --to /data2 --within 0.01 --dry-run
    """
    from cfetch.app.volume_moves import prepare_rebalance

    with prepare_rebalance(settings, within, pause=time.sleep, note=print_message) as prepared:
        _move(prepared, dry_run=dry_run, json=json)


Paused = Annotated[
    list[str],
    typer.Argument(
        help="The directory that is the volume; or several.", metavar="DIR...", show_default=False
    ),
]


@app.command(no_args_is_help=True)
def pause(*, volumes: Paused, json: JsonOption = False) -> None:
    """Keep new batches from a volume; its files count as in place.

    The mark is on the volume, so it holds for every later run, until `cfetch volume resume`. A run that is
    under way goes on. A batch of which files are missing goes to another volume.

    Examples:

      cfetch volume pause /data3
    """
    _set_paused(volumes, paused=True, json=json)


@app.command(no_args_is_help=True)
def resume(*, volumes: Paused, json: JsonOption = False) -> None:
    """Let a volume take batches again, after `cfetch volume pause`.

    Examples:

      cfetch volume resume /data3
    """
    _set_paused(volumes, paused=False, json=json)


def _set_paused(volumes: list[str], *, paused: bool, json: bool) -> None:
    from cfetch.app.volume_pauses import set_paused
    from cfetch.show.volume_view import pause_lines

    pauses = set_paused(volumes, paused=paused)
    print_result(pauses, pause_lines(pauses), json=json)


@app.command(no_args_is_help=True)
@with_still_volumes
def rescan(*, json: JsonOption = False, settings: Settings) -> None:
    """Count the files on the volumes again, after some were changed by hand.

    A download places batches by the numbers in the records of earlier batches. The command looks at each file
    that they name, and corrects the numbers. It also counts the files that no record names. It moves and
    removes no file.

    Examples:

      cfetch volume rescan --to /data1 --to /data2
    """
    from cfetch.app.volume_counts import rescan as count_again
    from cfetch.show.live.bar import progress_bar
    from cfetch.show.volume_view import count_lines

    with progress_bar("looking at files") as advance:
        recount = count_again(settings, pause=time.sleep, note=print_message, advance=advance)
    print_result(recount, count_lines(recount), json=json)


def _move(prepared: "PreparedMoves", *, dry_run: bool, json: bool) -> None:
    from cfetch.show.live.bar import progress_bar
    from cfetch.show.volume_view import move_lines

    if dry_run:
        moves = prepared.preview()
    else:
        with progress_bar("moving", files=prepared.files, size_bytes=prepared.bytes) as advance:
            moves = prepared.carry_out(advance)
    print_result(moves, move_lines(moves), json=json)
    if moves.stayed:
        raise typer.Exit(1)
