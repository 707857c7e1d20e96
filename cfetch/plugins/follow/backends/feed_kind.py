"""What a kind of feed states about itself, so that its name opens it: the object of a row of feeds.

A feed is named ``KIND+TRANSFER://…`` or ``KIND://…``. The row of KIND stands in ``base/registry.py``, or is
an entry point of the group ``cfetch.feeds`` of another distribution; its object is a ``FeedKind``.
"""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlsplit, urlunsplit

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import UrlError
from cfetch.manifest.object_urls import split_object_url
from cfetch.manifest.urls import resolve_url
from cfetch.plugins.follow.backends.change_log import ChangeLog
from cfetch.plugins.follow.backends.observed import ObservedSource, Upstream
from cfetch.plugins.follow.backends.web import Web, open_web
from cfetch.plugins.follow.source import FeedSource
from cfetch.wire.network import Network

_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


class FeedName(NamedTuple):
    """A feed's name as a person gives it, taken apart; ``url`` is the name without ``KIND+``."""

    text: str
    kind: str
    transfer: str
    url: str


class FeedContext(NamedTuple):
    """What an opener gets beside the name; ``open_feed`` says what each value means."""

    network: Network
    clock: Clock
    directory: Path | None = None
    tell_left_out: Callable[[str], None] | None = None
    begin_s: float | None = None

    def open_log(self, upstream: Upstream) -> FeedSource:
        """The feed of a source without a log, which cfetch keeps (``observed.py``). Raises LocalFault."""
        with ExitStack() as stack:
            directory = self.directory
            if directory is None:
                directory = Path(stack.enter_context(TemporaryDirectory(prefix="cfetch-feed-")))
            log = ChangeLog(directory)
            stack.callback(log.close)
            return ObservedSource(upstream, log, stack.pop_all().close, self.tell_left_out)


class FeedKind(NamedTuple):
    """A kind of feed.

    ``form``: how its name is written, for messages. ``open`` makes its source in the event loop that will
    read it, and sends no request; it raises UsageError and LocalFault. ``transfers``: the schemes that may
    stand behind ``KIND+``; none: the name is ``KIND://…``. ``is_owners``: only who may write to the reader's
    own account can write the feed, so that its links may lead anywhere. ``lists_all``: it can tell all files
    that there are, and not only the latest changes. ``begins_at_times``: it can begin with the first change
    after a time, so its opener heeds ``FeedContext.begin_s``.
    """

    form: str
    open: Callable[[FeedName, FeedContext], FeedSource]
    transfers: tuple[str, ...] = ()
    is_owners: bool = False
    lists_all: bool = True
    begins_at_times: bool = False


MakeUpstream = Callable[[SecretUrl, Web, list[str]], Upstream]


def observe(option: str, make: MakeUpstream) -> Callable[[FeedName, FeedContext], FeedSource]:
    """An opener of a source without a log, which is asked over http.

    The URL's query has an option of cfetch, called ``option`` if there is any; ``make`` gets its values, and
    the source is asked without it.
    """

    def open_observed(name: FeedName, context: FeedContext) -> FeedSource:
        url = SecretUrl(check_url(name.url))
        parts = urlsplit(url.reveal())
        query = parse_qs(parts.query, keep_blank_values=True)
        if unknown := query.keys() - {option}:
            there = f"known is {option}=" if option else "there are none"
            raise UsageError(f"{url}: {printable(min(unknown), 40)} is no option of {name.kind}+…; {there}")
        plain = SecretUrl(urlunsplit(parts._replace(query="")))
        upstream = make(plain, open_web(context.network, context.clock), query.get(option, []))
        return context.open_log(upstream)

    return open_observed


def check_url(text: str) -> str:
    """Check that the text is a URL that a manifest might state. Raises UsageError."""
    try:
        url = resolve_url(text.partition("#")[0], lambda: None)
    except UrlError as error:
        raise UsageError(f"the feed's URL cannot be used: {error}") from None
    if "@" in urlsplit(url).netloc:  # a feed is named in many places, which must not show a login
        raise UsageError(
            "the feed's URL cannot be used: it holds userinfo; give the login as a header: --header, "
            "--header-host"
        )
    return url


def check_table_url(name: FeedName) -> str:
    """The URL of a table in an object store. Raises UsageError."""
    if split_object_url(name.url) is None:
        raise UsageError(
            f"{show_name(name.url)} is not the URL of a bucket and a prefix, as s3://BUCKET/TABLE"
        )
    return name.url


def show_name(name: str, limit: int = 200) -> str:
    """Show a name that cannot be opened, without passwords (whatever characters they have) and queries."""
    scheme, colon, rest = name.rpartition("://") if name.count("://") == 1 else ("", "", name)
    before, at_sign, after = rest.rpartition("@")
    shown = f"…@{after}" if at_sign and (colon or ":" in before) else rest
    path, mark, _ = shown.partition("?")
    return printable(f"{scheme}{colon}{path}{'?…' if mark else ''}", limit)


class Resource(NamedTuple):
    """A stream or a table of AWS: ``NAME?region=REGION&endpoint=URL``; ``endpoint`` is of another service."""

    name: str
    region: str
    endpoint: str | None


def parse_resource(name: FeedName, what: str) -> Resource:
    """Take the name of a stream or a table apart. Raises UsageError."""
    fault = (
        f"is not the name of a {what}: give {name.kind}://{what.upper()}?region=REGION; credentials belong "
        "where AWS's own tools look"
    )
    try:
        parts = urlsplit(name.text)
    except ValueError:
        raise UsageError(f"{show_name(name.text)} {fault}") from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    region, endpoint = query.pop("region", ""), query.pop("endpoint", None)
    is_named = _STREAM.fullmatch(parts.netloc) and _REGION.fullmatch(region)
    if query or not is_named or len(pairs) > len({*dict(pairs)}) or parts.path.strip("/") or parts.fragment:
        raise UsageError(f"{show_name(name.text)} {fault}")
    return Resource(parts.netloc, region, None if endpoint is None else check_url(endpoint))
