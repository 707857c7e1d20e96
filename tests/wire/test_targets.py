"""Where redirects may lead (conditions 54-57, 59)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cfetch.base.errors import Refused
from cfetch.base.secret import SecretUrl
from cfetch.wire.targets import MAX_HOPS, next_hop

START = SecretUrl("https://a.test/dir/x?sig=CANARY")


def hop(location, url=START, seen=None):
    headers = CIMultiDict(
        [("Location", one) for one in ([location] if isinstance(location, str) else location)]
    )
    return next_hop(url, headers, [url] if seen is None else seen).reveal()


@pytest.mark.parametrize(("location", "target"), [
    ("https://b.test/y", "https://b.test/y"),
    ("/y?s=%3A%2F+x", "https://a.test/y?s=%3A%2F+x"),
    ("y", "https://a.test/dir/y"),
    ("//b.test:8443/y", "https://b.test:8443/y"),
    ("?q=1", "https://a.test/dir/x?q=1"),
    ("https://b.test/%7e%41?X-Amz-Credential=a%2Fb", "https://b.test/%7e%41?X-Amz-Credential=a%2Fb"),
    (["/y", "/y"], "https://a.test/y"),
    ("/a b/\u00fc?q=\udcfc c", "https://a.test/a%20b/%C3%BC?q=%FC%20c"),
    ("/\u202e", "https://a.test/%E2%80%AE"),
    ("https://b\u00fccher.test/\u00fc", "https://xn--bcher-kva.test/%C3%BC"),
    ("//u:p@%62.test:8/%62", "https://u:p@b.test:8/%62"),
    ("https:///b.test/y", "https://b.test/y"), ("https://@b.test/y", "https://b.test/y"), ("//:@b.test/y", "https://b.test/y"),
])  # fmt: skip
def test_targets_are_joined_and_never_quoted_again(location, target):
    """By RFC 3986, as the server wrote them; what no request can hold is encoded as browsers do it."""
    assert hop(location) == target


@pytest.mark.parametrize(("location", "words"), [
    ([], "nowhere"), (["/y", "/z"], r"several places; `curl -I` .* state the right one in place"),
    ("file:///etc/passwd", "not a plain"), ("ftp://b.test/y", "to ftp://…, which is not a plain .*: state"),
    ("gopher://b.test", "not a plain"),
    ("javascript:1", "not a plain"), ("https://u:p@b%2ftest/y", "not a plain"),
    ("https://:80/y", "not a plain"),
    *((text, "not a plain") for text in ("https:////b.test/y", "HTTPS:y", "https:/y", "///b.test/y", "//?y")),
    ("https://b.test:99999/y", "not a plain"), ("https://[::1/y", "not a plain"),
    ("https://b t.test/y", "not a plain"), ("https://\u00fc\udcff.test/y", "not a plain"),
    ("https://b%2ftest/y", "not a plain"), ("https://%ff/y", "not a plain"),
    ("https://\u2028.test/y", "not a plain"),
    ("/a\x1b[31m", "not a plain"), ("/\ud800", "not a plain"), ("http://a.test/dir/x", "from https to http"),
])  # fmt: skip
def test_54_55_56_what_is_refused(location, words):
    """Loops, steps down, other schemes, userinfo and unprintable targets; the message holds no URL."""
    with pytest.raises(Refused, match=words) as caught:
        hop(location)
    assert "CANARY" not in str(caught.value)
    assert "test" not in str(caught.value)


def test_55_a_step_up_is_fine():
    """From http to https."""
    assert hop("https://a.test/y", SecretUrl("http://a.test/x")) == "https://a.test/y"


def test_54_as_many_hops_as_curl_follows_are_the_limit():
    """The fiftieth redirect is followed, the next is not; to come back is a circle only the fifth time."""
    seen = [SecretUrl(f"https://a.test/{i}") for i in range(MAX_HOPS)]
    assert hop("/next", seen=seen)
    with pytest.raises(Refused, match="more than 50 times"):
        hop("/next", seen=[*seen, SecretUrl("https://a.test/last")])
    assert hop("/2", seen=[*seen[:10], seen[2], seen[2], seen[2]])
    with pytest.raises(Refused, match="circle"):
        hop("/2", seen=[*seen[:10], *[seen[2]] * 4])


def test_55_a_step_down_is_followed_if_the_user_says_so():
    """Others could read and change what comes; the refusal names the option."""
    url, headers = SecretUrl("https://a.test/x"), CIMultiDict({"Location": "http://a.test/y"})
    with pytest.raises(Refused, match="--http-redirects"):
        next_hop(url, headers, [url])
    assert next_hop(url, headers, [url], may_step_down=True).reveal() == "http://a.test/y"


@given(st.text(max_size=40) | st.from_regex(r"(https?:)?//[\[\]a-z0-9.:@]{0,20}/[!-~]{0,10}", fullmatch=True))
def test_any_location_is_followed_or_refused(location):
    """Never another exception; a target followed is https and visible ASCII."""
    try:
        target = hop(location)
    except Refused:
        return
    assert target.startswith("https://")
    assert target.isascii()
    assert target.isprintable()
    assert " " not in target
