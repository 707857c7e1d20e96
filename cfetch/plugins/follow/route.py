"""The routing rule: where a reader's next entries are, and which live range to ask for them. Pure.

A reader keeps a *token* for each piece of its keys: a range, and the next LSN to read there. Three steps lead
from a token to a request:

1. ``narrow_token`` divides a token among the live ranges that have some of its keys, after a split.
2. ``settle_token`` moves a token from the end of a closed range to the ranges that follow it, and back to the
   ancestor that owns the LSN if a person has named a range that is too young.
3. ``route`` names the live range to ask: the token's own, or an heir that archives it.

The LSN decides, not the range that the reader came from. Only entries with the token's own keys count, as a
closed range had the keys of all its children.
"""

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from cfetch.base.errors import CheckpointExpired, FeedError, HostileFeed
from cfetch.plugins.follow.lineage import Lineage, show_range
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position


class Token(NamedTuple):
    """The progress of a reader for some of its keys: it reads their entries from ``position`` on.

    ``is_new``: nothing has been read yet, and reading begins with the oldest kept entry.
    """

    keys: KeyRange
    position: Position
    is_new: bool = False


class Route(NamedTuple):
    """Ask the live range ``via`` for ``position`` and ``keys``; ``others`` archive the same."""

    via: str
    position: Position
    keys: KeyRange
    others: tuple[str, ...]

    @property
    def is_archival(self) -> bool:
        """Whether the request is for an ancestor's entries; otherwise the range gives its own."""
        return self.via != self.position.range


def make_first_tokens(lineage: Lineage, keys: KeyRange) -> tuple[Token, ...]:
    """The tokens of a new reader: they are at the roots, or at the oldest known ranges."""
    return _cut_keys(lineage, keys, None, {}, is_new=True)


def narrow_token(lineage: Lineage, token: Token) -> tuple[Token, ...]:
    """The token's share for each live range that has some of its keys, all at the token's position.

    Raises:
        CheckpointExpired, HostileFeed: the lineage does not have the heirs of the token's range.
    """
    _check_known(lineage, token)
    return tuple(
        token._replace(keys=keys)
        for leaf in lineage.leaves(token.keys)
        if (keys := leaf.keys.intersect(token.keys))
    )


def settle_token(
    lineage: Lineage, token: Token, starts: Mapping[str, int] = MappingProxyType({})
) -> tuple[Token, ...]:
    """The token, moved to where there may be something to read.

    From the end of a closed range it moves on, perhaps to several ranges. If the LSN is before the range, it
    moves to the ancestor that owns the LSN. ``starts``: LSNs at which ranges are entered, instead of their
    first ones (``Checkpoint``).

    Raises:
        CheckpointExpired, HostileFeed: the lineage does not have the heirs of the token's range.
        FeedError: several ancestors own an LSN before the range.
    """
    keys, (name, next_lsn, _), is_new = token
    leaf = lineage.leaf(name)
    is_inside = leaf is not None and leaf.keys.low <= keys.low and keys.high <= leaf.keys.high
    if is_inside and (is_new or next_lsn >= lineage.first_lsn(name)):  # as nearly always
        return (token,)
    _check_known(lineage, token)
    closed = lineage.closed.get(name)
    if closed and next_lsn > closed.last:
        onward = _cut_keys(lineage, token.keys, name, starts, is_new=token.is_new)
        return tuple(piece for token in onward for piece in settle_token(lineage, token, starts))
    if not token.is_new and next_lsn < lineage.first_lsn(name):
        return (token._replace(position=Position(_find_owner(lineage, token), next_lsn)),)
    return (token,)


def route(lineage: Lineage, token: Token) -> Route:
    """Choose the live range to ask for a settled token: the last heir by key; the others are in reserve."""
    name = token.position.range
    position = Position(name, 0) if token.is_new else token.position
    if name not in lineage.closed:
        return Route(name, position, token.keys, ())
    heirs = [heir.id for heir in reversed(lineage.heirs(name))]
    return Route(heirs[0], position, token.keys, tuple(heirs[1:]))


