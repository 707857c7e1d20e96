"""Proxies, logins, methods and limits on the wire, and that every verb uses what was settled."""

import asyncio
import base64
import os
import socket
import subprocess
import sys

import pytest

from cfetch.app.download import prepare
from cfetch.app.manifest_build import build_from_list
from cfetch.app.manifest_check import check, convert
from cfetch.app.verify import open_verification
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Refused, Transient
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.run.manifest_reader import ManifestReader
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import Network, make_network
from tests.wire.proxy import Proxy
from tests.wire.raw_server import RawServer, reply, served
from tests.wire.wire import CANARY, Names, ask, serving, silence

LOGIN = base64.b64encode(f"user:{CANARY}".encode()).decode()


# --- proxies


@pytest.mark.parametrize("fresh", [False, True])
async def test_c63_http_through_a_proxy_asks_for_the_whole_url(fresh):
    """In absolute form, on both lanes; the login goes to the proxy and stays there."""
    async with RawServer(reply(b"x")) as server, Proxy(server.port, login=LOGIN) as proxy:
        found = await ask(
            "http://far.test/a%2Fb?sig=%3D+",
            fresh=fresh,
            proxy=f"http://user:{CANARY}@127.0.0.1:{proxy.port}/",
        )
    assert found == (200, b"x")
    assert proxy.line() == "GET http://far.test/a%2Fb?sig=%3D+ HTTP/1.1"
    assert LOGIN in proxy.heads[0]
    assert server.fields()["host"] == "far.test"
    assert LOGIN not in server.heads[0]


async def test_c63_a_login_in_the_url_is_no_part_of_what_a_proxy_is_asked_for():
    """Proxies log the URL (RFC 9110 4.2.4 forbids it there); the server gets it as a header."""
    async with RawServer(reply(b"x")) as server, Proxy(server.port) as proxy:
        url = f"http://user:{CANARY}@far.test:80/a"
        assert await ask(url, proxy=f"http://127.0.0.1:{proxy.port}") == (200, b"x")
    assert proxy.line() == "GET http://far.test:80/a HTTP/1.1"
    assert server.fields()["authorization"] == f"Basic {LOGIN}"
    assert CANARY not in proxy.heads[0]


@pytest.mark.parametrize("fresh", [False, True])
async def test_c63_https_through_a_proxy_is_a_tunnel(authority, fresh):
    """The proxy learns host and port, and nothing of the URL; the certificate is the target's."""
    secure = serving(authority, "far.test")
    async with RawServer(reply(b"x"), ssl=secure) as server, Proxy(server.port, login=LOGIN) as proxy:
        url = f"http://user:{CANARY}@127.0.0.1:{proxy.port}"
        found = await ask("https://far.test/a?sig=1", fresh=fresh, proxy=url, ca_file=authority.file)
        assert found == (200, b"x")
        assert proxy.line() == "CONNECT far.test:443 HTTP/1.1"
        assert "sig" not in proxy.heads[0]
        assert LOGIN in proxy.heads[0]
        assert "proxy-authorization" not in server.fields()
        with pytest.raises(Refused, match="it is for another host name"):
            await ask("https://other.test/", proxy=url, ca_file=authority.file)


