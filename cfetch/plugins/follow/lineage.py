"""The descent of a feed's ranges: which are live, and which LSNs each closed one owned. Pure.

A backend lists live ranges, each with its ancestors in no order. Their order is that of their LSNs: a child
begins where its parent ended, so on the way of any key from a root to a leaf the spans rise and do not
overlap. If ranges have merged, a leaf also descends from ranges that never had some of its keys; their spans
may overlap, and a read of them with those keys brings nothing. So a leaf's path is its ancestors in the order
of their spans, and no tree has to be guessed.

A lineage holds only facts that never change, the closed spans; the moving head of a live range is not kept.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed
from cfetch.base.secret import printable
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range, Span
from cfetch.plugins.follow.source import FeedId, Ranges


@dataclass(frozen=True, slots=True)
class Closed:
    """A range that has split or merged: its keys, and the LSNs from ``first`` to ``last``, both included.

    ``keys`` may be more than it had, if it closed before the first listing and ranges have merged since.
    """

    keys: KeyRange
    first: int
    last: int


@dataclass(frozen=True)
class Lineage:
    """One generation of a feed. ``live`` is by key, with all known ancestors; ``generation`` is the etag.

    Its indexes are made when they are first used: a reader asks them for every page of every range.
    """

    feed: FeedId
    generation: str
    live: tuple[Range, ...]
    closed: Mapping[str, Closed]

    @cached_property
    def _by_id(self) -> dict[str, Range]:
        return {leaf.id: leaf for leaf in self.live}

    @cached_property
    def _low_keys(self) -> list[int]:
        return [leaf.keys.low for leaf in self.live]

    @cached_property
    def _heirs(self) -> dict[str, tuple[Range, ...]]:
        numbers = _number_heirs(self.live)
        return {name: tuple(self.live[number] for number in sorted(some)) for name, some in numbers.items()}

    @cached_property
    def _first_lsns(self) -> dict[str, int]:
        return {
            leaf.id: max((self.closed[ancestor].last + 1 for ancestor in leaf.ancestors), default=0)
            for leaf in self.live
        }

    def leaf(self, name: str) -> Range | None:
        """The live range of that name."""
        return self._by_id.get(name)

    def leaves(self, keys: KeyRange) -> tuple[Range, ...]:
        """The live ranges that have some of ``keys``, by key."""
        return _list_leaves(self.live, self._low_keys, keys)

    def heirs(self, name: str) -> tuple[Range, ...]:
        """The live ranges that have the entries of ``name``, by key; a live range is its own heir."""
        leaf = self._by_id.get(name)
        return self._heirs.get(name, ()) if leaf is None else (leaf,)

    def first_lsn(self, name: str) -> int:
        """The first LSN of a range: as stated for a closed one, behind its ancestors' for a live one."""
        closed = self.closed.get(name)
        return closed.first if closed else self._first_lsns.get(name, 0)

    def path(self, leaf: Range, keys: KeyRange) -> tuple[str, ...]:
        """The ranges to read one after the other for ``keys`` of a live range, which comes last."""
        ancestors = (ancestor for ancestor in leaf.ancestors if self.closed[ancestor].keys.intersect(keys))
        return (*sorted(ancestors, key=self.rank), leaf.id)

    def rank(self, name: str) -> tuple[float, float, str]:
        """The sort key of a path. A parent that never had an entry also comes before its child."""
        closed = self.closed.get(name)
        return (closed.first, closed.last, name) if closed else (float("inf"), float("inf"), name)


def _list_leaves(live: Sequence[Range], low_keys: Sequence[int], keys: KeyRange) -> tuple[Range, ...]:
    """The live ranges that have some of ``keys``. ``low_keys``: the lowest key of each, by key."""
    first = max(0, bisect_right(low_keys, keys.low) - 1)
    some = live[first : bisect_left(low_keys, keys.high)]
    return tuple(leaf for leaf in some if leaf.keys.intersect(keys))


