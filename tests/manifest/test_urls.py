"""Links that are joined to the address of the document that states them."""

import pytest

from cfetch.manifest.faults import UrlError
from cfetch.manifest.url_completion import join_url
from cfetch.manifest.urls import resolve_url
from cfetch.plugins.follow.backends.package_index import _File, _make_row
from cfetch.plugins.formats.stac import find_next_page

BASE = "http://a.test/d/x"


@pytest.mark.parametrize(
    "text", ["http:///b.test/f", "HTTP:f", "http:/f", "https:///f", "///b.test/f", "//?f"]
)
def test_a_link_with_a_scheme_and_no_host_leads_nowhere(text):
    """Python would take it for a path on the base's own server, which may have another file there."""
    with pytest.raises(UrlError, match="it has no host"):
        join_url(BASE, text)
    with pytest.raises(UrlError, match="it has no host"):
        resolve_url(text, lambda: BASE)
    assert find_next_page({"links": [{"rel": "next", "href": text}]}, BASE) is None
    assert _make_row(_File("f", text), BASE) == {"url": text}


@pytest.mark.parametrize(
    ("text", "url"),
    [("//b.test/f", "http://b.test/f"), ("/f", "http://a.test/f"), ("f//g", "http://a.test/d/f//g")],
)
def test_other_links_are_joined_by_the_standard(text, url):
    """RFC 3986, 5.3."""
    assert join_url(BASE, text) == resolve_url(text, lambda: BASE) == url
