"""The check of a feed server: ours passes, and a server with any planted fault does not."""

import asyncio
import json

import pytest
from aiohttp import web

from cfetch.base.clock import SystemClock
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.server.conformance import Conformance, Finding
from cfetch.plugins.follow.server.handler import feed_app
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.server.store import FeedStore, NewChange
from cfetch.wire.http import HttpTransport
from tests.app.command import cfetch
from tests.plugins.follow.http_world import serve_here


@pytest.fixture
def store(tmp_path):
    """Range 0 has split, and one of its children too; the other has merged with a grandchild."""
    store = FeedStore(tmp_path / STATE_DIRECTORY)
    for name, turn in (("0", 0), ("2", 1), (None, 2)):
        store.publish(
            [NewChange(f"{turn}/{n}", more=f'{{"url": "x", "size": {n}}}') for n in range(12)]
            + ([NewChange(f"{turn - 1}/{n}") for n in range(3)] if turn else []),
            at_s=0,
        )
        if name is not None:
            store.split(name)
    low, middle, _ = sorted(store.list_ranges()[1], key=lambda live: live.keys)
    store.merge(low.id, middle.id)
    store.publish([NewChange(f"3/{n}", more='{"url": "x", "size": 1}') for n in range(8)], at_s=0)
    yield store
    store.close()


async def check(store, fault=None):
    """The rules that the server breaks, with the reasons. A fault changes some of its answers."""
    app = feed_app(store, None)
    if fault is not None:
        _, applies, change = FAULTS[fault]

        @web.middleware
        async def break_rule(request, handler):
            reply = await handler(request)
            body = json.loads(reply.body) if reply.body else {}
            if not applies(request, reply.status, body):
                return reply
            status, more = change(body)
            etag = reply.headers.get("ETag", "") if status == 200 else ""
            headers = {"ETag": f"W/{etag}" if "weak" in fault else etag} if etag else {}
            return web.json_response(body | more, status=status, headers=headers)

        app.middlewares.insert(0, break_rule)
    runner = await serve_here(app)
    asker = Web(HttpTransport(connect_timeout_s=10), SystemClock(), lambda: 0.0)
    findings: list[Finding] = []
    kit = Conformance(SecretUrl(runner.url), asker)
    wrong = await kit.run(findings.append)
    await asker.close()
    await runner.cleanup()
    assert wrong == sum(finding.result == "wrong" for finding in findings)
    assert [finding for finding in findings if finding.result == "not checked"] == []
    return {finding.check: finding.why for finding in findings if finding.result == "wrong"}


async def test_the_reference_server_keeps_every_rule(store):
    assert await check(store) == {}


@pytest.mark.parametrize(("splits", "result"), [(1, "right"), (9, "not checked")])
async def test_a_feed_that_splits_during_the_check_gets_a_verdict(store, splits, result):
    """Its answers are no faults: what changed is read anew, three times, and then the check says so."""
    app, lists, left = feed_app(store, None), 0, [splits]

    @web.middleware
    async def split_after_lists(request, handler):
        nonlocal lists
        lists += request.path == "/" and "If-None-Match" not in request.headers
        if request.path == "/info" and lists and left[0]:
            lists, left[0] = 0, left[0] - 1
            store.split(request.query["via"])
        return await handler(request)

    app.middlewares.insert(0, split_after_lists)
    runner = await serve_here(app)
    asker = Web(HttpTransport(connect_timeout_s=10), SystemClock(), lambda: 0.0)
    findings: list[Finding] = []
    wrong = await Conformance(SecretUrl(runner.url), asker).run(findings.append)
    await asker.close()
    await runner.cleanup()
    assert {finding.check: finding.result for finding in findings}["lsns"] == result
    assert [finding for finding in findings if finding.result == "wrong"] == []
    assert wrong == (result != "right")  # nothing further can be checked


def listed(_, __, body):
    return "ranges" in body


def paged(_, __, body):
    return bool(body.get("changes"))


def refused(code, member):
    return lambda _, status, body: status == code and member in body