def check_ranges(listed: Iterable[Range]) -> tuple[Range, ...]:
    """The live ranges by key, each once (the last counts), without ranges that are ancestors of others.

    Raises:
        HostileFeed: they do not cover all keys exactly once. It may be a listing from the middle of a split.
    """
    by_id = {stated.id: stated for stated in listed}
    ancestors = frozenset[str]().union(*(stated.ancestors for stated in by_id.values()))
    live = sorted(
        (stated for stated in by_id.values() if stated.id not in ancestors), key=lambda leaf: leaf.keys
    )
    next_key = ALL_KEYS.low
    for leaf in live:
        if leaf.keys.low != next_key or leaf.keys.high <= leaf.keys.low:
            fault = "leave a gap" if leaf.keys.low > next_key else "overlap"
            raise HostileFeed(f"the feed's ranges {fault} before {show_range(leaf.id)}")
        next_key = leaf.keys.high
    if next_key != ALL_KEYS.high:
        raise HostileFeed("the feed's ranges end before the last key")
    return tuple(live)


def list_closed_ids(live: Iterable[Range], known: Lineage | None) -> tuple[str, ...]:
    """List the closed ranges whose spans are not known yet."""
    named = frozenset[str]().union(*(leaf.ancestors for leaf in live))
    return tuple(sorted(named - known.closed.keys() if known else named))


def grow_lineage(known: Lineage | None, listing: Ranges, spans: Mapping[str, Span]) -> Lineage:
    """The lineage after ``listing``, whose closed ranges have ``spans`` unless they are ``known``.

    Raises:
        FeedReplaced: the listing is of another feed than ``known``.
        CheckpointExpired: the feed knows nothing any more about a range that was live.
        HostileFeed: ranges or spans contradict each other or ``known``. Perhaps the backend only lags.
    """
    if known and listing.feed != known.feed:
        raise FeedReplaced("the feed was deleted, or made anew under its name")
    live = tuple(_add_older_ancestors(leaf, known) for leaf in check_ranges(listing.ranges))
    if known:
        _check_descent(known, live)
    closed = dict(known.closed) if known else {}
    named = frozenset[str]().union(*(stated.ancestors for stated in listing.ranges))
    heirs = _number_heirs(live)
    for name, span in spans.items():
        has_keys = [live[number].keys for number in sorted(heirs.get(name, ()))]
        closed[name] = _check_span(name, _restore_first(span, name, known, named), has_keys, known)
    lineage = Lineage(listing.feed, listing.etag, live, closed)
    for leaf in live:
        _check_path(leaf, lineage, heirs)
    return lineage


def list_merged(lineage: Lineage) -> tuple[str, ...]:
    """List the closed ranges that come after others which may not be their ancestors, as ranges have merged.

    The oldest kept entries of the ranges before them say nothing about theirs.
    """
    heirs = _number_heirs(lineage.live)
    merged: set[str] = set()
    for leaf in lineage.live:
        path = sorted(leaf.ancestors, key=lineage.rank)
        if not _is_line(path, heirs):
            merged.update(path[1:])
    return tuple(sorted(merged))


def _number_heirs(live: Iterable[Range]) -> dict[str, set[int]]:
    """The live ranges, by their numbers, that descend from each closed one."""
    heirs: dict[str, set[int]] = {}
    for number, leaf in enumerate(live):
        for name in leaf.ancestors:
            heirs.setdefault(name, set()).add(number)
    return heirs


def show_range(name: str) -> str:
    """Name a range for a person."""
    return f"range {printable(name, 60)}"


def _add_older_ancestors(leaf: Range, known: Lineage | None) -> Range:
    """Add the ancestors of a range's ancestors, which a backend may have forgotten."""
    if not known:
        return leaf
    older = (old.ancestors for name in (leaf.id, *leaf.ancestors) if (old := known.leaf(name)))
    return leaf._replace(ancestors=leaf.ancestors.union(*older))


