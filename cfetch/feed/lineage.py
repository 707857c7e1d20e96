"""What became of a feed's ranges: which are live, and which LSNs each closed one owned. Pure.

A backend lists live ranges, each with its ancestors in no order. The order is that of their LSNs: a child begins
where its parent ended, so on the way of any key from a root to a leaf the spans rise and do not overlap. Where
ranges have merged, a leaf also descends from ranges that never had some of its keys; reading them with the
reader's own keys brings nothing, and their spans may overlap. So a leaf's path is its ancestors by span, and no
tree has to be guessed.

A lineage is a fact as far as it goes: closed spans never change. The head of a live range moves and is not kept.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cfetch.errors import FeedReplaced, HostileFeed
from cfetch.feed.ranges import ALL_KEYS, KeyRange, Range, Span
from cfetch.feed.source import FeedId, Ranges
from cfetch.secret import printable

__all__ = ["Closed", "Lineage", "checked_ranges", "closed_ids", "grown", "shown_keys"]


@dataclass(frozen=True, slots=True)
class Closed:
    """A range that has split or merged: its keys, and the LSNs from ``first`` to ``last``, both included.

    ``keys`` may be more than it had, if it had merged before anybody looked.
    """

    keys: KeyRange
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """One generation of a feed. ``live`` is by key, with all known ancestors; ``generation`` is the etag."""

    feed: FeedId
    generation: str
    live: tuple[Range, ...]
    closed: Mapping[str, Closed]

    def leaf(self, name: str) -> Range | None:
        """The live range of that name."""
        return next((one for one in self.live if one.id == name), None)

    def leaves(self, keys: KeyRange) -> tuple[Range, ...]:
        """The live ranges that have some of ``keys``, by key."""
        return tuple(one for one in self.live if one.keys.clamped(keys))

    def heirs(self, name: str) -> tuple[Range, ...]:
        """The live ranges that archive a closed one, by key; for a live one itself."""
        return tuple(one for one in self.live if name in one.ancestors or name == one.id)

    def first_lsn(self, name: str) -> int:
        """Where a range begins: stated for a closed one, after the last LSN of its ancestors for a live one."""
        closed = self.closed.get(name)
        if closed:
            return closed.first
        leaf = self.leaf(name)
        return max((self.closed[one].last + 1 for one in leaf.ancestors), default=0) if leaf else 0

    def path(self, leaf: Range, keys: KeyRange) -> tuple[str, ...]:
        """The ranges to read one after the other for ``keys`` of a live range, which comes last."""
        ancestors = (one for one in leaf.ancestors if self.closed[one].keys.clamped(keys))
        return (*sorted(ancestors, key=self.rank), leaf.id)

    def rank(self, name: str) -> tuple[float, float, str]:
        """What orders the ranges of a path: a parent comes before its child, even if it never had an entry."""
        closed = self.closed.get(name)
        return (closed.first, closed.last, name) if closed else (float("inf"), float("inf"), name)


def shown_keys(keys: KeyRange) -> str:
    """Keys for a person: the first of 32 hex digits that matter, the upper end left out."""
    low, high = (f"{key:032x}".rstrip("0") or "0" for key in keys)
    return f"{low} to {'the end' if keys.high == ALL_KEYS.high else high}"


def checked_ranges(listed: Iterable[Range]) -> tuple[Range, ...]:
    """The live ranges by key, each once (the last counts), without those that others name as ancestors.

    Raises:
        HostileFeed: they do not cover all keys exactly once. It may be a listing from the middle of a split.
    """
    by_id = {one.id: one for one in listed}
    ancestors = frozenset[str]().union(*(one.ancestors for one in by_id.values()))
    live = sorted((one for one in by_id.values() if one.id not in ancestors), key=lambda one: one.keys)
    at = ALL_KEYS.low
    for one in live:
        if one.keys.low != at or one.keys.high <= one.keys.low:
            fault = "leave a gap" if one.keys.low > at else "overlap"
            raise HostileFeed(f"the feed's ranges {fault} before range {_shown(one.id)}")
        at = one.keys.high
    if at != ALL_KEYS.high:
        raise HostileFeed(f"the feed's ranges end at key {at:x} and do not cover all keys")
    return tuple(live)


def closed_ids(live: Iterable[Range], known: Lineage | None) -> tuple[str, ...]:
    """The closed ranges whose spans are still to be asked for."""
    named = frozenset[str]().union(*(one.ancestors for one in live))
    return tuple(sorted(named - known.closed.keys() if known else named))


def grown(known: Lineage | None, listing: Ranges, spans: Mapping[str, Span]) -> Lineage:
    """The lineage after ``listing``, whose closed ranges have ``spans`` unless they are ``known``.

    Raises:
        FeedReplaced: the listing is of another feed than ``known``.
        HostileFeed: ranges or spans contradict one another, or what is known. The backend may only lag.
    """
    if known and listing.feed != known.feed:
        raise FeedReplaced(
            "the feed was deleted or made anew under its name: begin with a new state directory"
        )
    live = tuple(_inherited(one, known) for one in checked_ranges(listing.ranges))
    if known:
        _check_descent(known, live)
    closed = dict(known.closed) if known else {}
    for name, span in spans.items():
        closed[name] = _checked_span(name, span, live, known)
    lineage = Lineage(listing.feed, listing.etag, live, closed)
    for one in live:
        _check_path(one, lineage)
    return lineage


def _shown(name: str) -> str:
    return repr(printable(name, 60))


def _inherited(one: Range, known: Lineage | None) -> Range:
    """The range with the ancestors of its ancestors, which a backend may have forgotten."""
    if not known:
        return one
    older = (old.ancestors for old in known.live if old.id == one.id or old.id in one.ancestors)
    return one._replace(ancestors=one.ancestors.union(*older))


def _check_descent(known: Lineage, live: Collection[Range]) -> None:
    """Whatever was live is so still, with the same keys, or others have come of it that have all of them."""
    by_id = {one.id: one for one in live}
    for name in by_id.keys() & known.closed.keys():
        raise HostileFeed(f"the feed goes back: range {_shown(name)} had ended, and is said to be live again")
    for old in known.live:
        now = by_id.get(old.id)
        if now and now.keys != old.keys:
            raise HostileFeed(f"range {_shown(old.id)} has other keys than before")
        if not now and any(old.keys.clamped(one.keys) and old.id not in one.ancestors for one in live):
            raise HostileFeed(
                f"range {_shown(old.id)} is gone, and what has its keys does not descend from it"
            )


def _checked_span(name: str, span: Span, live: Iterable[Range], known: Lineage | None) -> Closed:
    if span.last is None or span.first < 0 or span.last < span.first - 1:
        raise HostileFeed(f"range {_shown(name)} has ended, but the LSNs that it had are not stated")
    old = known.closed.get(name) if known else None
    if old:
        if (old.first, old.last) != (span.first, span.last):
            raise HostileFeed(
                f"the feed forks: range {_shown(name)} ended at LSN {old.last}, now at {span.last}"
            )
        return old
    leaf = known.leaf(name) if known else None
    if known and leaf:
        first = known.first_lsn(name)
        if leaf.ancestors and first != span.first:
            raise HostileFeed(
                f"range {_shown(name)} begins at LSN {span.first}, but its parent ended at {first - 1}"
            )
        return Closed(leaf.keys, span.first, span.last)
    heirs = [one.keys for one in live if name in one.ancestors]
    return Closed(KeyRange(min(heirs).low, max(one.high for one in heirs)), span.first, span.last)


def _check_path(leaf: Range, lineage: Lineage) -> None:
    """A range begins where another of the path ended: the one before it, if none of them has merged.

    Ranges that merge have the same heirs, and so has what comes of them; where no two of a path have the same,
    it is a plain line from parent to child. The rest only says that some ancestor ends there.
    """
    missing = leaf.ancestors - lineage.closed.keys()
    if missing:
        raise HostileFeed(
            f"nothing is known of range {_shown(min(missing))}, from which {_shown(leaf.id)} descends"
        )
    path = sorted(leaf.ancestors, key=lineage.rank)
    heirs = {name: frozenset(one.id for one in lineage.heirs(name)) for name in path}
    is_plain = len({*heirs.values(), frozenset((leaf.id,))}) == len(path) + 1
    ends: set[int] = set()
    before = None
    for name in path:
        one = lineage.closed[name]
        is_root = not any(heirs[name] < other for other in heirs.values())
        if before is not None and (
            one.first != before + 1 if is_plain else one.first not in ends and not is_root
        ):
            raise HostileFeed(
                f"range {_shown(name)} begins at LSN {one.first}, but its parent ended at {before}"
            )
        before = one.last
        ends.add(one.last + 1)
