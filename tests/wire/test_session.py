"""What only aiohttp's session can do: SOCKS, Digest; and that it is chosen where needed, and by name."""

import asyncio
import hashlib
import re

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import Refused, Transient, UsageError
from cfetch.base.secret import SecretUrl
from cfetch.wire import proxies
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from cfetch.wire.session import SessionTransport
from cfetch.wire.transport import RunTransport
from tests.wire.raw_server import RawServer, RecordingServer, reply, served

CANARY = "CANARY0123456789"


async def ask(url, env=(), *, times=1, **settings):
    """The statuses and bodies of some requests by the transport of a run."""
    transport = RunTransport(
        connect_timeout_s=5.0, network=make_network(Settings(**settings).network, dict(env))
    )
    replies = []
    try:
        for _ in range(times):
            response = await transport.open(SecretUrl(url), {}, {}, fresh=False)
            body = b""
            while data := await response.read():
                body += data
            replies.append((response.status, body))
    finally:
        await transport.close()
    return replies


@pytest.fixture
def netrc(tmp_path):
    path = tmp_path / "netrc"
    path.write_text(f"machine 127.0.0.1 login mary password {CANARY}\n")
    path.chmod(0o600)
    return {"NETRC": str(path)}


class Socks(RecordingServer):
    """A SOCKS 5 proxy, which leads every name to ``target_port`` of this machine; ``asked`` are the names."""

    def __init__(self, target_port, *, code=0):
        super().__init__()
        self.target_port, self.code, self.asked = target_port, code, []

    async def converse(self, reader, writer):
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        self.asked.append((kind, await reader.readexactly(size)))
        await reader.readexactly(2)
        writer.write(bytes([5, self.code, 0, 1, 0, 0, 0, 0, 0, 0]))
        if self.code:
            return
        there, to = await asyncio.open_connection("127.0.0.1", self.target_port)

        async def pump(source, sink):
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, to), pump(there, writer))


@pytest.mark.parametrize(
    ("scheme", "host", "asked"),
    [("socks5h", "far.test", (3, b"far.test")), ("socks5", "127.0.0.1", (1, b"\x7f\0\0\1"))],
)
async def test_a_socks_proxy_is_used_and_looks_names_up_if_its_scheme_says_so(scheme, host, asked):
    """``--proxy socks5h://…`` needs no other option, and no name is looked up on this side."""
    async with RawServer(reply(b"data")) as server, Socks(server.port) as proxy:
        got = await ask(f"http://{host}:{server.port}/a", proxy=f"{scheme}://127.0.0.1:{proxy.port}")
        assert (got, proxy.asked) == ([(200, b"data")], [asked])


async def test_what_a_socks_proxy_refuses_is_named_as_that():
    """A proxy that cannot be reached, and one that says no, are told apart."""
    async with Socks(0, code=5) as proxy:
        with pytest.raises(Transient, match="the proxy cannot reach the server"):
            await ask("http://far.test/a", proxy=f"socks5h://127.0.0.1:{proxy.port}")
        port = proxy.port
    with pytest.raises(Transient, match="cannot connect to the proxy"):
        await ask("http://far.test/a", proxy=f"socks5h://127.0.0.1:{port}")


def test_a_socks_proxy_without_its_library_is_refused_before_a_request(monkeypatch):
    """The message names the extra."""
    monkeypatch.setattr(proxies, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"aiohttp-socks.*cfetch\[socks\]"):
        make_network(Settings(proxy="socks5://127.0.0.1:1").network, {})


class Digest(RecordingServer):
    """Asks for a login by Digest (RFC 7616), and counts each way in which it came."""

    def __init__(self):
        super().__init__()
        self.ways = []

    async def converse(self, reader, writer):
        while True:
            head = await self.read_head(reader)
            stated = re.search(r"(?mi)^authorization: (\w+) ?(.*)\r", head)
            self.ways.append(stated[1] if stated else "none")
            if stated and stated[1] == "Digest" and self.is_right(stated[2]):
                writer.write(reply(b"data"))
            else:
                challenge = 'WWW-Authenticate: Digest realm="r", nonce="n0", qop="auth", algorithm=MD5'
                writer.write(reply(b"", challenge, status="401 x"))

    def is_right(self, text):
        said = dict(re.findall(r'(\w+)="?([^",]*)"?', text))
        first, second = (
            hashlib.md5(words.encode()).hexdigest() for words in (f"mary:r:{CANARY}", f"GET:{said['uri']}")
        )
        words = f"{first}:n0:{said['nc']}:{said['cnonce']}:auth:{second}"
        return said["response"] == hashlib.md5(words.encode()).hexdigest()