def _check_descent(known: Lineage, live: tuple[Range, ...]) -> None:
    """Check that each range that was live still is, with its keys, or that its heirs have these keys."""
    by_id, low_keys = {leaf.id: leaf for leaf in live}, [leaf.keys.low for leaf in live]
    named = frozenset[str]().union(*(leaf.ancestors for leaf in live))
    for name in by_id.keys() & known.closed.keys():
        raise HostileFeed(f"the feed goes back: {show_range(name)} had ended, and is said to be live")
    for old in known.live:
        now = by_id.get(old.id)
        if now and now.keys != old.keys:
            raise HostileFeed(f"{show_range(old.id)} has other keys than before")
        if old.id in named and any(
            old.id not in leaf.ancestors for leaf in _list_leaves(live, low_keys, old.keys)
        ):
            raise HostileFeed(f"{show_range(old.id)} is gone, and what has its keys is not its child")
    for old in known.live:
        if old.id not in by_id and old.id not in named:
            raise CheckpointExpired(
                f"the feed does not know {show_range(old.id)} any more, nor what came of it: what it had "
                "after the checkpoint is lost"
            )


def _restore_first(span: Span, name: str, known: Lineage | None, named: frozenset[str]) -> Span:
    """Restore a range's first LSN if the backend has forgotten its parents, which ended right before."""
    leaf = known.leaf(name) if known else None
    if known and leaf and not leaf.ancestors <= named:
        return span._replace(first=min(span.first, known.first_lsn(name)))
    return span


def _check_span(name: str, span: Span, heirs: Sequence[KeyRange], known: Lineage | None) -> Closed:
    """Check the LSNs that a closed range is said to have owned. ``heirs``: the keys of its heirs, by key."""
    if span.last is None or span.first < 0 or span.last < span.first - 1:
        raise HostileFeed(f"{show_range(name)} has ended, but the feed does not say which LSNs it had")
    if known:
        old = known.closed.get(name)
        if old and (old.first, old.last) != (span.first, span.last):
            raise HostileFeed(f"the feed forks: {show_range(name)} ended at LSN {old.last}, not {span.last}")
        leaf = known.leaf(name)
        if leaf and leaf.ancestors and span.first != known.first_lsn(name):
            raise _not_in_line(name, span.first, known.first_lsn(name))
        if old or leaf:
            return Closed((old or leaf).keys, span.first, span.last)  # type: ignore[union-attr]
    return Closed(KeyRange(heirs[0].low, heirs[-1].high), span.first, span.last)


def _check_path(leaf: Range, lineage: Lineage, heirs: Mapping[str, set[int]]) -> None:
    """Check that each range on a path begins where the one before it ended, if each is the other's parent."""
    unknown = [name for name in leaf.ancestors if name not in lineage.closed]
    if unknown:
        raise HostileFeed(f"the feed does not say which LSNs {show_range(min(unknown))} had")
    path = sorted(leaf.ancestors, key=lineage.rank)
    if _is_line(path, heirs):
        for before, name in pairwise(path):
            if lineage.closed[name].first != lineage.closed[before].last + 1:
                raise _not_in_line(name, lineage.closed[name].first, lineage.closed[before].last + 1)


def _is_line(path: Sequence[str], heirs: Mapping[str, set[int]]) -> bool:
    """Whether each range of a path is the parent of the next: no ranges have merged there.

    Ranges that merge have the same heirs, and so has the merged range until it splits. As all ranges of a
    path have its leaf as an heir, it suffices to compare the numbers of heirs.
    """
    sizes = {len(heirs[name]) for name in path}
    return len(sizes) == len(path) and 1 not in sizes


def _not_in_line(name: str, first: int, expected: int) -> HostileFeed:
    return HostileFeed(f"{show_range(name)} begins at LSN {first}, but its parent ended before {expected}")
