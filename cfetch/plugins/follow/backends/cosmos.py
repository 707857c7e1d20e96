"""A container of Azure Cosmos DB by its change feed (REST): items are rows, a marker in an item is a delete.

Each physical partition has its own continuation, an ETag. A partition that splits or merges answers 410 with
the sub-status 1002; its heirs, by their keys, go on from its continuation, as they hold all of its items. The
cursor is the list of continuations with their keys.

The feed has the latest version of each item and no deletes, so an item with ``"deleted": true`` stands for
one. https://learn.microsoft.com/rest/api/cosmos-db
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from cfetch.base.errors import FeedReplaced, HostileFeed, Refused, Transient, UsageError
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.rows import KEYS
from cfetch.plugins.follow.backends.change_log import News, Seen
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, observe
from cfetch.plugins.follow.backends.observed import Upstream
from cfetch.plugins.follow.backends.web import Web, read_json
from cfetch.plugins.follow.source import FeedSource

KEY_VARIABLE = "AZURE_COSMOS_KEY"
VERSION = "2018-12-31"
ITEMS = "1000"  # of one page, at most; a page has 4 MB
MAX_REPLY_BYTES = 64 << 20
LAST_KEY = "FF"  # every key of a partition is below
_SPLIT = frozenset({"1002", "1007", "1008"})  # of a 410: the partition has split, is splitting, or has moved
_STALE = "1000"  # of a 410: the name belongs to another container now
_EXPECTED = frozenset({304, 404, 410})


class _Range(msgspec.Struct):
    id: str
    min_inclusive: str = msgspec.field(name="minInclusive")
    max_exclusive: str = msgspec.field(name="maxExclusive")


class _Ranges(msgspec.Struct):
    rid: str = msgspec.field(name="_rid")
    ranges: list[_Range] = msgspec.field(name="PartitionKeyRanges")


class _Items(msgspec.Struct):
    items: list[dict[str, Any]] = msgspec.field(name="Documents")


class ContinuationToken(msgspec.Struct, frozen=True, array_like=True):
    """The keys from ``low`` on and below ``high`` (hex texts), and what was read of them; "" is nothing."""

    low: str
    high: str
    continuation: str = ""


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """``rid``: of the container, another one if it was made anew."""

    rid: str
    tokens: tuple[ContinuationToken, ...]


_RANGES = msgspec.json.Decoder(_Ranges)
_ITEMS = msgspec.json.Decoder(_Items)


class _Moved(Exception):
    """The partition that was asked has split or merged."""


class CosmosUpstream:
    """An ``Upstream``: the container at ``url``, as ``https://ACCOUNT.documents.azure.com/dbs/DB/colls/C``."""

    def __init__(self, url: SecretUrl, web: Web, key: SecretText, begin_s: float | None = None) -> None:
        """``begin_s``: without a cursor, begin with the items that changed after this time (since 1970).

        Raises UsageError: the key is no base64, or the URL is of something else.
        """
        self.shown = str(url)
        self.account = url.origin()
        self._url = url.reveal().rstrip("/")
        self._link = self._url.removeprefix(f"{url.origin()}/")
        if not _is_container(self._link.split("/")):
            raise UsageError(f"{url} is no container: its path is /dbs/DATABASE/colls/CONTAINER")
        try:
            self._key = base64.b64decode(key.reveal(), validate=True)
        except binascii.Error:
            raise UsageError(f"the key in {KEY_VARIABLE} is not of the form that Azure gives") from None
        self._web = web
        self._begin_s = begin_s
        self._ranges: list[_Range] = []

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask each partition for a page, as ``Upstream`` says."""
        known = msgspec.json.decode(cursor, type=_Cursor) if cursor else None
        for _ in range(2):
            if not self._ranges:
                known = await self._list_ranges(known)
            assert known is not None
            try:
                return await self._ask_all(known)
            except _Moved:
                self._ranges = []
        raise Transient(f"a partition of {self.shown} is splitting; try again later")

    async def close(self) -> None:
        """Close connections."""
        await self._web.close()

    async def _ask_all(self, known: _Cursor) -> News:
        tokens: list[ContinuationToken] = []
        seen: list[Seen] = []
        is_last = True
        for part in (part for token in known.tokens for part in divide(token, self._ranges)):
            after, items = await self._read(part)
            tokens.append(after)
            seen += filter(None, map(_make_seen, items))
            is_last = is_last and after == part
        return News(msgspec.json.encode(_Cursor(known.rid, fuse(tokens))).decode(), seen, is_last=is_last)

    async def _read(self, token: ContinuationToken) -> tuple[ContinuationToken, list[dict[str, Any]]]:
        """A page behind a token. Raises _Moved: its partition has split or merged."""
        owner = next(each for each in self._ranges if each.min_inclusive <= token.low < each.max_exclusive)
        headers = {
            "A-IM": "Incremental feed",
            "x-ms-documentdb-partitionkeyrangeid": owner.id,
            "x-ms-max-item-count": ITEMS,
        }
        if (token.low, token.high) != (owner.min_inclusive, owner.max_exclusive):  # it has merged
            keys = {"x-ms-start-epk": token.low, "x-ms-end-epk": token.high}
            headers |= {"x-ms-read-key-type": "EffectivePartitionKeyRange"} | keys
        if token.continuation:
            headers["If-None-Match"] = token.continuation
        elif self._begin_s is not None:
            headers["If-Modified-Since"] = formatdate(self._begin_s, usegmt=True)
        status, body, fields = await self._get("docs", headers)
        if status == HTTPStatus.NOT_MODIFIED:
            return token, []
        if status == HTTPStatus.GONE:
            raise _Moved
        items = read_json(body, _ITEMS, f"a page of {self.shown}").items
        if not fields.get("etag"):
            raise HostileFeed(f"a page of {self.shown} has no continuation")
        return msgspec.structs.replace(token, continuation=fields["etag"]), items

    async def _list_ranges(self, known: _Cursor | None) -> _Cursor:
        """Ask for the partitions; return ``known``, or the beginning. Raises FeedReplaced."""
        _, body, _ = await self._get("pkranges", {})
        listed = read_json(body, _RANGES, f"the partitions of {self.shown}")
        ranges = sorted(listed.ranges, key=lambda each: each.min_inclusive)
        ends = ["", *(each.max_exclusive for each in ranges)]
        if [*(each.min_inclusive for each in ranges), LAST_KEY] != ends:
            raise HostileFeed(f"the partitions of {self.shown} leave a gap or overlap")
        if known is not None and known.rid != listed.rid:
            raise FeedReplaced(f"the container {self.shown} was made anew")
        self._ranges = ranges
        return known or _Cursor(listed.rid, (ContinuationToken("", LAST_KEY),))

    async def _get(self, kind: str, headers: Mapping[str, str]) -> tuple[int, bytes, dict[str, str]]:
        date = formatdate(self._web.clock.wall(), usegmt=True)
        answer = await self._web.ask(
            f"{self._url}/{kind}",
            headers={**headers, "x-ms-date": date, "x-ms-version": VERSION},
            secrets={"Authorization": sign(self._key, kind, self._link, date)},
            expected=_EXPECTED,
            max_bytes=MAX_REPLY_BYTES,
        )
        fields = {name: _read_single(answer.headers.getall(name, [])) for name in ("etag", "x-ms-substatus")}
        code = fields["x-ms-substatus"]
        if answer.status == HTTPStatus.NOT_FOUND or (answer.status == HTTPStatus.GONE and code == _STALE):
            raise FeedReplaced(f"there is no container at {self.shown}, or not any more")
        if answer.status == HTTPStatus.GONE and code not in _SPLIT:
            raise Refused(f"{self.shown} answers HTTP 410 with sub-status {code or 'none'}", http_status=410)
        return answer.status, answer.body, fields


def divide(token: ContinuationToken, ranges: Sequence[_Range]) -> Iterable[ContinuationToken]:
    """The token for each range that holds some of its keys: heirs go on from their parent's continuation."""
    for each in ranges:
        low, high = max(token.low, each.min_inclusive), min(token.high, each.max_exclusive)
        if low < high:
            yield ContinuationToken(low, high, token.continuation)