FAULTS = {  # the rule, the answers that are changed, and how
    "a gap in the list": ("list", listed, lambda body: (200, {"ranges": body["ranges"][1:]})),
    "a weak ETag": ("list", listed, lambda _: (200, {})),
    "the known list again": (
        "unchanged",
        lambda request, status, _: request.path == "/" and status == 304,
        lambda _: (200, {}),
    ),
    "a child that begins too early": (
        "lsns",
        lambda _, __, body: "last" in body and body["last"] is None,
        lambda body: (200, {"first": body["first"] - 1}),
    ),
    "heirs that do not agree": (
        "lsns",
        lambda request, _, body: body.get("last") is not None and request.query["via"] == "4",
        lambda body: (200, {"last": body["last"] + 1}),
    ),
    "more changes than asked for": (
        "pages",
        lambda request, *of: paged(request, *of) and request.query["limit"] == "3",
        lambda body: (
            200,
            {"changes": [*body["changes"], body["changes"][-1] | {"lsn": 999}], "next_lsn": 1000},
        ),
    ),
    "a change lost between pages": (
        "pages",
        lambda request, *of: paged(request, *of) and request.query["limit"] == "3",
        lambda body: (200, {"next_lsn": body["next_lsn"] + 1}),
    ),
    "a page that goes back": ("pages", paged, lambda body: (200, {"next_lsn": body["changes"][-1]["lsn"]})),
    "the requested LSN is skipped": (
        "middle",
        lambda request, *of: paged(request, *of) and request.query["next_lsn"] != "0",
        lambda body: (200, {"changes": body["changes"][1:]}),
    ),
    "keys that were not asked for": (
        "keys",
        lambda request, *of: paged(request, *of) and not request.query["keys"].endswith("-"),
        lambda body: (200, {"changes": [body["changes"][0] | {"key": "f" * 32}]}),
    ),
    "a key lost at the edge": (
        "keys",
        lambda request, *of: paged(request, *of) and not request.query["keys"].startswith("0" * 32),
        lambda body: (200, {"changes": body["changes"][1:]}),
    ),
    "a path with two keys": (
        "paths",
        lambda request, *of: paged(request, *of) and request.query["of"] in ("0", "2"),
        lambda body: (
            200,
            {"changes": [row | {"path": "same", "key": row["key"]} for row in body["changes"]]},
        ),
    ),
    "no 304 at the end": (
        "end",
        lambda request, status, _: request.path == "/read" and status == 304,
        lambda _: (200, {"schema": "cfetch.feed/1"}),
    ),
    "half of an archive": (
        "archives",
        lambda request, *of: (
            paged(request, *of) and request.query["of"] == "0" and request.query["via"] == "5"
        ),
        lambda body: (200, {"changes": body["changes"][::2]}),
    ),
    "a closed range is not gone": ("gone", refused(410, "code"), lambda _: (404, {})),
    "another feed is only gone": ("other feed", refused(410, "code"), lambda _: (410, {"code": 1002})),
    "nothing is beyond the end": ("ahead", refused(409, "next_lsn"), lambda _: (409, {"next_lsn": 0})),
    "dropped changes are passed over": (
        "kept",
        refused(416, "kept_from"),
        lambda _: (200, {"schema": "cfetch.feed/1"}),
    ),
    "a closed range ends in a refusal": (
        "closed end",
        lambda request, *_: int(request.query.get("next_lsn", 0)) > 1 << 39 and request.query["of"] == "0",
        lambda _: (409, {"next_lsn": 0}),
    ),
    "a restored position loses what has merged": (
        "restored",
        lambda request, *of: (
            paged(request, *of)
            and request.query["of"] in ("0", "2")
            and request.query["next_lsn"] not in ("0", "1")
            and not request.query["keys"].startswith("0" * 32)
        ),
        lambda body: (200, {"changes": body["changes"][:-1]}),
    ),
    "any mark is right": ("marks", refused(409, "mark"), lambda _: (400, {})),
    "mistakes are not found": ("mistakes", lambda _, status, __: status == 400, lambda _: (404, {})),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_named(store, fault):
    """By the rule that it breaks, perhaps with others."""
    assert FAULTS[fault][0] in await check(store, fault)


async def test_the_command_names_faults(store):
    """Exit code 0, or 1 with the broken rules; what a feed lacks is named too."""
    runner = await serve_here(feed_app(store, None))
    done = await asyncio.to_thread(cfetch, "feed", "check", runner.url)
    as_json = await asyncio.to_thread(cfetch, "feed", "check", runner.url, "--json")
    await runner.cleanup()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "17 rules kept")
    assert {row["result"] for row in json.loads(as_json.stdout)["findings"]} == {"right"}