async def test_c63_a_hop_that_needs_no_proxy_gets_no_login_of_one():
    """A redirect from a host behind the proxy to one that NO_PROXY names."""
    async with RawServer(reply(b"x")) as near, RawServer() as far, Proxy(login=LOGIN) as proxy:
        proxy.target_port = far.port
        far.replies = [reply(b"", f"Location: {near.url}", status="302 x")]
        env = {"http_proxy": f"http://user:{CANARY}@127.0.0.1:{proxy.port}", "no_proxy": "127.0.0.1"}
        network = make_network(Settings(proxy_from_env=True).network, env)
        assert await ask("http://far.test/", network=network) == (200, b"x")
    assert [head.split()[1] for head in proxy.heads] == ["http://far.test/"]
    assert "proxy-authorization" not in near.fields()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("status", "kind", "words"), [
    ("407 x", Refused, "the proxy asks for a user and a password (HTTP 407)"),
])  # fmt: skip
async def test_c63_a_proxy_that_wants_a_login(scheme, status, kind, words):
    """Said in words that tell what to do, for both ways of using a proxy."""
    async with Proxy(refusal=reply(CANARY.encode(), status=status)) as proxy:
        with pytest.raises(kind) as caught:
            await ask(f"{scheme}://far.test/", proxy=proxy.url)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(("status", "kind", "words"), [
    ("403 " + CANARY, Refused, "the proxy does not let us through to the server (HTTP 403)"),
    ("502 " + CANARY, Transient, "the proxy cannot reach the server (HTTP 502)"),
    ("504 " + CANARY, Transient, "the proxy cannot reach the server (HTTP 504)"),
    ("302 " + CANARY, Refused, "the proxy does not let us through to the server (HTTP 302)"),
])  # fmt: skip
async def test_c63_a_tunnel_that_is_refused(status, kind, words):
    """By its status, and without the proxy's own words."""
    async with Proxy(refusal=reply(b"", f"X: {CANARY}", status=status)) as proxy:
        with pytest.raises(kind) as caught:
            await ask("https://far.test/", proxy=proxy.url)
    assert str(caught.value) == words


async def test_c63_a_proxy_that_is_not_there():
    """The proxy is named as what cannot be reached, not the server, and neither URL is shown."""
    async with Proxy() as proxy:
        pass
    for scheme in ("http", "https"):
        with pytest.raises(Transient) as caught:
            await ask(f"{scheme}://far.test/?sig={CANARY}", proxy=f"http://u:{CANARY}@127.0.0.1:{proxy.port}")
        assert str(caught.value) == (
            "cannot connect to the proxy (with --proxy-from-env, hosts that NO_PROXY names are asked "
            "without it): Connection refused"
        )


async def test_c63_a_proxy_whose_name_does_not_exist():
    """Again not the server's fault."""
    with pytest.raises(Refused, match=r"the proxy's name does not exist"):
        await ask("http://far.test/", proxy="http://proxy.test:1", resolver=Names(socket.EAI_NONAME))


async def test_c63_a_proxy_that_never_opens_the_tunnel():
    """The time to connect is for all of it."""
    async with served(silence) as port:
        with pytest.raises(Transient, match="connecting through the proxy took too long"):
            await ask("https://far.test/", proxy=f"http://127.0.0.1:{port}", timeout_s=0.1)


# --- logins


def logins(**by_host):
    return Network(logins={host: SecretText(f"Basic {LOGIN}") for host in by_host.values()})


async def test_57_a_login_of_netrc_goes_to_the_entrys_own_host_and_no_further():
    """Nothing after a redirect to another origin, not even where that is the same host on another port."""
    async with RawServer(reply(b"x")) as target, RawServer() as start:
        start.replies = [
            reply(b"", "Location: /two", status="302 x"),
            reply(b"", f"Location: {target.url}", status="302 x"),
        ]
        assert await ask(start.url, network=logins(a="127.0.0.1")) == (200, b"x")
    assert [start.fields(n)["authorization"] for n in (0, 1)] == [f"Basic {LOGIN}"] * 2
    assert "authorization" not in target.fields()


async def test_a_redirect_to_a_host_of_netrc_gets_no_login():
    """Only the manifest's own URLs do: a server that redirects must not choose who gets a password."""
    names = Names(["127.0.0.1"])
    async with RawServer(reply(b"x")) as target, RawServer() as start:
        start.replies = [reply(b"", f"Location: http://known.test:{target.port}/", status="302 x")]
        await ask(f"http://start.test:{start.port}/", network=logins(a="known.test"), resolver=names)
    assert "authorization" not in target.fields() | start.fields()


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_the_manifests_own_login_wins_over_netrc(name):
    """And is sent once."""
    async with RawServer(reply(b"x")) as server:
        await ask(server.url, network=logins(a="127.0.0.1"), secrets={name: "Bearer mine"})
    assert server.fields()["authorization"] == "Bearer mine"
    assert server.heads[0].lower().count("authorization") == 1


# --- methods and limits


