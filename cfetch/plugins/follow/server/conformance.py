"""Checks a feed server against docs/feed-protocol.md: ``cfetch feed check URL``, for any server.

It only reads. Each check sends a request whose answer follows from the document, or asks for the same changes
in two ways. The feed should not change meanwhile: a change that it drops between two answers looks like a
fault.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Literal

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import HostileFeed
from cfetch.base.secret import SecretUrl
from cfetch.manifest.fields import FieldError
from cfetch.plugins.follow.backends.http import parse_feed_url
from cfetch.plugins.follow.backends.web import Web, open_web
from cfetch.plugins.follow.lineage import Lineage, check_ranges, grow_lineage, list_closed_ids
from cfetch.plugins.follow.protocol import (
    check_id,
    check_members,
    format_keys,
    parse_keys,
)
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Range, Span
from cfetch.plugins.follow.server.asked_feed import LARGE_PAGE, AskedFeed, FeedReply, WrongAnswer
from cfetch.plugins.follow.source import FeedId, Page, Ranges, Why
from cfetch.wire.network import Network

SOME_RANGES = 6  # live and closed ones that are read, each in several ways
SMALL_PAGE = 3
ASKED_SPANS = 200  # closed ranges of which each live descendant is asked
MOST_TRIES = 3  # of a check during which ranges have changed
CHANGES = "the ranges changed each time it was tried; check the feed while it does not split or merge"
FAR = 1 << 40  # LSNs beyond the end of a range
RULES = {
    "list": "the live ranges cover all keys once, under a strong ETag",
    "unchanged": "If-None-Match with that ETag gets 304",
    "lsns": "each closed range owns the LSNs between its parents' and its children's",
    "pages": "pages have at most as many changes as asked for, by rising LSNs, and miss none",
    "middle": "reading from any LSN on brings all that follows it, and nothing else",
    "keys": "keys choose changes; none is lost between two parts of the keys",
    "paths": "all changes of a path have one key, which its range has",
    "end": "at the end: 304 to If-None-Match, else an empty page with the same next_lsn",
    "archives": "each live descendant has all changes of a closed range",
    "gone": "a range that is not live is answered by 410 with code 1002",
    "other feed": "another feed's id is answered by 410 with code 1000",
    "ahead": "an LSN beyond the end of a live range is answered by 409 with next_lsn",
    "kept": "an LSN that is not kept, as all below a range's first, is answered by 416",
    "closed end": "beyond the last LSN of a closed range there is an empty page, from where a reader goes on",
    "restored": "the live descendants together bring all that follows an LSN of a closed range, once",
    "marks": "the mark of another history is answered by 409 with mark",
    "mistakes": "wrong parameters are answered by 400",
}
NEEDED = ("list", "lsns")  # nothing can be read if these are wrong
OTHER_MARK = "another-mark-than-the-feeds"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. ``why``: the fault, or what the feed lacks for the check."""

    check: str
    rule: str
    result: Literal["right", "wrong", "not checked"]
    why: str = ""


class _Lacking(Exception):
    """The feed has nothing by which the rule can be checked."""


