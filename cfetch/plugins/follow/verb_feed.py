"""``cfetch feed serve|split|check|status|explain``: publish a directory as a feed, and work on feeds."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.kinds import duration
from cfetch.cli.output import print_document, print_message, print_result
from cfetch.cli.verb_options import MAX_DELETE, JsonOption, parse_option, with_network

if TYPE_CHECKING:
    from cfetch.plugins.follow.lineage import Lineage
    from cfetch.wire.network import Network


app = typer.Typer(
    help="Publish a directory as a feed; check a server; split and explain ranges.",
    no_args_is_help=True,
)

RESCAN = duration(0.05, 86_400, "")
KEEP = duration(1, 100 * 365 * 86_400, "")


Source = Annotated[
    Path,
    typer.Argument(
        help="A directory, or a JSON Lines file to which rows are appended.",
        metavar="SOURCE",
        show_default=False,
    ),
]
Host = Annotated[
    str,
    typer.Option(
        help="Listen on this address. Every client that can reach it can read all files.", metavar="ADDRESS"
    ),
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.", metavar="PORT")
]
ServerName = Annotated[
    list[str] | None,
    typer.Option(
        help="Also answer requests for this host name, as behind a proxy; repeatable. Else a request must "
        "name an address or this machine, so that no web site reads the files through a name of its own.",
        metavar="NAME",
        show_default=False,
    ),
]
Rescan = Annotated[str, typer.Option(help="Look for changes this often.", metavar="DURATION")]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Look when the system tells of a change, and once a minute; not for network file systems, whose "
        "changes at other machines it does not tell.",
    ),
]
SplitEntries = Annotated[
    int | None,
    typer.Option(
        min=1, help="Split each range that has more entries than this.", metavar="N", show_default=False
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        help="Forget entries that were replaced or deleted longer ago than this (default: keep all).",
        metavar="DURATION",
        show_default=False,
    ),
]
MaxDelete = Annotated[
    str,
    typer.Option(
        help="If more files are missing at once, or more per cent of them, the feed deletes none of them: "
        "perhaps a disk is not mounted. A share allows 10 in any case; 100% also takes another directory.",
        metavar="N|P%",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        help="Keep the feed's own files in this directory (default: .cfetch-feed in or beside SOURCE).",
        metavar="DIR",
        show_default=False,
    ),
]


@app.command(no_args_is_help=True)
def serve(
    *,
    source: Source,
    host: Host = "127.0.0.1",
    port: Port = 0,
    server_name: ServerName = None,
    rescan: Rescan = "2s",
    watch: Watch = False,
    split_entries: SplitEntries = None,
    keep: Keep = None,
    max_delete: MaxDelete = "10%",
    state: State = None,
) -> None:
    """Publish a directory tree as a feed over HTTP, until SIGTERM or Ctrl-C.

    Each file becomes an entry with its size and SHA-256, and each removed file becomes a delete. The server
    also serves the files. It prints one JSON line with the feed's URL on stdout as soon as the feed can be
    read. It names on stderr what it leaves out, such as symlinks. It publishes a file once nothing has
    written to it for one second.

    If SOURCE is a JSON Lines file, each line becomes an entry. A line has the keys of a manifest's entry, of
    which path is required; a line with "op": "delete" says that the path was deleted.

    Examples:

      cfetch feed serve data/

      cfetch feed serve data/ --port 8080 --split-entries 100000

      cfetch feed serve changes.jsonl --state /var/lib/feed --keep 720h
    """
    from cfetch.base.clock import SystemClock
    from cfetch.plugins.follow.server.process import ServeOptions
    from cfetch.plugins.follow.server.process import serve as run

    def ready(url: str) -> None:
        print_document({"url": url})
        sys.stdout.flush()

    options = ServeOptions(
        state=state,
        host=host,
        port=port,
        rescan_s=parse_option("rescan", rescan, RESCAN),
        watches=watch,
        split_entries=split_entries,
        keep_s=None if keep is None else parse_option("keep", keep, KEEP),
        max_delete=parse_option("max-delete", max_delete, MAX_DELETE),
        names=tuple(server_name or ()),
    )
    run(source, options, clock=SystemClock(), ready=ready, emit_line=print_message)


FeedUrl = Annotated[str, typer.Argument(help="The URL of the feed.", metavar="URL", show_default=False)]
SplitRange = Annotated[
    str | None,
    typer.Option(
        "--range",
        help="Split this range (default: the one with the most entries).",
        metavar="RANGE",
        show_default=False,
    ),
]


@app.command(no_args_is_help=True)
@with_network
def split(*, url: FeedUrl, of: SplitRange = None, json: JsonOption = False, network: "Network") -> None:
    """Split a range of a feed that `cfetch feed serve` publishes on this machine.

    The followers of the feed find the two new ranges by themselves; nothing has to be restarted.

    Examples:

      cfetch feed split http://127.0.0.1:8080/

      cfetch feed split http://127.0.0.1:8080/ --range 3
    """
    from cfetch.plugins.follow.backends.http import split_range

    parent, children = split_range(url, of, network=network)
    document = {"schema": "cfetch.feed-split/1", "range": parent, "children": children}
    print_result(document, [f"range {parent} was split into {' and '.join(children)}"], json=json)


@app.command(no_args_is_help=True)
@with_network
def check(*, url: FeedUrl, json: JsonOption = False, network: "Network") -> None:
    """Check whether a feed server keeps the rules of docs/feed-protocol.md. It only reads.

    Each rule is right, wrong (with the reason), or not checked, as the feed has no change, no closed range or
    no mark. The exit code is 1 if a rule is broken. The feed should be at rest meanwhile.

    Examples:

      cfetch feed check https://example.org/feed
    """
    import asyncio

    from cfetch.base.clock import SystemClock
    from cfetch.base.secret import printable
    from cfetch.plugins.follow.server.conformance import Finding, check_feed
    from cfetch.show.format import plural

    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if not json:
            why = f": {printable(finding.why, 300)}" if finding.why else ""
            typer.echo(f"{finding.result:11}  {finding.rule}{why}")

    wrong = asyncio.run(check_feed(url, report, network=network, clock=SystemClock()))
    if json:
        print_document({"schema": "cfetch.feed-check/1", "findings": findings})
    else:
        right = sum(finding.result == "right" for finding in findings)
        typer.echo(f"{plural(right, 'rule')} kept" + (f", {wrong} broken" if wrong else ""))
    if wrong:
        raise typer.Exit(1)


FollowedFeed = Annotated[
    str, typer.Argument(help="The feed, as `cfetch follow` takes it.", metavar="FEED", show_default=False)
]


@app.command(no_args_is_help=True)
@with_network
def status(*, feed: FollowedFeed, json: JsonOption = False, network: "Network") -> None:
    """List the live ranges of a feed: the share of the keys, the first LSN, and how many ranges came before.

    How far a follower is behind the feed says `cfetch follow FEED --to DIR --status`.

    Examples:

      cfetch feed status http://127.0.0.1:8080/
    """
    from cfetch.plugins.follow.explain import describe_feed

    described = describe_feed(_ask_lineage(feed, network))
    if json:
        print_document(described)
        return
    typer.echo(f"{described.feed}: {len(described.live)} live, {described.closed} closed")
    for live in described.live:
        shares = f"{live.share:.4%} of the keys, from LSN {live.first_lsn}"
        typer.echo(f"  range {live.range}: {shares}, ranges before it: {live.ancestors}")


def _ask_lineage(feed: str, network: "Network") -> "Lineage":
    import asyncio

    from cfetch.base.clock import SystemClock
    from cfetch.plugins.follow.backends.opening import open_feed
    from cfetch.plugins.follow.explain import ask_lineage

    async def ask() -> "Lineage":
        source = open_feed(feed, network=network, clock=SystemClock())
        try:
            return await ask_lineage(source, SystemClock())
        finally:
            await source.close()

    return asyncio.run(ask())


Lsn = Annotated[int, typer.Option(min=0, help="The LSN that the reader wants next.", metavar="N")]
ReadRange = Annotated[str, typer.Option("--range", help="The range that the reader reads.", metavar="RANGE")]
FollowerTo = Annotated[
    list[Path] | None,
    typer.Option(
        help="Read the checkpoint of a follower that writes here, and do not ask the feed.",
        metavar="DIR",
        show_default=False,
    ),
]
FollowerState = Annotated[
    Path | None, typer.Option(help="The --state of that follower.", metavar="DIR", show_default=False)
]


@app.command(no_args_is_help=True)
@with_network
def explain(
    *,
    feed: FollowedFeed,
    lsn: Lsn,
    of: ReadRange,
    to: FollowerTo = None,
    state: FollowerState = None,
    json: JsonOption = False,
    network: "Network",
) -> None:
    """Tell which range holds an LSN, which live range a reader asks for it, and why.

    A range that has split is closed: a reader asks the live ranges that came of it for its entries.

    Examples:

      cfetch feed explain http://127.0.0.1:8080/ --range 3 --lsn 4999

      cfetch feed explain http://127.0.0.1:8080/ --range 3 --lsn 4999 --to mirror/
    """
    from cfetch.base.errors import UsageError
    from cfetch.plugins.follow import explain as use_case
    from cfetch.plugins.follow.checkpoint import read_checkpoint
    from cfetch.plugins.follow.journal import locate_checkpoint
    from cfetch.storage.files import STATE_NAME

    if to or state is not None:
        roots = [directory.absolute() for directory in to or [Path()]]
        path = locate_checkpoint(state or roots[0] / STATE_NAME, feed, roots)
        checkpoint = read_checkpoint(path)
        if checkpoint is None:
            raise UsageError(f"there is no checkpoint {path}; follow the feed there first, or leave out --to")
        lineage = checkpoint.lineage
    else:
        lineage = _ask_lineage(feed, network)
    explained = use_case.explain(lineage, of, lsn)
    print_result(explained, explained.why, json=json)
