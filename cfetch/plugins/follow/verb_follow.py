"""``cfetch follow``: keep a directory in step with a feed."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.kinds import duration
from cfetch.base.config.layers import Resolved
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Interrupted
from cfetch.base.secret import printable
from cfetch.cli.download import serving
from cfetch.cli.output import document_if_held, print_document, print_message, print_result, progress_printer
from cfetch.cli.verb_options import MAX_DELETE, parse_option, with_follow

if TYPE_CHECKING:
    from cfetch.base.config.path_filter import PathFilter
    from cfetch.base.events import Listener
    from cfetch.plugins.follow.use_cases.follow_options import FollowOptions


POLL = duration(0.1, 86_400, "")


class Versions(StrEnum):
    """Which versions of a file are applied."""

    all = "all"
    latest = "latest"


Feed = Annotated[
    str,
    typer.Argument(
        help="A feed's URL, a directory of segments, kinesis://STREAM, or KIND+URL of another source.",
        metavar="FEED",
        show_default=False,
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
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="On the first run, skip what the feed has already, and take only what comes later, or what "
        "comes after a time (UTC unless it states its zone; for kinesis:// and cosmos+https://). Default: "
        "begin with the oldest change that the feed keeps.",
        metavar="now|TIME",
        show_default=False,
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
Resync = Annotated[
    bool,
    typer.Option(
        "--resync",
        help="Compare all files here with the feed first: fetch those that differ, and with --delete delete "
        "those that it lacks.",
    ),
]
Adopt = Annotated[
    bool,
    typer.Option(
        "--adopt",
        help="First take all files of the destination for files of the feed: they may be replaced, and with "
        "--delete deleted. Otherwise only the files that this follower has put there.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Compare the files here with the feed, name the differences and exit; nothing is changed.",
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        help="Take only paths that match, as 2026/* or *.parquet (* is slashes too); repeat it for more.",
        metavar="GLOB",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(help="Take no path that matches; what is here already stays.", metavar="GLOB"),
]
Status = Annotated[
    bool,
    typer.Option(
        "--status",
        help="Print how far this directory is behind the feed, what is waiting, and the last "
        "error; it may be running.",
    ),
]
Consistent = Annotated[
    Path | None,
    typer.Option(
        help="Whenever the files match the feed at one moment, publish them as DIR/current: a symlink to a "
        "directory of hard links, replaced in one step. DIR is on the file system of --to, and not in it.",
        metavar="DIR",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        help="A host besides the feed's own at which its files may lie, and which gets the headers that the "
        "feed states; repeat it for more, * is all hosts.",
        metavar="HOST",
    ),
]


@with_follow
def follow(
    *,
    feed: Feed,
    once: Once = False,
    delete: Delete = False,
    max_delete: MaxDelete = "10%",
    begin: From = None,
    versions: Which = Versions.latest,
    poll: Poll = "5s",
    route_cache: Cache = True,
    allow_host: AllowHost = None,
    include: Include = None,
    exclude: Exclude = None,
    consistent: Consistent = None,
    resync: Resync = False,
    adopt: Adopt = False,
    verify: Verify = False,
    status: Status = False,
    resolved: Resolved,
) -> None:
    """Keep a directory in step with a feed: a source that grows and whose ranges split and merge.

    The command downloads each new entry of the feed and waits for more. When it starts again, it continues
    where it stopped, even if ranges have split in the meantime; it stops with an error if it cannot. It skips
    no entry, and it does not fetch published files again. Ctrl-C stops it safely.

    Examples:

      cfetch follow https://example.org/feed --to mirror/

      cfetch follow https://example.org/feed --to mirror/ --once --delete --json

      cfetch follow kinesis://my-stream --to mirror/ --versions all

      cfetch follow delta+s3://lake/events --to events/ --delete

      cfetch follow https://example.org/feed --to mirror/ --resync --delete
    """
    from cfetch.base.config.path_filter import PathFilter
    from cfetch.plugins.follow.use_cases.follow_options import FollowOptions

    settings = resolved.settings
    options = FollowOptions(
        versions=versions.value,
        delete=delete,
        max_delete=parse_option("max-delete", max_delete, MAX_DELETE),
        once=once,
        poll_s=parse_option("poll", poll, POLL),
        route_cache=route_cache,
        allow_hosts=tuple(allow_host or ()),
        resync=resync,
        paths=PathFilter(tuple(include or ()), tuple(exclude or ())),
        consistent=consistent,
        adopt=adopt,
        from_now=begin == "now",
        begin_s=None if begin in (None, "now") else _parse_time(begin),
    )
    if resync + verify + status > 1:
        raise ConfigError("--resync, --verify and --status are three commands; give one of them")
    if verify:
        _verify(feed, settings, options.paths)
    elif status:
        _show_status(feed, settings)
    else:
        _keep_in_step(feed, resolved, options)


def _parse_time(text: str) -> float:
    """The seconds since 1970. Raises ConfigError: it is no time, or is still to come."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--from is {printable(text, 60)!r} but must be now, or a time as 2026-11-01 or 2026-11-01T06:00Z"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time > datetime.now(UTC):
        raise ConfigError(f"--from is {text}, which is still to come; give now, or a time before it")
    return time.timestamp()


def _keep_in_step(feed: str, resolved: Resolved, options: "FollowOptions") -> None:
    from cfetch.plugins.follow.use_cases.follow import follow as use_case
    from cfetch.plugins.monitors.telemetry import send_telemetry

    settings = resolved.settings
    print_line = progress_printer(quiet=settings.quiet)
    for note in resolved.notes:
        print_line(f"note: {note}")
    with document_if_held(json=settings.json), send_telemetry(os.environ), serving(settings) as served:
        dashboard = _dashboard(settings, served)
        followed = use_case(
            feed, settings, options, env=os.environ, dashboard=dashboard, emit_line=print_line
        )
    if settings.json:
        print_document(followed.summary)
    if followed.error is not None and not isinstance(followed.error, Interrupted):
        raise followed.error
    if followed.summary.exit_code:
        raise typer.Exit(followed.summary.exit_code)


def _verify(feed: str, settings: Settings, paths: "PathFilter") -> None:
    from cfetch.cli.verify import print_verification
    from cfetch.plugins.follow.use_cases.follow_check import open_feed_verification

    with open_feed_verification(feed, settings, paths, env=os.environ) as comparison:
        print_verification(comparison, json=settings.json)
    if comparison.found:
        print_message(
            "the same command with --resync instead of --verify repairs this; with --adopt too it also "
            "replaces files that were changed here"
        )
        raise typer.Exit(1)


def _show_status(feed: str, settings: Settings) -> None:
    from cfetch.plugins.follow.use_cases.follow_status import find_status
    from cfetch.plugins.follow.use_cases.follow_text import status_lines

    status = find_status(feed, settings, env=os.environ)
    print_result(status, status_lines(status), json=settings.json)


def _dashboard(settings: Settings, served: "Listener") -> "Callable[[], AbstractContextManager[Listener]]":
    """Opens a dashboard for each plan; ``served`` gets the events of all."""
    from cfetch.base.events import fan_out
    from cfetch.show.live.open import open_dashboard

    @contextmanager
    def open_both() -> "Iterator[Listener]":
        with open_dashboard(
            quiet=settings.quiet,
            progress=settings.progress_shown,
            no_color=not settings.color,
            explain=settings.explain,
            verbose=settings.verbose,
        ) as shown:
            yield fan_out(shown, served)

    return open_both