async def test_head_is_sent_as_head_and_follows_redirects():
    """For probes; its reply has a length and no body, and the connection is used again."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"
    async with RawServer(reply(b"", "Location: /b", status="302 x"), head, reply(b"x")) as server:
        transport = HttpTransport(connect_timeout_s=5.0)
        response = await transport.open(SecretUrl(server.url + "a"), {}, {}, fresh=False, method="HEAD")
        assert response.headers.getall("Content-Length", []) == ["12345"]
        assert await response.read() == b""
        response.close()
        assert await (await transport.open(SecretUrl(server.url), {}, {}, fresh=False)).read() == b"x"
        await transport.close()
    assert [server.line(n).split()[0] for n in range(3)] == ["HEAD", "HEAD", "GET"]


async def test_a_read_can_be_told_how_much_it_may_bring():
    """The turns of a limit; the rest stays for the next read."""
    async with RawServer(reply(b"0123456789")) as server:
        transport = HttpTransport(connect_timeout_s=5.0)
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        assert [await response.read(most) for most in (4, 4, -1, 4)] == [b"0123", b"4567", b"89", b""]
        await transport.close()


async def test_under_a_limit_little_is_read_ahead():
    """A server that could send at once 50 MB gets rid of a few hundred kilobytes while nobody reads."""
    sent = 0

    async def serve(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        while not writer.is_closing():  # to write all the same is an error under uvloop
            writer.write(bytes(8 << 10))
            await writer.drain()
            sent += 8 << 10

    async with served(serve) as port:
        transport = HttpTransport(connect_timeout_s=5.0, network=Network(limit_bps=100_000))
        response = await transport.open(SecretUrl(f"http://127.0.0.1:{port}/"), {}, {}, fresh=False)
        before = -1
        while before != sent:  # until nothing more goes through
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 600_000
        response.close()
        await transport.close()


# --- where a transport is made


async def test_every_verb_that_asks_a_server_uses_the_network(tmp_path, monkeypatch):
    """Manifest, sizes and files all go by the proxy that was named."""
    manifest = b"http://far.test/one\n"
    async with RawServer(reply(manifest)) as server, Proxy(server.port) as proxy:
        settings = Settings(to=(str(tmp_path / "to"),), proxy=proxy.url, quiet=True, max_attempts=1)

        def run():
            with prepare("http://far.test/list", settings, env={}) as prepared:
                return prepared.run(lambda _: None)

        summary = await asyncio.to_thread(run)
        assert summary.exit_code == 0
        network = make_network(settings.network, {})
        said: list[str] = []
        reader, url = ManifestReader(network=network, emit_line=said.append), "http://far.test/list"
        await asyncio.to_thread(build_from_list, url, tmp_path / "m.json", reader, advance=lambda *_: None)
        await asyncio.to_thread(check, url, reader=reader)
        await asyncio.to_thread(convert, url, "json", tmp_path / "n.json", reader)

        def verify():
            with open_verification(url, [tmp_path / "to"], quick=True, reader=reader) as found:
                return list(found.differences(lambda *_: None))

        await asyncio.to_thread(verify)
    asked = [line.split()[:2] for line in map(proxy.line, range(len(proxy.heads)))]
    lists, one = ["GET", "http://far.test/list"], "http://far.test/one"
    assert asked.count(lists) == 5
    assert ["GET", one] in asked
    assert ["HEAD", one] in asked


def test_flags_and_environment_reach_the_verbs(tmp_path):
    """`manifest check` and `verify` know the same words as `download`."""
    text = tmp_path / "m.txt"
    text.write_text("http://h/a\n")
    for verb in (["manifest", "check", str(text)], ["verify", str(text), "--to", str(tmp_path)]):
        env = {key: value for key, value in os.environ.items() if not key.startswith("CFETCH_")}
        for more, extra in (
            (["--ca-file", str(tmp_path / "none")], {}),
            ([], {"CFETCH_CA_FILE": str(tmp_path / "none")}),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "cfetch", *verb, *more],
                env=env | extra, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 2
            assert done.stderr.startswith("cfetch: ca_file is ")
