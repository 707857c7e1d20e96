"""``cfetch follow``: keep a directory in step with a feed."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.cli.download import print_document
from cfetch.cli.options import seconds, with_follow
from cfetch.config.kinds import count_or_share, duration
from cfetch.config.layers import Resolved
from cfetch.config.settings import Settings
from cfetch.errors import Held, Interrupted

if TYPE_CHECKING:
    from cfetch.events import Listener


MAX_DELETE = count_or_share(0, 1_000_000_000, "")
POLL = duration(0.1, 86_400, "")


class Versions(StrEnum):
    """Which versions of a file are applied."""

    all = "all"
    latest = "latest"


Feed = Annotated[
    str,
    typer.Argument(
        help="A feed's URL, a directory of segments, or kinesis://STREAM.", metavar="FEED", show_default=False
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Stop when nothing is new, instead of waiting for more.")]
Delete = Annotated[
    bool, typer.Option("--delete", help="Delete the files that the source has deleted (default: keep them).")
]
MaxDelete = Annotated[
    str,
    typer.Option(
        help="Stop before more files, or more per cent of those in place, are deleted within an hour: "
        "perhaps the source is not whole. A share allows 10 in any case.",
        metavar="N|P%",
    ),
]
Which = Annotated[Versions, typer.Option(help="Download every version in order, or only the latest.")]
Poll = Annotated[str, typer.Option(help="Wait this long before asking for news again.", metavar="DURATION")]
Cache = Annotated[
    bool,
    typer.Option(
        "--route-cache/--no-route-cache",
        help="Remember how ranges have split. Without it each read asks the feed: same files, more requests.",
    ),
]


@with_follow
def follow(
    *,
    feed: Feed,
    once: Once = False,
    delete: Delete = False,
    max_delete: MaxDelete = "10%",
    versions: Which = Versions.latest,
    poll: Poll = "5s",
    route_cache: Cache = True,
    resolved: Resolved,
) -> None:
    """Keep a directory in step with a feed, which is a source that grows and whose ranges split and merge.

    The command downloads each new entry of the feed and waits for more. When it starts again, it continues
    where it stopped, even if ranges have split in the meantime; it stops with an error if it cannot. It skips
    no entry, and it does not fetch published files again. Ctrl-C stops it safely.

    Examples:

      cfetch follow https://example.org/feed --to mirror/

      cfetch follow https://example.org/feed --to mirror/ --once --delete --json

      cfetch follow kinesis://my-stream --to mirror/ --versions all
    """
    from cfetch.app.follow import FollowOptions
    from cfetch.app.follow import follow as use_case
    from cfetch.report.plan_view import held_document

    settings = resolved.settings
    options = FollowOptions(
        versions=versions.value,
        delete=delete,
        max_delete=seconds("max-delete", max_delete, MAX_DELETE),
        once=once,
        poll_s=seconds("poll", poll, POLL),
        route_cache=route_cache,
    )
    say = _printer(settings)
    for note in resolved.notes:
        say(f"note: {note}")
    try:
        followed = use_case(
            feed, settings, options, env=os.environ, dashboard=_dashboard(settings), emit_line=say
        )
    except Held as held:
        if settings.json:
            print_document(held_document(held))
        raise
    if settings.json:
        print_document(followed.summary)
    if followed.error is not None and not isinstance(followed.error, Interrupted):
        raise followed.error
    if followed.summary.exit_code:
        raise typer.Exit(followed.summary.exit_code)


def _dashboard(settings: Settings) -> "Callable[[], AbstractContextManager[Listener]]":
    from cfetch.dashboard.open import open_dashboard

    return lambda: open_dashboard(
        quiet=settings.quiet, log_format=settings.log_format, no_color=not settings.color
    )


def _printer(settings: Settings) -> Callable[[str], None]:
    def say(line: str) -> None:
        if not settings.quiet:
            print(line, file=sys.stderr, flush=True)

    return say
