"""Which hosts the links of a feed may name."""

import pytest

from cfetch.base.errors import FeedError
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.link_hosts import LinkHosts
from cfetch.plugins.follow.protocol import parse_change

OWN = "feed.example:8080"


def change(url, **more):
    row = {"lsn": 1, "op": "upsert", "path": "a", "url": url, "size": 1} | more
    return parse_change(row, Document(), "a row")


@pytest.mark.parametrize("url", ["http://feed.example:8080/a", "https://FEED.example:8080/b"])
def test_the_feeds_own_host_is_allowed(url):
    LinkHosts(OWN, ()).check_links([change(url)])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://feed.example/a", "feed.example"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("https://cdn.example/a", "cdn.example"),
        ("s3://feed.example/a", "s3://feed.example"),
    ],
)
def test_another_host_has_to_be_named(url, host):
    """Another port of the feed's host, and a bucket of its name, are others."""
    with pytest.raises(FeedError, match=f"--allow-host {host}"):
        LinkHosts(OWN, ()).check_links([change(url)])
    LinkHosts(OWN, [host]).check_links([change(url)])
    LinkHosts(OWN, ["*"]).check_links([change(url)])


def test_mirrors_are_links_too():
    row = change("http://feed.example:8080/a", mirrors=["http://intranet/a"])
    with pytest.raises(FeedError, match="intranet"):
        LinkHosts(OWN, ()).check_links([row])


def test_headers_of_a_feed_have_to_be_allowed():
    """Also for its own host, which may be at another address by then."""
    row = change("http://feed.example:8080/a", headers={"Metadata": "true"})
    with pytest.raises(FeedError, match=r"headers that the feed states, at feed\.example:8080"):
        LinkHosts(OWN, ()).check_links([row])
    LinkHosts(OWN, [OWN]).check_links([row])


def test_only_a_public_feed_is_guarded():
    """Any of its addresses counts: a name may lead to several, and only one may answer."""
    public = ("10.0.0.1", "93.184.216.34")
    assert LinkHosts(OWN, (), public).is_public_feed()
    assert not LinkHosts(OWN, (), public[:1]).is_public_feed()
    assert not LinkHosts(OWN, ["intranet"], public).is_public_feed()
    assert not LinkHosts(None, (), public).is_public_feed()
