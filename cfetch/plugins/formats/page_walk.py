"""Requests the pages of a list one after the other: each page names the next one."""

from collections.abc import Callable, Iterator
from typing import Any

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl
from cfetch.run.listings import ask_list
from cfetch.run.request_connections import open_loop
from cfetch.wire.document import Answer
from cfetch.wire.network import Network

MOST_PAGES = 10_000  # a server whose pages have no end is stopped there

Page = dict[str, Any]


def walk_pages(
    first: Page,
    own_url: str,
    find_next: Callable[[Page, str], str | None],
    read: Callable[[str, Answer], Page],
    clock: Clock,
    network: Network,
) -> Iterator[tuple[Page, str]]:
    """Yield each page with its address; ``first`` was had from ``own_url``.

    ``find_next`` gives the address that a page names, or None. ``read`` gets the page's name for messages.

    Raises:
        UsageError: a page cannot be had, or the pages have no end.
    """
    page, url, seen = first, own_url, {own_url}
    yield page, url
    with open_loop(network) as (runner, transport):
        while (following := find_next(page, url)) is not None:
            url = following
            if url in seen or len(seen) > MOST_PAGES:
                raise UsageError(f"the pages of {SecretUrl(own_url)} have no end")
            seen.add(url)
            what = f"page {len(seen)} of {SecretUrl(own_url)}"
            page = read(what, runner.run(ask_list(what, SecretUrl(url), transport, clock)))
            yield page, url
