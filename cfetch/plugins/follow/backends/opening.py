"""Opens the source of a feed from the name that a person gives it."""

import os
import random
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlsplit, urlunsplit

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.schemes import OBJECT_STORES, S3, WEB, scheme_of
from cfetch.base.secret import SecretText, SecretUrl, printable
from cfetch.manifest.object_urls import make_listing, split_object_url
from cfetch.manifest.urls import UrlError, resolve_url
from cfetch.plugins.follow.backends.change_log import ChangeLog
from cfetch.plugins.follow.backends.cosmos import KEY_VARIABLE, CosmosUpstream
from cfetch.plugins.follow.backends.couchdb import CouchdbUpstream
from cfetch.plugins.follow.backends.delta import DeltaUpstream
from cfetch.plugins.follow.backends.http import HttpSource
from cfetch.plugins.follow.backends.iceberg import IcebergUpstream
from cfetch.plugins.follow.backends.observed import ObservedSource, Upstream
from cfetch.plugins.follow.backends.osm import MOST as MOST_NUMBER
from cfetch.plugins.follow.backends.osm import OsmUpstream
from cfetch.plugins.follow.backends.package_index import KIND as PACKAGE_INDEX
from cfetch.plugins.follow.backends.package_index import IndexUpstream
from cfetch.plugins.follow.backends.segment_files import DirectoryFiles, UrlFiles
from cfetch.plugins.follow.backends.segment_index import INDEX_NAME
from cfetch.plugins.follow.backends.segments import SegmentSource
from cfetch.plugins.follow.backends.serial import SerialSource
from cfetch.plugins.follow.backends.web import Web, open_web
from cfetch.plugins.follow.source import FeedSource
from cfetch.wire.network import Network

KNOWN = (
    "an http(s):// URL, serial+http(s)://…, segments+http(s)://…, pypi+http(s)://…, couchdb+http(s)://…, "
    "osm+http(s)://…, cosmos+https://…, delta+s3://BUCKET/TABLE, iceberg+s3://BUCKET/TABLE, "
    "sqs+https://QUEUE?objects=s3://BUCKET/, dynamodb://TABLE?region=REGION, kinesis://STREAM?region=REGION, "
    f"or a directory with an {INDEX_NAME}"
)
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


def open_feed(
    name: str,
    *,
    network: Network,
    clock: Clock,
    directory: Path | None = None,
    tell_left_out: Callable[[str], None] | None = None,
) -> FeedSource:
    """Open a feed in the event loop that will read it; no request is sent yet.

    ``directory``: of the log of an observed source (``observed.py``); None: a temporary one, so that the
    source is listed anew. ``tell_left_out`` gets each file that the source or its publisher leaves out.

    Raises:
        UsageError: the name cannot be that of a feed.
        LocalFault: the log cannot be opened.
    """
    scheme, colon, rest = name.partition("://")
    kind, plus, transfer = scheme.lower().rpartition("+")
    if colon and transfer in WEB and (not plus or kind in ("serial", "segments", *_OBSERVED)):
        url = SecretUrl(_check_url(f"{transfer}://{rest}"))
        if kind in _OBSERVED:
            return _open_log(_observe(kind, url, network, clock), directory, tell_left_out)
        return _open_http(kind, url, network, clock, tell_left_out)
    if colon and kind == "sqs" and transfer in WEB:
        upstream = _open_queue(name, _check_url(f"{transfer}://{rest}"), clock)
        return _open_log(upstream, directory, tell_left_out)
    if colon and kind in ("delta", "iceberg") and transfer in OBJECT_STORES:
        make_table = DeltaUpstream if kind == "delta" else IcebergUpstream
        return _open_log(make_table(_check_object_url(f"{transfer}://{rest}")), directory, tell_left_out)
    if colon and scheme.lower() == "dynamodb":
        return _open_log(_open_dynamodb(name, clock), directory, tell_left_out)
    if colon and scheme.lower() == "kinesis":
        return _open_kinesis(name, clock)
    if colon:
        raise UsageError(
            f"{_show_name(scheme, 40)}:// is not a kind of feed that cfetch knows; known are {KNOWN}"
        )
    if not (Path(name) / INDEX_NAME).is_file():
        raise UsageError(f"{_show_name(name)} is not a directory with an {INDEX_NAME}; known are {KNOWN}")
    return SegmentSource(DirectoryFiles(Path(name)))


