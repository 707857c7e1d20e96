"""A feed of one range that has all keys and never splits, as an observed source has."""

from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Range, Span
from cfetch.plugins.follow.source import FeedId, Gone, NotModified, Page, Ranges, Why

_NAME = "0"


def list_range(account: str, feed: str, etag: str | None) -> Ranges | NotModified:
    """The answer of ``FeedSource.ranges``. The id of the feed is the etag, as nothing else changes."""
    if etag == feed:
        return NotModified()
    return Ranges(FeedId(account, feed), feed, (Range(_NAME, ALL_KEYS),))


def span_range(of: str, via: str) -> Span | Gone:
    """The answer of ``FeedSource.info``. LSNs begin at 1, even if there was no such change."""
    return Span(1, None) if of == via == _NAME else Gone(Why.RANGE_GONE)


def check_range(via: str, position: Position) -> Gone | None:
    """The answer of ``FeedSource.read`` to a question for another range."""
    return None if position.range == via == _NAME else Gone(Why.RANGE_GONE)


def select_keys(page: Page, keys: KeyRange) -> Page:
    """The page with the changes that have these keys."""
    return page._replace(changes=tuple(change for change in page.changes if keys.holds(change.key)))
