"""From the name that a person gives a feed to its source."""

import random

from cfetch.clock import Clock
from cfetch.errors import UsageError
from cfetch.feed.http_source import HttpSource
from cfetch.feed.source import FeedSource
from cfetch.secret import SecretUrl, printable
from cfetch.transfer.http import HttpTransport
from cfetch.transfer.network import Network

__all__ = ["opened"]

CONNECT_TIMEOUT_S = 10.0


def opened(name: str, *, network: Network, clock: Clock) -> FeedSource:
    """In the event loop that is to read it. Nothing is asked yet. Raises UsageError: it is no feed's name."""
    if name.lower().startswith(("http://", "https://")):
        transport = HttpTransport(connect_timeout_s=CONNECT_TIMEOUT_S, network=network)
        return HttpSource(SecretUrl(name), transport=transport, clock=clock, jitter=random.random)
    raise UsageError(f"{printable(name)} is no feed's name: give a URL")