def find_host(name: str) -> str | None:
    """The host of a feed, as ``SecretUrl.host``; None: only its owner can write the feed, so it has none.

    That is a directory, and a stream, a queue or a table in the reader's own account.
    """
    scheme, _, rest = name.partition("://")
    kind, _, transfer = scheme.lower().rpartition("+")
    if kind == "sqs":
        return None
    return SecretUrl(f"{transfer}://{rest}").host() if transfer in WEB else None


def _open_http(
    kind: str,
    url: SecretUrl,
    network: Network,
    clock: Clock,
    tell_left_out: Callable[[str], None] | None,
) -> FeedSource:
    if not kind and "?" in url.reveal():  # checked before there is a transport, which would need a close
        raise UsageError(f"a feed's URL has no query: {url}")
    web = open_web(network, clock)
    if kind == "segments":
        return SegmentSource(UrlFiles(url, web))
    return SerialSource(url, web) if kind == "serial" else HttpSource(url, web, tell_left_out)


def _observe(kind: str, url: SecretUrl, network: Network, clock: Clock) -> Upstream:
    """Open an observed source. Its query has options of cfetch; the source is asked without them."""
    parts = urlsplit(url.reveal())
    query = parse_qs(parts.query, keep_blank_values=True)
    known, make = _OBSERVED[kind]
    if unknown := query.keys() - {known}:
        there = f"known is {known}=" if known else "there are none"
        raise UsageError(f"{url}: {printable(min(unknown), 40)} is no option of {kind}+…; {there}")
    plain = SecretUrl(urlunsplit(parts._replace(query="")))
    return make(plain, open_web(network, clock), query.get(known, []))


def _open_queue(name: str, url: str, clock: Clock) -> Upstream:
    """Open ``sqs+https://HOST/ACCOUNT/QUEUE?objects=s3://BUCKET/PREFIX/``."""
    from cfetch.plugins.follow.backends.aws import AwsClient
    from cfetch.plugins.follow.backends.bucket_events import REGION, BucketUpstream

    address, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    named = [value for key, value in pairs if key == "objects"]
    listing = make_listing(split_object_url(named[0])) if len(named) == len(pairs) == 1 else None
    if listing is None or scheme_of(listing.store) != S3:
        raise UsageError(
            f"{_show_name(name)} names no objects: give sqs+https://HOST/ACCOUNT/QUEUE?objects=s3://BUCKET/PREFIX/"
        )
    match = REGION.match(address)
    client = AwsClient(
        "sqs",
        "SQS",
        region=match[1] if match else None,
        endpoint=address[: -len(urlsplit(address).path)],
        own={},
        clock=clock,
        jitter=random.random,
    )
    return BucketUpstream(address, listing, client)


def _open_log(
    upstream: Upstream, directory: Path | None, tell_left_out: Callable[[str], None] | None
) -> FeedSource:
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="cfetch-feed-")))
        log = ChangeLog(directory)
        stack.callback(log.close)
        return ObservedSource(upstream, log, stack.pop_all().close, tell_left_out)


def _check_object_url(text: str) -> str:
    parts = split_object_url(text)
    if parts is None:
        raise UsageError(f"{_show_name(text)} is not the URL of a bucket and a prefix, as s3://BUCKET/TABLE")
    return text


def _make_couchdb(url: SecretUrl, web: Web, documents: list[str]) -> Upstream:
    return CouchdbUpstream(url, web, _check_url(documents[0]) if documents else None)


