"""A bucket whose events come through an SQS queue, after a listing: each named key is looked up as it is now.

So neither the order of events matters nor their repetition, and an event of a lost message is made up for by
the next listing (``--resync``). Messages are removed from the queue when their news are written down. Events
may come directly from S3, through SNS, or through EventBridge.
"""

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from cfetch.base.errors import HostileFeed, UsageError
from cfetch.base.schemes import S3, WEB, WEB_PATTERN, scheme_of
from cfetch.base.secret import printable
from cfetch.manifest.object_urls import Listing, make_listing, split_object_url
from cfetch.plugins.follow.backends.aws import AwsClient
from cfetch.plugins.follow.backends.change_log import News, Seen
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_url, show_name
from cfetch.plugins.follow.backends.web import ask_together
from cfetch.plugins.follow.source import FeedSource
from cfetch.storage.buckets.object_reader import ObjectReader
from cfetch.storage.buckets.object_source import list_objects

LISTING = "listing"  # the cursor while the bucket is being listed: an interrupted listing begins anew
QUEUE = "queue"  # the cursor from then on: the queue itself knows what is new
LISTED = 10_000  # objects of one answer
MESSAGES = 10  # SQS gives no more at once
WAIT_S = 1  # SQS asks all of its servers only if it may wait
REGION = re.compile(rf"{WEB_PATTERN}://sqs\.([a-z0-9-]+)\.")


class BucketUpstream:
    """An ``Upstream``: the objects of ``listing``, and the queue at ``queue_url`` with their events."""

    def __init__(self, queue_url: str, listing: Listing, client: AwsClient) -> None:
        self.shown = printable(f"{listing.store}/{listing.prefix}")
        self.account = f"{listing.store}/{listing.prefix}"
        self._queue_url = queue_url
        self._listing = listing
        self._client = client
        self._reader = ObjectReader(listing.store)
        self._objects: Iterator[tuple[dict[str, object], str]] | None = None
        self._listed_up_to = ""
        self._receipts: list[str] = []

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says."""
        return await (self._receive() if cursor == QUEUE else self._list())

    async def close(self) -> None:
        """Close connections. Messages whose news were written down last come once more."""
        await self._client.close()

    async def _list(self) -> News:
        if self._objects is None:
            self._objects, self._listed_up_to = list_objects(self._listing), ""
        some = await asyncio.to_thread(list, islice(self._objects, LISTED))
        low, is_whole = self._listed_up_to, len(some) < LISTED
        self._listed_up_to = "" if is_whole else f"{some[-1][0]['path']}\0"
        seen = [_make_seen(row, version) for row, version in some]
        cursor = QUEUE if is_whole else LISTING
        return News(cursor, seen, [(low, self._listed_up_to)], is_last=False)

    async def _receive(self) -> News:
        await self._remove_messages()
        reply = await self._client.ask(
            "receive_message",
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=MESSAGES,
            WaitTimeSeconds=WAIT_S,
        )
        messages = reply.get("Messages", [])
        keys = dict.fromkeys(key for message in messages for key in self._read_keys(message["Body"]))
        seen = await ask_together([partial(self._read_object, key) for key in keys])
        self._receipts = [message["ReceiptHandle"] for message in messages]
        return News(QUEUE, seen, is_last=not messages)

    async def _remove_messages(self) -> None:
        """Remove the messages of the answer before, whose news are written down by now."""
        if self._receipts:
            entries = [{"Id": str(n), "ReceiptHandle": receipt} for n, receipt in enumerate(self._receipts)]
            await self._client.ask("delete_message_batch", QueueUrl=self._queue_url, Entries=entries)
            self._receipts = []

    def _read_keys(self, body: str) -> Iterator[str]:
        """The keys that a message names, if they are of this listing. Raises HostileFeed."""
        bucket = self._listing.store.partition("://")[2]
        try:
            document = json.loads(body)
            if "Message" in document:  # through SNS
                document = json.loads(document["Message"])
            named = list(_list_objects_of(document))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise HostileFeed(f"a message of the queue of {self.shown} is no event of a bucket") from None
        for name, key in named:
            rest = key.removeprefix(self._listing.prefix)
            is_below = name == bucket and key.startswith(self._listing.prefix)
            if is_below and self._listing.pattern.match(rest) and not key.endswith("/"):
                yield rest

    async def _read_object(self, rest: str) -> Seen:
        about = await self._reader.find_object(f"{self._listing.prefix}{rest}")
        if about is None:
            return Seen(rest, None)
        size_bytes, version = about
        url = f"{self._listing.store}/{self._listing.prefix}{rest}"
        return _make_seen({"url": url, "path": rest, "size": size_bytes}, version)


def _make_seen(row: dict[str, object], version: str) -> Seen:
    path = str(row["path"])
    return Seen(path, {key: value for key, value in row.items() if key != "path"}, version)


def _list_objects_of(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Bucket and key of each object that an event names."""
    if "detail" in document:  # through EventBridge, which does not encode keys
        detail = document["detail"]
        yield detail["bucket"]["name"], detail["object"]["key"]
    elif document.get("Event") != "s3:TestEvent":  # S3 sends it when the queue is connected
        for record in document["Records"]:
            yield record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"])


def _open_queue(name: FeedName, context: FeedContext) -> FeedSource:
    """Open ``sqs+https://HOST/ACCOUNT/QUEUE?objects=s3://BUCKET/PREFIX/``."""
    address, _, query = check_url(name.url).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    named = [value for key, value in pairs if key == "objects"]
    listing = make_listing(split_object_url(named[0])) if len(named) == len(pairs) == 1 else None
    if listing is None or scheme_of(listing.store) != S3:
        raise UsageError(
            f"{show_name(name.text)} names no objects: give "
            "sqs+https://HOST/ACCOUNT/QUEUE?objects=s3://BUCKET/PREFIX/"
        )
    match = REGION.match(address)
    client = AwsClient(
        "sqs",
        "SQS",
        region=match[1] if match else None,
        endpoint=address[: -len(urlsplit(address).path)],
        own={},
        clock=context.clock,
        jitter=random.random,
    )
    return context.open_log(BucketUpstream(address, listing, client))


FEED = FeedKind("sqs+https://QUEUE?objects=s3://BUCKET/", _open_queue, WEB, is_owners=True)