class Conformance:
    """One check of the server at ``url``."""

    def __init__(self, url: SecretUrl, web: Web) -> None:
        self._feed = AskedFeed(url, web)
        self._etag = ""
        self._live: tuple[Range, ...] = ()

    async def run(self, report: Callable[[Finding], None]) -> int:
        """Do all checks, report each, and return how many rules are broken.

        Nothing further is checked if the list of ranges or their LSNs are wrong.

        Raises:
            SourceError: the server does not answer.
        """
        checks = (
            self._check_list,
            self._check_unchanged,
            self._check_spans,
            self._check_pages,
            self._check_middle,
            self._check_keys,
            self._check_paths,
            self._check_end,
            self._check_archives,
            self._check_gone,
            self._check_other_feed,
            self._check_ahead,
            self._check_kept,
            self._check_closed_end,
            self._check_restored,
            self._check_marks,
            self._check_mistakes,
        )
        wrong = 0
        for name, check in zip(RULES, checks, strict=True):
            finding = await self._run_one(name, check)
            report(finding)
            lacks = name in NEEDED and finding.result != "right"
            wrong += finding.result == "wrong" or lacks
            if lacks:
                break
        return wrong

    @property
    def _lineage(self) -> Lineage:
        """The ranges, which the first checks have read."""
        assert self._feed.lineage is not None
        return self._feed.lineage

    async def _run_one(self, name: str, check: Callable[[], Awaitable[None]]) -> Finding:
        rule = RULES[name]
        for tried in range(MOST_TRIES):
            try:
                if tried and name not in NEEDED:
                    await self._check_spans()
                await check()
                return Finding(check=name, rule=rule, result="right")
            except _Lacking as lacking:
                return Finding(check=name, rule=rule, result="not checked", why=str(lacking))
            except (WrongAnswer, HostileFeed, FieldError) as fault:
                if name == "list" or not await self._has_changed():
                    return Finding(check=name, rule=rule, result="wrong", why=str(fault))
        return Finding(check=name, rule=rule, result="not checked", why=CHANGES)

    async def _has_changed(self) -> bool:
        """Read the list anew. Whether ranges have split or merged, which makes right answers look wrong."""
        before = self._live
        with suppress(WrongAnswer, HostileFeed, FieldError):
            await self._check_list()
        return self._live != before

    # --- ranges

    async def _check_list(self) -> None:
        reply = await self._feed.ask("")
        document = self._feed.expect_document(reply, ("ranges",), "the list")
        self._feed.id = check_id(document["feed"])
        if len(reply.etag) < 3 or not reply.etag.startswith('"') or not reply.etag.endswith('"'):
            raise WrongAnswer(f"its ETag is {reply.etag or 'missing'}, and not a strong one")
        self._etag = reply.etag
        rows = [check_members(row, "a range", ("id", "keys", "ancestors")) for row in document["ranges"]]
        self._live = check_ranges(
            Range(check_id(row["id"]), parse_keys(row["keys"]), frozenset(map(check_id, row["ancestors"])))
            for row in rows
        )
        if len(self._live) != len(rows):
            raise WrongAnswer("a range is listed twice, or is the ancestor of another")

    async def _check_unchanged(self) -> None:
        reply = await self._feed.ask("", {"If-None-Match": self._etag})
        if reply.status != HTTPStatus.NOT_MODIFIED and reply.etag == self._etag:
            raise WrongAnswer(f"HTTP {reply.status} under the same ETag")

    async def _check_spans(self) -> None:
        spans: dict[str, Span] = {}
        for number, name in enumerate(list_closed_ids(self._live, None)):
            heirs = [leaf.id for leaf in self._live if name in leaf.ancestors]
            spans[name] = await self._feed.read_span(name, heirs[-1])
            for via in heirs[:-1][:SOME_RANGES] if number < ASKED_SPANS else ():
                if await self._feed.read_span(name, via) != spans[name]:
                    raise WrongAnswer(f"{via} and {heirs[-1]} do not agree about range {name}")
        listing = Ranges(FeedId("", self._feed.id), self._etag, self._live)
        self._feed.lineage = grow_lineage(None, listing, spans)
        for leaf in self._live[:ASKED_SPANS]:
            span = await self._feed.read_span(leaf.id, leaf.id)
            if span.last is not None:
                raise WrongAnswer(f"range {leaf.id} is listed as live, and is said to end at LSN {span.last}")
            if leaf.ancestors and span.first != self._lineage.first_lsn(leaf.id):
                expected = self._lineage.first_lsn(leaf.id)
                raise WrongAnswer(
                    f"range {leaf.id} begins at LSN {span.first}, its parents end before {expected}"
                )

    # --- changes

    async def _check_pages(self) -> None:
        for name, via in self._choose_ranges():
            content = await self._feed.read_all(name, via)
            small = await self._feed.read_all(name, via, limit=SMALL_PAGE)
            _compare(content, small, f"range {name} by pages of {LARGE_PAGE} and of {SMALL_PAGE}")
        if not any([(await self._feed.read_all(name, via)).changes for name, via in self._choose_ranges()]):
            raise _Lacking("the feed has no change")

    async def _check_middle(self) -> None:
        for name, via, content in await self._choose_contents():
            for change in content.changes[1 :: max(1, len(content.changes) // 3)]:
                rest = await self._feed.read_all(name, via, next_lsn=change.lsn)
                tail = tuple(other for other in content.changes if other.lsn >= change.lsn)
                _compare(content._replace(changes=tail), rest, f"range {name} from LSN {change.lsn} on")

    async def _check_keys(self) -> None:
        for name, via, content in await self._choose_contents():
            edge = sorted(change.key for change in content.changes)[len(content.changes) // 2] or 1
            for keys in (KeyRange(0, edge), KeyRange(edge, ALL_KEYS.high)):
                part = await self._feed.read_all(name, via, keys=keys)
                own = tuple(change for change in content.changes if keys.holds(change.key))
                _compare(content._replace(changes=own), part, f"range {name} with keys {format_keys(keys)}")

    async def _check_paths(self) -> None:
        keys: defaultdict[str, set[int]] = defaultdict(set)
        for name, _, content in await self._choose_contents():
            closed, leaf = self._lineage.closed.get(name), self._lineage.leaf(name)
            own = leaf.keys if leaf else closed.keys if closed else ALL_KEYS
            for change in content.changes:
                keys[change.path].add(change.key)
                if not own.holds(change.key):
                    raise WrongAnswer(f"range {name} has {change.path}, whose key lies outside of its keys")
        for path, several in keys.items():
            if len(several) > 1:
                raise WrongAnswer(f"{path} has several keys")

    async def _check_end(self) -> None:
        for leaf in self._live[:SOME_RANGES]:
            end = (await self._feed.read_all(leaf.id, leaf.id)).next_lsn
            what = self._feed.name_read(leaf.id, leaf.id, end, ALL_KEYS, LARGE_PAGE)
            reply = await self._feed.ask(what, {"If-None-Match": f'"{end}"'})
            if reply.status != HTTPStatus.NOT_MODIFIED:
                raise WrongAnswer(f"range {leaf.id} answers HTTP {reply.status} to If-None-Match at its end")
            page = self._feed.parse_page(await self._feed.ask(what), leaf.id, end, LARGE_PAGE, ALL_KEYS)
            if page.changes or page.next_lsn != end:
                raise WrongAnswer(f"range {leaf.id} has no empty page with next_lsn {end} at its end")

    async def _check_archives(self) -> None:
        if not self._lineage.closed:
            raise _Lacking("no range has split or merged")
        for name in sorted(self._lineage.closed)[:SOME_RANGES]:
            heirs = self._lineage.heirs(name)
            content = await self._feed.read_all(name, heirs[-1].id)
            for heir in heirs[:SOME_RANGES]:
                _compare(content, await self._feed.read_all(name, heir.id), f"range {name} through {heir.id}")

    # --- refusals

    async def _check_gone(self) -> None:
        via = min(self._lineage.closed, default="no-such-range")
        reply = await self._feed.ask(self._feed.name_read(via, via, 0, ALL_KEYS, 1))
        _expect_refusal(reply, HTTPStatus.GONE, "code", Why.RANGE_GONE)

    async def _check_other_feed(self) -> None:
        via = self._live[0].id
        reply = await self._feed.ask(f"info?feed=another-feed-than-this&via={via}&of={via}")
        _expect_refusal(reply, HTTPStatus.GONE, "code", Why.STALE)

    async def _check_ahead(self) -> None:
        via = self._live[0].id
        end = (await self._feed.read_all(via, via)).next_lsn
        reply = await self._feed.ask(self._feed.name_read(via, via, end + FAR, ALL_KEYS, 1))
        _expect_refusal(reply, HTTPStatus.CONFLICT, "next_lsn", end)

    async def _check_kept(self) -> None:
        """A gap: whoever comes with an older position must learn that changes are missing."""
        for name, via in self._choose_ranges():
            closed = self._lineage.closed.get(name)
            first_lsn = closed.first if closed else await self._feed.read_first(name, via)
            if first_lsn > 1:
                reply = await self._feed.ask(self._feed.name_read(name, via, 1, ALL_KEYS, 1))
                if (
                    reply.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                    or "error" not in reply.document
                ):
                    raise WrongAnswer(
                        f"range {name} begins at LSN {first_lsn}, and answers HTTP {reply.status} to 1"
                    )
                return
        raise _Lacking("no range begins after LSN 1")

    async def _check_closed_end(self) -> None:
        """A lease that was restored with a later position than the range had is no reason to stop."""
        if not self._lineage.closed:
            raise _Lacking("no range has split or merged")
        for name in sorted(self._lineage.closed)[:SOME_RANGES]:
            last_lsn = self._lineage.closed[name].last
            for heir in self._lineage.heirs(name)[:SOME_RANGES]:
                for asked_lsn in (last_lsn + 1, last_lsn + FAR):
                    reply = await self._feed.ask(self._feed.name_read(name, heir.id, asked_lsn, ALL_KEYS, 1))
                    page = self._feed.parse_page(reply, name, asked_lsn, 1, ALL_KEYS)
                    if page.changes or page.next_lsn != asked_lsn:
                        raise WrongAnswer(
                            f"range {name} through {heir.id} has no empty page at LSN {asked_lsn}"
                        )

    async def _check_restored(self) -> None:
        """A checkpoint from before a split or a merge must lose nothing, and get nothing twice."""
        if not self._lineage.closed:
            raise _Lacking("no range has split or merged")
        for name in sorted(self._lineage.closed)[:SOME_RANGES]:
            heirs = self._lineage.heirs(name)
            content = await self._feed.read_all(name, heirs[0].id)
            middle_lsn = content.changes[len(content.changes) // 2].lsn if content.changes else 0
            end_lsn, read = content.next_lsn, []
            for heir in heirs:
                part = await self._feed.read_all(name, heir.id, next_lsn=middle_lsn, keys=heir.keys)
                end_lsn = min(end_lsn, part.next_lsn)
                read += [change.lsn for change in part.changes]
            wanted = [change.lsn for change in content.changes if middle_lsn <= change.lsn < end_lsn]
            if sorted(lsn for lsn in read if lsn < end_lsn) != wanted:
                raise WrongAnswer(
                    f"the descendants of range {name} do not bring each change from {middle_lsn} on once"
                )

    async def _check_marks(self) -> None:
        for name, via, content in await self._choose_contents():
            if content.mark:
                what = self._feed.name_read(name, via, content.next_lsn, ALL_KEYS, 1)
                own = await self._feed.ask(f"{what}&mark={content.mark}")
                if own.status != HTTPStatus.OK:
                    raise WrongAnswer(f"range {name} answers HTTP {own.status} to its own mark")
                reply = await self._feed.ask(f"{what}&mark={OTHER_MARK}")
                _expect_refusal(reply, HTTPStatus.CONFLICT, "mark", content.mark)
                return
        raise _Lacking("the feed gives no marks, which are optional")

    async def _check_mistakes(self) -> None:
        via = self._live[0].id
        good = self._feed.name_read(via, via, 0, ALL_KEYS, 1)
        mistakes = [good.replace("&limit=1", "&limit=0"), good.replace("&next_lsn=0", "")]
        mistakes += [good.replace(format_keys(ALL_KEYS), keys) for keys in ("", "80-40")]
        mistakes.append(self._feed.name_read("no-such-range", via, 0, ALL_KEYS, 1))
        for what in mistakes:
            reply = await self._feed.ask(what)
            if reply.status != HTTPStatus.BAD_REQUEST:
                raise WrongAnswer(f"HTTP {reply.status} to {what}")

    # --- choosing

    def _choose_ranges(self) -> list[tuple[str, str]]:
        """Some live and closed ranges, each with a live range to ask."""
        closed = sorted(self._lineage.closed)[:SOME_RANGES]
        return [
            *((leaf.id, leaf.id) for leaf in self._live[:SOME_RANGES]),
            *((name, self._lineage.heirs(name)[0].id) for name in closed),
        ]

    async def _choose_contents(self) -> list[tuple[str, str, Page]]:
        contents = [(name, via, await self._feed.read_all(name, via)) for name, via in self._choose_ranges()]
        with_changes = [some for some in contents if some[2].changes]
        if not with_changes:
            raise _Lacking("the feed has no change")
        return with_changes


def _compare(expected: Page, other: Page, what: str) -> None:
    """Compare two readings as far as both went."""
    end = min(expected.next_lsn, other.next_lsn)
    wanted, read = (
        [(change.lsn, change.path, change.op) for change in content.changes if change.lsn < end]
        for content in (expected, other)
    )
    if wanted != read:
        odd = min(set(wanted) ^ set(read), default=(end, "", ""))
        raise WrongAnswer(f"{what}: the changes differ, first at LSN {odd[0]}")


def _expect_refusal(reply: FeedReply, status: int, member: str, value: object) -> None:
    if reply.status != status:
        raise WrongAnswer(f"HTTP {reply.status} instead of {status:d}")
    if "error" not in reply.document or reply.document.get(member) != value:
        raise WrongAnswer(f"{member} is {reply.document.get(member)} instead of {value}")


async def check_feed(url: str, report: Callable[[Finding], None], *, network: Network, clock: Clock) -> int:
    """Check the server at ``url``, and return how many rules it breaks.

    Raises:
        UsageError: the URL cannot be a feed's.
        SourceError: the server does not answer.
    """
    whole = parse_feed_url(url)
    web = open_web(network, clock)
    try:
        return await Conformance(whole, web).run(report)
    finally:
        await web.close()