def _make_osm(url: SecretUrl, web: Web, first: list[str]) -> Upstream:
    if first and not (first[0].isascii() and first[0].isdigit() and int(first[0]) <= MOST_NUMBER):
        raise UsageError(f"{url}: from= is the first number that is wanted, as 6330000")
    return OsmUpstream(url, web, int(first[0]) if first else None)


def _make_cosmos(url: SecretUrl, web: Web, _: list[str]) -> Upstream:
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise UsageError(f"the login for {url} is missing: put the account's key into {KEY_VARIABLE}")
    return CosmosUpstream(url, web, SecretText(key))


_OBSERVED: dict[str, tuple[str, Callable[[SecretUrl, Web, list[str]], Upstream]]] = {
    PACKAGE_INDEX: ("project", IndexUpstream),
    "cosmos": ("", _make_cosmos),
    "couchdb": ("documents", _make_couchdb),
    "osm": ("from", _make_osm),
}
"""By the kind of source: its option in the query, if it has one, and the function that takes its values."""


def _check_url(text: str) -> str:
    """Check that the text is a URL that a manifest might state. Raises UsageError."""
    try:
        return resolve_url(text.partition("#")[0], lambda: None)
    except UrlError as error:
        raise UsageError(f"the feed's URL cannot be used: {error}") from None


def _show_name(name: str, limit: int = 200) -> str:
    """Show a name that cannot be opened, without passwords (whatever characters they have) and queries."""
    scheme, colon, rest = name.rpartition("://") if name.count("://") == 1 else ("", "", name)
    before, at_sign, after = rest.rpartition("@")
    shown = f"…@{after}" if at_sign and (colon or ":" in before) else rest
    path, mark, _ = shown.partition("?")
    return printable(f"{scheme}{colon}{path}{'?…' if mark else ''}", limit)


class _Named(NamedTuple):
    """A stream or a table of AWS: ``NAME?region=REGION&endpoint=URL``; ``endpoint`` is of another service."""

    name: str
    region: str
    endpoint: str | None


def _parse_named(name: str, kind: str) -> _Named:
    scheme = name.partition("://")[0].lower()
    fault = (
        f"is not the name of a {kind}: give {scheme}://{kind.upper()}?region=REGION; credentials belong "
        "where AWS's own tools look"
    )
    try:
        parts = urlsplit(name)
    except ValueError:
        raise UsageError(f"{_show_name(name)} {fault}") from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    region, endpoint = query.pop("region", ""), query.pop("endpoint", None)
    is_named = _STREAM.fullmatch(parts.netloc) and _REGION.fullmatch(region)
    if query or not is_named or len(pairs) > len({*dict(pairs)}) or parts.path.strip("/") or parts.fragment:
        raise UsageError(f"{_show_name(name)} {fault}")
    return _Named(parts.netloc, region, None if endpoint is None else _check_url(endpoint))


def _open_kinesis(name: str, clock: Clock) -> FeedSource:
    from cfetch.plugins.follow.backends.kinesis import KinesisSource
    from cfetch.plugins.follow.backends.kinesis_api import KinesisApi

    stream, region, endpoint = _parse_named(name, "stream")
    api = KinesisApi(stream, region=region, clock=clock, jitter=random.random, endpoint=endpoint)
    return KinesisSource(api, clock)


def _open_dynamodb(name: str, clock: Clock) -> Upstream:
    from cfetch.plugins.follow.backends.aws import AwsClient
    from cfetch.plugins.follow.backends.dynamodb import DynamoUpstream, make_expired

    table, region, endpoint = _parse_named(name, "table")

    def make(service: str) -> AwsClient:
        own = {"TrimmedDataAccessException": make_expired}
        return AwsClient(
            service, "DynamoDB", region=region, endpoint=endpoint, own=own, clock=clock, jitter=random.random
        )

    return DynamoUpstream(table, make("dynamodb"), make("dynamodbstreams"))
