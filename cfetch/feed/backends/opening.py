"""Opens the source of a feed from the name that a person gives it."""

import random
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from cfetch.clock import Clock
from cfetch.errors import UsageError
from cfetch.feed.backends.http import HttpSource
from cfetch.feed.backends.segment_files import DirectoryFiles, UrlFiles
from cfetch.feed.backends.segment_index import INDEX_NAME
from cfetch.feed.backends.segments import SegmentSource
from cfetch.feed.backends.serial import SerialSource
from cfetch.feed.source import FeedSource
from cfetch.manifest.urls import UrlError, resolve_url
from cfetch.secret import SecretUrl, printable
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import Network

CONNECT_TIMEOUT_S = 10.0
KNOWN = (
    "an http(s):// URL, serial+http(s)://…, segments+http(s)://…, kinesis://STREAM?region=REGION, "
    f"or a directory with an {INDEX_NAME}"
)
NO_STREAM = (
    "is not the name of a stream: give kinesis://STREAM?region=REGION; credentials belong where AWS's own "
    "tools look"
)
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


def open_feed(name: str, *, network: Network, clock: Clock) -> FeedSource:
    """Open a feed in the event loop that will read it; no request is sent yet.

    Raises:
        UsageError: the name cannot be that of a feed.
    """
    scheme, colon, rest = name.partition("://")
    kind, plus, transfer = scheme.lower().rpartition("+")
    is_known = (kind in ("serial", "segments")) if plus else not kind
    if colon and transfer in ("http", "https") and is_known:
        return _open_http(kind, SecretUrl(_check_url(f"{transfer}://{rest}")), network, clock)
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

    That is a directory, and a stream in the reader's own account.
    """
    scheme, _, rest = name.partition("://")
    transfer = scheme.lower().rpartition("+")[2]
    return SecretUrl(f"{transfer}://{rest}").host() if transfer in ("http", "https") else None


def _open_http(kind: str, url: SecretUrl, network: Network, clock: Clock) -> FeedSource:
    if not kind and "?" in url.reveal():  # checked before there is a transport, which would need a close
        raise UsageError(f"a feed's URL has no query: {url}")
    transport = HttpTransport(connect_timeout_s=CONNECT_TIMEOUT_S, network=network)
    if kind == "segments":
        return SegmentSource(UrlFiles(url, transport=transport, clock=clock, jitter=random.random))
    source = SerialSource if kind == "serial" else HttpSource
    return source(url, transport=transport, clock=clock, jitter=random.random)


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


def _open_kinesis(name: str, clock: Clock) -> FeedSource:
    """Open ``kinesis://STREAM?region=REGION&endpoint=URL``; ``endpoint``: of a service other than AWS."""
    from cfetch.feed.backends.kinesis import KinesisSource
    from cfetch.feed.backends.kinesis_api import KinesisApi

    try:
        parts = urlsplit(name)
    except ValueError:
        raise UsageError(f"{_show_name(name)} {NO_STREAM}") from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    stream, region, endpoint = parts.netloc, query.pop("region", ""), query.pop("endpoint", None)
    is_whole = _STREAM.fullmatch(stream) and _REGION.fullmatch(region) and len(pairs) == len({*dict(pairs)})
    if query or not is_whole or parts.path.strip("/") or parts.fragment:
        raise UsageError(f"{_show_name(name)} {NO_STREAM}")
    api = KinesisApi(
        stream,
        region=region,
        clock=clock,
        jitter=random.random,
        endpoint=None if endpoint is None else _check_url(endpoint),
    )
    return KinesisSource(api, clock)
