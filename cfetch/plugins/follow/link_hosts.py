"""Which hosts the links of a feed may name. Pure.

A feed's publisher chooses where its followers send requests: perhaps to a service in a follower's own
network, with a header that makes it answer. So a link leads to the feed's own host, or to a host that a
person has named. Only named hosts get headers of the feed's rows.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from cfetch.base.errors import FeedError
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl, printable
from cfetch.plugins.follow.source import Change
from cfetch.wire.targets import is_public

ALL_HOSTS = "*"


@dataclass(frozen=True)
class LinkHosts:
    """``own``: the feed's host; None: only its reader can write the feed, so links may name all hosts.

    ``named``: hosts that a person has named. Hosts are as in URLs, with a port unless it is the usual one;
    ``s3://BUCKET`` for a bucket; ``ALL_HOSTS`` names all. ``addresses`` of the feed fill while it is read.
    """

    own: str | None
    named: Collection[str] = ()
    addresses: Collection[str] = ()

    def is_public_feed(self) -> bool:
        """Whether the feed is on the public internet, so that no link may lead into the own network.

        A person who has named hosts may have meant private ones.
        """
        return self.own is not None and not self.named and any(map(is_public, self.addresses))

    def check_links(self, changes: Iterable[Change]) -> None:
        """Check the links of changes.

        Raises:
            FeedError: a link or a header is for a host that is not allowed; it says how to allow it.
        """
        if self.own is None or ALL_HOSTS in self.named:
            return
        for change in changes:
            if change.entry is None:
                continue
            for url in (change.entry.url, *change.entry.mirrors):
                host = _name_host(url)
                if host in self.named:
                    continue
                if host != self.own:
                    matter = f"lies at {printable(host)}, which is not the feed's host"
                elif change.entry.headers:
                    matter = f"is to be requested with headers that the feed states, at {printable(host)}"
                else:
                    continue
                raise FeedError(
                    f"{printable(change.path)} of the feed {matter}; if its publisher may choose that, give "
                    f"--allow-host {printable(host)}. Nothing of this step was applied"
                )


def _name_host(url: SecretUrl) -> str:
    scheme = urlsplit(url.reveal()).scheme.lower()
    return url.host() if scheme in WEB else f"{scheme}://{url.host()}"
