"""The cookies that servers set: what is kept, who gets it, and how a login by redirects uses them."""

import base64

import pytest
from multidict import CIMultiDict

from cfetch.base.config.settings import Settings
from cfetch.base.errors import Refused
from cfetch.base.secret import SecretUrl
from cfetch.wire.cookie_jar import MAX_COOKIES, CookieJar
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from tests.wire.raw_server import RawServer, RecordingServer, reply

CANARY = "CANARY0123456789"


def kept(*set_by, at="https://a.b.test/d/e", given=None):
    jar = CookieJar(given)
    jar.keep(SecretUrl(at), CIMultiDict([("Set-Cookie", text) for text in set_by]))
    return jar


@pytest.mark.parametrize(
    ("text", "url", "is_sent"),
    [
        ("n=1", "https://a.b.test/d/x", True),
        ("n=1", "https://a.b.test/x", False),
        ("n=1", "https://x.a.b.test/d/x", False),
        ("n=1; Path=/", "http://a.b.test/x", True),
        ("n=1; Path=/; Secure", "http://a.b.test/x", False),
        ("n=1; Path=d", "https://a.b.test/x", False),
        ("n=1; path=/; domain=.B.test", "https://b.test/", True),
        ("n=1; Path=/; Domain=b.test", "https://x.b.test/", True),
        ("n=1; Path=/; Domain=x.test", "https://x.test/", False),
        ("n=1; Path=/; Domain=test", "https://x.test/", False),
        ("n=1; Path=/; Domain=c.a.b.test", "https://c.a.b.test/", False),
        ("n=1; Path=/; Max-Age=9", "https://a.b.test/", True),
        ("n=1; Path=/; Max-Age=0", "https://a.b.test/", False),
        ("n=1; Path=/; Max-Age=9; Expires=Wed, 09-Jun-2021 10:18:14 GMT", "https://a.b.test/", True),
        ("n=1; Path=/; Expires=Wed, 09 Jun 2021 10:18:14 GMT", "https://a.b.test/", False),
        ("n=1; Path=/; Expires=soon", "https://a.b.test/", True),
        ("=1; Path=/", "https://a.b.test/", False),
        ("n; Path=/", "https://a.b.test/", False),
        ("n=\x01; Path=/", "https://a.b.test/", False),
        (f"n={'1' * 4096}; Path=/", "https://a.b.test/", False),
    ],
)
def test_a_cookie_is_kept_and_sent_as_rfc_6265_says(text, url, is_sent):
    """Domain, path, Secure and the end decide; what names no pair, or a stranger's domain, is not kept."""
    assert (kept(text).header_for(SecretUrl(url)) is not None) is is_sent


def test_a_cookie_may_be_replaced_and_ended():
    """The last word counts, also about one of the user's file."""
    jar = kept("a=1; Path=/", "b=2; Path=/", "a=3; Path=/", "b=; Path=/; Max-Age=-1")
    assert jar.header_for(SecretUrl("https://a.b.test/")) == "a=3"


def test_a_server_that_sets_ever_more_cookies_uses_no_more_memory():
    """The oldest go first."""
    jar = kept(*(f"n{number}=1; Path=/" for number in range(MAX_COOKIES + 5)))
    sent = jar.header_for(SecretUrl("https://a.b.test/"))
    assert sent is not None
    assert (sent.count("n"), sent.partition("=")[0]) == (MAX_COOKIES, "n5")


async def ask(*urls, env=(), **settings):
    network = make_network(Settings(**settings).network, dict(env))
    transport = HttpTransport(connect_timeout_s=5.0, network=network)
    try:
        for url in urls:
            response = await transport.open(SecretUrl(url), {}, {}, fresh=False)
            data = bytes(await response.read())
            response.close()
    finally:
        await transport.close()
    return response.status, data


async def test_a_cookie_goes_along_a_redirect_and_with_later_files():
    """It is kept for the run, and goes to no other host."""
    async with RawServer(reply(b"y")) as other:
        moves = [reply(b"", "Location: /b", "Set-Cookie: s=1; Path=/", status="302 x"), reply(b"x")]
        async with RawServer(*moves) as server:
            other_url = other.url.replace("127.0.0.1", "localhost")
            await ask(f"{server.url}a", f"{server.url}c", other_url)
    assert "cookie" not in server.fields(0)
    assert [server.fields(n)["cookie"] for n in (1, 2)] == ["s=1", "s=1"]
    assert "cookie" not in other.fields()


class Portal(RecordingServer):
    """Earthdata's way: a file leads to a login, the login back to the portal, and this to the file."""

    def __init__(self):
        super().__init__()
        self.login_url = ""

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            path = head.split()[1]
            if path.startswith("/login"):
                writer.write(reply(b"", "Location: /file", "Set-Cookie: session=1; Path=/", status="302 x"))
            elif "session=1" in head:
                writer.write(reply(b"data"))
            else:
                writer.write(reply(b"", f"Location: {self.login_url}", status="302 x"))


class LoginService(RecordingServer):
    """Wants a login by Basic, and leads back with a code."""

    back = ""

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            login = base64.b64encode(f"mary:{CANARY}".encode()).decode()
            if f"authorization: basic {login}".lower() in head.lower():
                writer.write(reply(b"", f"Location: {self.back}login?code=1", status="302 x"))
            else:
                writer.write(reply(b"", "WWW-Authenticate: Basic", status="401 x"))


async def test_a_login_by_redirects_ends_at_the_file(tmp_path):
    """``--netrc --netrc-redirects`` does what ``curl -n -L -c`` does; by itself no stranger gets it."""
    (tmp_path / "n").write_text(f"machine localhost login mary password {CANARY}\n")
    (tmp_path / "n").chmod(0o600)
    env = {"NETRC": str(tmp_path / "n")}
    async with Portal() as portal, LoginService() as service:
        portal.login_url = service.url.replace("127.0.0.1", "localhost") + "oauth"
        service.back = portal.url
        assert (await ask(f"{portal.url}file", env=env, netrc=True))[0] == 401
        asked = f"{portal.url}file"
        assert await ask(asked, env=env, netrc=True, netrc_redirects=True) == (200, b"data")
        assert all(CANARY not in head for head in portal.heads)


async def test_a_circle_is_one_although_each_of_its_replies_sets_a_cookie():
    """To come back with a new cookie is no fault, and the number of redirects has its limit all the same."""
    move = reply(b"", "Location: /a", "Set-Cookie: n=1", status="302 x")
    async with RawServer(move) as server:
        with pytest.raises(Refused, match="redirects in a circle"):
            await ask(f"{server.url}a")
        assert len(server.heads) == 5  # to come back is a circle the fifth time