def explain_token(lineage: Lineage, token: Token) -> list[str]:
    """Describe the way of a token in words, from its range to the live ones."""
    lines = []
    for piece in settle_token(lineage, token):
        name, next_lsn, _ = piece.position
        way = route(lineage, piece)
        closed = lineage.closed.get(name)
        if closed:
            holds = f"{show_range(name)} holds LSN {next_lsn} ({closed.first} to {closed.last})"
            lines.append(f"{holds}, archived by {', '.join((way.via, *way.others))}; {way.via} is asked")
        else:
            begins = f" (from {lineage.first_lsn(name)} on)"
            lines.append(f"{show_range(name)} holds LSN {next_lsn}{begins}, is live and is asked itself")
        lines[-1] = f"{lines[-1][0].upper()}{lines[-1][1:]}; keys {_show_keys(piece.keys)}"
        if closed:
            for leaf in lineage.leaves(piece.keys):
                rest = lineage.path(leaf, piece.keys)
                rest = rest[rest.index(name) + 1 :] if name in rest else rest
                keys = leaf.keys.intersect(piece.keys)
                lines.append(f"  then, for keys {_show_keys(keys or piece.keys)}: {', '.join(rest)}")
    return lines


def _show_keys(keys: KeyRange) -> str:
    """Show keys to a person, as hex digits without the zeros at their end."""
    low, high = (f"{key:032x}".rstrip("0") or "0" for key in keys)
    return f"{low} to {'the end' if keys.high == ALL_KEYS.high else high}"


def _check_known(lineage: Lineage, token: Token) -> None:
    name, next_lsn, _ = token.position
    closed = lineage.closed.get(name)
    if closed and next_lsn > closed.last + 1:
        raise HostileFeed(
            f"the feed forks: {show_range(name)} ended at LSN {closed.last}, but was read to {next_lsn - 1}"
        )
    heirs = {heir.id for heir in lineage.heirs(name)}
    if not heirs:
        raise CheckpointExpired(
            f"the feed does not know {show_range(name)} any more, nor what came of it: what it had from LSN "
            f"{next_lsn} on is lost"
        )
    stranger = next((leaf.id for leaf in lineage.leaves(token.keys) if leaf.id not in heirs), None)
    if stranger is not None:
        raise HostileFeed(f"{show_range(stranger)} has keys of {show_range(name)}, but is not its child")


def _cut_keys(
    lineage: Lineage, keys: KeyRange, after: str | None, starts: Mapping[str, int], *, is_new: bool
) -> tuple[Token, ...]:
    """Cut ``keys`` into tokens at each key's next range: ``after`` a closed range, or the first of all."""
    tokens: list[Token] = []
    beyond = lineage.rank(after) if after is not None else (-1.0, -1.0, "")
    for leaf in lineage.leaves(keys):
        share = leaf.keys.intersect(keys)
        assert share
        edges = {share.low, share.high}
        for name in lineage.path(leaf, share)[:-1]:
            if lineage.rank(name) > beyond:
                edges.update(edge for edge in lineage.closed[name].keys if share.holds(edge))
        cuts = sorted(edges)
        for low, high in pairwise(cuts):
            piece = KeyRange(low, high)
            name = next(ancestor for ancestor in lineage.path(leaf, piece) if lineage.rank(ancestor) > beyond)
            if tokens and tokens[-1].position.range == name:
                tokens[-1] = tokens[-1]._replace(keys=KeyRange(tokens[-1].keys.low, high))
            else:
                first = starts.get(name, lineage.first_lsn(name))
                tokens.append(Token(piece, Position(name, first), is_new))
    return tuple(tokens)


def _find_owner(lineage: Lineage, token: Token) -> str:
    """The ancestor that owns an LSN before the token's range; without one, the next range on the path."""
    name, next_lsn, _ = token.position
    path = lineage.path(lineage.heirs(name)[-1], token.keys)
    before = [ancestor for ancestor in path[: path.index(name)] if lineage.closed[ancestor].last >= next_lsn]
    owners = [ancestor for ancestor in before if lineage.closed[ancestor].first <= next_lsn]
    if len(owners) > 1:
        raise FeedError(
            f"LSN {next_lsn} lies before {show_range(name)}, and several ranges that merged own it: "
            f"name one of {', '.join(map(show_range, owners))}"
        )
    return (*before, name)[0]