@pytest.mark.parametrize("transport", ["lean", "session"])
async def test_a_login_of_netrc_is_given_by_digest_where_a_server_asks_for_it(netrc, transport):
    """The lean exchange lets the session do it, by itself."""
    async with Digest() as server:
        replies = await ask(f"{server.url}a?b=%2F", netrc, times=2, netrc=True, transport=transport)
    assert replies == [(200, b"data")] * 2
    assert server.ways == ["Basic", "none", "Digest", "Digest"]


@pytest.mark.parametrize("transport", ["lean", "session"])
async def test_a_server_that_redirects_draws_no_login_by_digest(netrc, transport):
    """Neither a first one, nor one with which the host has been met before."""
    async with Digest() as server, RawServer() as stranger:
        stranger.replies = [reply(b"", f"Location: {server.url}a", status="302 x")]
        away = stranger.url.replace("127.0.0.1", "localhost")
        assert await ask(away, netrc, netrc=True, transport=transport) == [(401, b"")]
        assert server.ways == ["none"]
        network = make_network(Settings(netrc=True, transport=transport).network, netrc)
        one = RunTransport(connect_timeout_s=5.0, network=network)
        statuses = []
        for url in (server.url, away):
            response = await one.open(SecretUrl(url), {}, {}, fresh=False)
            statuses.append(response.status)
            response.close()
        await one.close()
    assert statuses == [200, 401]
    assert server.ways == ["none", "Basic", "none", "Digest", "none"]


async def test_a_login_that_digest_does_not_accept_is_a_refusal(netrc, tmp_path):
    """The 401 of the server comes through, after one more request and no endless talk."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login mary password wrong\n")
    async with Digest() as server:
        [(status, _)] = await ask(server.url, netrc, netrc=True)
    assert status == 401
    assert server.ways[:3] == ["Basic", "none", "Digest"]
    assert len(server.ways) <= 4


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({}, HttpTransport), ({"transport": "session"}, SessionTransport),
     ({"proxy": "http://127.0.0.1:1"}, HttpTransport), ({"proxy": "socks5://127.0.0.1:1"}, SessionTransport)],
)  # fmt: skip
async def test_the_session_is_chosen_by_name_or_where_it_is_needed(settings, kind):
    """Everything else takes the lean exchange."""
    transport = RunTransport(connect_timeout_s=1.0, network=make_network(Settings(**settings).network, {}))
    assert type(transport._find("http")) is kind
    await transport.close()


async def test_the_session_follows_redirects_as_the_lean_exchange_does(tmp_path):
    """Secrets do not go to another origin, signed links go as they are written, cookies come along."""
    async with RawServer(reply(b"x")) as away:
        moves = [
            reply(b"", "Location: /b?s=%3A", "Set-Cookie: a=1", status="302 x"),
            reply(b"", f"Location: {away.url}c", status="302 x"),
        ]
        async with RawServer(*moves) as server:
            settings = {"header": (f"X-Key: {CANARY}",), "header_host": (f"127.0.0.1:{server.port}",)}
            assert await ask(server.url, transport="session", **settings) == [(200, b"x")]
            assert server.line(1) == "GET /b?s=%3A HTTP/1.1"
            assert (server.fields(1)["cookie"], server.fields(1)["x-key"]) == ("a=1", CANARY)
            assert CANARY not in away.heads[0]


async def test_a_session_by_a_proxy_that_refuses_is_an_error_of_the_proxy():
    """407 is no word of the server's."""
    refusal = b"HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n"
    async with served(lambda reader, writer: _answer(reader, writer, refusal)) as port:
        with pytest.raises(Refused, match="the proxy asks for a user"):
            await ask("http://far.test/", transport="session", proxy=f"http://127.0.0.1:{port}")


async def _answer(reader, writer, data):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(data)
