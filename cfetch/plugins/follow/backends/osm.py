"""Numbered states, as OpenStreetMap publishes its changes: ``state.txt`` names the last one.

Number 6330001 is ``006/330/001.osc.gz`` with ``006/330/001.state.txt``. The mirror has the same form, so that
programs that read the original read it too; its own ``state.txt`` comes after the files that it names.
Nothing is ever deleted. The cursor is the last number.
"""

import re
from collections.abc import Callable

from cfetch.base.errors import HostileFeed, StaleAnswer, UsageError
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.change_log import News, Seen
from cfetch.plugins.follow.backends.feed_kind import FeedKind, observe
from cfetch.plugins.follow.backends.observed import Upstream
from cfetch.plugins.follow.backends.web import Web

STATE = "state.txt"
MAX_STATE_BYTES = 64 << 10
NUMBERS = 1000  # of one answer
MOST = 999_999_999  # three parts of three digits
_NUMBER = re.compile(rb"^sequenceNumber=(\d{1,9})\s*$", re.MULTILINE)


class OsmUpstream:
    """An ``Upstream``: the directory of a ``state.txt`` at ``url``.

    ``first``: the first number that is wanted; None: the last one of the moment.
    """

    def __init__(self, url: SecretUrl, web: Web, first: int | None = None) -> None:
        self.shown = str(url)
        self.account = url.origin()
        self._url = url.reveal().rstrip("/") + "/"
        self._web = web
        self._first = first

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says. The cursor is the last number in earlier news."""
        answer = await self._web.ask(f"{self._url}{STATE}", max_bytes=MAX_STATE_BYTES)
        match = _NUMBER.search(answer.body)
        if match is None:
            raise HostileFeed(f"{self.shown}{STATE} states no sequenceNumber")
        last = int(match[1])
        first = int(cursor) + 1 if cursor else self._first if self._first is not None else last
        if last < first - 1:
            raise StaleAnswer(f"{self.shown} has gone back, from number {first - 1} to {last}")
        end = min(last, first + NUMBERS - 1)
        seen = [
            Seen(f"{_name_number(number)}{ending}", {"url": f"{self._url}{_name_number(number)}{ending}"})
            for number in range(first, end + 1)
            for ending in (".osc.gz", ".state.txt")
        ]
        if seen:
            seen.append(Seen(STATE, {"url": f"{self._url}{_name_number(end)}.state.txt"}, waits=True))
        return News(str(end) if seen else cursor, seen, is_last=end == last)

    async def close(self) -> None:
        """Close connections."""
        await self._web.close()


def _name_number(number: int) -> str:
    text = f"{number:09}"
    return f"{text[:3]}/{text[3:6]}/{text[6:]}"


def _make_upstream(url: SecretUrl, web: Web, first: list[str]) -> Upstream:
    if first and not (first[0].isascii() and first[0].isdigit() and int(first[0]) <= MOST):
        raise UsageError(f"{url}: from= is the first number that is wanted, as 6330000")
    return OsmUpstream(url, web, int(first[0]) if first else None)


FEED = FeedKind("osm+http(s)://…", observe("from", _make_upstream), WEB)
