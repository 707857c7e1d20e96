"""Explains the route of a read, for ``cfetch feed explain``, from a feed or a follower's checkpoint."""

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.follow.cache import RouteCache, ask_first_listing
from cfetch.plugins.follow.lineage import Lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position
from cfetch.plugins.follow.route import Token, explain_token, route, settle_token
from cfetch.plugins.follow.source import FeedSource


class ExplainedRoute(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch.route/1``: for each piece of the range's keys, which range owns the LSN and which is asked."""

    class Read(msgspec.Struct, frozen=True, kw_only=True):
        range: str
        next_lsn: str
        via: str
        others: list[str]
        archival: bool
        keys: tuple[str, str]

    schema: str = "cfetch.route/1"
    feed: str
    generation: str
    reads: list[Read]
    why: list[str]


class FeedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch.feed-status/1``: the live ranges of a feed, and how many have closed."""

    class Live(msgspec.Struct, frozen=True, kw_only=True):
        range: str
        first_lsn: str
        share: float
        ancestors: int

    schema: str = "cfetch.feed-status/1"
    feed: str
    generation: str
    live: list[Live]
    closed: int


def describe_feed(lineage: Lineage) -> FeedStatus:
    """Describe the ranges of a feed; ``share`` is that of all keys."""
    live = [
        FeedStatus.Live(
            range=leaf.id,
            first_lsn=str(lineage.first_lsn(leaf.id)),
            share=(leaf.keys.high - leaf.keys.low) / ALL_KEYS.high,
            ancestors=len(leaf.ancestors),
        )
        for leaf in lineage.live
    ]
    return FeedStatus(
        feed=f"{lineage.feed.account} {lineage.feed.id}",
        generation=lineage.generation,
        live=live,
        closed=len(lineage.closed),
    )


async def ask_lineage(source: FeedSource, clock: Clock) -> Lineage:
    """Ask the feed for its lineage as it is now. Raises SourceError, FeedError."""
    return await RouteCache(clock).begin(source, await ask_first_listing(source))


def explain(lineage: Lineage, name: str, next_lsn: int) -> ExplainedRoute:
    """Explain where a reader of range ``name`` goes for ``next_lsn``. Raises UsageError, FeedError."""
    leaf, closed = lineage.leaf(name), lineage.closed.get(name)
    if leaf is not None:
        keys: KeyRange = leaf.keys
    elif closed is not None:
        keys = closed.keys
    else:
        known = ", ".join(printable(leaf.id) for leaf in lineage.live[:20])
        raise UsageError(f"there is no range {printable(name)} in the feed; its live ranges are {known}")
    token = Token(keys, Position(name, next_lsn))
    reads = []
    for piece in settle_token(lineage, token):
        way = route(lineage, piece)
        read = ExplainedRoute.Read(
            range=way.position.range,
            next_lsn=str(way.position.next_lsn),
            via=way.via,
            others=list(way.others),
            archival=way.is_archival,
            keys=(f"{way.keys.low:032x}", f"{way.keys.high:032x}"),
        )
        reads.append(read)
    return ExplainedRoute(
        feed=f"{lineage.feed.account} {lineage.feed.id}",
        generation=lineage.generation,
        reads=reads,
        why=explain_token(lineage, token),
    )