def fuse(tokens: Iterable[ContinuationToken]) -> tuple[ContinuationToken, ...]:
    """Neighbours with one continuation as one token, as after a merge."""
    fused: list[ContinuationToken] = []
    for token in tokens:
        if fused and fused[-1].high == token.low and fused[-1].continuation == token.continuation:
            fused.append(ContinuationToken(fused.pop().low, token.high, token.continuation))
        else:
            fused.append(token)
    return tuple(fused)


def sign(key: bytes, kind: str, link: str, date: str) -> str:
    """The header Authorization of a GET with the account's key."""
    text = f"get\n{kind}\n{link}\n{date.lower()}\n\n"
    signature = base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()
    return quote(f"type=master&ver=1.0&sig={signature}", safe="")


def _is_container(parts: list[str]) -> bool:
    return len(parts) == 4 and parts[::2] == ["dbs", "colls"] and all(parts)


def _read_single(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else ""


def _make_seen(item: dict[str, Any]) -> Seen | None:
    """The file that an item states; None: it is about something else."""
    path = item.get("path")
    if type(path) is not str:
        return None
    if item.get("deleted") is True:
        return Seen(path, None)
    row = {name: item[name] for name in KEYS if name in item and name != "path"}
    return Seen(path, row, str(item.get("_etag", ""))) if "url" in row else None


def _make_upstream(url: SecretUrl, web: Web, _: list[str], begin_s: float | None) -> Upstream:
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise UsageError(f"the login for {url} is missing: put the account's key into {KEY_VARIABLE}")
    return CosmosUpstream(url, web, SecretText(key), begin_s)


def _open_container(name: FeedName, context: FeedContext) -> FeedSource:
    return observe("", partial(_make_upstream, begin_s=context.begin_s))(name, context)


FEED = FeedKind("cosmos+https://…", _open_container, WEB, begins_at_times=True)
