"""Opens the source of a feed from the name that a person gives it, by the table of feeds."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cfetch.base.clock import Clock
from cfetch.base.entry_points import make_plugin_error
from cfetch.base.errors import UsageError
from cfetch.base.registry import SHIPPED, find, list_names, load
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, show_name
from cfetch.plugins.follow.server.segments.files import DirectoryFiles
from cfetch.plugins.follow.server.segments.index import INDEX_NAME
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.source import FeedSource
from cfetch.wire.network import Network


def open_feed(
    name: str,
    *,
    network: Network,
    clock: Clock,
    directory: Path | None = None,
    tell_left_out: Callable[[str], None] | None = None,
    begin_s: float | None = None,
) -> FeedSource:
    """Open a feed in the event loop that will read it; no request is sent yet.

    ``directory``: of the log of an observed source (``observed.py``); None: a temporary one, so that the
    source is listed anew. ``tell_left_out`` gets each file that the source or its publisher leaves out.
    ``begin_s``: leave out what changed before this time, in seconds since 1970; only for ``begins_at_times``.

    Raises:
        UsageError: the name cannot be that of a feed.
        LocalFault: the log cannot be opened.
    """
    if "://" not in name:
        if not (Path(name) / INDEX_NAME).is_file():
            what = f"{show_name(name)} is not a directory with an {INDEX_NAME}"
            raise UsageError(f"{what}; known are {_list_known()}")
        return SegmentSource(DirectoryFiles(Path(name)))
    parts = _split(name)
    kind = _find_kind(parts)
    if kind is None:
        scheme = show_name(name.partition("://")[0], 40)
        raise UsageError(f"{scheme}:// is not a kind of feed that cfetch knows; known are {_list_known()}")
    return kind.open(parts, FeedContext(network, clock, directory, tell_left_out, begin_s))


def find_host(name: str) -> str | None:
    """The host of a feed, as ``SecretUrl.host``; None: only its owner can write the feed, so it has none.

    That is a directory, and a stream, a queue or a table in the reader's own account.
    """
    parts = _split(name)
    kind = _find_kind(parts)
    if kind is None or kind.is_owners:
        return None
    return SecretUrl(parts.url).host()


def begins_at_times(name: str) -> bool:
    """Whether the feed can begin with the first change after a time."""
    kind = _find_kind(_split(name))
    return kind is not None and kind.begins_at_times


def lists_all_files(name: str) -> bool:
    """Whether the feed can tell all files that there are."""
    kind = _find_kind(_split(name))
    return kind is None or kind.lists_all


def _split(name: str) -> FeedName:
    scheme, colon, rest = name.partition("://")
    kind, plus, transfer = scheme.lower().rpartition("+")
    if not plus:
        kind, transfer = (transfer, transfer) if transfer in WEB else (transfer, "")
    return FeedName(name, kind if colon else "", transfer, f"{transfer}://{rest}" if transfer else name)


def _find_kind(name: FeedName) -> FeedKind | None:
    """The kind of a feed; None: there is none, or not with this transfer. Raises UsageError: it is broken."""
    if name.kind not in SHIPPED["feeds"] and (not name.kind or find("feeds", name.kind) is None):
        return None
    kind = load("feeds", name.kind)
    if not isinstance(kind, FeedKind):
        raise make_plugin_error("feeds", name.kind, TypeError("its object is no FeedKind"))
    is_plain = name.transfer in ("", name.kind) and "+" not in name.text.partition("://")[0]
    if is_plain:
        return kind if name.transfer in kind.transfers or not kind.transfers else None
    return kind if name.transfer in kind.transfers and name.transfer != name.kind else None


def _list_known() -> str:
    """The forms of all names of feeds; a kind that does not load is left out."""
    forms: dict[str, None] = {}
    for name in list_names("feeds"):
        with suppress(UsageError):
            kind = load("feeds", name)
            forms[kind.form if isinstance(kind, FeedKind) else name] = None
    return f"{', '.join(forms)}, or a directory with an {INDEX_NAME}"
